//! Throughput of streams to and from a cache of the Remote Execution API on loopback, by the number
//! of streams and of connections. The value of `ReapiOptions::connections_max` is based on it.
//!
//! The cache is the testkit's, in threads of its own but on the same processors, and hashes
//! nothing.
//!
//!     cargo bench -p tidegate --bench reapi_streams --features http,reapi
//!
//! Without `--bench` (as `cargo test` runs it) each case moves little, once, and nothing is
//! printed.

#![expect(clippy::print_stdout, reason = "a benchmark prints its results")]

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures_util::TryStreamExt as _;
use futures_util::future::try_join_all;
use tidegate::chunked::{ChunkStore, PutRequest};
use tidegate::remote::RemoteOptions;
use tidegate::remote::reapi::ReapiOptions as CacheOptions;
use tidegate::{Budget, Client, ClientOptions, Result};
use tidegate_core::digest::{Digest, DigestFunction};
use tidegate_testkit::pseudo_random;
use tidegate_testkit::reapi::{ReapiOptions, ReapiServer};

/// Each case is repeated, and the best run counts: the machine may have been busy during the
/// others.
const ROUNDS: usize = 5;

struct Effort {
    blob_bytes: usize,
    rounds: usize,
    shows: bool,
}

fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    let measured = std::env::args().any(|word| word == "--bench");
    let effort = if measured {
        Effort { blob_bytes: 64 << 20, rounds: ROUNDS, shows: true }
    } else {
        Effort { blob_bytes: 1 << 20, rounds: 1, shows: false }
    };
    let threads = || tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let (theirs, ours) = (threads()?, threads()?);
    let options = ReapiOptions { trusting: true, ..ReapiOptions::default() };
    let server = theirs.block_on(theirs.spawn(ReapiServer::start(options)).into_inner())?;
    ours.block_on(run(&server, &effort))?;
    Ok(())
}

/// A task's result; a task that panicked ends the bench.
trait IntoInner<T> {
    fn into_inner(self) -> impl Future<Output = T>;
}

impl<T> IntoInner<T> for tokio::task::JoinHandle<T> {
    async fn into_inner(self) -> T {
        match self.await {
            Ok(value) => value,
            Err(error) => std::panic::resume_unwind(error.into_panic()),
        }
    }
}

async fn run(server: &ReapiServer, effort: &Effort) -> Result<()> {
    let blobs: Vec<Bytes> = (0..8).map(|seed| pseudo_random(effort.blob_bytes, seed)).collect();
    let digests: Vec<Digest> =
        blobs.iter().map(|bytes| Digest::of(DigestFunction::Sha256, bytes)).collect();
    if effort.shows {
        println!("connections  streams  read MiB/s  write MiB/s");
    }
    for connections_max in [1, 2, 4] {
        let reapi = CacheOptions { connections_max, ..CacheOptions::default() };
        let remote = RemoteOptions { reapi, ..RemoteOptions::default() };
        let client = Client::new(ClientOptions::default().remote(remote));
        let target = client.locate_target(&server.url())?;
        let cache = target.store().expect("the URL names a cache");
        for streams in [1, 8] {
            let (mut read, mut written) = (Duration::MAX, Duration::MAX);
            for _ in 0..effort.rounds {
                for digest in &digests {
                    server.evict(&digest.checksum().hex());
                }
                written = written.min(write(cache, &blobs[..streams], &digests).await?);
                read = read.min(read_all(cache, &digests[..streams]).await?);
            }
            if effort.shows {
                let mib = u32::try_from(effort.blob_bytes / (1 << 20) * streams).unwrap_or(0);
                let rate = |time: Duration| f64::from(mib) / time.as_secs_f64();
                let (read, written) = (rate(read), rate(written));
                println!("{connections_max:11}  {streams:7}  {read:10.0}  {written:11.0}");
            }
        }
    }
    Ok(())
}

async fn write(
    cache: &Arc<dyn ChunkStore>,
    blobs: &[Bytes],
    digests: &[Digest],
) -> Result<Duration> {
    let start = Instant::now();
    let puts = blobs.iter().zip(digests).map(|(bytes, digest)| {
        let (cache, source) = (Arc::clone(cache), Arc::new(bytes.clone()));
        let request = PutRequest::new(*digest, source);
        tokio::spawn(async move { cache.put(&request).await }).into_inner()
    });
    try_join_all(puts).await?;
    Ok(start.elapsed())
}

async fn read_all(cache: &Arc<dyn ChunkStore>, digests: &[Digest]) -> Result<Duration> {
    let start = Instant::now();
    let reads = digests.iter().map(|digest| {
        let (cache, digest) = (Arc::clone(cache), *digest);
        let read = async move {
            let body = cache.get(&digest, 0, &Budget::default()).await?;
            body.try_fold(0_u64, |sum, piece| async move { Ok(sum + piece.len() as u64) }).await
        };
        tokio::spawn(read).into_inner()
    });
    try_join_all(reads).await?;
    Ok(start.elapsed())
}
