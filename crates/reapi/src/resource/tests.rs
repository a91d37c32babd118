//! Tests of resource names: those of the definition, those of some clients, and invalid ones.

use proptest::prelude::*;

use super::*;

const HASH: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
const UUID: &str = "01234567-89ab-4def-8123-456789abcdef";

fn filled(name: &str) -> String {
    name.replace("HASH", HASH).replace("UUID", UUID)
}

#[test]
fn names_are_those_of_the_definition() {
    let read = |instance, digest: &Digest, compressor| {
        ReadName { instance, compressor, digest: *digest }.to_string()
    };
    let write = |instance, digest: &Digest, compressor| {
        WriteName { instance, upload_id: UUID, compressor, digest: *digest }.to_string()
    };
    let (plain, zstd) = (Compressor::Identity, Compressor::Zstd);
    let sha = Digest::of(DigestFunction::Sha256, b"");
    let blake = Digest::of(DigestFunction::Blake3, b"x");
    assert_eq!(read("", &sha, plain), filled("blobs/HASH/0"));
    assert_eq!(read("a/b", &sha, zstd), filled("a/b/compressed-blobs/zstd/HASH/0"));
    let hex = blake.checksum().hex();
    assert_eq!(read("a", &blake, plain), format!("a/blobs/blake3/{hex}/1"));
    assert_eq!(read("", &blake, zstd), format!("compressed-blobs/zstd/blake3/{hex}/1"));
    assert_eq!(write("a", &sha, plain), filled("a/uploads/UUID/blobs/HASH/0"));
    assert_eq!(write("", &sha, zstd), filled("uploads/UUID/compressed-blobs/zstd/HASH/0"));
}

#[test]
fn forms_that_only_some_clients_write_are_read() {
    for (name, shown) in [
        ("/blobs/HASH/7", "blobs/HASH/7"),
        ("blobs/sha256/HASH/7", "blobs/HASH/7"),
        ("a/compressed-blobs/zstd/sha256/HASH/7", "a/compressed-blobs/zstd/HASH/7"),
        ("a/b/c/blobs/HASH/9223372036854775807", "a/b/c/blobs/HASH/9223372036854775807"),
        ("a/sha256/HASH/7/blobs/HASH/7", "a/sha256/HASH/7/blobs/HASH/7"),
    ] {
        let name = filled(name);
        assert_eq!(ReadName::parse(&name).unwrap().to_string(), filled(shown), "{name}");
    }
    for (name, shown) in [
        ("/uploads/UUID/blobs/HASH/7", "uploads/UUID/blobs/HASH/7"),
        ("uploads/UUID/blobs/sha256/HASH/7", "uploads/UUID/blobs/HASH/7"),
        ("a/b/uploads/UUID/blobs/HASH/7/main.o", "a/b/uploads/UUID/blobs/HASH/7"),
        ("uploads/UUID/blobs/HASH/7/a//blobs/x/", "uploads/UUID/blobs/HASH/7"),
        ("uploads/UUID/blobs/blake3/HASH/7/", "uploads/UUID/blobs/blake3/HASH/7"),
        (
            "uploads/FFFFFFFF-89ab-1def-0123-456789ABCDEF/blobs/HASH/7",
            "uploads/FFFFFFFF-89ab-1def-0123-456789ABCDEF/blobs/HASH/7",
        ),
    ] {
        let name = filled(name);
        assert_eq!(WriteName::parse(&name).unwrap().to_string(), filled(shown), "{name}");
    }
}

#[test]
fn what_names_no_blob_to_read_is_refused() {
    for (name, flaw) in [
        ("", NameFlaw::NoBlob),
        ("/", NameFlaw::NoBlob),
        ("HASH/7", NameFlaw::NoBlob),
        ("a/Blobs/HASH/7", NameFlaw::NoBlob),
        ("//blobs/HASH/7", NameFlaw::EmptySegment),
        ("/a/blobs/HASH/7", NameFlaw::EmptySegment),
        ("a//blobs/HASH/7", NameFlaw::EmptySegment),
        ("a//b/blobs/HASH/7", NameFlaw::EmptySegment),
        ("actions/blobs/HASH/7", NameFlaw::Keyword),
        ("a/operations/b/blobs/HASH/7", NameFlaw::Keyword),
        ("uploads/UUID/blobs/HASH/7", NameFlaw::Upload),
        ("a/uploads/x", NameFlaw::Upload),
        ("blobs", NameFlaw::Hash),
        ("blobs/", NameFlaw::Hash),
        ("blobs//7", NameFlaw::Hash),
        ("blobs/7", NameFlaw::Hash),
        ("blobs/blobs/HASH/7", NameFlaw::Hash),
        ("blobs/zstd/HASH/7", NameFlaw::Hash),
        ("blobs/blake3", NameFlaw::Hash),
        ("blobs/blake3/7", NameFlaw::Hash),
        ("blobs/blake3/blake3/HASH/7", NameFlaw::Hash),
        ("blobs/SHA256/HASH/7", NameFlaw::DigestFunction),
        ("blobs/md5/HASH/7", NameFlaw::DigestFunction),
        ("blobs/sha256tree/HASH/7", NameFlaw::DigestFunction),
        ("blobs/d41d8cd98f00b204e9800998ecf8427e/0", NameFlaw::Hash),
        ("blobs/HASHe3/7", NameFlaw::Hash),
        (
            "blobs/E3B0C44298FC1C149AFBF4C8996FB92427AE41E4649B934CA495991B7852B855/0",
            NameFlaw::Hash,
        ),
        ("blobs/HASH", NameFlaw::Size),
        ("blobs/HASH/", NameFlaw::Size),
        ("blobs/HASH/-1", NameFlaw::Size),
        ("blobs/HASH/+1", NameFlaw::Size),
        ("blobs/HASH/01", NameFlaw::Size),
        ("blobs/HASH/00", NameFlaw::Size),
        ("blobs/HASH/1e3", NameFlaw::Size),
        ("blobs/HASH/0x1", NameFlaw::Size),
        ("blobs/HASH/ 1", NameFlaw::Size),
        ("blobs/HASH/١", NameFlaw::Size),
        ("blobs/HASH/9223372036854775808", NameFlaw::Size),
        ("blobs/HASH/7/", NameFlaw::Excess),
        ("blobs/HASH/7/main.o", NameFlaw::Excess),
        ("compressed-blobs", NameFlaw::Compressor),
        ("compressed-blobs/HASH/7", NameFlaw::Compressor),
        ("compressed-blobs/identity/HASH/7", NameFlaw::Compressor),
        ("compressed-blobs/ZSTD/HASH/7", NameFlaw::Compressor),
        ("compressed-blobs/deflate/HASH/7", NameFlaw::Compressor),
    ] {
        let name = filled(name);
        assert_eq!(ReadName::parse(&name), Err(Error::ResourceName(flaw)), "{name}");
    }
}

#[test]
fn what_names_no_blob_to_write_is_refused() {
    for (name, flaw) in [
        ("", NameFlaw::NoBlob),
        ("uploads", NameFlaw::UploadId),
        ("uploads/", NameFlaw::UploadId),
        ("uploads/blobs/HASH/7", NameFlaw::UploadId),
        ("uploads/UUID0/blobs/HASH/7", NameFlaw::UploadId),
        ("uploads/0123456789abcdef0123456789abcdef0123/blobs/HASH/7", NameFlaw::UploadId),
        ("uploads/01234567-89ab-4def-8123-456789abcdeg/blobs/HASH/7", NameFlaw::UploadId),
        ("uploads/01234567-89ab-4def-8123-456789abcdé/blobs/HASH/7", NameFlaw::UploadId),
        ("uploads/UUID", NameFlaw::NoBlob),
        ("uploads/UUID/HASH/7", NameFlaw::NoBlob),
        ("uploads/UUID//blobs/HASH/7", NameFlaw::NoBlob),
        ("uploads/UUID/uploads/UUID/blobs/HASH/7", NameFlaw::Keyword),
        ("uploads/UUID/blobs/HASH", NameFlaw::Size),
        ("uploads/UUID/blobs/HASH/x", NameFlaw::Size),
        ("uploads/UUID/blobs/7", NameFlaw::Hash),
        ("uploads/UUID/compressed-blobs/gzip/HASH/7", NameFlaw::Compressor),
        ("//uploads/UUID/blobs/HASH/7", NameFlaw::EmptySegment),
        ("actions/uploads/UUID/blobs/HASH/7", NameFlaw::Keyword),
        ("blobs/HASH/7", NameFlaw::NoUpload),
        ("a/blobs/uploads/UUID/blobs/HASH/7", NameFlaw::NoUpload),
        ("a/capabilities", NameFlaw::Keyword),
    ] {
        let name = filled(name);
        assert_eq!(WriteName::parse(&name), Err(Error::ResourceName(flaw)), "{name}");
    }
}

#[test]
fn an_instance_name_is_checked_by_its_segments() {
    for name in ["", "a", "a/b", "é x/..", "Blobs"] {
        assert_eq!(check_instance(name), Ok(()), "{name}");
    }
    for name in ["/", "a/", "/a", "a//b"] {
        assert_eq!(check_instance(name), Err(Error::ResourceName(NameFlaw::EmptySegment)));
    }
    for keyword in KEYWORDS {
        let name = format!("a/{keyword}");
        assert_eq!(check_instance(&name), Err(Error::ResourceName(NameFlaw::Keyword)));
    }
}

fn instances() -> impl Strategy<Value = String> {
    let segment = "[a-zA-Z0-9 é._%:-]{1,9}".prop_filter("a keyword", |name| !is_keyword(name));
    prop::collection::vec(segment, 0..4).prop_map(|segments| segments.join("/"))
}

fn digests() -> impl Strategy<Value = Digest> {
    let function = prop::sample::select(vec![DigestFunction::Sha256, DigestFunction::Blake3]);
    let len = 0..=u64::MAX >> 1;
    (function, any::<[u8; 32]>(), len).prop_map(|(function, hash, len)| Digest {
        function,
        hash,
        len,
    })
}

fn compressors() -> impl Strategy<Value = Compressor> {
    prop::sample::select(vec![Compressor::Identity, Compressor::Zstd])
}

proptest! {
    #[test]
    fn a_name_is_read_as_it_was_written(
        instance in instances(),
        digest in digests(),
        compressor in compressors(),
        upload_id in "[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}",
    ) {
        let read = ReadName { instance: &instance, compressor, digest };
        let shown = read.to_string();
        prop_assert_eq!(ReadName::parse(&shown), Ok(read));
        prop_assert!(WriteName::parse(&shown).is_err());
        let write =
            WriteName { instance: &instance, upload_id: &upload_id, compressor, digest };
        let shown = write.to_string();
        prop_assert_eq!(WriteName::parse(&shown), Ok(write));
        prop_assert!(ReadName::parse(&shown).is_err());
    }

    #[test]
    fn no_name_is_a_panic_and_what_is_read_is_written_to_be_read_as_the_same(
        segments in prop::collection::vec(
            prop_oneof![
                8 => prop::sample::select(vec![
                    "", "a", "blobs", "uploads", "compressed-blobs", "zstd", "sha256",
                    "blake3", "actions", "0", "7", "-1", HASH, UUID,
                ]).prop_map(str::to_owned),
                1 => ".{0,5}",
            ],
            0..9,
        ),
    ) {
        let name = segments.join("/");
        if let Ok(read) = ReadName::parse(&name) {
            let shown = read.to_string();
            prop_assert_eq!(ReadName::parse(&shown), Ok(read));
            prop_assert!(check_instance(read.instance).is_ok());
        }
        if let Ok(write) = WriteName::parse(&name) {
            let shown = write.to_string();
            prop_assert_eq!(WriteName::parse(&shown), Ok(write));
            prop_assert!(check_instance(write.instance).is_ok());
        }
    }
}
