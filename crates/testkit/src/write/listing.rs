//! A page of a list, as every flavour's list needs it: keys in the order of their bytes, and the
//! folders before a delimiter.

use crate::{blob::Blob, store::Store};

/// What a page contains.
#[derive(Debug, Clone)]
pub(crate) struct Question<'a> {
    /// The path of the bucket, with a slash at its end.
    pub(crate) bucket: &'a str,
    pub(crate) prefix: &'a str,
    pub(crate) delimiter: &'a str,
    /// The page begins after this key or folder.
    pub(crate) after: &'a str,
    /// The page begins at this key; it may be empty.
    pub(crate) from: &'a str,
    /// The page ends before this key, if it is not empty.
    pub(crate) until: &'a str,
    pub(crate) len: usize,
}

/// An entry of a page.
#[derive(Debug, Clone)]
pub(crate) enum Listed {
    Object(String, Box<Blob>),
    /// The common prefix of keys, with the delimiter at its end.
    Folder(String),
}

impl Listed {
    pub(crate) fn name(&self) -> &str {
        match self {
            Self::Object(key, _) => key,
            Self::Folder(prefix) => prefix,
        }
    }
}

/// A page, and whether entries follow it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Page {
    pub(crate) entries: Vec<Listed>,
    pub(crate) is_truncated: bool,
}

impl Page {
    pub(crate) fn objects(&self) -> impl Iterator<Item = (&str, &Blob)> {
        self.entries.iter().filter_map(|entry| match entry {
            Listed::Object(key, blob) => Some((key.as_str(), &**blob)),
            Listed::Folder(_) => None,
        })
    }

    pub(crate) fn folders(&self) -> impl Iterator<Item = &str> {
        self.entries.iter().filter_map(|entry| match entry {
            Listed::Folder(prefix) => Some(prefix.as_str()),
            Listed::Object(..) => None,
        })
    }

    /// The name after which the next page begins.
    pub(crate) fn next(&self) -> Option<&str> {
        self.entries.last().filter(|_| self.is_truncated).map(Listed::name)
    }
}

/// The page that `question` describes.
pub(crate) fn page(store: &Store, question: &Question<'_>) -> Page {
    page_of(|from| store.next_at(from), question)
}

/// The same of other blobs: `next_at` gives the first blob whose path is not before its argument.
pub(crate) fn page_of(
    next_at: impl Fn(&str) -> Option<(String, Blob)>,
    question: &Question<'_>,
) -> Page {
    let Question { bucket, prefix, delimiter, after, .. } = *question;
    let mut page = Page::default();
    let folder_of = |key: &str| {
        let rest = key.strip_prefix(prefix).filter(|_| !delimiter.is_empty())?;
        let at = rest.find(delimiter)?;
        Some(format!("{prefix}{}", rest.get(..at + delimiter.len())?))
    };
    let first = question.from.max(prefix);
    // Keys of a folder that an earlier page named are skipped together.
    let passed = folder_of(after).filter(|folder| folder == after);
    let mut position = match passed {
        Some(folder) => beyond(&folder),
        None if after >= first && !after.is_empty() => format!("{after}\0"),
        None => first.to_owned(),
    };
    loop {
        let next = next_at(&format!("{bucket}{position}"));
        let Some((path, blob)) = next else { break };
        let Some(key) = path.strip_prefix(bucket).filter(|key| key.starts_with(prefix)) else {
            break;
        };
        if !question.until.is_empty() && key >= question.until {
            break;
        }
        if page.entries.len() >= question.len {
            page.is_truncated = true;
            break;
        }
        if let Some(folder) = folder_of(key) {
            position = beyond(&folder);
            page.entries.push(Listed::Folder(folder));
        } else {
            position = format!("{key}\0");
            page.entries.push(Listed::Object(key.to_owned(), Box::new(blob)));
        }
    }
    page
}

/// A text after all texts that begin with `prefix`.
fn beyond(prefix: &str) -> String {
    format!("{prefix}{}", char::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(store: &Store, question: &Question<'_>) -> Vec<String> {
        page(store, question).entries.iter().map(|entry| entry.name().to_owned()).collect()
    }

    #[test]
    fn pages_follow_each_other_and_folders_count_once() {
        let store = Store::new(false);
        for key in ["a", "b/1", "b/2", "b/c/3", "b0", "c"] {
            store.put(&format!("/box/{key}"), Blob::new(key));
        }
        store.put("/boxes/x", Blob::new("x"));
        let mut question = Question {
            bucket: "/box/",
            prefix: "",
            delimiter: "",
            after: "",
            from: "",
            until: "",
            len: 100,
        };
        assert_eq!(names(&store, &question), ["a", "b/1", "b/2", "b/c/3", "b0", "c"]);
        question.delimiter = "/";
        assert_eq!(names(&store, &question), ["a", "b/", "b0", "c"]);
        question.len = 2;
        let first = page(&store, &question);
        assert_eq!((first.is_truncated, first.next()), (true, Some("b/")));
        let second = Question { after: "b/", ..question.clone() };
        assert_eq!(names(&store, &second), ["b0", "c"]);
        assert!(!page(&store, &second).is_truncated);
        let below = Question { prefix: "b/", len: 100, ..question.clone() };
        assert_eq!(names(&store, &below), ["b/1", "b/2", "b/c/"]);
        let after = Question { after: "b/1", ..below };
        assert_eq!(names(&store, &after), ["b/2", "b/c/"]);
        let window = Question { delimiter: "", from: "b/2", until: "c", len: 100, ..question };
        assert_eq!(names(&store, &window), ["b/2", "b/c/3", "b0"]);
    }
}
