//! Redirects. All requests of one read go to the server that the first redirect named, as each
//! mirror has versions of its own.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use super::*;

/// A mirror: the blob with the mirror's own entity tag.
async fn mirror(tag: &'static str, bytes: Bytes) -> Origin {
    Origin::new(move |asked| {
        // If the blob is read as one stream, the response breaks.
        let reply = Reply::of(asked, &bytes).with("etag", tag);
        if asked.range(LEN).is_none() { reply.cut_after(100_000) } else { reply }
    })
    .await
}

/// Redirects each request to the next of these mirrors.
async fn redirector(mirrors: &[&Origin]) -> Origin {
    let endpoints: Vec<_> = mirrors.iter().map(|origin| origin.endpoint().to_owned()).collect();
    let turn = Arc::new(AtomicUsize::new(0));
    Origin::new(move |_| {
        let endpoint = &endpoints[turn.fetch_add(1, Ordering::Relaxed) % endpoints.len()];
        Reply::new(302).with("location", format!("{endpoint}/bucket/mirrored?signature=s3cret"))
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_parts_are_read_from_the_first_parts_mirror() {
    for reader in READERS {
        let mirrors = [mirror("\"a\"", blob()).await, mirror("\"b\"", blob()).await];
        let first = redirector(&[&mirrors[0], &mirrors[1]]).await;
        let location = locate(&first, Flavour::Http);
        // Each read asks the first URL once.
        for turn in 0..2 {
            let before: Vec<_> = mirrors.iter().map(|mirror| mirror.log().len()).collect();
            let outcome = reader.read(&location).await;
            let outcome = outcome.unwrap_or_else(|error| panic!("{reader:?} {turn}: {error:?}"));
            assert!(outcome.bytes == blob(), "{reader:?} {turn}");
            assert_eq!(first.log().len(), turn + 1, "{reader:?}");
            let asked = |n: usize| mirrors[n].log().len() - before[n];
            assert!(asked(turn) > 1 && asked(1 - turn) == 0, "{reader:?} {turn}");
            let mirrored = mirrors[turn].log();
            assert!(mirrored.iter().all(|asked| asked.path.starts_with("/bucket/mirrored?")));
        }
    }
}

/// A refused final URL may have expired. The first URL gives a new one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_refused_final_url_is_resolved_again() {
    for status in [401, 403, 404, 410] {
        for reader in READERS {
            let signed = Arc::new(AtomicUsize::new(0));
            let redirects = Arc::clone(&signed);
            let used = Mutex::<HashMap<String, u32>>::default();
            let origin = Origin::new(move |asked| {
                if !asked.path.contains('?') {
                    let turn = redirects.fetch_add(1, Ordering::Relaxed);
                    return Reply::new(307).with("location", format!("/signed?{turn}"));
                }
                // Each signature is valid for two requests.
                let mut used = used.lock().unwrap();
                let count = used.entry(asked.path.clone()).or_default();
                *count += 1;
                if *count > 2 {
                    return Reply::new(status);
                }
                let reply = Reply::of(asked, &blob()).with("etag", "\"a\"");
                // A read as one stream breaks repeatedly.
                reply.cut_after(66_000)
            });
            let origin = origin.await;
            let location = locate(&origin, Flavour::Http);
            let outcome = reader.read(&location).await;
            let outcome = outcome.unwrap_or_else(|error| panic!("{status} {reader:?}: {error:?}"));
            assert!(outcome.bytes == blob(), "{status} {reader:?}");
            assert!(signed.load(Ordering::Relaxed) >= 2, "{status} {reader:?}");
        }
    }
}

/// A refusal by the first URL is an error, and another mirror's version is `Changed`.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_newly_resolved_url_must_have_the_same_version() {
    for (kind, next) in [(ErrorKind::NoAccess, None), (ErrorKind::Changed, Some("\"b\""))] {
        let origin = Origin::new(move |asked| match (asked.path.as_str(), asked.nth, next) {
            ("/one", ..) if asked.is_later() => Reply::new(403),
            ("/one", ..) => {
                let reply = Reply::of(asked, &blob()).with("etag", "\"a\"");
                if asked.range(LEN).is_none() { reply.cut_after(100_000) } else { reply }
            }
            ("/two", _, Some(tag)) => Reply::of(asked, &other_blob()).with("etag", tag),
            ("/two", ..) => Reply::new(403),
            (_, 1, _) => Reply::new(302).with("location", "/one"),
            _ => Reply::new(302).with("location", "/two"),
        });
        let origin = origin.await;
        let location = locate(&origin, Flavour::Http);
        fails(Reader::Memory(4), &location, &[kind], "again").await;
    }
}

/// Any other refusal is final: the first URL is not asked again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn other_refusals_stay_with_the_final_url() {
    for (status, kind) in [
        (412, ErrorKind::Changed),
        (400, ErrorKind::Remote),
        (503, ErrorKind::Exhausted),
        (416, ErrorKind::Integrity),
    ] {
        for reader in READERS {
            let origin = Origin::new(move |asked| match asked.path.as_str() {
                "/final" if asked.is_later() => Reply::new(status),
                "/final" => {
                    let reply = Reply::of(asked, &blob()).with("etag", "\"a\"");
                    if asked.range(LEN).is_none() { reply.cut_after(100_000) } else { reply }
                }
                _ => Reply::new(302).with("location", "/final"),
            });
            let origin = origin.await;
            fails(reader, &locate(&origin, Flavour::Http), &[kind], "refused").await;
            let resolved = origin.log().iter().filter(|asked| asked.path != "/final").count();
            assert_eq!(resolved, 1, "{status} {reader:?}");
        }
    }
}

/// The caller's headers go to the first host only, also when the final URL is used directly.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn headers_go_to_a_final_url_as_they_went_the_first_time() {
    for away in [false, true] {
        let other = mirror("\"a\"", blob()).await;
        let endpoint = other.endpoint().to_owned();
        let first = Origin::new(move |asked| match asked.path.as_str() {
            "/bucket/blob" if away => {
                Reply::new(302).with("location", format!("{endpoint}/bucket/final"))
            }
            "/bucket/blob" => Reply::new(302).with("location", "/bucket/final"),
            _ => Reply::of(asked, &blob()).with("etag", "\"a\""),
        })
        .await;
        let mut options = RemoteOptions::default();
        options.headers.add("X-Token", "T0ken").unwrap();
        let url = format!("{}/bucket/blob", first.endpoint()).replace("http://", "http://me:pw@");
        let location = client_of(options).locate(&url).unwrap();
        let outcome = Reader::Memory(4).read(&location).await.unwrap();
        assert!(outcome.bytes == blob());
        let asked = if away { other.log() } else { first.log() };
        assert!(asked.len() >= 5, "{}", asked.len());
        for asked in asked {
            assert_eq!(asked.field("x-token").is_some(), !away, "{asked:?}");
            assert_eq!(asked.field("authorization").is_some(), !away, "{asked:?}");
        }
        let shown = format!("{location:?} {:?}", location.remote);
        assert!(!shown.contains("T0ken") && !shown.contains("pw"), "{shown}");
    }
}

/// A captured state holds the URL that the caller gave. It holds no signature.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_captured_read_keeps_the_first_url() {
    let mirror = mirror("\"a\"", blob()).await;
    let first = redirector(&[&mirror]).await;
    let mut channel = crate::call::read(locate(&first, Flavour::Http), ReadOptions::default());
    within(channel.next()).await.unwrap().unwrap();
    let state = channel.capture().unwrap();
    assert_eq!(state.source(), format!("{}/bucket/blob", first.endpoint()));
    assert!(!state.to_string().contains("s3cret"));
    assert!(!format!("{:?}", channel.location().remote).contains("s3cret"));
    let position = usize::try_from(state.position().unwrap()).unwrap();
    drop(channel);
    let location = locate(&first, Flavour::Http);
    let mut channel =
        crate::call::restore_as_it_was(&location, &state, &tidegate::Budget::default()).unwrap();
    let mut rest = Vec::new();
    while let Some(frame) = within(channel.next()).await.unwrap() {
        rest.extend_from_slice(&frame);
    }
    assert!(rest == blob()[position..]);
    assert_eq!(first.log().len(), 2, "each process resolves it once");
}
