//! Resource names of `ByteStream`.
//!
//! `[INSTANCE/]blobs/[FUNCTION/]HASH/SIZE` to read, `[INSTANCE/]uploads/UUID/blobs/…` to write;
//! `compressed-blobs/zstd` may replace `blobs`. Source: the comments of `ContentAddressableStorage`
//! in `remote_execution.proto`.

use super::{
    blob_name::{BlobName, HashFunction},
    status::GrpcStatus,
};

/// A resource name, taken apart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Resource {
    pub(crate) instance: String,
    pub(crate) blob: BlobName,
    pub(crate) zstd: bool,
}

impl Resource {
    pub(crate) fn to_read(name: &str) -> Result<Self, GrpcStatus> {
        let segments: Vec<&str> = name.split('/').collect();
        let start = segments.iter().position(|s| *s == "blobs" || *s == "compressed-blobs");
        let parsed = start.and_then(|start| {
            let (blob, zstd, rest) = blob(&segments[start..])?;
            let instance = segments[..start].join("/");
            rest.is_empty().then_some(Self { instance, blob, zstd })
        });
        parsed.ok_or_else(|| GrpcStatus::invalid(format!("{name:?} names nothing to read")))
    }

    /// The segments after the size are metadata and are ignored.
    pub(crate) fn to_write(name: &str) -> Result<Self, GrpcStatus> {
        let segments: Vec<&str> = name.split('/').collect();
        let start = segments.iter().position(|s| *s == "uploads");
        let parsed = start.and_then(|start| {
            let uuid = segments.get(start + 1)?;
            if !is_uuid(uuid) {
                return None;
            }
            let (blob, zstd, _) = blob(segments.get(start + 2..)?)?;
            Some(Self { instance: segments[..start].join("/"), blob, zstd })
        });
        parsed.ok_or_else(|| GrpcStatus::invalid(format!("{name:?} names nothing to write")))
    }
}

fn is_uuid(text: &str) -> bool {
    text.len() == 36
        && text.bytes().enumerate().all(|(index, byte)| match index {
            8 | 13 | 18 | 23 => byte == b'-',
            _ => byte.is_ascii_hexdigit(),
        })
}

/// The blob that the first segments name, whether it is sent compressed, and the remaining
/// segments.
fn blob<'a, 'b>(segments: &'b [&'a str]) -> Option<(BlobName, bool, &'b [&'a str])> {
    let (zstd, rest) = match segments {
        ["blobs", rest @ ..] => (false, rest),
        ["compressed-blobs", "zstd", rest @ ..] => (true, rest),
        _ => return None,
    };
    let (function, rest) = match rest {
        ["blake3", rest @ ..] => (HashFunction::Blake3, rest),
        rest => (HashFunction::Sha256, rest),
    };
    let [hash, size, rest @ ..] = rest else { return None };
    if size.starts_with('+') {
        return None;
    }
    let name = BlobName::of_parts(function, hash, size.parse().ok()?).ok()?;
    Some((name, zstd, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    const HASH: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
    const UUID: &str = "00000000-0000-4000-8000-000000000001";

    #[test]
    fn valid_names_for_reads_are_parsed() {
        let name = format!("a/b/compressed-blobs/zstd/blake3/{HASH}/12");
        let resource = Resource::to_read(&name).unwrap();
        assert_eq!((resource.instance.as_str(), resource.zstd), ("a/b", true));
        assert_eq!(resource.blob.function, HashFunction::Blake3);
        assert_eq!((resource.blob.hash.as_str(), resource.blob.len_bytes), (HASH, 12));
        assert!(Resource::to_read(&format!("blobs/{HASH}/0")).is_ok());
    }

    #[test]
    fn valid_names_for_writes_are_parsed() {
        let name = format!("uploads/{UUID}/blobs/{HASH}/12/some/metadata");
        let resource = Resource::to_write(&name).unwrap();
        assert_eq!((resource.instance.as_str(), resource.zstd), ("", false));
    }

    #[test]
    fn invalid_names_are_refused() {
        for name in [
            String::new(),
            HASH.to_owned(),
            format!("blobs/{HASH}"),
            format!("blobs/{HASH}/-1"),
            format!("blobs/{HASH}/+1"),
            format!("blobs/{HASH}/1/"),
            format!("blobs/sha256/{HASH}/1"),
            format!("blobs/{}/1", HASH.to_uppercase()),
            format!("compressed-blobs/lzma/{HASH}/1"),
        ] {
            assert!(Resource::to_read(&name).is_err(), "{name}");
        }
        for name in [
            format!("uploads/1/blobs/{HASH}/1"),
            format!("uploads/{UUID}/{HASH}/1"),
            format!("blobs/{HASH}/1"),
        ] {
            assert!(Resource::to_write(&name).is_err(), "{name}");
        }
    }
}
