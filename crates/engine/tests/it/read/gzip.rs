//! `Content-Encoding: gzip`, delivered raw and decoded.

use std::io::{SeekFrom, Write as _};
use std::sync::Arc;

use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use tidegate::ErrorKind;
use tidegate::read::ReadState;
use tidegate_core::range::ByteRange;
use tidegate_testkit::{
    Blob, Checksums, Fault, FaultMix, Flavour, Rule, ServerOptions, pseudo_random,
};
use tokio::io::AsyncReadExt as _;

use super::{FACES, options, read};
use crate::bed::Bed;
use crate::call::ReadOptions;
use crate::faults::FLAVOURS;

fn gzip(content: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(content).unwrap();
    encoder.finish().unwrap()
}

/// Half of it compresses, and half does not.
fn content() -> Vec<u8> {
    [pseudo_random(200_000, 5).to_vec(), vec![b'x'; 200_000]].concat()
}

async fn bed(flavour: Flavour, stored: Vec<u8>) -> Bed {
    let stored = Bytes::from(stored);
    let blob = Blob::new(stored.clone()).with_content_encoding("gzip");
    Bed::with(ServerOptions::of(flavour), stored, blob).await
}

fn decoding() -> ReadOptions {
    ReadOptions { decode: Some(true), ..options() }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn gzip_is_delivered_as_stored_or_decoded() {
    for flavour in FLAVOURS {
        for face in FACES {
            for interruptions in [0, 3] {
                let label = format!("{flavour:?} {face:?} {interruptions}");
                let bed = bed(flavour, gzip(&content())).await;
                let cut = || Rule::new(Fault::CutAfter(30_000)).method("GET").times(interruptions);
                bed.server.script().push(cut());
                let outcome = read(bed.location(), options(), face).await;
                outcome.result.unwrap();
                assert!(outcome.content == bed.bytes, "{label}");
                let stored = outcome.verified;

                bed.server.script().push(cut());
                let options = decoding();
                let stats = Arc::clone(&options.stats);
                let outcome = read(bed.location(), options, face).await;
                outcome.result.unwrap_or_else(|error| panic!("{label}: {error:?}"));
                assert!(outcome.content == content(), "{label}");
                // The checksum covers the stored bytes, and the channel has read all of them.
                assert_eq!(outcome.verified, stored, "{label}");
                assert_eq!(stored.is_verified(), flavour != Flavour::Http, "{label}");
                let totals = stats.totals();
                assert_eq!((totals.restarts, totals.bytes_wasted), (interruptions, 0), "{label}");
                assert_eq!(totals.bytes_delivered, bed.bytes.len() as u64, "{label}");
            }
        }
    }
}

/// The request asks the service not to decode on the way.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_request_forbids_transcoding() {
    for (flavour, accepted) in [(Flavour::Gcs, "gzip"), (Flavour::Http, "identity")] {
        let bed = bed(flavour, gzip(&content())).await;
        read(bed.location(), decoding(), FACES[0]).await.result.unwrap();
        let log = bed.server.log();
        assert_eq!(log[0].header("accept-encoding"), Some(accepted), "{flavour:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn members_follow_each_other() {
    let parts = [content(), Vec::new(), b"tail".to_vec()];
    let mut stored: Vec<u8> = parts.iter().flat_map(|part| gzip(part)).collect();
    for zeros in [0, 1, 1000] {
        stored.extend(vec![0; zeros]);
        let bed = bed(Flavour::Gcs, stored.clone()).await;
        bed.server.script().always(Fault::SlowDrip { bytes: 7777, interval_ms: 0 });
        let outcome = read(bed.location(), decoding(), FACES[0]).await;
        outcome.result.unwrap();
        assert!(outcome.content == parts.concat());
        assert!(outcome.verified.is_verified());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn data_that_is_no_gzip_or_not_all_of_it_is_an_error() {
    let whole = gzip(&content());
    let mut flipped = whole.clone();
    flipped[100_000] ^= 1;
    let trailing = [whole.clone(), b"garbage".to_vec()].concat();
    let cases = [
        ("short by one", whole[..whole.len() - 1].to_vec()),
        ("header alone", whole[..5].to_vec()),
        ("nothing", Vec::new()),
        ("flipped", flipped),
        ("trailing", trailing),
        ("not encoded", content()),
    ];
    for (name, stored) in cases {
        for face in FACES {
            let bed = bed(Flavour::Gcs, stored.clone()).await;
            let outcome = read(bed.location(), decoding(), face).await;
            let error = outcome.result.expect_err(name);
            assert_eq!(error.kind(), ErrorKind::Integrity, "{name} {face:?}: {error:?}");
            // A raw read delivers the stored bytes.
            let outcome = read(bed.location(), options(), face).await;
            outcome.result.unwrap();
            assert!(outcome.content == bed.bytes, "{name}");
        }
    }
    // A wrong checksum of the stored bytes is found before the end is delivered, also when
    // decoding.
    let stored = Bytes::from(whole);
    let blob =
        Blob::new(stored.clone()).with_content_encoding("gzip").with_checksums(Checksums::Wrong);
    let bed = Bed::with(ServerOptions::of(Flavour::Gcs), stored, blob).await;
    let error = read(bed.location(), decoding(), FACES[0]).await.result.unwrap_err();
    assert!(error.to_string().contains("expected crc32c"), "{error}");
}

/// A small blob that decodes to a large one is delivered in small pieces.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_decompression_bomb_is_delivered_in_pieces() {
    let bomb = gzip(&vec![0; 64 << 20]);
    assert!(bomb.len() < 1 << 20);
    let bed = bed(Flavour::Gcs, bomb).await;
    let mut channel = crate::call::read(bed.location(), decoding());
    let mut total = 0;
    while let Some(piece) = channel.next().await.unwrap() {
        assert!(piece.len() <= 64 << 10 && piece.iter().all(|byte| *byte == 0));
        total += piece.len();
    }
    assert_eq!((total, channel.position()), (64 << 20, Some(64 << 20)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn positions_are_those_of_the_content() {
    let bed = bed(Flavour::Gcs, gzip(&content())).await;
    let mut channel = crate::call::read(bed.location(), decoding());
    channel.read_exact(&mut [0; 1000]).await.unwrap();
    assert_eq!(channel.seek(SeekFrom::Current(0)).await.unwrap(), 1000);
    for to in [SeekFrom::Start(0), SeekFrom::Current(1), SeekFrom::End(-1)] {
        let error = channel.seek(to).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{to:?}: {error:?}");
    }
    channel.limit(2000);
    let mut rest = Vec::new();
    channel.read_to_end(&mut rest).await.unwrap();
    assert_eq!(rest, content()[1000..2000]);
    assert!(!channel.verified().is_verified());
    for range in [ByteRange::From(1), ByteRange::Last(9)] {
        let mut channel = crate::call::read(bed.location(), ReadOptions { range, ..decoding() });
        assert_eq!(channel.next().await.unwrap_err().kind(), ErrorKind::Unsupported);
    }
    let range = ByteRange::Bounded(0..2000);
    let outcome = read(bed.location(), ReadOptions { range, ..decoding() }, FACES[0]).await;
    assert_eq!(outcome.content, content()[..2000]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_decoded_read_is_carried() {
    let bed = bed(Flavour::Gcs, gzip(&content())).await;
    let mut channel = crate::call::read(bed.location(), decoding());
    let mut read = vec![0; 123_456];
    channel.read_exact(&mut read).await.unwrap();
    for _ in 0..2 {
        let state: ReadState = channel.capture().unwrap().to_string().parse().unwrap();
        assert_eq!(state.position(), Some(123_456));
        channel =
            crate::call::restore_as_it_was(&bed.location(), &state, &tidegate::Budget::default())
                .unwrap();
        assert_eq!(channel.position(), Some(123_456));
    }
    channel.read_to_end(&mut read).await.unwrap();
    assert!(read == content());
    assert!(channel.verified().is_verified());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_blob_without_gzip_coding_is_delivered_unchanged() {
    let bed = Bed::new(ServerOptions::of(Flavour::S3), 300_000).await;
    for (range, bytes) in super::matrix::ranges() {
        let outcome = read(bed.location(), ReadOptions { range, ..decoding() }, FACES[0]).await;
        outcome.result.unwrap();
        assert!(outcome.content == bed.bytes[bytes]);
    }
    let mut channel = crate::call::read(bed.location(), decoding());
    channel.seek(SeekFrom::End(-5)).await.unwrap();
    let mut rest = Vec::new();
    channel.read_to_end(&mut rest).await.unwrap();
    assert_eq!(rest, bed.bytes[299_995..]);
    let blob = Blob::new(bed.bytes.clone()).with_content_encoding("br");
    let bed = Bed::with(ServerOptions::of(Flavour::S3), bed.bytes.clone(), blob).await;
    let error = read(bed.location(), decoding(), FACES[0]).await.result.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert!(error.to_string().contains("br"), "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn decoding_survives_random_faults() {
    for seed in 0..20 {
        let bed = bed(FLAVOURS[seed % 3], gzip(&content())).await;
        bed.server.script().random(seed as u64, FaultMix::recoverable(0.5));
        let mut options = decoding();
        options.retry.attempts_max = 8;
        let outcome = read(bed.location(), options, FACES[seed / 3 % 3]).await;
        outcome.result.unwrap_or_else(|error| panic!("seed {seed}: {error:?}"));
        assert!(outcome.content == content(), "seed {seed}");
    }
}
