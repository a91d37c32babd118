//! Checks which keys of an object store can be requested: those that `object_store` sends
//! unchanged.
//!
//! `object_store` normalises: `Path::parse` removes a slash at either end. A request for the key
//! `/ok` would fetch the object `ok`, which is another object. It refuses other keys. In the store
//! every such key is valid. So this module refuses these keys before the first request, and never
//! replaces them.

use object_store::path::Path;

/// The path that requests exactly this key, or what is wrong with the key.
pub(super) fn path(key: &str) -> Result<Path, &'static str> {
    match Path::parse(key) {
        Ok(path) if path.as_ref() == key => Ok(path),
        _ => Err(flaw(key)),
    }
}

fn flaw(key: &str) -> &'static str {
    if key.starts_with('/') {
        "keys that begin with a slash cannot be asked for"
    } else if key.ends_with('/') {
        "keys that end with a slash cannot be asked for"
    } else if key.split('/').any(str::is_empty) {
        "keys with two slashes in a row cannot be asked for"
    } else if key.split('/').any(|segment| matches!(segment, "." | "..")) {
        "keys with `.` or `..` between slashes cannot be asked for"
    } else {
        "keys with control characters cannot be asked for"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_asked_for_as_it_stands_or_not_at_all() {
        for key in
            ["ok", "a/b", "a%2Fb", "a b", "...", "a/.b", "b./c", "\u{e4}", "a?b#c", "~", "\\"]
        {
            assert_eq!(path(key).unwrap().as_ref(), key);
        }
        for (key, word) in [
            ("/ok", "begin"),
            ("/", "begin"),
            ("//", "begin"),
            ("ok/", "end"),
            ("a//b", "two slashes"),
            ("a/./b", "`.`"),
            ("..", "`..`"),
            ("a/..", "`..`"),
            ("a\tb", "control"),
            ("a\u{7f}b", "control"),
        ] {
            assert!(path(key).unwrap_err().contains(word), "{key:?}");
        }
    }
}
