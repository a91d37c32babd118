//! The headers that carry checksums and entity tags: no text causes a panic, and each accepted
//! value has the length of its algorithm.

#![no_main]

use libfuzzer_sys::fuzz_target;
use tidegate_core::checksum::headers::{
    parse_amz_checksum, parse_content_md5, parse_goog_hash, parse_repr_digest,
};
use tidegate_core::checksum::{Checksum, ChecksumAlgorithm, ETag, StoredChecksum};
use tidegate_core::digest::Digest;

fuzz_target!(|input: (&str, &str, Option<&str>)| {
    let (text, suffix, kind) = input;
    let mut found: Vec<StoredChecksum> = Vec::new();
    found.extend(parse_goog_hash(text).into_iter().flatten());
    found.extend(parse_repr_digest(text).unwrap_or_default());
    found.extend(parse_content_md5(text));
    found.extend(parse_amz_checksum(suffix, text, kind));
    for stored in found {
        let checksum = stored.checksum;
        let algorithm = checksum.algorithm();
        assert_eq!(checksum.as_bytes().len(), algorithm.len_bytes());
        assert_eq!(Checksum::from_hex(algorithm, &checksum.hex()), Ok(checksum.clone()));
        assert_eq!(Checksum::from_base64(algorithm, &checksum.to_base64()), Ok(checksum));
    }
    for algorithm in ChecksumAlgorithm::ALL {
        let _ = Checksum::from_hex(algorithm, text);
    }
    if let Ok(tag) = ETag::parse(text) {
        assert_eq!(ETag::parse(tag.as_header()), Ok(tag.clone()));
    }
    if let Ok(digest) = Digest::parse(text) {
        assert_eq!(digest.to_string(), text);
    }
});
