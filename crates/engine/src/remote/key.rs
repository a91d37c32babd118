//! Which keys of an object store can be asked for: those that `object_store` sends as they stand.
//!
//! `object_store` normalises: `Path::parse` takes a slash off either end, so that a request for the
//! key `/ok` would bring the object `ok`, which is another one. It refuses other keys. Which objects
//! these are is up to the store, where every such key is a valid one; so they are refused here, before
//! the first request, and never replaced.

use object_store::path::Path;

/// The path by which exactly this key is asked for; else what is wrong with the key.
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
