//! Headers as servers send them, and malformed ones.

use proptest::prelude::*;

use super::*;

fn shown(error: &ChecksumError, text: &str) {
    let message = error.to_string();
    assert!(message.contains(&format!("{text:?}")), "{message} does not show {text:?}");
}

fn full(text: &str) -> (String, Coverage) {
    (text.to_owned(), Coverage::FullObject)
}

fn pairs(stored: Vec<StoredChecksum>) -> Vec<(String, Coverage)> {
    stored.into_iter().map(|s| (s.checksum.to_string(), s.coverage)).collect()
}

/// The example of the reference: the object holds "hello world".
#[test]
fn goog_hash() {
    let text = "crc32c=yZRlqg==,md5=XrY7u+Ae7tCTyyK7j1rNww==";
    let all = |text| pairs(parse_goog_hash(text).into_iter().map(Result::unwrap).collect());
    assert_eq!(all(text), [full("crc32c:c99465aa"), full("md5:5eb63bbbe01eeed093cb22bb8f5acdc3")]);
    assert_eq!(all("sha512=AAAA, crc32c=yZRlqg=="), [full("crc32c:c99465aa")]);
}

#[test]
fn a_wrong_member_of_a_goog_hash_leaves_the_others() {
    for text in ["md5=yZRl,crc32c=yZRlqg==", "crc32c=yZRlqg==,md5", ",crc32c=yZRlqg=="] {
        let (right, wrong): (Vec<_>, Vec<_>) =
            parse_goog_hash(text).into_iter().partition(Result::is_ok);
        let right = right.into_iter().map(Result::unwrap).collect();
        assert_eq!(pairs(right), [full("crc32c:c99465aa")], "{text}");
        assert_eq!(wrong.len(), 1, "{text}");
        shown(wrong[0].as_ref().unwrap_err(), text);
    }
}

#[test]
fn a_wrong_goog_hash_is_shown() {
    for text in ["", "crc32c", "crc32c=", "crc32c=yZRl", "crc32c=yZRlqg==,", "md5=yZRlqg=="] {
        let error = parse_goog_hash(text).into_iter().find_map(Result::err);
        shown(&error.unwrap(), text);
    }
}

#[test]
fn amz_checksums_of_whole_objects_and_of_parts() {
    let stored = parse_amz_checksum("crc32c", "4waSgw==", None).unwrap();
    assert_eq!(pairs(vec![stored]), [full("crc32c:e3069283")]);
    let stored = parse_amz_checksum("crc64nvme", "rosUhgp5mIg=", Some("FULL_OBJECT")).unwrap();
    assert!(stored.is_verifiable());
    assert_eq!(pairs(vec![stored]), [full("crc64nvme:ae8b14860a799888")]);

    let coverage = |value, kind| parse_amz_checksum("CRC32C", value, kind).unwrap().coverage;
    let three = Coverage::Composite { parts: Some(3) };
    assert_eq!(coverage("4waSgw==-3", Some("COMPOSITE")), three);
    assert_eq!(coverage("4waSgw==-3", None), three);
    assert_eq!(coverage("4waSgw==-3", Some("FULL_OBJECT")), three);
    assert_eq!(coverage("4waSgw==", Some("composite")), Coverage::Composite { parts: None });

    let sha1 = parse_amz_checksum("sha1", "AAAAAAAAAAAAAAAAAAAAAAAAAAA=", None).unwrap();
    assert!(sha1.is_verifiable());
}

#[test]
fn wrong_amz_checksums_are_shown() {
    for value in ["", "-", "4waSgw", "4waSgw==-", "4waSgw==-x", "4waSgw==-0", "4waSgw==-+1", "-3"] {
        shown(&parse_amz_checksum("crc32c", value, None).unwrap_err(), value);
    }
    shown(&parse_amz_checksum("crc32c", "4waSgw==", Some("HALF")).unwrap_err(), "HALF");
    shown(&parse_amz_checksum("type", "FULL_OBJECT", None).unwrap_err(), "type");
}

#[test]
fn content_md5() {
    let stored = parse_content_md5(" XrY7u+Ae7tCTyyK7j1rNww== ").unwrap();
    assert_eq!(pairs(vec![stored]), [full("md5:5eb63bbbe01eeed093cb22bb8f5acdc3")]);
    shown(&parse_content_md5("yZRlqg==").unwrap_err(), "yZRlqg==");
}

/// The example of RFC 9530, section 3 (of the representation `{"hello": "world"}` and a newline),
/// with other content that the field may have.
#[test]
fn repr_digest() {
    let sha256 = "sha-256=:RK/0qy18MlBSVnWgjwz6lZEWjP/lF5HF9bvEF8FabDg=:";
    let sha512 = "sha-512=:YMAam51Jz/jOATT6/zvHrLVgOYTGFy1d6GJiOHTohq4yP+pgk4vf2aCsyRZOtw8MjkM7iw7yZ/WkppmM44T3qg==:";
    let hex = "sha256:44aff4ab2d7c3250525675a08f0cfa9591168cffe51791c5f5bbc417c15a6c38";
    let value = format!("{sha512}, {sha256}");
    assert_eq!(pairs(parse_repr_digest(&value).unwrap()), [full(hex)]);
    let body = "{\"hello\": \"world\"}\n";
    let computed = crate::Checksummer::of(ChecksumAlgorithm::Sha256, body.as_bytes()).unwrap();
    assert_eq!(computed.to_string(), hex);

    let value = format!(
        "{sha256};q=1;s=\"a,\\\"b\";t=:AA==:;flag\t,\tcrc32c=:4waSgw:,md5=:XrY7u+Ae7tCTyyK7j1rNww==:"
    );
    assert_eq!(
        pairs(parse_repr_digest(&value).unwrap()),
        [full(hex), full("crc32c:e3069283"), full("md5:5eb63bbbe01eeed093cb22bb8f5acdc3")]
    );
    let twice = "crc32c=:AAAAAA==:, crc32c=:4waSgw==:";
    assert_eq!(pairs(parse_repr_digest(twice).unwrap()), [full("crc32c:e3069283")]);
    assert_eq!(parse_repr_digest("  "), Ok(vec![]));
}

#[test]
fn a_wrong_repr_digest_is_shown() {
    for text in [
        "sha-256",
        "sha-256=",
        "sha-256=abc",
        "sha-256=:abc",
        "sha-256=:!!:",
        "sha-256=:AAAA:",
        "crc32c=:4waSgw==:,",
        ",crc32c=:4waSgw==:",
        "crc32c=:4waSgw==: md5=:AA:",
        "CRC32C=:4waSgw==:",
        "crc32c=:4waSgw==:;",
        "crc32c=:4waSgw==:;a=",
        "crc32c=:4waSgw==:;a=\"x",
        "x=1",
        "=:AA==:",
    ] {
        shown(&parse_repr_digest(text).unwrap_err(), text);
    }
}

proptest! {
    #[test]
    fn parsing_never_panics(text in ".{0,80}", suffix in "[a-z0-9]{0,9}", kind in ".{0,12}") {
        let _ = (parse_goog_hash(&text), parse_content_md5(&text), parse_repr_digest(&text));
        let _ = parse_amz_checksum(&suffix, &text, None);
        let _ = parse_amz_checksum("crc32c", &text, Some(&kind));
    }

    #[test]
    fn near_misses_never_panic(text in "(crc32c|md5|sha-256|x)=?:?[A-Za-z0-9+/=]{0,12}:?(;[a-z]=?\"?[^\"]?\"?)?(, ?|-[0-9])?") {
        let _ = (parse_goog_hash(&text), parse_repr_digest(&text));
        let _ = parse_amz_checksum("crc32c", &text, None);
    }
}

#[test]
fn digests_of_older_servers() {
    // The example of RFC 3230, section 4.3.2, has an MD5 of this form; the SHA-256 is of "abc".
    let text = "SHA-256=ungWv48Bz+pBQUDeXa4iI7ADYaOWF3qctBD/YfIAFa0=, md5=kAFQmDzST7DWlj99KOF/cg==,unixsum=30637";
    let found: Vec<StoredChecksum> = parse_digest(text).into_iter().map(Result::unwrap).collect();
    assert_eq!(
        pairs(found),
        [
            full("sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"),
            full("md5:900150983cd24fb0d6963f7d28e17f72"),
        ]
    );
    for wrong in ["sha-256", "md5=x", "SHA=kAFQmDzST7DWlj99KOF/cg=="] {
        assert!(parse_digest(wrong).into_iter().all(|member| member.is_err()), "{wrong}");
    }
}

#[test]
fn checksums_of_artifact_repositories_and_linked_files() {
    let sha256 = "BA7816BF8F01CFEA414140DE5DAE2223B00361A396177A9CB410FF61F20015AD";
    let expected = full(&format!("sha256:{}", sha256.to_ascii_lowercase()));
    let repository = parse_x_checksum("sha256", sha256).unwrap();
    assert_eq!(pairs(vec![repository]), std::slice::from_ref(&expected));
    assert!(parse_x_checksum("sha1", "a9993e364706816aba3e25717850c26c9cd0d89d").is_ok());
    for (suffix, value) in [("sha256", "abc"), ("crc32c", "e3069283"), ("deploy", "true")] {
        assert!(parse_x_checksum(suffix, value).is_err(), "{suffix}");
    }
    let linked = parse_linked_etag(&format!("\"{sha256}\"")).unwrap();
    assert_eq!(pairs(vec![linked]), [expected]);
    for other in ["\"a9993e364706816aba3e25717850c26c9cd0d89d\"", "W/\"x\"", ""] {
        assert_eq!(parse_linked_etag(other), None, "{other}");
    }
}
