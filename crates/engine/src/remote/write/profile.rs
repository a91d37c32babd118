//! [`WriteProfile`]: what a remote takes. Pure data; a caller plans an upload by it.
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

/// How far a remote keeps a promise when several writers race.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Guarantee {
    /// The remote cannot do it, or ignores it.
    None,
    /// The remote looks first and acts then: of two writers that race both may win.
    Checked,
    /// Of any number of writers that race at most one wins.
    Atomic,
}

/// In what order the parts of one upload are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PartOrder {
    /// Any, several at once.
    Any,
    /// One after the other, by offset.
    InOrder,
}

/// How the last part travels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LastPart {
    /// By itself, as the others.
    Alone,
    /// In [`CompleteRequest::last`](super::CompleteRequest::last): storing it makes the blob.
    WithComplete,
}

/// What a remote takes as parts of one upload. Lengths are in bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PartProfile {
    /// Whether parts may be stored in parallel.
    pub order: PartOrder,
    /// Every part but the last is at least this long.
    pub bytes_min: u64,
    /// Every part is at most this long.
    pub bytes_max: u64,
    /// The length of every part but the last is a multiple of this.
    pub bytes_multiple: u64,
    /// Every part but the last has the same length, and the last is not longer.
    pub is_equal: bool,
    /// Parts of one upload are at most this many.
    pub count_max: u32,
    /// How the last part travels.
    pub last: LastPart,
    /// Checksums of a part that the remote compares, the preferred one first.
    pub checksums: Vec<ChecksumAlgorithm>,
    /// Checksums of the whole that the remote compares before the blob appears.
    pub whole_checksums: Vec<ChecksumAlgorithm>,
}

impl PartProfile {
    /// Parts in any order, of any length, as many as their numbers allow; no checksums.
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
        }
    }
}

/// What a remote takes. Lengths are in bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct WriteProfile {
    /// Blobs are at most this long, however they are written.
    pub blob_bytes_max: u64,
    /// [`Write::put`](super::Write::put) takes at most this many.
    pub put_bytes_max: u64,
    /// Checksums of the whole that [`Write::put`](super::Write::put) compares, the preferred one
    /// first.
    pub put_checksums: Vec<ChecksumAlgorithm>,
    /// Uploads in parts; `None` where the remote has none.
    pub parts: Option<PartProfile>,
    /// How [`Precondition::Absent`] is kept.
    pub absent: Guarantee,
    /// How [`Precondition::Version`] is kept.
    pub version: Guarantee,
    /// [`Write::copy`](super::Write::copy) takes at most this many; `None` where the remote does not
    /// copy.
    pub copy_bytes_max: Option<u64>,
    /// Media type, coding and the caller's own names and values are kept.
    pub keeps_metadata: bool,
}

impl WriteProfile {
    /// Whole blobs of any length, without preconditions, checksums, parts and copies: what a remote
    /// begins with that says what else it takes.
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
            keeps_metadata: false,
        }
    }

    /// Fails with `Unsupported` where the remote does not keep this precondition at least so far.
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
        Err(Error::new(ErrorKind::Unsupported, Operation::Write, blob, message))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
