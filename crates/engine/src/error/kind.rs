//! [`ErrorKind`]: what failed, in a word that programs can match on.

use super::Setting;

/// The kind of a failure. Callers match on it, and the command derives its exit code from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The remote has no such blob, bucket or host path.
    NotFound,
    /// The blob's content at the remote is no longer the version that the operation is pinned to.
    Changed,
    /// The target exists, although it must not.
    AlreadyExists,
    /// Bytes do not match their checksum, or a remote contradicts itself about a blob.
    Integrity,
    /// The remote refuses these credentials, or requires credentials.
    NoAccess,
    /// The remote asks for fewer requests.
    Throttled,
    /// Nothing arrived in the time allowed.
    Timeout,
    /// The connection failed, broke, or carried something that is not HTTP.
    Transport,
    /// The remote failed (5xx), or refuses the request for a reason that has no kind here.
    Remote,
    /// All attempts without progress were used, or the deadline passed. The last failure is the
    /// source.
    Exhausted,
    /// The caller cancelled.
    Cancelled,
    /// The input is wrong: a URL, an option.
    Invalid,
    /// The range begins beyond the end of the blob.
    OutOfRange,
    /// The input is right, but this build or this remote cannot do it.
    Unsupported,
    /// The local target cannot be written or read: full, read-only, missing folder.
    Storage,
    /// The blob is in an archive, and must be restored before it can be read.
    Archived,
    /// The bucket has something in it, so it is not removed.
    NotEmpty,
}

impl ErrorKind {
    /// The name of this kind in JSON reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::NotFound => "not_found",
            Self::Changed => "changed",
            Self::AlreadyExists => "already_exists",
            Self::Integrity => "integrity",
            Self::NoAccess => "no_access",
            Self::Throttled => "throttled",
            Self::Timeout => "timeout",
            Self::Transport => "transport",
            Self::Remote => "remote",
            Self::Exhausted => "retries_exhausted",
            Self::Cancelled => "cancelled",
            Self::Invalid => "invalid",
            Self::OutOfRange => "out_of_range",
            Self::Unsupported => "unsupported",
            Self::Storage => "storage",
            Self::Archived => "archived",
            Self::NotEmpty => "not_empty",
        }
    }

    /// The setting of the default hint.
    pub(super) fn setting(self) -> Option<Setting> {
        (self == Self::NoAccess).then_some(Setting::Anonymous)
    }

    /// The hint of an error that has no hint of its own.
    pub(super) fn hint(self) -> Option<&'static str> {
        if let Some(setting) = self.setting() {
            return Some(setting.hint(self));
        }
        Some(match self {
            Self::NotFound => "check the spelling of the bucket and the blob",
            Self::Changed => "run the same command again to fetch the new version",
            Self::Integrity => {
                "run the same command again; if it repeats, the stored blob is damaged"
            }
            Self::Exhausted | Self::Throttled | Self::Timeout | Self::Transport | Self::Remote => {
                "run the same command again to go on where it stopped"
            }
            Self::Cancelled => "run the same command again to resume",
            Self::OutOfRange => "ask for the blob's length first",
            Self::AlreadyExists
            | Self::NoAccess
            | Self::Invalid
            | Self::Unsupported
            | Self::Storage
            | Self::Archived
            | Self::NotEmpty => return None,
        })
    }
}
