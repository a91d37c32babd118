//! [`Method`]: the calls of the API by their paths.

use crate::serve::access::Role;

/// A call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::serve) enum Method {
    GetCapabilities,
    FindMissing,
    BatchUpdate,
    BatchRead,
    GetTree,
    SplitBlob,
    SpliceBlob,
    Read,
    Write,
    QueryWriteStatus,
    GetActionResult,
    UpdateActionResult,
    FetchBlob,
}

impl Method {
    /// The role that the call needs.
    pub(in crate::serve) const fn role(self) -> Role {
        match self {
            Self::GetCapabilities
            | Self::FindMissing
            | Self::BatchRead
            | Self::GetTree
            | Self::SplitBlob
            | Self::Read
            | Self::GetActionResult
            | Self::FetchBlob => Role::Read,
            Self::BatchUpdate
            | Self::SpliceBlob
            | Self::Write
            | Self::QueryWriteStatus
            | Self::UpdateActionResult => Role::Write,
        }
    }

    /// All of them, in the order of their numbers.
    pub(in crate::serve) const ALL: [Self; 13] = [
        Self::GetCapabilities,
        Self::FindMissing,
        Self::BatchUpdate,
        Self::BatchRead,
        Self::GetTree,
        Self::SplitBlob,
        Self::SpliceBlob,
        Self::Read,
        Self::Write,
        Self::QueryWriteStatus,
        Self::GetActionResult,
        Self::UpdateActionResult,
        Self::FetchBlob,
    ];

    /// The name of the call in the API.
    pub(in crate::serve) const fn name(self) -> &'static str {
        match self {
            Self::GetCapabilities => "GetCapabilities",
            Self::FindMissing => "FindMissingBlobs",
            Self::BatchUpdate => "BatchUpdateBlobs",
            Self::BatchRead => "BatchReadBlobs",
            Self::GetTree => "GetTree",
            Self::SplitBlob => "SplitBlob",
            Self::SpliceBlob => "SpliceBlob",
            Self::Read => "Read",
            Self::Write => "Write",
            Self::QueryWriteStatus => "QueryWriteStatus",
            Self::GetActionResult => "GetActionResult",
            Self::UpdateActionResult => "UpdateActionResult",
            Self::FetchBlob => "FetchBlob",
        }
    }

    /// `None` for a call that the server does not have.
    pub(in super::super) fn of_path(path: &str) -> Option<Self> {
        let (service, method) = path.strip_prefix('/')?.rsplit_once('/')?;
        let (package, service) = service.rsplit_once('.')?;
        match (package, service, method) {
            ("google.bytestream", "ByteStream", "Read") => Some(Self::Read),
            ("google.bytestream", "ByteStream", "Write") => Some(Self::Write),
            ("google.bytestream", "ByteStream", "QueryWriteStatus") => Some(Self::QueryWriteStatus),
            ("build.bazel.remote.execution.v2", "ContentAddressableStorage", method) => {
                match method {
                    "FindMissingBlobs" => Some(Self::FindMissing),
                    "BatchUpdateBlobs" => Some(Self::BatchUpdate),
                    "BatchReadBlobs" => Some(Self::BatchRead),
                    "GetTree" => Some(Self::GetTree),
                    "SplitBlob" => Some(Self::SplitBlob),
                    "SpliceBlob" => Some(Self::SpliceBlob),
                    _ => None,
                }
            }
            ("build.bazel.remote.execution.v2", "ActionCache", method) => match method {
                "GetActionResult" => Some(Self::GetActionResult),
                "UpdateActionResult" => Some(Self::UpdateActionResult),
                _ => None,
            },
            ("build.bazel.remote.asset.v1", "Fetch", "FetchBlob") => Some(Self::FetchBlob),
            ("build.bazel.remote.execution.v2", "Capabilities", "GetCapabilities") => {
                Some(Self::GetCapabilities)
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_found_by_their_whole_path() {
        let path = |name: &str| Method::of_path(name);
        assert_eq!(path("/google.bytestream.ByteStream/Read"), Some(Method::Read));
        let split = "/build.bazel.remote.execution.v2.ContentAddressableStorage/SplitBlob";
        assert_eq!(path(split), Some(Method::SplitBlob));
        for other in [
            "",
            "/",
            "Read",
            "/Read",
            "/google.bytestream.ByteStream",
            "/google.bytestream.ByteStream/",
            "/google.bytestream.ByteStream/read",
            "/x/google.bytestream.ByteStream/Read",
            "/google.bytestream.ActionCache/GetActionResult",
            "/build.bazel.remote.execution.v2.Execution/Execute",
            "/build.bazel.remote.asset.v1.Fetch/FetchDirectory",
            "/build.bazel.remote.asset.v1.Push/PushBlob",
        ] {
            assert_eq!(path(other), None, "{other}");
        }
    }
}
