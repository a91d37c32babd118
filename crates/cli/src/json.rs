//! JSON as it is written: one line, which a terminal shows as it is.

use std::fmt::Write as _;

use serde::Serialize;
use tidegate_core::printable::is_control;

/// The JSON of a value. What a terminal might take as a command is escaped: outside of strings JSON
/// has no such characters, and inside an escape means the same. Our shapes always serialise, so there
/// is no error to show.
pub(crate) fn text(value: &impl Serialize) -> String {
    let json = serde_json::to_string(value).unwrap_or_default();
    if !json.contains(is_control) {
        return json;
    }
    let mut text = String::with_capacity(json.len());
    for c in json.chars() {
        if is_control(c) {
            // Writing to a String cannot fail. All of them have four digits at most.
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
