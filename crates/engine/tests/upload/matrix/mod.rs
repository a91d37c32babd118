//! Every fault at every request of every way in which a blob is sent.
//!
//! | file | idea |
//! |---|---|
//! | `way` | the ways: a remote, one request or parts, with or without a condition |
//! | `fault` | the faults, and the errors that each may end in |
//! | `play` | one upload with one fault, and what must hold afterwards |
//! | `seeds` | many faults at once, from seeds |
//! | `forgotten` | the remote forgets the upload, at each of its requests |
//!
//! The first run has the fault at its request number n, either once or at each request from there
//! on. It makes the right blob, or fails with a typed error and leaves nothing under the name. The
//! second run, in another process and without the fault, makes the right blob, and sends no part
//! that the remote is known to have. n grows until a run has fewer requests, so none is left out.

pub(crate) mod fault;
mod forgotten;
pub(crate) mod play;
mod seeds;
pub(crate) mod way;

use self::fault::{FaultRow, ROWS};
use self::play::{Play, Times};
use self::way::{WAYS, Way};

/// No upload here makes as many requests; a loop beyond it would not end.
const REQUESTS_MAX: usize = 40;

async fn plays_all(name: &str) {
    let way = WAYS.iter().find(|way| way.name == name).unwrap();
    let bodies = play::bodies(way).await;
    let mut flaws = Vec::new();
    for row in ROWS.iter().filter(|row| row.fits(way.flavour)) {
        for times in [Times::Once, Times::Always] {
            // What hangs is waited for at each attempt: once shows what the others do.
            if row.hangs && times == Times::Always {
                continue;
            }
            plays_row(way, row, times, &bodies, &mut flaws).await;
        }
    }
    assert!(flaws.is_empty(), "{} flaws:\n{}", flaws.len(), flaws.join("\n"));
}

async fn plays_row(
    way: &Way,
    row: &FaultRow,
    times: Times,
    bodies: &[u64],
    flaws: &mut Vec<String>,
) {
    for nth in 1..REQUESTS_MAX {
        let body_bytes = bodies.get(nth - 1).copied().unwrap_or_default();
        let play = Play { way, row, times, nth, body_bytes };
        match play.run().await {
            Ok(true) => {}
            Ok(false) => {
                assert!(nth > bodies.len(), "{play}: an upload without a fault has more requests");
                return;
            }
            Err(flaw) => flaws.push(flaw),
        }
    }
    panic!("{} {}: more than {REQUESTS_MAX} requests", way.name, row.name);
}

#[tokio::test]
async fn one_request_to_s3() {
    plays_all("S3 put").await;
}

#[tokio::test]
async fn one_conditional_request_to_s3() {
    plays_all("S3 put, absent").await;
}

#[tokio::test]
async fn parts_to_s3() {
    plays_all("S3 parts").await;
}

#[tokio::test]
async fn conditional_parts_to_s3() {
    plays_all("S3 parts, absent").await;
}

#[tokio::test]
async fn one_request_to_google() {
    plays_all("GCS put").await;
}

#[tokio::test]
async fn one_conditional_request_to_google() {
    plays_all("GCS put, absent").await;
}

#[tokio::test]
async fn parts_to_google() {
    plays_all("GCS parts").await;
}

#[tokio::test]
async fn a_session_of_google() {
    plays_all("GCS session").await;
}

#[tokio::test]
async fn one_request_to_azure() {
    plays_all("Azure put").await;
}

#[tokio::test]
async fn blocks_to_azure() {
    plays_all("Azure blocks").await;
}

#[tokio::test]
async fn conditional_blocks_to_azure() {
    plays_all("Azure blocks, absent").await;
}

#[tokio::test]
async fn one_request_to_a_web_server() {
    plays_all("HTTP put").await;
}
