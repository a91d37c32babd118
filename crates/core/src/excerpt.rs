//! Text from outside as an error message shows it: escaped and of bounded length.
//!
//! Headers and arguments come from strangers. An error must show them, so that one sees what was
//! wrong, but must neither put control characters on a terminal nor carry a megabyte into a log.

/// Characters shown before the rest is cut; every sane header value of ours is shorter.
const CHARS_MAX: usize = 120;

/// The text quoted and escaped as in Rust source, cut with an ellipsis when it is long.
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
