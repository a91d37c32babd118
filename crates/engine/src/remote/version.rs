//! What pins a blob's content at a remote, so that a restart never mixes two versions.

use std::fmt;

use serde::{Deserialize, Serialize};
use tidegate_core::checksum::ETag;

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
}

impl Version {
    /// The version in a strong entity tag; `None` for a weak one, which promises no equal bytes,
    /// and for text that is no entity tag.
    pub fn from_etag(text: &str) -> Option<Self> {
        let tag = ETag::parse(text).ok()?;
        tag.is_strong().then(|| Self::ETag(text.trim().to_owned()))
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
        }
    }
}
