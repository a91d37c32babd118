//! Random faults repeat with their seed and let a patient client through.

use tidegate_testkit::{Blob, FaultMix, Server, ServerOptions, pseudo_random};

use crate::client::{End, get};

const SHARD: usize = 10_000;

/// Fetches all shards in order and retries missing bytes. Returns the faults and the bytes.
async fn fetch(seed: u64) -> (Vec<String>, Vec<u8>) {
    let server = Server::start(ServerOptions::default()).await.unwrap();
    let data = pseudo_random(20 * SHARD, 6);
    server.put("/d", Blob::new(data.clone()));
    server.script().random(seed, FaultMix::recoverable(0.6));
    let mut got = Vec::new();
    let mut requests = 0;
    while got.len() < data.len() {
        requests += 1;
        assert!(requests < 1000, "seed {seed}: no end to the faults");
        let end = (got.len() / SHARD + 1) * SHARD;
        let reply = get(&server, "/d", &[&format!("Range: bytes={}-{}", got.len(), end - 1)]).await;
        // The kernel decides which bytes arrive before a reset; dropping them keeps the requests
        // equal.
        if reply.status == 206 && reply.end != End::Reset {
            got.extend_from_slice(&reply.body);
        }
    }
    server.idle().await;
    let faults = server.log().iter().map(|logged| format!("{:?}", logged.faults)).collect();
    (faults, got)
}

#[tokio::test]
async fn a_seed_repeats_its_faults_and_every_byte_arrives() {
    let (faults, data) = fetch(11).await;
    assert_eq!(data, pseudo_random(20 * SHARD, 6));
    assert!(faults.iter().filter(|met| *met != "[]").count() >= 10, "{faults:?}");
    assert_eq!(fetch(11).await.0, faults);
    assert_ne!(fetch(12).await.0, faults);
}
