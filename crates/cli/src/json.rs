//! Serialises JSON as one line that is safe to show on a terminal.

use std::fmt::Write as _;

use serde::Serialize;
use tidegate_core::printable::is_control;

/// The JSON of a value. Control characters are escaped so that no terminal interprets them: JSON
/// has none outside of strings, and inside a string an escape means the same. The types of this
/// crate always serialise, so there is no error to return.
pub(crate) fn text(value: &impl Serialize) -> String {
    let json = serde_json::to_string(value).unwrap_or_default();
    if !json.contains(is_control) {
        return json;
    }
    let mut text = String::with_capacity(json.len());
    for c in json.chars() {
        if is_control(c) {
            // Writing to a String cannot fail. Each of these characters has at most four
            // hexadecimal digits.
            let _ = write!(text, "\\u{:04x}", u32::from(c));
        } else {
            text.push(c);
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_means_what_it_is_made_of() {
        for value in ["", "a\u{9b}2J\u{202e}\u{7f}\u{2028}b", "\u{1b}\n\t\"\\ä😀"] {
            let json = text(&value);
            assert!(!json.contains(is_control), "{json:?}");
            assert_eq!(serde_json::from_str::<String>(&json).ok().as_deref(), Some(value));
        }
    }
}
