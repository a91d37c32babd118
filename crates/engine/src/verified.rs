//! [`Verified`]: which checksums of a transfer were verified, and [`Unverified`]: why none was.

use std::fmt;

use tidegate_core::checksum::{Checksum, ChecksumAlgorithm, Coverage, StoredChecksum};

/// The result of verifying the bytes of a finished transfer.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Verified {
    /// Each of these checksums of the whole blob was computed and matched. There is at least one.
    By(Vec<Checksum>),
    /// The checksum of the checksums of the parts in which the blob was uploaded was computed and
    /// matched. No checksum of the whole blob is known.
    ByParts(PartsChecksum),
    /// An upload: this checksum went with the bytes of each request, and the remote confirmed it. The
    /// remote keeps no checksum of the whole.
    OnArrival(ChecksumAlgorithm),
    /// A file was copied to a file: the bytes that were written, read back, have this checksum of the
    /// bytes that were read.
    ReadBack(Checksum),
    /// A file was copied to a file by a clone: the file system lets both share their blocks, so no
    /// byte was moved.
    Reflink,
    /// Nothing was compared.
    Not(Unverified),
}

/// A composite checksum: the checksum of the concatenated checksums of a blob's parts.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PartsChecksum {
    /// The value.
    pub checksum: Checksum,
    /// The number of parts.
    pub parts: u32,
}

/// `crc32c of 12 parts`.
impl fmt::Display for PartsChecksum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plural = if self.parts == 1 { "" } else { "s" };
        write!(f, "{} of {} part{plural}", self.checksum.algorithm(), self.parts)
    }
}

impl Verified {
    /// The checksums of the whole blob that matched.
    pub fn checksums(&self) -> &[Checksum] {
        match self {
            Self::By(checksums) => checksums,
            Self::ByParts(_)
            | Self::OnArrival(_)
            | Self::ReadBack(_)
            | Self::Reflink
            | Self::Not(_) => &[],
        }
    }

    /// The composite checksum that matched.
    pub fn parts_checksum(&self) -> Option<&PartsChecksum> {
        match self {
            Self::ByParts(parts) => Some(parts),
            Self::By(_) | Self::OnArrival(_) | Self::ReadBack(_) | Self::Reflink | Self::Not(_) => {
                None
            }
        }
    }

    /// Why nothing was compared.
    pub fn reason(&self) -> Option<&Unverified> {
        match self {
            Self::By(_)
            | Self::ByParts(_)
            | Self::OnArrival(_)
            | Self::ReadBack(_)
            | Self::Reflink => None,
            Self::Not(reason) => Some(reason),
        }
    }
}

/// Why nothing was verified.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Unverified {
    /// The caller turned verification off.
    Off,
    /// Only a part of the blob was read.
    Partial,
    /// The blob was not read in order: there was a seek.
    Seek,
    /// The server provides no checksum.
    NoChecksum,
    /// Two blobs were compared, and no algorithm has a checksum of both.
    NoSharedChecksum,
    /// The server provides only a checksum over the checksums of an upload's parts.
    Composite(ChecksumAlgorithm),
    /// The server provides only a checksum over the checksums of an upload's parts, and the sizes of
    /// the parts are not known.
    PartSizes {
        /// The algorithm of the checksum.
        algorithm: ChecksumAlgorithm,
        /// Why the sizes are not known.
        reason: String,
    },
    /// The entity tag is not the MD5 of the bytes. That is no proof of damage: with some kinds of
    /// encryption, and at some servers, the tag is something else.
    EntityTagDiffers,
    /// The entity tag is no MD5, and the server provides no checksum.
    NoEntityTag,
    /// The request for the blob's checksums failed, with this error.
    LookupFailed(String),
    /// The algorithm of the checksum is not implemented here.
    NotComputable(ChecksumAlgorithm),
    /// The read was captured, and the hash state of this algorithm cannot be captured.
    NotCarried(ChecksumAlgorithm),
}

impl Unverified {
    /// Why none of these checksums can be compared.
    pub(crate) fn of(stored: &[StoredChecksum]) -> Self {
        let is_composite =
            |stored: &&StoredChecksum| matches!(stored.coverage, Coverage::Composite { .. });
        match stored.iter().find(is_composite) {
            Some(stored) => Self::Composite(stored.checksum.algorithm()),
            None => Self::NoChecksum,
        }
    }
}

impl fmt::Display for Unverified {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Off => f.write_str("verification is off"),
            Self::Partial => f.write_str("only a part of the blob was read"),
            Self::Seek => f.write_str("the blob was not read in order"),
            Self::NoChecksum => f.write_str("the server provides no checksum"),
            Self::NoSharedChecksum => f.write_str("no checksum is known of both"),
            Self::Composite(algorithm) => {
                write!(f, "the server provides only a composite {algorithm} of the upload's parts")
            }
            Self::PartSizes { algorithm, reason } => write!(
                f,
                "the server provides only a composite {algorithm} of the upload's parts, and the \
                 sizes of the parts are not known: {reason}"
            ),
            Self::EntityTagDiffers => f.write_str("the entity tag is not the MD5 of the bytes"),
            Self::NoEntityTag => {
                f.write_str("the server provides no checksum, and its entity tag is no MD5")
            }
            Self::LookupFailed(error) => {
                write!(f, "the checksums could not be looked up: {error}")
            }
            Self::NotComputable(algorithm) => write!(f, "{algorithm} cannot be computed"),
            Self::NotCarried(algorithm) => {
                write!(f, "the state of {algorithm} cannot be carried to another process")
            }
        }
    }
}
