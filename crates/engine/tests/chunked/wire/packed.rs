//! Chunks that are sent compressed with zstd.

use bytes::Bytes;
use tidegate::budget::{Budget, BudgetOptions};
use tidegate::remote::reapi::{Compression, ReapiOptions};
use tidegate_testkit::pseudo_random;
use tidegate_testkit::reapi::{
    Code, Cut, GrpcStatus, HashFunction, ReapiFault, ReapiOptions as ServerOptions, ReapiRule, Rpc,
};

use super::bed::{Bed, Way};
use crate::call::{ChunkedDownloadOptions, client_with};

/// Compresses to less than half, and is cut into chunks that differ.
fn text() -> Bytes {
    pseudo_random(64 << 10, 1).iter().flat_map(|byte| format!("{byte:08b}").into_bytes()).collect()
}

async fn bed(options: ServerOptions) -> Bed {
    let client = ReapiOptions { compression: Compression::Always, ..ReapiOptions::default() };
    let bed = Bed::with(options, &client).await;
    // Each of 16 streams takes 8.5 MiB for decompression.
    let budget = Budget::new(BudgetOptions { requests: 64, bytes: 256 << 20 });
    Bed { client: client_with(&budget), ..bed }
}

#[tokio::test]
async fn compressed_chunks_arrive_unchanged_and_take_fewer_bytes() {
    for way in Way::ALL {
        for offered in [true, false] {
            let bed = bed(ServerOptions { zstd: offered, ..way.options() }).await;
            let data = text();
            bed.upload(&data, &bed.up()).await.unwrap();
            let name = HashFunction::Sha256.name(&data);
            bed.download(&name, &bed.down()).await.unwrap();
            assert_eq!(bed.arrived().as_deref(), Some(&data[..]));
            let counts = bed.server.counts();
            let less = counts.bytes_in.max(counts.bytes_out) < data.len() as u64 / 2;
            assert_eq!(less, offered, "{way:?} {} {}", counts.bytes_in, counts.bytes_out);
        }
    }
}

#[tokio::test]
async fn compressed_transfers_survive_faults() {
    let unavailable = || GrpcStatus::new(Code::Unavailable, "midway");
    for (way, rpc, fault) in [
        (Way::Batches, Rpc::BatchRead, ReapiFault::FlipBit(100)),
        (Way::Streams, Rpc::Read, ReapiFault::FlipBit(100)),
        (Way::Streams, Rpc::Read, ReapiFault::Longer(1)),
        (Way::Streams, Rpc::Read, ReapiFault::CutAfter { bytes: 50, cut: Cut::End }),
        (Way::Streams, Rpc::Read, ReapiFault::CutAfter { bytes: 50, cut: Cut::Close }),
        (
            Way::Streams,
            Rpc::Read,
            ReapiFault::CutAfter { bytes: 50, cut: Cut::Status(unavailable()) },
        ),
        (Way::Batches, Rpc::BatchUpdate, ReapiFault::Fail(unavailable())),
        (Way::Streams, Rpc::Write, ReapiFault::Fail(unavailable())),
        (Way::Streams, Rpc::Write, ReapiFault::AnswerLost),
        (
            Way::Streams,
            Rpc::Write,
            ReapiFault::CutAfter { bytes: 50, cut: Cut::Status(unavailable()) },
        ),
        (Way::Streams, Rpc::Write, ReapiFault::CutAfter { bytes: 50, cut: Cut::Close }),
    ] {
        let bed = bed(way.options()).await;
        bed.server.script().push(ReapiRule::new(fault.clone()).rpc(rpc).nth(2));
        let data = text();
        let retry = Bed::impatient();
        let up = crate::call::UploadOptions { retry: retry.clone(), ..bed.up() };
        let uploaded = bed.upload(&data, &up).await;
        uploaded.unwrap_or_else(|error| panic!("{rpc:?} {fault:?}: {error:?}"));
        let name = HashFunction::Sha256.name(&data);
        let down = ChunkedDownloadOptions { retry, ..bed.down() };
        let downloaded = bed.download(&name, &down).await;
        downloaded.unwrap_or_else(|error| panic!("{rpc:?} {fault:?}: {error:?}"));
        assert_eq!(bed.arrived().as_deref(), Some(&data[..]), "{rpc:?} {fault:?}");
        assert_eq!(bed.server.script().applied(), 1, "{rpc:?} {fault:?}");
    }
}

/// The decompression buffer of a stream is charged to the budget. If the budget is too small, the
/// bytes are sent uncompressed.
#[tokio::test]
async fn a_budget_without_room_for_a_window_gets_plain_bytes() {
    for (budget_bytes, is_packed) in [(1 << 20, false), (256 << 20, true)] {
        let mut bed = bed(Way::Streams.options()).await;
        bed.client = client_with(&Budget::new(BudgetOptions { requests: 64, bytes: budget_bytes }));
        let data = text();
        let name = bed.server.put(data.clone());
        bed.download(&name, &bed.down()).await.unwrap();
        assert_eq!(bed.arrived().as_deref(), Some(&data[..]));
        let bytes_out = bed.server.counts().bytes_out;
        assert_eq!(bytes_out < data.len() as u64 / 2, is_packed, "{bytes_out}");
        let held = bed.client.budget().held_bytes_peak();
        assert_eq!(held > 8 << 20, is_packed, "{held}");
    }
}
