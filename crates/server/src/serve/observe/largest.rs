//! [`ShownBlob`]: a value in a table of the status.
//!
//! Only blobs have a name here: a hash. The names of action results and of values of tools can hold what
//! a tenant does not want to show.

use tidegate_core::digest::Digest;

use crate::store::{LargeValue, StoredKind};

/// A value in a table.
#[derive(Clone, Debug, serde::Serialize)]
pub(super) struct ShownBlob {
    kind: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    function: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    hash: Option<String>,
    bytes: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    reads: Option<u64>,
}

impl ShownBlob {
    /// A blob that is read often.
    pub(super) fn hot(digest: &Digest, reads: u64) -> Self {
        Self {
            kind: "blob",
            function: Some(digest.function.to_string()),
            hash: Some(digest.checksum().hex()),
            bytes: digest.len,
            reads: Some(reads),
        }
    }

    /// A large value.
    pub(super) fn large(value: &LargeValue) -> Self {
        Self {
            kind: kind_name(value.kind),
            function: value.digest.map(|digest| digest.function.to_string()),
            hash: value.digest.map(|digest| digest.checksum().hex()),
            bytes: value.len,
            reads: None,
        }
    }

    #[cfg(test)]
    pub(super) fn hash(&self) -> &str {
        self.hash.as_deref().unwrap_or_default()
    }
}

/// The name of a kind of stored values.
pub(super) const fn kind_name(kind: StoredKind) -> &'static str {
    match kind {
        StoredKind::Blob => "blob",
        StoredKind::Manifest => "manifest",
        StoredKind::Slice => "slice",
        StoredKind::Action => "action",
        StoredKind::Value => "value",
    }
}
