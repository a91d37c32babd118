//! [`Version`]: pins a blob's content at a remote, so that a restart never mixes two versions.

use std::fmt;
use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};
use tidegate_core::checksum::ETag;

use crate::error::{Error, ErrorKind, Operation, Result};

/// The version of a blob, in the remote's own kind.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Version {
    /// A generation of Google Cloud Storage.
    Generation(String),
    /// A strong entity tag, quotes included, exactly as the remote wrote it.
    ETag(String),
    /// An S3 version id, if the response has no entity tag.
    VersionId(String),
    /// A modification date of HTTP, with a resolution of one second: the weakest kind.
    LastModified(String),
    /// A local file: device, inode, length, modification time and change time in nanoseconds.
    FileStamp(String),
    /// The content's own digest, such as `sha256/HASH/SIZE`, at remotes that name blobs by digests.
    Digest(String),
}

impl Version {
    /// The version in a strong entity tag; `None` for a weak one, which does not promise equal
    /// bytes, and for other text.
    pub fn from_etag(text: &str) -> Option<Self> {
        let tag = ETag::parse(text).ok()?;
        tag.is_strong().then(|| Self::ETag(text.trim().to_owned()))
    }

    /// The version in an HTTP date, `Tue, 14 Nov 2023 22:13:20 GMT`; `None` for other text (RFC
    /// 9110 section 5.6.7).
    #[cfg(feature = "_transport")]
    pub fn from_http_date(text: &str) -> Option<Self> {
        let text = text.trim();
        httpdate::parse_http_date(text).ok().map(|_| Self::LastModified(text.to_owned()))
    }

    /// The modification time of a local file, which its stamp has. `None` for other kinds, and for a
    /// time before 1970.
    pub fn modified(&self) -> Option<SystemTime> {
        let Self::FileStamp(text) = self else { return None };
        let (seconds, nanoseconds) = text.split('-').nth(3)?.split_once('.')?;
        let seconds = u64::from_str_radix(seconds, 16).ok()?;
        let since = Duration::new(seconds, nanoseconds.parse().ok()?);
        i64::try_from(seconds).ok().and_then(|_| SystemTime::UNIX_EPOCH.checked_add(since))
    }

    /// Its text: a number, a tag, an id, a date.
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

    /// Checks that a response names this version: `Changed` if it names another, or none.
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

    /// Whether both name the same version: equal text, or one date in two formats.
    pub(crate) fn agrees(&self, other: &Self) -> bool {
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

    /// Says why this cannot be a version of a blob at `place`; `takes` says whether `place` uses
    /// this kind. `None` if it can be: then it is valid in a header and in a query.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::remote::file_stamp;

    #[test]
    fn a_stamp_has_the_time_of_its_file() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let time = SystemTime::UNIX_EPOCH + Duration::new(1_700_000_000, 123_456_789);
        file.as_file().set_modified(time).unwrap();
        let stamp = file_stamp(&file.as_file().metadata().unwrap());
        assert_eq!(stamp.modified(), Some(time));
        let before = SystemTime::UNIX_EPOCH - Duration::from_secs(1);
        file.as_file().set_modified(before).unwrap();
        assert_eq!(file_stamp(&file.as_file().metadata().unwrap()).modified(), None);
        assert_eq!(Version::ETag("\"a-b-c-1.5\"".to_owned()).modified(), None);
    }
}
