//! Refused ranges: only `Content-Range: bytes */0` says that a blob is empty.

use super::*;

const RANGES: [ByteRange; 2] = [ByteRange::All, ByteRange::Last(1000)];

fn wanted(range: &ByteRange) -> Bytes {
    match range {
        ByteRange::Last(count) => blob().slice(LEN - usize::try_from(*count).unwrap()..),
        _ => blob(),
    }
}

/// `HEAD` says that the blob is empty. Every range gets 416 without `Content-Range`. `GET` without
/// a range delivers the blob.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_a_bare_range_refusal_the_request_is_repeated_without_a_range() {
    for flavour in ALL {
        for (pinned, head_len) in [(false, "0"), (true, "0"), (true, "300000")] {
            let origin = Origin::new(move |asked| {
                let reply = Reply::of(asked, &blob());
                let reply = match (asked.is_head(), asked.range(LEN)) {
                    (true, _) => Reply::new(200).with("content-length", head_len),
                    (_, Some(_)) => Reply::new(416),
                    _ => reply,
                };
                if pinned { reply.with("etag", "\"a\"") } else { reply }
            });
            let origin = origin.await;
            let location = locate(&origin, flavour);
            for range in RANGES {
                let last = range != ByteRange::All;
                if (flavour == Flavour::S3 && head_len == "0")
                    || (flavour == Flavour::Azure && last && head_len != "0")
                {
                    // S3 is asked for facts with each read, and Azure before a read of the last
                    // bytes. A blob that contradicts these facts is an error.
                    continue;
                }
                for reader in READERS {
                    let label = format!("{flavour:?} {pinned} {head_len} {range} {reader:?}");
                    let before = origin.log().len();
                    let outcome = reader.read_range(&location, range.clone()).await;
                    let outcome = outcome.unwrap_or_else(|error| panic!("{label}: {error:?}"));
                    assert!(outcome.bytes == wanted(&range), "{label}");
                    let log = origin.log().split_off(before);
                    let plain = |asked: &&Asked| !asked.is_head() && asked.range(LEN).is_none();
                    assert_eq!(log.iter().filter(plain).count(), 1, "{label}: {log:?}");
                }
            }
        }
    }
}

/// S3's facts, which are requested with the read, contradict it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_blob_of_two_lengths_is_an_error() {
    let origin = Origin::new(|asked| {
        let reply = match (asked.is_head(), asked.range(LEN)) {
            (true, _) => Reply::new(200).with("content-length", "0"),
            (_, Some(_)) => Reply::new(416),
            _ => Reply::of(asked, &blob()),
        };
        reply.with("etag", "\"a\"")
    });
    let origin = origin.await;
    let location = locate(&origin, Flavour::S3);
    all_fail(&location, &[ErrorKind::Changed], "S3").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_refusal_that_says_empty_is_believed() {
    for flavour in ALL {
        let origin = Origin::new(|asked| Reply::of(asked, b"").with("etag", "\"a\"")).await;
        let location = locate(&origin, flavour);
        for range in RANGES {
            for reader in READERS {
                let outcome = reader.read_range(&location, range.clone()).await.unwrap();
                assert!(outcome.bytes.is_empty(), "{flavour:?} {reader:?}");
                let Some(report) = outcome.report else { continue };
                assert!(report.version().is_some(), "{flavour:?} {reader:?}");
            }
        }
    }
}

/// One part of the server says that the blob is empty, and another says that it is not.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_refusal_that_facts_contradict_is_asked_again_without_a_range() {
    // S3's facts are requested with the read, and agree with it.
    for flavour in ALL {
        let origin = Origin::new(|asked| {
            let reply = if asked.range(LEN).is_some() && !asked.is_head() {
                Reply::new(416).with("content-range", "bytes */0")
            } else {
                Reply::of(asked, &blob())
            };
            reply.with("etag", "\"a\"")
        });
        let origin = origin.await;
        let location = locate(&origin, flavour);
        all_get(&location, &blob(), &format!("{flavour:?}")).await;
    }
}

/// Each reader asks at most twice, and not endlessly.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_refuses_everything_is_asked_twice() {
    for flavour in ALL {
        let origin = Origin::new(|asked| match asked.method.as_str() {
            "HEAD" => Reply::new(200).with("etag", "\"a\""),
            _ => Reply::new(416),
        });
        let origin = origin.await;
        let location = locate(&origin, flavour);
        all_fail(&location, &[ErrorKind::OutOfRange], &format!("{flavour:?}")).await;
        let gets = origin.log().iter().filter(|asked| !asked.is_head()).count();
        assert!(gets <= 2 * READERS.len(), "{flavour:?}: {gets}");
    }
}

/// If `HEAD` is refused, a request for one byte gives the facts. If that is refused too, a request
/// for the whole blob does.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stat_does_not_take_a_bare_range_refusal_for_an_empty_blob() {
    let origin = Origin::new(|asked| match (asked.is_head(), asked.range(LEN)) {
        (true, _) => Reply::new(405),
        (_, Some(_)) => Reply::new(416),
        _ => Reply::of(asked, &blob()).with("etag", "\"a\""),
    });
    let origin = origin.await;
    let location = locate(&origin, Flavour::Http);
    let info = location.remote.stat(&location.blob).await.unwrap();
    assert_eq!(info.len_bytes, Some(LEN as u64));
    assert!(info.version.is_some());
}

/// A seek from the end asks for the length. A `HEAD` that says 0 does not verify it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_seek_does_not_believe_an_empty_head() {
    // S3's facts are compared with every read of the whole blob.
    for flavour in [Flavour::Http, Flavour::Gcs, Flavour::Azure] {
        let origin = Origin::new(|asked| {
            if asked.is_head() {
                return Reply::new(200).with("etag", "\"a\"").with("content-length", "0");
            }
            named(Flavour::Http, asked, &blob())
        });
        let origin = origin.await;
        let location = locate(&origin, flavour);
        let mut channel = crate::call::read(location, ReadOptions::default());
        let end = within(channel.seek(std::io::SeekFrom::End(0))).await.unwrap();
        assert_eq!(end, LEN as u64, "{flavour:?}");
        within(channel.seek(std::io::SeekFrom::Start(0))).await.unwrap();
        assert!(within(channel.next()).await.unwrap().is_some(), "{flavour:?}");
    }
}
