//! [`Verified`]: which checksums of a transfer were verified, and [`Unverified`]: why none was.

use std::fmt;

use tidegate_core::checksum::{Checksum, ChecksumAlgorithm, Coverage, StoredChecksum};

/// The result of verifying the bytes of a finished transfer.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Verified {
    /// Each of these checksums of the whole blob was computed and matched. There is at least one.
    By(Vec<Checksum>),
    /// Nothing was compared.
    Not(Unverified),
}

impl Verified {
    /// The checksums that matched.
    pub fn checksums(&self) -> &[Checksum] {
        match self {
            Self::By(checksums) => checksums,
            Self::Not(_) => &[],
        }
    }

    /// Why nothing was compared.
    pub fn reason(&self) -> Option<&Unverified> {
        match self {
            Self::By(_) => None,
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
    /// The server provides only a checksum over the checksums of an upload's parts.
    Composite(ChecksumAlgorithm),
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
            Self::Composite(algorithm) => {
                write!(f, "the server provides only a composite {algorithm} of the upload's parts")
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
