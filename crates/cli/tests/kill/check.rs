//! The server's content compared with a ledger.

use std::sync::Arc;

use bytes::Bytes;
use fastrand::Rng;
use futures_util::{StreamExt as _, TryStreamExt as _};
use tidegate_core::digest::Digest;

use crate::PATIENCE;
use crate::client::{Client, Outcome};
use crate::ledger::{Ledger, Name};
use crate::life::Life;

/// Reads at a time.
const READS: usize = 16;
/// Digests of one question.
const DIGESTS_MAX: usize = 5000;

/// Compares the names of the last life and some of earlier ones. Returns how many were in flight.
pub(crate) async fn recent(
    life: &Life,
    ledger: &mut Ledger,
    random: &mut Rng,
    sample: usize,
) -> u64 {
    let names = ledger.take_recent(random, sample);
    compare(life, ledger, names).await.1
}

/// Compares everything. Returns how many entries there are.
pub(crate) async fn all(life: &Life, ledger: &mut Ledger) -> u64 {
    let names = ledger.names();
    compare(life, ledger, names).await.0
}

async fn compare(life: &Life, ledger: &mut Ledger, names: Vec<Name>) -> (u64, u64) {
    let found = tokio::time::timeout(PATIENCE, read(life, names)).await;
    let found = found.expect("the server hangs").unwrap();
    let mut in_flight = 0;
    for (name, bytes) in &found {
        in_flight += u64::from(ledger.compare(name, bytes.as_ref()));
    }
    (found.len() as u64, in_flight)
}

async fn read(life: &Life, names: Vec<Name>) -> Outcome<Vec<(Name, Option<Bytes>)>> {
    let client = Client::connect(life).await?;
    let digests: Vec<Digest> = names.iter().filter_map(digest).collect();
    let mut missing = Vec::new();
    for some in digests.chunks(DIGESTS_MAX) {
        missing.extend(client.missing(some).await?);
    }
    let missing = Arc::new(missing);
    let reads = names.into_iter().map(|name| {
        let (client, missing) = (client.clone(), Arc::clone(&missing));
        async move {
            let found = get(&client, &name).await?;
            if let Some(digest) = digest(&name) {
                let is_missing = missing.contains(&tidegate_reapi::digest::to_proto(&digest));
                assert_eq!(is_missing, found.is_none(), "FindMissing contradicts: {digest}");
            }
            Ok((name, found))
        }
    });
    futures_util::stream::iter(reads).buffer_unordered(READS).try_collect().await
}

const fn digest(name: &Name) -> Option<Digest> {
    match name {
        Name::Blob(digest) => Some(*digest),
        Name::Action(_) | Name::Value(_) => None,
    }
}

/// Blobs are read by three calls in turn, as their hashes say.
async fn get(client: &Client, name: &Name) -> Outcome<Option<Bytes>> {
    match name {
        Name::Blob(digest) => match digest.hash[0] % 3 {
            0 => client.read(digest).await,
            1 => client.batch_read(digest).await,
            _ => {
                let path = format!("/cas/{}", digest.checksum().hex());
                client.http("GET", &path, Bytes::new()).await
            }
        },
        Name::Action(action) => client.action(action).await,
        Name::Value(path) => client.http("GET", path, Bytes::new()).await,
    }
}
