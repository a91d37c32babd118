//! A transfer uses little more memory than it reserves from the budget.
//!
//! Each transfer runs in a process of its own, so that the system reports its memory. The process
//! is this program again, with the parameters in its environment. The cache is in the process of
//! the test.

use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use tidegate::chunked::ChunkStore;
use tidegate::remote::RemoteOptions;
use tidegate::{Budget, Form, Target};
use tidegate_core::digest::Digest;
use tidegate_core::window::WindowOptions;
use tidegate_testkit::pseudo_random;
use tidegate_testkit::reapi::{ChunkFunction, HashFunction, ReapiOptions, ReapiServer, RpcLatency};

use crate::call::{
    self, ChunkedDownloadOptions, UploadOptions, client_with, download_chunks, upload,
};

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

/// Several times what may be held: three sixteenths of the default budget, and one load more.
const LEN: u64 = 128 * MIB;
/// For other memory than the blob's bytes: code that had not run before, threads, connections.
const SLACK_BYTES: u64 = 16 * MIB;
/// Received bytes are read into the allocator's memory, and the allocator keeps some in holes.
const SLACK_DOWN_BYTES: u64 = 48 * MIB;
/// State of a chunk in flight, and the allocator's overhead for it.
const CHUNK_BYTES: u64 = KIB;

/// Environment variables with the parameters of a child process.
const URL: &str = "TIDEGATE_TEST_URL";
const FILE: &str = "TIDEGATE_TEST_FILE";
const DIGEST: &str = "TIDEGATE_TEST_DIGEST";
/// Precedes the child's report, within the other output of a test program.
const MARK: &str = "took ";

/// How chunks are sent.
#[derive(Clone, Copy, Debug)]
enum Way {
    /// Some 256 KiB each, a dozen in a request.
    Batches,
    /// Some 16 KiB each, hundreds in a request.
    Crumbs,
    /// Some 1 MiB each, in a stream of its own.
    Streams,
}

impl Way {
    const ALL: [Self; 3] = [Self::Batches, Self::Crumbs, Self::Streams];

    fn options(self) -> ReapiOptions {
        let (avg_bytes, batch_bytes_max) = match self {
            Self::Batches => (256 * KIB, 4 * MIB),
            Self::Crumbs => (16 * KIB, 4 * MIB),
            Self::Streams => (MIB, 1),
        };
        ReapiOptions {
            chunk_functions: vec![ChunkFunction::FastCdc2020 { avg_bytes, seed: 0 }],
            batch_bytes_max,
            // So that many bytes are in flight.
            latency: RpcLatency { mean_ms: 100, jitter_ms: 0 },
            trusting: true,
            ..ReapiOptions::default()
        }
    }
}

#[test]
fn memory_is_what_the_budget_holds() {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("source");
    let data = pseudo_random(usize::try_from(LEN).unwrap(), 7);
    let digest = HashFunction::Sha256.name(&data);
    std::fs::write(&source, data).unwrap();
    let digest = format!("sha256/{}/{}", digest.hash, digest.len_bytes);
    for way in Way::ALL {
        let server = runtime.block_on(ReapiServer::start(way.options())).unwrap();
        let target = folder.path().join("target");
        for (direction, file, slack) in
            [("up", &source, SLACK_BYTES), ("down", &target, SLACK_DOWN_BYTES)]
        {
            let took = took(direction, &server, file, &digest);
            let most = took.held + took.chunks * CHUNK_BYTES + slack;
            assert!(took.held > 8 * MIB, "{way:?} {direction}: nothing was in flight: {took:?}");
            assert!(took.memory <= most, "{way:?} {direction}: expected {most}, got {took:?}");
        }
    }
}

/// The memory of one transfer, in bytes.
#[derive(Debug)]
struct Took {
    chunks: u64,
    /// The peak of the bytes reserved from the budget.
    held: u64,
    /// The peak of resident memory, beyond that before the transfer.
    memory: u64,
}

fn took(direction: &str, server: &ReapiServer, file: &Path, digest: &str) -> Took {
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", &format!("memory::{direction}"), "--ignored", "--nocapture"])
        .env(URL, server.url())
        .env(FILE, file)
        .env(DIGEST, digest)
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    let line = text.lines().find_map(|line| line.split_once(MARK)).expect("the child's report").1;
    let numbers: Vec<u64> = line.split(' ').map(|number| number.parse().unwrap()).collect();
    let [chunks, held, memory] = numbers[..] else { panic!("expected three numbers, got {line}") };
    Took { chunks, held, memory }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "it is a process of another test"]
async fn up() {
    let Some((store, file, _)) = parameters().await else { return };
    let budget = Budget::default();
    let options = UploadOptions {
        window: WindowOptions::fixed(64),
        client: client_with(&budget),
        ..UploadOptions::default()
    };
    let before = resident("VmRSS:");
    let report = upload(&store, file, &options).await.unwrap();
    assert_eq!(report.form, Form::Chunks);
    print_report(report.chunks.unwrap().all.chunks, &budget, before);
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "it is a process of another test"]
async fn down() {
    let Some((store, file, digest)) = parameters().await else { return };
    let budget = Budget::default();
    let options = ChunkedDownloadOptions {
        window: WindowOptions::fixed(64),
        client: client_with(&budget),
        seed_target: Some(false),
        ..ChunkedDownloadOptions::default()
    };
    let before = resident("VmRSS:");
    let report =
        download_chunks(&store, &digest, Target::File(file.into()), &options).await.unwrap();
    print_report(report.chunks.unwrap().all.chunks, &budget, before);
}

/// The parameters of this process, if it is a child.
async fn parameters() -> Option<(Arc<dyn ChunkStore>, String, Digest)> {
    let [url, file, digest] = [URL, FILE, DIGEST].map(|name| std::env::var(name).ok());
    let store = call::cache(&url?, RemoteOptions::default()).unwrap();
    store.profile().await.unwrap();
    Some((store, file?, Digest::parse(&digest?).unwrap()))
}

#[expect(clippy::print_stdout, reason = "the parent reads it")]
fn print_report(chunks: u64, budget: &Budget, before: u64) {
    let memory = resident("VmHWM:").saturating_sub(before);
    println!("\n{MARK}{chunks} {} {memory}", budget.held_bytes_peak());
}

/// A line of this process's status, in bytes.
fn resident(name: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
    line.trim().strip_suffix(" kB").unwrap().trim().parse::<u64>().unwrap() * KIB
}
