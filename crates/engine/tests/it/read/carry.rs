//! Capture and restore.

use std::io::SeekFrom;

use tidegate::read::{ReadChannel, ReadState, Verification, Verify};
use tidegate::{Client, ErrorKind, Unverified};
use tidegate_core::checksum::{ChecksumAlgorithm, Checksummer};
use tidegate_core::range::ByteRange;
use tidegate_core::retry::RetryPolicy;
use tidegate_testkit::{
    Blob, Checksums, Fault, Flavour, HttpDigests, Rule, ServerOptions, pseudo_random,
};
use tokio::io::AsyncReadExt as _;

use super::options;
use crate::bed::Bed;
use crate::call::ReadOptions;

const LEN: usize = 300_000;

/// Restores from text with everything else recreated, as another process would.
fn carried(channel: &mut ReadChannel, bed: &Bed) -> ReadChannel {
    let text = channel.capture().unwrap().to_string();
    let state: ReadState = text.parse().unwrap();
    assert_eq!(state.to_string(), text);
    crate::call::restore_as_it_was(&bed.location(), &state, &tidegate::Budget::default()).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_read_continues_in_another_process() {
    for flavour in [Flavour::Http, Flavour::Gcs, Flavour::S3] {
        let bed = Bed::new(ServerOptions::of(flavour), LEN).await;
        let mut channel = crate::call::read(bed.location(), options());
        let mut content = Vec::new();
        // Pieces that end within frames, so that the channel holds bytes when it is captured.
        for count in [0, 1, 999, 100_000, 123_456, 1] {
            let mut piece = vec![0; count];
            channel.read_exact(&mut piece).await.unwrap();
            content.extend_from_slice(&piece);
            let captured = channel.capture().unwrap();
            assert_eq!(captured.position(), Some(content.len() as u64));
            channel = carried(&mut channel, &bed);
            assert_eq!(channel.position(), Some(content.len() as u64));
        }
        channel.read_to_end(&mut content).await.unwrap();
        assert!(content == bed.bytes, "{flavour:?}");
        let verified = channel.verified().is_verified();
        assert_eq!(verified, flavour != Flavour::Http, "{flavour:?}: {:?}", channel.verified());
        // The same at the end.
        let mut channel = carried(&mut channel, &bed);
        assert!(channel.next().await.unwrap().is_none());
        assert_eq!(channel.verified().is_verified(), verified, "{flavour:?}");
    }
}

/// The captured checksum covers the bytes before the position, so damage before the capture is
/// found after it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn damage_before_a_capture_is_found_after_it() {
    let bed = Bed::new(ServerOptions::of(Flavour::Gcs), LEN).await;
    bed.server.script().next(Fault::FlipBit(500));
    let mut channel = crate::call::read(bed.location(), options());
    channel.read_exact(&mut vec![0; 1000]).await.unwrap();
    let mut channel = carried(&mut channel, &bed);
    let error = channel.read_to_end(&mut Vec::new()).await.unwrap_err();
    assert_eq!(super::engine_error(error).kind(), ErrorKind::Integrity);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_options_are_carried() {
    let bed = Bed::new(ServerOptions::of(Flavour::Gcs), LEN).await;
    let options = ReadOptions {
        verify: Verify::Off,
        buffer_bytes: Some(123),
        drain_bytes_max: Some(456),
        hedge_ms: Some(789),
        retry: RetryPolicy { attempts_max: 3, stall_ms_max: 99, ..RetryPolicy::default() },
        ..options()
    };
    let mut channel = crate::call::read(bed.location(), options.clone());
    channel.read_exact(&mut [0; 10]).await.unwrap();
    channel.limit(200);
    let state = channel.capture().unwrap();
    let text = state.to_string();
    for chosen in [
        r#""buffer_bytes":123"#,
        r#""drain_bytes_max":456"#,
        r#""hedge_ms":789"#,
        r#""verify":"off""#,
        r#""attempts_max":3"#,
        r#""stall_ms_max":99"#,
    ] {
        assert!(text.contains(chosen), "{chosen}: {text}");
    }
    let restored = Client::default().restore(&bed.location(), &state).open_blocking();
    let mut channel = restored.unwrap();
    assert_eq!(channel.capture().unwrap().to_string(), text, "with the same options");
    let rest = move || {
        let mut rest = Vec::new();
        std::io::Read::read_to_end(&mut channel, &mut rest).unwrap();
        rest
    };
    let rest = tokio::task::spawn_blocking(rest).await.unwrap();
    assert_eq!(rest, bed.bytes[10..200]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_read_of_the_last_bytes_is_carried_before_and_after_the_first_response() {
    let bed = Bed::new(ServerOptions::of(Flavour::S3), LEN).await;
    let range = ByteRange::Last(1000);
    let mut channel = crate::call::read(bed.location(), ReadOptions { range, ..options() });
    let mut channel = carried(&mut channel, &bed);
    assert_eq!(channel.position(), None);
    let mut content = vec![0; 300];
    channel.read_exact(&mut content).await.unwrap();
    let mut channel = carried(&mut channel, &bed);
    channel.read_to_end(&mut content).await.unwrap();
    assert!(content == bed.bytes[LEN - 1000..]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_newer_or_damaged_state_is_refused() {
    let bed = Bed::new(ServerOptions::of(Flavour::Gcs), LEN).await;
    let mut channel = crate::call::read(bed.location(), options());
    channel.read_exact(&mut [0; 100]).await.unwrap();
    let text = channel.capture().unwrap().to_string();
    let refused = |text: &str| text.parse::<ReadState>().unwrap_err();
    // Text that is cut at any byte, or has any byte changed.
    for at in 0..text.len() {
        let error = refused(&text[..at]);
        assert!(matches!(error.kind(), ErrorKind::Integrity | ErrorKind::Invalid), "{error:?}");
        let mut bytes = text.clone().into_bytes();
        bytes[at] ^= 1;
        if let Ok(other) = String::from_utf8(bytes) {
            refused(&other);
        }
    }
    let newer = text.replace("tidegate-read-1 ", "tidegate-read-2 ");
    let error = refused(&newer);
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert!(error.to_string().contains("expected format 1, got 2"), "{error}");
    assert_eq!(refused("tidegate-read-99999999999 x").kind(), ErrorKind::Integrity);
    // Serde gives the same text.
    let state: ReadState = text.parse().unwrap();
    let json = serde_json::to_string(&state).unwrap();
    assert_eq!(serde_json::from_str::<ReadState>(&json).unwrap(), state);
    assert!(serde_json::from_str::<ReadState>(&json.replace("bucket", "tekcub")).is_err());
}

/// The state with some members changed, and a seal that fits the change.
fn forged(state: &ReadState, changes: &[(&str, serde_json::Value)]) -> ReadState {
    let text = state.to_string();
    let (_, json) = text.split_once(" {").unwrap();
    let mut content: serde_json::Value = serde_json::from_str(&format!("{{{json}")).unwrap();
    for (member, value) in changes {
        content[*member] = value.clone();
    }
    let json = content.to_string();
    let seal = Checksummer::of(ChecksumAlgorithm::Crc32c, json.as_bytes()).unwrap().hex();
    format!("tidegate-read-1 {seal} {json}").parse().unwrap()
}

/// Nothing follows a position beyond the end. Without a version, nothing ties the rest of the blob
/// to the delivered bytes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_state_that_cannot_be_continued_is_refused() {
    use serde_json::{Value, json};
    let bed = Bed::new(ServerOptions::of(Flavour::Gcs), LEN).await;
    let mut channel = crate::call::read(bed.location(), options());
    channel.read_exact(&mut [0; 100]).await.unwrap();
    let state = channel.capture().unwrap();
    let restored = |changes: &[(&str, Value)]| {
        let state = forged(&state, changes);
        crate::call::restore_as_it_was(&bed.location(), &state, &tidegate::Budget::default())
            .map(drop)
    };
    let start = |position: u64| ("position", json!({ "start": position }));
    restored(&[]).unwrap();
    restored(&[start(LEN as u64)]).unwrap();
    restored(&[start(LEN as u64 + 1), ("len_bytes", Value::Null)]).unwrap();
    restored(&[start(0), ("version", Value::Null)]).unwrap();
    restored(&[("position", json!({ "end": 100 })), ("version", Value::Null)]).unwrap();
    for changes in [
        vec![start(LEN as u64 + 1)],
        vec![start(u64::MAX)],
        vec![("len_bytes", json!(99))],
        vec![("delivered_end", json!(LEN as u64 + 1))],
        vec![("version", Value::Null)],
        vec![start(1), ("version", Value::Null), ("len_bytes", Value::Null)],
        vec![start(1), ("version", Value::Null), ("decoded", json!(true))],
    ] {
        let error = restored(&changes).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid, "{changes:?}: {error:?}");
        assert!(error.hint().unwrap().contains("begin again"), "{changes:?}: {error:?}");
    }
    // A capture that could not be restored fails, too.
    channel.seek(SeekFrom::Start(LEN as u64 + 1)).await.unwrap();
    assert_eq!(channel.capture().unwrap_err().kind(), ErrorKind::Invalid);
    channel.seek(SeekFrom::Start(LEN as u64)).await.unwrap();
    assert!(carried(&mut channel, &bed).next().await.unwrap().is_none());
    let mut channel = crate::call::read(bed.location(), options());
    channel.seek(SeekFrom::Start(1)).await.unwrap();
    assert_eq!(channel.capture().unwrap_err().kind(), ErrorKind::Unsupported);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_read_of_a_changed_blob_is_not_continued() {
    for flavour in [Flavour::Http, Flavour::Gcs, Flavour::S3] {
        let bed = Bed::new(ServerOptions::of(flavour), LEN).await;
        let mut channel = crate::call::read(bed.location(), options());
        channel.read_exact(&mut [0; 100]).await.unwrap();
        let mut channel = carried(&mut channel, &bed);
        bed.server.replace(bed.path(), Blob::new(pseudo_random(LEN, 8)).with_version(2));
        let error = channel.next().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Changed, "{flavour:?}: {error:?}");
        // Another blob is refused at once.
        let state = channel.capture().unwrap();
        let other = Bed::new(ServerOptions::of(Flavour::Azure), LEN).await.location();
        let error = crate::call::restore(other, &state, options()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid, "{error:?}");
        assert!(error.to_string().contains("az://bucket/blob"), "{error}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_state_holds_no_secrets() {
    let bed = Bed::new(ServerOptions::of(Flavour::Http), LEN).await;
    let url = format!("{}?X-Signature=secret", bed.server.url(bed.path()));
    let url = url.replace("http://", "http://me:secret@");
    let location =
        crate::call::client_of(tidegate::remote::RemoteOptions::default()).locate(&url).unwrap();
    let mut channel = crate::call::read(location, options());
    channel.read_exact(&mut [0; 100]).await.unwrap();
    let text = channel.capture().unwrap().to_string();
    assert!(!text.contains("secret"), "{text}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn checksums_with_a_saved_state_are_carried_and_the_others_are_reported() {
    for algorithm in ChecksumAlgorithm::ALL.into_iter().filter(|one| one.is_computable()) {
        let bed = Bed::new(ServerOptions::of(Flavour::Http), LEN).await;
        let sum = Checksummer::of(algorithm, &bed.bytes).unwrap();
        let options = || ReadOptions { verify: Verify::Against(sum.clone()), ..options() };
        for len in [1, 63, 64, 65, 1000, LEN] {
            let mut channel = crate::call::read(bed.location(), options());
            channel.read_exact(&mut vec![0; len]).await.unwrap();
            let mut channel = carried(&mut channel, &bed);
            channel.read_to_end(&mut Vec::new()).await.unwrap();
            match channel.verified() {
                Verification::Verified(verified) => assert_eq!(verified, sum),
                Verification::Unverified(reason @ Unverified::NotCarried(_)) => {
                    assert_eq!(algorithm, ChecksumAlgorithm::Blake3, "{reason}");
                    assert!(reason.to_string().contains("blake3"), "{reason}");
                }
                other => panic!("{algorithm} {len}: {other:?}"),
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn damage_is_found_across_a_capture_whatever_the_sum() {
    // Azure keeps only MD5, and this server only SHA-256.
    let digests = HttpDigests { repr_digest: true, content_md5: false };
    for server in
        [ServerOptions::of(Flavour::Azure), ServerOptions { digests, ..ServerOptions::default() }]
    {
        let bytes = pseudo_random(LEN, 7);
        let blob = Blob::new(bytes.clone()).with_checksums(Checksums::Correct);
        let bed = Bed::with(server, bytes, blob).await;
        for flip in [10, 500] {
            bed.server.script().clear();
            bed.server.script().push(Rule::new(Fault::FlipBit(flip)).always());
            let mut channel = crate::call::read(bed.location(), options());
            channel.read_exact(&mut [0; 100]).await.unwrap();
            let mut channel = carried(&mut channel, &bed);
            let error = channel.read_to_end(&mut Vec::new()).await.unwrap_err();
            let error = super::engine_error(error);
            assert_eq!(error.kind(), ErrorKind::Integrity, "{flip}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_a_seek_a_captured_state_does_not_claim_the_whole_blob() {
    let bed = Bed::new(ServerOptions::of(Flavour::Gcs), LEN).await;
    let mut channel = crate::call::read(bed.location(), options());
    channel.read_exact(&mut [0; 100]).await.unwrap();
    channel.seek(SeekFrom::Start(200)).await.unwrap();
    let mut channel = carried(&mut channel, &bed);
    channel.read_to_end(&mut Vec::new()).await.unwrap();
    assert!(matches!(channel.verified(), Verification::Unverified(_)), "{:?}", channel.verified());
    // A seek also ends a verification that had succeeded.
    let mut channel = crate::call::read(bed.location(), options());
    channel.read_to_end(&mut Vec::new()).await.unwrap();
    channel.seek(SeekFrom::Start(200)).await.unwrap();
    let mut channel = carried(&mut channel, &bed);
    channel.read_to_end(&mut Vec::new()).await.unwrap();
    assert!(matches!(channel.verified(), Verification::Unverified(_)), "{:?}", channel.verified());
}
