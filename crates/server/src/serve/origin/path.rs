//! [`BlobPath`]: what a request names, and its URL at the remote.
//!
//! A request cannot leave the prefix of its origin: a path with `.` or `..` between slashes, encoded or
//! not, is refused, because some remotes would resolve it.

use percent_encoding::percent_decode_str;

use super::Origins;

/// A blob at an origin.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(in crate::serve) struct BlobPath {
    /// The name of the origin; empty for a URL that belongs to none.
    pub(super) origin: String,
    /// What is behind the prefix, as it is in the URL at the remote.
    pub(super) rest: String,
}

/// Why a path names no blob.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::serve) enum PathFlaw {
    UnknownOrigin,
    NoName,
    Relative,
    NotText,
    Query,
}

impl PathFlaw {
    pub(in crate::serve) const fn message(self) -> &'static str {
        match self {
            Self::UnknownOrigin => "there is no origin of this name",
            Self::NoName => "the path names no blob; write /origin/NAME/PATH",
            Self::Relative => "the path has '.' or '..' between slashes",
            Self::NotText => "the path is not UTF-8 without control characters",
            Self::Query => "a query has a meaning for origins of http and https only",
        }
    }
}

/// Whether URLs of this base are percent-encoded. Names in buckets are taken literally.
pub(super) fn is_encoded(base: &str) -> bool {
    ["http://", "https://", "file://"].iter().any(|scheme| base.starts_with(scheme))
}

/// Checks a decoded path.
pub(super) fn check(path: &str) -> Result<(), PathFlaw> {
    if path.is_empty() {
        return Err(PathFlaw::NoName);
    }
    // URLs of the web take a backslash for a slash.
    if path.split(['/', '\\']).any(|segment| matches!(segment, "." | "..")) {
        return Err(PathFlaw::Relative);
    }
    if path.chars().any(char::is_control) {
        return Err(PathFlaw::NotText);
    }
    Ok(())
}

pub(super) fn decoded(path: &str) -> Result<String, PathFlaw> {
    let decoded = percent_decode_str(path).decode_utf8();
    decoded.ok().map(std::borrow::Cow::into_owned).ok_or(PathFlaw::NotText)
}

impl Origins {
    /// The blob of a request for `path`, which begins with `/origin/`.
    pub(super) fn path(&self, path: &str, query: Option<&str>) -> Result<BlobPath, PathFlaw> {
        let path = path.strip_prefix("/origin/").ok_or(PathFlaw::UnknownOrigin)?;
        let (name, rest) = path.split_once('/').unwrap_or((path, ""));
        let origins = &self.0.options.origins;
        let origin = origins.iter().find(|origin| origin.name() == name);
        let origin = origin.ok_or(PathFlaw::UnknownOrigin)?;
        let text = decoded(rest)?;
        check(&text)?;
        let rest = match query {
            None if is_encoded(origin.url()) => rest.to_owned(),
            None => text,
            Some(query) if origin.url().starts_with("http") => format!("{rest}?{query}"),
            Some(_) => return Err(PathFlaw::Query),
        };
        Ok(BlobPath { origin: name.to_owned(), rest })
    }

    /// The URL of a blob at its remote.
    pub(super) fn url(&self, path: &BlobPath) -> String {
        let origin = self.0.options.origins.iter().find(|origin| origin.name() == path.origin);
        match origin {
            Some(origin) => format!("{}/{}", origin.url(), path.rest),
            None => path.rest.clone(),
        }
    }
}
