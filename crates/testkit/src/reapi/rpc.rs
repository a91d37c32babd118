//! The calls that the server knows.

/// One of the calls of the Remote Execution API's cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Rpc {
    /// `Capabilities.GetCapabilities`
    Capabilities,
    /// `ContentAddressableStorage.FindMissingBlobs`
    FindMissing,
    /// `ContentAddressableStorage.BatchUpdateBlobs`
    BatchUpdate,
    /// `ContentAddressableStorage.BatchReadBlobs`
    BatchRead,
    /// `ContentAddressableStorage.GetTree`: the response is `UNIMPLEMENTED`.
    GetTree,
    /// `ContentAddressableStorage.SplitBlob`
    Split,
    /// `ContentAddressableStorage.SpliceBlob`
    Splice,
    /// `ByteStream.Read`
    Read,
    /// `ByteStream.Write`
    Write,
    /// `ByteStream.QueryWriteStatus`
    QueryWriteStatus,
}

impl Rpc {
    /// All of them.
    pub const ALL: [Self; 10] = [
        Self::Capabilities,
        Self::FindMissing,
        Self::BatchUpdate,
        Self::BatchRead,
        Self::GetTree,
        Self::Split,
        Self::Splice,
        Self::Read,
        Self::Write,
        Self::QueryWriteStatus,
    ];

    /// Its place in [`Rpc::ALL`].
    pub(crate) fn index(self) -> usize {
        self as usize
    }

    pub(crate) fn of_path(path: &str) -> Option<Self> {
        let (service, method) = path.strip_prefix('/')?.split_once('/')?;
        match (service, method) {
            ("build.bazel.remote.execution.v2.Capabilities", "GetCapabilities") => {
                Some(Self::Capabilities)
            }
            ("build.bazel.remote.execution.v2.ContentAddressableStorage", method) => match method {
                "FindMissingBlobs" => Some(Self::FindMissing),
                "BatchUpdateBlobs" => Some(Self::BatchUpdate),
                "BatchReadBlobs" => Some(Self::BatchRead),
                "GetTree" => Some(Self::GetTree),
                "SplitBlob" => Some(Self::Split),
                "SpliceBlob" => Some(Self::Splice),
                _ => None,
            },
            ("google.bytestream.ByteStream", method) => match method {
                "Read" => Some(Self::Read),
                "Write" => Some(Self::Write),
                "QueryWriteStatus" => Some(Self::QueryWriteStatus),
                _ => None,
            },
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_rpc_has_its_own_index() {
        for (index, rpc) in Rpc::ALL.into_iter().enumerate() {
            assert_eq!(rpc.index(), index);
        }
    }

    #[test]
    fn unknown_paths_are_no_calls() {
        for path in ["", "/", "Read", "/google.bytestream.ByteStream/", "//Read"] {
            assert_eq!(Rpc::of_path(path), None, "{path}");
        }
        assert_eq!(Rpc::of_path("/google.bytestream.ByteStream/Read"), Some(Rpc::Read));
    }
}
