//! [`WriteProfile`]: the abilities and limits of a remote. Pure data; a caller plans an upload by
//! it.
//!
//! Examples of parts, in numbers:
//!
//! | remote | order | bytes_min | bytes_max | count_max | equal | last |
//! |---|---|---|---|---|---|---|
//! | S3 | any | 5 MiB | 5 GiB | 10,000 | no | alone |
//! | R2 | any | 5 MiB | 5 GiB | 10,000 | yes | alone |
//! | Azure | any | 1 | 4,000 MiB | 50,000 | no | alone |
//! | GCS, a session | in order | 256 KiB, and multiples of it | the blob | any | no | with `complete` |

use tidegate_core::checksum::ChecksumAlgorithm;

use super::Precondition;
use crate::error::{Error, ErrorKind, Operation, Result};

/// How strictly a remote enforces a precondition when several writers race.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Guarantee {
    /// The remote does not support it, or ignores it.
    None,
    /// The remote checks and then acts, in two steps: two racing writers may both succeed.
    Checked,
    /// At most one of any number of racing writers succeeds.
    Atomic,
}

/// The order in which the parts of one upload are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PartOrder {
    /// Any order, also in parallel.
    Any,
    /// One after another, by offset.
    InOrder,
}

/// How the last part is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LastPart {
    /// By itself, like the other parts.
    Alone,
    /// In [`CompleteRequest::last`](super::CompleteRequest::last): storing it makes the blob.
    WithComplete,
}

/// Names of a blob's metadata that a remote keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum MetadataNames {
    /// No name: the remote keeps no media type and no coding either.
    None,
    /// Letters, digits and `_`, no digit first: Azure takes the identifiers of C#.
    Identifiers,
    /// Any name that a header can have.
    Any,
}

impl MetadataNames {
    /// Whether the remote keeps metadata of this name.
    #[must_use]
    pub fn accept(self, name: &str) -> bool {
        let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
        match self {
            Self::None => false,
            Self::Identifiers => {
                name.chars().all(is_part) && name.starts_with(|c: char| !c.is_ascii_digit())
            }
            Self::Any => !name.is_empty(),
        }
    }
}

/// The limits of a remote for the parts of one upload. Lengths are in bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
#[expect(clippy::struct_excessive_bools, reason = "each is a property of its own of a remote")]
pub struct PartProfile {
    /// Whether parts may be stored in parallel.
    pub order: PartOrder,
    /// Minimum length of every part except the last.
    pub bytes_min: u64,
    /// Maximum length of every part.
    pub bytes_max: u64,
    /// The length of every part except the last is a multiple of this.
    pub bytes_multiple: u64,
    /// Every part except the last has the same length, and the last is not longer.
    pub is_equal: bool,
    /// Maximum number of parts of one upload.
    pub count_max: u32,
    /// How the last part is sent.
    pub last: LastPart,
    /// Checksums of a part that the remote verifies, the preferred one first.
    pub checksums: Vec<ChecksumAlgorithm>,
    /// Checksums of the whole that the remote verifies before the blob appears.
    pub whole_checksums: Vec<ChecksumAlgorithm>,
    /// Whether a part can be a copy of a range of a blob
    /// ([`Write::copy_part`](super::Write::copy_part)).
    pub copies: bool,
    /// Whether [`Write::uploads`](super::Write::uploads) finds an unfinished upload.
    pub is_listed: bool,
    /// Whether [`Write::abort`](super::Write::abort) removes the parts. If not, the remote removes
    /// them by rules of its own, as Azure does after a week.
    pub is_removed: bool,
}

impl PartProfile {
    /// Parts in any order and of any length, up to the largest part number; no checksums. Unfinished
    /// uploads are listed, and aborted ones removed.
    #[must_use]
    pub fn any() -> Self {
        Self {
            order: PartOrder::Any,
            bytes_min: 1,
            bytes_max: u64::MAX,
            bytes_multiple: 1,
            is_equal: false,
            count_max: u32::MAX,
            last: LastPart::Alone,
            checksums: Vec::new(),
            whole_checksums: Vec::new(),
            copies: false,
            is_listed: true,
            is_removed: true,
        }
    }
}

/// The abilities and limits of a remote for writing. Lengths are in bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct WriteProfile {
    /// Maximum length of a blob, for all ways of writing it.
    pub blob_bytes_max: u64,
    /// Maximum length of a blob for [`Write::put`](super::Write::put).
    pub put_bytes_max: u64,
    /// Checksums of the whole that [`Write::put`](super::Write::put) verifies, the preferred one
    /// first.
    pub put_checksums: Vec<ChecksumAlgorithm>,
    /// Limits for uploads in parts; `None` if the remote does not support them.
    pub parts: Option<PartProfile>,
    /// How strictly [`Precondition::Absent`] is enforced.
    pub absent: Guarantee,
    /// How strictly [`Precondition::Version`] is enforced.
    pub version: Guarantee,
    /// Maximum length of a blob for [`Write::copy`](super::Write::copy); `None` if the remote does
    /// not copy.
    pub copy_bytes_max: Option<u64>,
    /// Whether a copy can have another type, coding and `Cache-Control` than its source.
    pub copy_describes: bool,
    /// How strictly [`Write::copy`](super::Write::copy) enforces a precondition.
    pub copy_guarantee: Guarantee,
    /// Which names of metadata the remote keeps.
    pub metadata: MetadataNames,
    /// Whether the remote keeps tags.
    pub keeps_tags: bool,
    /// Whether the remote decompresses a blob for readers that do not accept its coding, unless
    /// `Cache-Control` says `no-transform`.
    pub decompresses: bool,
}

impl WriteProfile {
    /// Whole blobs of any length, without preconditions, checksums, parts and copies: the base of
    /// other profiles.
    #[must_use]
    pub fn put_only() -> Self {
        Self {
            blob_bytes_max: u64::MAX,
            put_bytes_max: u64::MAX,
            put_checksums: Vec::new(),
            parts: None,
            absent: Guarantee::None,
            version: Guarantee::None,
            copy_bytes_max: None,
            copy_describes: false,
            copy_guarantee: Guarantee::None,
            metadata: MetadataNames::None,
            keeps_tags: false,
            decompresses: false,
        }
    }

    /// Fails with `Unsupported` if the remote enforces this precondition less strictly than
    /// `at_least`.
    pub fn check(
        &self,
        precondition: &Precondition,
        at_least: Guarantee,
        blob: &str,
    ) -> Result<()> {
        let (kept, what) = match precondition {
            Precondition::None => return Ok(()),
            Precondition::Absent => (self.absent, "that nothing has the name"),
            Precondition::Version(_) => (self.version, "the version that is replaced"),
        };
        let message = match (kept, at_least) {
            (Guarantee::Atomic, _)
            | (_, Guarantee::None)
            | (Guarantee::Checked, Guarantee::Checked) => return Ok(()),
            (Guarantee::Checked, Guarantee::Atomic) => {
                format!("the remote does not check atomically {what}")
            }
            (Guarantee::None, _) => format!("the remote does not check {what}"),
        };
        Err(Error::new(ErrorKind::Unsupported, Operation::Locate, blob, message))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_identifier_begins_with_no_digit() {
        for name in ["a", "_a", "tidegateupload", "A1"] {
            assert!(MetadataNames::Identifiers.accept(name), "{name}");
        }
        for name in ["", "1a", "a-b", "a.b", "\u{e4}"] {
            assert!(!MetadataNames::Identifiers.accept(name), "{name}");
        }
        assert!(MetadataNames::Any.accept("a-b") && !MetadataNames::None.accept("a"));
    }

    #[test]
    fn a_precondition_is_refused_where_it_is_kept_too_weakly() {
        use Guarantee::{Atomic, Checked, None};
        for kept in [None, Checked, Atomic] {
            let profile = WriteProfile { absent: kept, ..WriteProfile::put_only() };
            for (wanted, fits) in [(None, true), (Checked, kept != None), (Atomic, kept == Atomic)]
            {
                let checked = profile.check(&Precondition::Absent, wanted, "b");
                assert_eq!(checked.is_ok(), fits, "{kept:?} {wanted:?}");
            }
            assert!(profile.check(&Precondition::None, Atomic, "b").is_ok());
        }
    }
}
