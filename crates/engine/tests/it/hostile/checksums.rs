//! Checksums and lengths that contradict each other, as clouds name them.

use tidegate_core::checksum::{ChecksumAlgorithm, Checksummer};

use super::*;

fn crc32c(bytes: &[u8]) -> String {
    let sum = Checksummer::of(ChecksumAlgorithm::Crc32c, bytes).unwrap();
    format!("crc32c={}", sum.to_base64())
}

fn md5(bytes: &[u8]) -> String {
    let sum = Checksummer::of(ChecksumAlgorithm::Md5, bytes).unwrap();
    format!("md5={}", sum.to_base64())
}

fn with_hashes(asked: &Asked, bytes: &[u8], hashes: &[String]) -> Reply {
    let reply = named(Flavour::Gcs, asked, bytes);
    hashes.iter().fold(reply, |reply, hash| reply.with("x-goog-hash", hash.as_str()))
}

/// Neither is believed: one of them is wrong, and the client cannot know which.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_values_of_one_checksum_are_an_error() {
    let (right, wrong) = (crc32c(&blob()), crc32c(&other_blob()));
    for hashes in [
        vec![right.clone(), wrong.clone()],
        vec![wrong.clone(), right.clone()],
        vec![format!("{right},{wrong}")],
        vec![right.clone(), md5(&blob()), wrong.clone()],
    ] {
        for flavour in [Flavour::Gcs, Flavour::Http] {
            let label = format!("{flavour:?} {hashes:?}");
            let hashes = hashes.clone();
            let origin = Origin::new(move |asked| with_hashes(asked, &blob(), &hashes)).await;
            all_fail(&locate(&origin, flavour), &[ErrorKind::Integrity], &label).await;
        }
    }
    // The same value twice counts as one.
    let hashes = [right.clone(), right, md5(&blob())];
    let origin = Origin::new(move |asked| with_hashes(asked, &blob(), &hashes)).await;
    verified(&origin, ChecksumAlgorithm::Crc32c).await;
}

async fn verified(origin: &Origin, algorithm: ChecksumAlgorithm) {
    let sum = Checksummer::of(algorithm, &blob()).unwrap();
    for reader in READERS {
        let outcome = reader.read(&locate(origin, Flavour::Gcs)).await.unwrap();
        assert!(outcome.bytes == blob(), "{algorithm} {reader:?}");
        let Some(report) = outcome.report else { continue };
        assert_eq!(
            report.verified.checksums(),
            std::slice::from_ref(&sum),
            "{algorithm} {reader:?}"
        );
    }
    let mut channel = crate::call::read(locate(origin, Flavour::Gcs), ReadOptions::default());
    while within(channel.next()).await.unwrap().is_some() {}
    assert!(channel.verified().is_verified(), "{algorithm}: {:?}", channel.verified());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_invalid_checksum_does_not_discard_the_valid_ones() {
    for (bad, good, algorithm) in [
        ("md5=nonsense", crc32c(&blob()), ChecksumAlgorithm::Crc32c),
        ("crc32c=yZRl", md5(&blob()), ChecksumAlgorithm::Md5),
        ("crc32c", md5(&blob()), ChecksumAlgorithm::Md5),
        ("", crc32c(&blob()), ChecksumAlgorithm::Crc32c),
    ] {
        for text in [format!("{bad},{good}"), format!("{good},{bad}"), format!("{good}, {bad}")] {
            let origin =
                Origin::new(move |asked| with_hashes(asked, &blob(), std::slice::from_ref(&text)));
            verified(&origin.await, algorithm).await;
        }
    }
}

/// Google sends the stored length for a body that has no length of its own.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stored_length_that_the_body_contradicts_is_an_error() {
    for flavour in [Flavour::Gcs, Flavour::Http] {
        for framing in [Framing::Chunked, Framing::Close] {
            for (hint, fits) in
                [("150000", false), ("0", false), ("300001", false), ("300000", true)]
            {
                for pieces in [1, 2] {
                    let origin = Origin::new(move |asked| {
                        let reply = Reply::new(200).with("date", origin::DATE).framed(framing);
                        let reply = reply.with("x-goog-generation", "17").with("etag", "\"a\"");
                        let reply = reply.with("x-goog-stored-content-length", hint);
                        match (asked.is_head(), pieces) {
                            (true, _) => reply,
                            (_, 1) => reply.body(&blob()),
                            _ => reply.body(&blob()[..150_000]).and(&blob()[150_000..]),
                        }
                    });
                    let origin = origin.await;
                    let location = locate(&origin, flavour);
                    let label = format!("{flavour:?} {framing:?} {hint} {pieces}");
                    for reader in READERS {
                        match reader.read(&location).await {
                            Ok(outcome) if fits || flavour == Flavour::Http => {
                                assert!(outcome.bytes == blob(), "{label} {reader:?}");
                            }
                            Ok(outcome) => panic!("{label} {reader:?}: {}", outcome.bytes.len()),
                            // Without a length a download to memory is not possible.
                            Err(error) if flavour == Flavour::Http => {
                                assert_eq!(error.kind(), ErrorKind::Unsupported, "{label}");
                            }
                            Err(error) => {
                                assert!(!fits, "{label} {reader:?}: {error:?}");
                                let short = hint == "300001";
                                let kind =
                                    if short { ErrorKind::Exhausted } else { ErrorKind::Integrity };
                                assert_eq!(error.kind(), kind, "{label} {reader:?}: {error:?}");
                            }
                        }
                    }
                }
            }
        }
    }
}

/// Azure has no suffix ranges, so the engine finds the last bytes through the facts. A length of 0
/// verifies nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_head_with_length_zero_does_not_decide_the_last_bytes() {
    for head_len in [Some("0"), None, Some("300000"), Some("200000"), Some("400000")] {
        for tagged in [true, false] {
            let origin = Origin::new(move |asked| {
                let reply = match (asked.is_head(), head_len) {
                    (true, Some(len)) => Reply::new(200).with("content-length", len),
                    (true, None) => Reply::new(200).framed(Framing::Close),
                    _ => Reply::of(asked, &blob()),
                };
                if tagged { reply.with("etag", "\"a\"") } else { reply }
            });
            let origin = origin.await;
            let location = locate(&origin, Flavour::Azure);
            for reader in READERS {
                let label = format!("{head_len:?} {tagged} {reader:?}");
                match reader.read_range(&location, ByteRange::Last(1000)).await {
                    Ok(outcome) => assert!(outcome.bytes == blob()[LEN - 1000..], "{label}"),
                    Err(error) => {
                        assert!(
                            matches!(head_len, Some("200000" | "400000")),
                            "{label}: {error:?}"
                        );
                    }
                }
            }
        }
    }
}
