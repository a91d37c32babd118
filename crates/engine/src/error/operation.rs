//! [`Operation`]: what was being done when an error occurred.

use std::fmt;

/// The operation that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Operation {
    /// Parsing a URL or an option.
    Locate,
    /// Connecting a remote: endpoint, credentials, certificates.
    Connect,
    /// Requesting a blob's size, version and checksums.
    Stat,
    /// Reading a range of a blob.
    Read,
    /// Continuing a read that another process began.
    Restore,
    /// Preparing or writing the target.
    Write,
    /// Comparing checksums.
    Verify,
    /// Giving the finished target its name.
    Commit,
    /// A whole download.
    Download,
    /// A whole upload.
    Upload,
    /// Listing blobs.
    List,
    /// Deleting a blob.
    Delete,
    /// Signing a URL.
    Presign,
    /// Making a bucket.
    MakeBucket,
    /// Removing a bucket.
    RemoveBucket,
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Locate => "cannot use",
            Self::Connect => "cannot connect",
            Self::Stat => "cannot stat",
            Self::Read => "cannot read",
            Self::Restore => "cannot go on from the",
            Self::Write => "cannot write",
            Self::Verify => "cannot verify",
            Self::Commit => "cannot finish",
            Self::Download => "cannot download",
            Self::Upload => "cannot upload",
            Self::List => "cannot list",
            Self::Delete => "cannot delete",
            Self::Presign => "cannot sign a URL of",
            Self::MakeBucket => "cannot make",
            Self::RemoveBucket => "cannot remove",
        })
    }
}
