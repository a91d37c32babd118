//! What pins a blob's content at a remote, so that a restart never mixes two versions.

use std::fmt;

use serde::{Deserialize, Serialize};
use tidegate_core::checksum::ETag;

use crate::error::{Error, ErrorKind, Operation, Result};

/// The version of a blob, as the remote that holds it counts versions.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Version {
    /// A generation of Google Cloud Storage.
    Generation(String),
    /// A strong entity tag, quotes included, exactly as the remote wrote it.
    ETag(String),
    /// An S3 version id, where no entity tag is given.
    VersionId(String),
    /// A modification date of HTTP, of one second's resolution: the weakest that still counts.
    LastModified(String),
    /// A local file: device, inode, length and modification time in nanoseconds.
    FileStamp(String),
    /// The content's own digest, such as `sha256/HASH/SIZE`, where it is what blobs are named by.
    Digest(String),
}

impl Version {
    /// The version in a strong entity tag; `None` for a weak one, which promises no equal bytes,
    /// and for text that is no entity tag.
    pub fn from_etag(text: &str) -> Option<Self> {
        let tag = ETag::parse(text).ok()?;
        tag.is_strong().then(|| Self::ETag(text.trim().to_owned()))
    }

    /// The version in a date as HTTP writes it, `Tue, 14 Nov 2023 22:13:20 GMT`; `None` for text
    /// that is no such date (RFC 9110 section 5.6.7).
    #[cfg(feature = "_transport")]
    pub fn from_http_date(text: &str) -> Option<Self> {
        let text = text.trim();
        httpdate::parse_http_date(text).ok().map(|_| Self::LastModified(text.to_owned()))
    }

    /// What stands in it: a number, a tag, an id, a date.
    #[cfg(feature = "_transport")]
    pub(super) fn text(&self) -> &str {
        match self {
            Self::Generation(text)
            | Self::ETag(text)
            | Self::VersionId(text)
            | Self::LastModified(text)
            | Self::FileStamp(text)
            | Self::Digest(text) => text,
        }
    }

    /// Checks that a response which was asked for this version names it: `Changed` where it names
    /// another, or none.
    pub(crate) fn expect(
        &self,
        given: Option<&Self>,
        operation: Operation,
        target: &str,
    ) -> Result<()> {
        let message = match given {
            Some(given) if self.agrees(given) => return Ok(()),
            Some(given) => format!("expected {self}, got {given}"),
            None => format!("expected {self}, but the response names no version"),
        };
        Err(Error::new(ErrorKind::Changed, operation, target, message))
    }

    /// Whether both name the same version: equal, or one date written in two ways.
    pub(super) fn agrees(&self, other: &Self) -> bool {
        match (self, other) {
            _ if self == other => true,
            #[cfg(feature = "_transport")]
            (Self::LastModified(one), Self::LastModified(other)) => {
                let date = |text: &str| httpdate::parse_http_date(text).ok();
                date(one).is_some() && date(one) == date(other)
            }
            _ => false,
        }
    }

    /// Says why this cannot be the version of a blob at `place`, which counts versions by `takes`;
    /// `None` where it can be. What passes is fit for a header and for a query.
    #[cfg(feature = "_transport")]
    pub(super) fn flaw(&self, place: &str, takes: bool) -> Option<String> {
        if !takes {
            return Some(format!("{place} knows no {}", self.kind()));
        }
        let text = self.text();
        let visible = !text.is_empty() && text.bytes().all(|byte| (b' '..=b'~').contains(&byte));
        let sound = visible
            && match self {
                Self::Generation(_) => text.bytes().all(|byte| byte.is_ascii_digit()),
                Self::ETag(_) => Self::from_etag(text).is_some_and(|strong| strong == *self),
                _ => true,
            };
        (!sound).then(|| match self {
            Self::Generation(_) => "a generation is a number".to_owned(),
            Self::ETag(_) => "only a strong entity tag, in double quotes, names one content".into(),
            _ => format!("a {} is visible ASCII", self.kind()),
        })
    }

    pub(super) fn kind(&self) -> &'static str {
        match self {
            Self::Generation(_) => "generation",
            Self::ETag(_) => "entity tag",
            Self::VersionId(_) => "version id",
            Self::LastModified(_) => "modification date",
            Self::FileStamp(_) => "file stamp",
            Self::Digest(_) => "digest",
        }
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Generation(text) => write!(f, "generation {text}"),
            Self::ETag(text) => write!(f, "etag {text}"),
            Self::VersionId(text) => write!(f, "version id {text}"),
            Self::LastModified(text) => write!(f, "last modified {text}"),
            Self::FileStamp(text) => write!(f, "file {text}"),
            Self::Digest(text) => write!(f, "digest {text}"),
        }
    }
}
