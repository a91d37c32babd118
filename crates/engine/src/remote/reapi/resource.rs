//! Resource names: how `google.bytestream` calls a blob, as `remote_execution.proto` says in the
//! comment of `ContentAddressableStorage`.
//!
//! The digest function has a segment of its own only where its hash's length does not tell it: not
//! for SHA-256, which servers of the API's version 2.0 know under no other name, and for BLAKE3,
//! which came later.

use tidegate_core::digest::{Digest, DigestFunction};

/// The name to read a blob by; `compressor` as the API spells it in lower case.
pub(super) fn read(instance: &str, digest: &Digest, compressor: Option<&str>) -> String {
    let blob = blob(digest, compressor);
    if instance.is_empty() { blob } else { format!("{instance}/{blob}") }
}

/// The name to write a blob by. `upload_id` is 32 hexadecimal digits; the server sees them as a
/// UUID.
pub(super) fn write(
    instance: &str,
    upload_id: &str,
    digest: &Digest,
    compressor: Option<&str>,
) -> String {
    let upload = format!("uploads/{}/{}", uuid(upload_id), blob(digest, compressor));
    if instance.is_empty() { upload } else { format!("{instance}/{upload}") }
}

fn blob(digest: &Digest, compressor: Option<&str>) -> String {
    let Digest { function, len, .. } = digest;
    let hash = digest.checksum().hex();
    let function = match function {
        DigestFunction::Sha256 => String::new(),
        other => format!("{other}/"),
    };
    match compressor {
        None => format!("blobs/{function}{hash}/{len}"),
        Some(compressor) => format!("compressed-blobs/{compressor}/{function}{hash}/{len}"),
    }
}

/// A UUID of version 4 and of RFC 9562's variant, as the API asks for: the same for the same id.
fn uuid(id: &str) -> String {
    let digits: String = id.chars().filter(char::is_ascii_hexdigit).take(32).collect();
    // Of no digits it is zero.
    let id = u128::from_str_radix(&digits, 16).unwrap_or_default();
    uuid::Builder::from_random_bytes(id.to_be_bytes()).into_uuid().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_the_definition() {
        let sha = Digest::of(DigestFunction::Sha256, b"");
        let blake = Digest::of(DigestFunction::Blake3, b"x");
        let hash = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        assert_eq!(read("", &sha, None), format!("blobs/{hash}/0"));
        assert_eq!(read("a/b", &sha, Some("zstd")), format!("a/b/compressed-blobs/zstd/{hash}/0"));
        let hex = blake.checksum().hex();
        assert_eq!(read("a", &blake, None), format!("a/blobs/blake3/{hex}/1"));
        assert_eq!(read("", &blake, Some("zstd")), format!("compressed-blobs/zstd/blake3/{hex}/1"));
        let id = "0123456789ABCDEF0123456789abcdef";
        let uuid = "01234567-89ab-4def-8123-456789abcdef";
        assert_eq!(write("a", id, &sha, None), format!("a/uploads/{uuid}/blobs/{hash}/0"));
        assert_eq!(
            write("", id, &sha, Some("zstd")),
            format!("uploads/{uuid}/compressed-blobs/zstd/{hash}/0")
        );
    }

    #[test]
    fn any_id_makes_a_uuid() {
        for id in ["", "zz", "ffffffffffffffffffffffffffffffffffff", "0", "é"] {
            let uuid = uuid(id);
            let bytes = uuid.as_bytes();
            assert_eq!((uuid.len(), bytes[14]), (36, b'4'), "{uuid}");
            assert!(b"89ab".contains(&bytes[19]), "{uuid}");
        }
    }
}
