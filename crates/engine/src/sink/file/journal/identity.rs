//! [`Identity`]: the blob and version that a part file belongs to.

use serde::{Deserialize, Serialize};
use tidegate_core::checksum::CrcAlgorithm;

use super::super::user_key::{Tag, UserKey};
use crate::remote::{Selection, Version};

/// Domains of the user's key, one for each use.
const ALL: &str = "tidegate selection";
const OBJECT: &str = "tidegate selected object";

/// The contents of a journal's header, apart from its nonce.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Identity {
    /// The blob's URL without secrets.
    pub(crate) source: String,
    /// Keyed hashes of the [`Selection`], secrets included. `None` if there was no key, or the
    /// remote gives no selection.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) selected: Option<Selected>,
    pub(crate) version: Version,
    /// A name that is unique to this content under the blob's name, if the remote gives one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) revision: Option<String>,
    /// The content coding of the bytes, `identity` for none; `None` if it is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) coding: Option<String>,
    pub(crate) len_bytes: u64,
    /// The CRC of the records.
    pub(crate) crc: CrcName,
}

/// The CRC by its name in the header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum CrcName {
    Crc32c,
    Crc64Nvme,
    Crc32,
}

impl From<CrcAlgorithm> for CrcName {
    fn from(algorithm: CrcAlgorithm) -> Self {
        match algorithm {
            CrcAlgorithm::Crc64Nvme => Self::Crc64Nvme,
            CrcAlgorithm::Crc32 => Self::Crc32,
            _ => Self::Crc32c,
        }
    }
}

impl From<CrcName> for CrcAlgorithm {
    fn from(name: CrcName) -> Self {
        match name {
            CrcName::Crc32c => Self::Crc32c,
            CrcName::Crc64Nvme => Self::Crc64Nvme,
            CrcName::Crc32 => Self::Crc32,
        }
    }
}

/// Keyed hashes of a [`Selection`]. Without the key they reveal nothing of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Selected {
    /// Of everything that selects the object.
    #[serde(with = "hex")]
    pub(crate) all: Tag,
    /// Of the same without the parts that only grant access.
    #[serde(with = "hex")]
    pub(crate) object: Tag,
}

impl Selected {
    pub(crate) fn new(selection: &Selection, key: &UserKey) -> Self {
        Self { all: key.tag(ALL, &selection.all()), object: key.tag(OBJECT, selection.object()) }
    }
}

/// A keyed hash as text.
mod hex {
    use serde::de::{Deserializer, Error};
    use serde::{Deserialize, Serializer};

    use super::Tag;

    pub(super) fn serialize<S: Serializer>(tag: &Tag, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(blake3::Hash::from_bytes(*tag).to_hex().as_str())
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Tag, D::Error> {
        let text = String::deserialize(from)?;
        let hash = blake3::Hash::from_hex(text).map_err(Error::custom)?;
        Ok(*hash.as_bytes())
    }
}
