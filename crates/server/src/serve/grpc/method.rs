//! [`Method`]: the calls of the API by their paths.

/// A call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Method {
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
    /// `None` for a call that the server does not have.
    pub(super) fn of_path(path: &str) -> Option<Self> {
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
