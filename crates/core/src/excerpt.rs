//! Untrusted text in an error message: escaped and of bounded length.
//!
//! Headers and arguments are untrusted. An error must show them, so that the user sees what was
//! wrong. But it must not put control characters on a terminal or a megabyte into a log.

/// The characters shown before the rest is cut. Every valid header value that we use is shorter.
const CHARS_MAX: usize = 120;

/// The text quoted and escaped as in Rust source. A long text is cut with an ellipsis.
pub(crate) fn excerpt(text: &str) -> String {
    match text.char_indices().nth(CHARS_MAX) {
        None => format!("{text:?}"),
        Some((cut, _)) => {
            let head = text.get(..cut).unwrap_or_default();
            format!("{head:?}… ({} bytes)", text.len())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::excerpt;

    #[test]
    fn control_characters_are_escaped_and_long_text_is_cut() {
        assert_eq!(excerpt("a\x1b[2J"), "\"a\\u{1b}[2J\"");
        let long = "é".repeat(5_000);
        let shown = excerpt(&long);
        assert!(shown.ends_with("… (10000 bytes)"), "{shown}");
        assert!(shown.chars().count() < 150);
    }
}
