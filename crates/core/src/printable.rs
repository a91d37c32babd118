//! Escapes untrusted text for a terminal. Names of blobs and texts of servers are untrusted. A
//! terminal interprets some characters as commands: to clear the screen, to set the title, or to
//! show text in another order.
//!
//! It escapes the control characters of ASCII and of ISO 6429 (C0, DEL, C1), the characters that
//! change the direction of text (Unicode Standard Annex #9), and the separators of lines and
//! paragraphs. An escape has the form of Rust's string literals: `\u{1b}`, `\n`.

use std::borrow::Cow;

/// Whether a terminal may interpret this character as a command.
pub fn is_control(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{61c}' | '\u{200e}' | '\u{200f}' // marks of a direction
            | '\u{2028}' | '\u{2029}' // ends of lines and paragraphs
            | '\u{202a}'..='\u{202e}' // embeddings and overrides
            | '\u{2066}'..='\u{2069}') // isolates
}

/// The text on one line, with every control character escaped.
pub fn escaped(text: &str) -> Cow<'_, str> {
    escape(text, |_| false)
}

/// As [`escaped`], for text of several lines: line feeds and tabs stay.
pub fn escaped_lines(text: &str) -> Cow<'_, str> {
    escape(text, |c| matches!(c, '\n' | '\t'))
}

fn escape(text: &str, stays: impl Fn(char) -> bool) -> Cow<'_, str> {
    let is_escaped = |c: char| is_control(c) && !stays(c);
    if !text.contains(is_escaped) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        match c {
            '\n' | '\t' | '\r' if is_escaped(c) => shown.extend(c.escape_default()),
            _ if is_escaped(c) => shown.extend(c.escape_unicode()),
            _ => shown.push(c),
        }
    }
    Cow::Owned(shown)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_text_stays_as_it_is() {
        for text in ["", "a b", "ä€😀 \\ \" '", "e\u{301}", "日本語", "\u{200d}"] {
            assert!(matches!(escaped(text), Cow::Borrowed(same) if same == text), "{text:?}");
        }
        assert!(matches!(escaped_lines("a\n\tb"), Cow::Borrowed(_)));
    }

    #[test]
    fn no_control_character_is_left() {
        for c in (0..=u32::from(char::MAX)).filter_map(char::from_u32).filter(|c| is_control(*c)) {
            let text = format!("a{c}b");
            let shown = escaped(&text);
            assert!(!shown.contains(is_control) && shown.starts_with("a\\"), "{shown:?}");
            let lines = escaped_lines(&text);
            assert!(!lines.contains(|c| is_control(c) && !matches!(c, '\n' | '\t')), "{lines:?}");
        }
        assert_eq!(escaped("\u{1b}[2J\n\r\t\u{9b}\u{202e}"), r"\u{1b}[2J\n\r\t\u{9b}\u{202e}");
        assert_eq!(escaped_lines("a\n\u{7f}\t\r"), "a\n\\u{7f}\t\\r");
    }
}
