//! Every remote into every target, whole and verified.

use tidegate::{ErrorKind, Target};
use tidegate_core::ByteRange;
use tidegate_testkit::{EtagStyle, Flavour, Framing, ServerOptions};

use crate::bed::{Bed, Collect};
use crate::call::{DownloadOptions, download};

const FLAVOURS: [Flavour; 4] = [Flavour::Http, Flavour::Gcs, Flavour::S3, Flavour::Azure];

/// Lengths around the shard's: none, one byte, one below, one exactly, one above, and many shards.
const LENS: [usize; 6] = [0, 1, 65_535, 65_536, 65_537, 1_000_003];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_is_whole_alone_and_verified() {
    for flavour in FLAVOURS {
        for len in LENS {
            let bed = Bed::new(ServerOptions::of(flavour), len).await;
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("target");
            let report = bed.fetch(Target::File(path.clone())).await.unwrap();
            assert_eq!(std::fs::read(&path).unwrap(), bed.bytes, "{flavour:?} {len}");
            assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
            assert_eq!(report.bytes, len as u64);
            assert!(report.version().is_some(), "{flavour:?} {len}");
            let kept = flavour != Flavour::Http;
            assert_eq!(
                report.is_verified(),
                kept,
                "{flavour:?} {len}: {:?}",
                report.verified.reason()
            );
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stream_gets_the_bytes_in_order() {
    for flavour in FLAVOURS {
        for len in LENS {
            let bed = Bed::new(ServerOptions::of(flavour), len).await;
            let collect = Collect::default();
            bed.fetch(collect.target()).await.unwrap();
            assert_eq!(collect.bytes(), bed.bytes, "{flavour:?} {len}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn memory_holds_the_blob() {
    for flavour in FLAVOURS {
        for len in LENS {
            let bed = Bed::new(ServerOptions::of(flavour), len).await;
            let report = bed.fetch(Target::Memory).await.unwrap();
            assert_eq!(report.memory.unwrap(), bed.bytes, "{flavour:?} {len}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_discarded_download_is_verified() {
    for flavour in FLAVOURS {
        let bed = Bed::new(ServerOptions::of(flavour), 500_000).await;
        let report = bed.fetch(Target::Discard).await.unwrap();
        assert_eq!(report.is_verified(), flavour != Flavour::Http, "{flavour:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_blob_below_one_shard_takes_one_request_and_others_no_stat() {
    for (flavour, len, requests) in [
        (Flavour::Http, 1000, 1),
        (Flavour::Gcs, 1000, 1),
        // S3 gives the whole object's checksum only to a HEAD.
        (Flavour::S3, 1000, 2),
        (Flavour::Http, 4 * 65_536, 4),
        (Flavour::Gcs, 4 * 65_536, 4),
    ] {
        let bed = Bed::new(ServerOptions::of(flavour), len).await;
        let report = bed.fetch(Target::Discard).await.unwrap();
        bed.server.idle().await;
        assert_eq!(bed.server.requests(), requests, "{flavour:?} {len}");
        assert_eq!(report.totals.requests, requests as u64);
        assert_eq!(report.totals.restarts, 0);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_without_a_length_is_fetched_to_its_end() {
    for framing in [Framing::Chunked, Framing::UntilClose] {
        for (etag, last_modified) in [(EtagStyle::None, false), (EtagStyle::Strong, true)] {
            for len in LENS {
                let options =
                    ServerOptions { framing, etag, last_modified, ..ServerOptions::default() };
                let bed = Bed::new(options, len).await;
                let folder = tempfile::tempdir().unwrap();
                let path = folder.path().join("target");
                bed.fetch(Target::File(path.clone())).await.unwrap();
                assert_eq!(std::fs::read(&path).unwrap(), bed.bytes, "{framing:?} {len}");
                let collect = Collect::default();
                bed.fetch(collect.target()).await.unwrap();
                assert_eq!(collect.bytes(), bed.bytes, "{framing:?} {etag:?} {len}");
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_remote_delivers_the_last_bytes_and_an_empty_range_at_the_end() {
    for flavour in FLAVOURS {
        let bed = Bed::new(ServerOptions::of(flavour), 200_000).await;
        for (range, expected) in [
            (ByteRange::last(5), &bed.bytes[199_995..]),
            (ByteRange::last(1_000_000), &bed.bytes[..]),
            (ByteRange::From(200_000), &[]),
            (ByteRange::From(100_000), &bed.bytes[100_000..]),
        ] {
            let collect = Collect::default();
            let options = DownloadOptions { range: Some(range.clone()), ..Bed::options() };
            download(&bed.location(), collect.target(), &options).await.unwrap();
            assert_eq!(collect.bytes(), expected, "{flavour:?} {range}");
        }
        let options = DownloadOptions { range: Some(ByteRange::From(200_001)), ..Bed::options() };
        let error = download(&bed.location(), Target::Discard, &options).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::OutOfRange, "{flavour:?}");
    }
}
