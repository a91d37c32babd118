//! A cache that stops during an upload. The stall limit holds for every call of the upload, and all
//! attempts end in the time that the policy gives them.
//!
//! The clock is paused from the first silence on, and jumps to the next timer.

use std::sync::Arc;
use std::time::Duration;

use tidegate::ErrorKind;
use tidegate::chunked::ChunkStore;
use tidegate::remote::RemoteOptions;
use tidegate::remote::reapi::ReapiOptions as CacheOptions;
use tidegate_core::retry::RetryPolicy;
use tidegate_testkit::pseudo_random;
use tidegate_testkit::reapi::{
    Code, Cut, GrpcStatus, ReapiFault, ReapiOptions, ReapiRule, ReapiServer, Rpc,
};
use tokio::time::Instant;

use crate::call::{UploadOptions, client_of, upload};

const ATTEMPTS: u32 = 3;
const STALL: Duration = Duration::from_secs(1);
/// The time that a cache gets beyond the stall limit for 16 MiB, and the pauses between attempts.
const MORE: Duration = Duration::from_millis(600);

/// Uploads `len` bytes to a cache that is silent at this call. Returns the time from the silence to
/// the error.
async fn silent(rpc: Rpc, len: usize, batch_bytes_max: u64, chunks: bool) -> Duration {
    let options = ReapiOptions { batch_bytes_max, ..ReapiOptions::default() };
    let server = ReapiServer::start(options).await.unwrap();
    let script = server.script();
    if rpc == Rpc::QueryWriteStatus {
        let cut = Cut::Status(GrpcStatus::new(Code::Unavailable, "midway"));
        script.next(Rpc::Write, ReapiFault::CutAfter { bytes: 1 << 20, cut });
    }
    script.push(ReapiRule::new(ReapiFault::Lost).rpc(rpc).always());
    let reapi = CacheOptions { chunks, ..CacheOptions::default() };
    let remotes = client_of(RemoteOptions { reapi, ..RemoteOptions::default() });
    let store: Arc<dyn ChunkStore> = crate::call::store(&remotes, &server.url()).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    std::fs::write(&file, pseudo_random(len, 1)).unwrap();
    let stall_ms = u64::try_from(STALL.as_millis()).unwrap();
    let retry = RetryPolicy {
        attempts_max: ATTEMPTS,
        delay_ms_min: 1,
        delay_ms_max: 5,
        stall_ms_max: stall_ms,
        header_ms_max: stall_ms,
        ..RetryPolicy::default()
    };
    let options = UploadOptions { retry, ..UploadOptions::default() };
    let stand = async {
        server.counted(|counts| counts.calls(rpc) > 0).await;
        tokio::time::pause();
        Instant::now()
    };
    let (outcome, silent_since) = tokio::join!(upload(&store, &file, &options), stand);
    let took = silent_since.elapsed();
    tokio::time::resume();
    let error = outcome.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Exhausted, "{rpc:?}: {error:?}");
    took
}

#[tokio::test]
async fn the_stall_limit_holds_for_every_call_of_an_upload() {
    const MIB: usize = 1 << 20;
    const BATCH: u64 = 4 << 20;
    for (rpc, len, batch_bytes_max, chunks) in [
        (Rpc::Capabilities, 3 * MIB, BATCH, true),
        (Rpc::FindMissing, 3 * MIB, BATCH, true),
        (Rpc::BatchUpdate, 3 * MIB, BATCH, true),
        (Rpc::BatchUpdate, 3 * MIB, BATCH, false),
        // The whole upload fits into the buffers on its way, or it does not.
        (Rpc::Write, 3 * MIB, 1, true),
        (Rpc::Write, 16 * MIB, 1, false),
        (Rpc::QueryWriteStatus, 3 * MIB, 1, false),
        (Rpc::Splice, 3 * MIB, BATCH, true),
    ] {
        let took = silent(rpc, len, batch_bytes_max, chunks).await;
        assert!(took <= ATTEMPTS * (STALL + MORE), "{rpc:?} {len}: {took:?}");
    }
}
