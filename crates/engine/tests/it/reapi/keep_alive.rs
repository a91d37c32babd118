//! Connections that go silent, as when a firewall has dropped their state. No error reports this,
//! so the client sends PINGs.
//!
//! While only timers are left to wait for, the paused clock jumps to the next one.

use std::sync::Arc;
use std::time::Duration;

use bytes::BytesMut;
use tidegate::chunked::ChunkStore;
use tidegate::remote::RemoteOptions;
use tidegate::remote::reapi::ReapiOptions as CacheOptions;
use tidegate::{Budget, Error, ErrorKind};
use tidegate_core::retry::RetryClass;
use tidegate_testkit::Gate;
use tidegate_testkit::reapi::{ReapiFault, ReapiOptions, ReapiServer, Rpc};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::bed::{connect, digest, noise, whole};
use crate::call::client_of;

/// Not the default, so that the test shows the option's effect.
const SILENCE_MS: u64 = 7_000;
/// The time that a server has to answer a PING, as the option's description says.
const ANSWER_MS: u64 = 20_000;

fn asking_after(ms: Option<u64>) -> CacheOptions {
    CacheOptions { keep_alive_ms: ms, connections_max: 1, ..CacheOptions::default() }
}

/// The error counts as a broken connection.
fn assert_given_up(error: &Error, since: Instant) {
    assert_eq!(error.kind(), ErrorKind::Transport, "{error:?}");
    assert_eq!(error.retry(), &RetryClass::Now, "{error:?}");
    // Measured by the paused clock, so the machine's speed has no effect.
    let waited = since.elapsed();
    let least = Duration::from_millis(SILENCE_MS);
    let most = Duration::from_millis(SILENCE_MS + ANSWER_MS + 1_000);
    assert!((least..most).contains(&waited), "{waited:?}");
}

#[tokio::test]
async fn a_call_on_a_silent_connection_fails_within_the_limit() {
    let server = ReapiServer::start(ReapiOptions::default()).await.unwrap();
    let cache = connect(&server, asking_after(Some(SILENCE_MS)));
    let name = digest(&server.put(&b"data"[..]));
    cache.missing(&[name]).await.unwrap();
    server.script().next(Rpc::FindMissing, ReapiFault::Silence);
    let asking = async {
        let error = cache.missing(&[name]).await.unwrap_err();
        tokio::time::resume();
        error
    };
    let silenced = async {
        server.counted(|counts| counts.calls(Rpc::FindMissing) == 2).await;
        tokio::time::pause();
        Instant::now()
    };
    let (error, since) = tokio::join!(asking, silenced);
    assert_given_up(&error, since);
    assert!(error.chain().contains("keep-alive timed out"), "{error:?}");
    // The next call uses another connection.
    assert!(cache.missing(&[name]).await.unwrap().is_empty());
    assert_eq!(server.connections(), 2);
}

#[tokio::test]
async fn a_body_whose_connection_goes_silent_ends_with_an_error() {
    let server = ReapiServer::start(ReapiOptions::default()).await.unwrap();
    let cache = connect(&server, asking_after(Some(SILENCE_MS)));
    let (name, bytes) = noise(1_000_000, 4);
    server.put(bytes.clone());
    let gate = Gate::new();
    let held = ReapiFault::HoldAfter { bytes: 500_000, gate: gate.clone() };
    server.script().next(Rpc::Read, held);
    let reading = async {
        let body = cache.get(&name, 0, &Budget::default()).await.unwrap();
        let error = whole(body).await.unwrap_err();
        tokio::time::resume();
        error
    };
    let silenced = async {
        gate.reached(1).await;
        server.script().next(Rpc::FindMissing, ReapiFault::Silence);
        let other = async { cache.missing(&[name]).await };
        let seen = async {
            server.counted(|counts| counts.calls(Rpc::FindMissing) == 1).await;
            tokio::time::pause();
            Instant::now()
        };
        let (missing, since) = tokio::join!(other, seen);
        assert_given_up(&missing.unwrap_err(), since);
        since
    };
    let (error, since) = tokio::join!(reading, silenced);
    assert_given_up(&error, since);
    assert!(whole(cache.get(&name, 0, &Budget::default()).await.unwrap()).await.unwrap() == bytes);
}

/// A listener that accepts connections and never sends a byte.
async fn mute() -> (Arc<dyn ChunkStore>, JoinSet<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("grpc://{}", listener.local_addr().unwrap());
    let mut tasks = JoinSet::new();
    tasks.spawn(async move {
        let mut held = Vec::new();
        loop {
            held.push(listener.accept().await);
        }
    });
    let reapi = asking_after(Some(SILENCE_MS));
    let remotes = client_of(RemoteOptions { reapi, ..RemoteOptions::default() });
    (crate::call::store(&remotes, &url).unwrap(), tasks)
}

#[tokio::test]
async fn a_server_that_accepts_and_sends_nothing_is_given_up() {
    let (cache, _listening) = mute().await;
    tokio::time::pause();
    let since = Instant::now();
    let error = cache.profile().await.unwrap_err();
    assert_given_up(&error, since);
}

#[tokio::test]
async fn keep_alive_can_be_switched_off() {
    let server = ReapiServer::start(ReapiOptions::default()).await.unwrap();
    let cache = connect(&server, asking_after(None));
    let (name, _) = noise(1, 5);
    server.script().next(Rpc::FindMissing, ReapiFault::Silence);
    let day = Duration::from_hours(24);
    let asking = async { tokio::time::timeout(day, cache.missing(&[name])).await };
    let silenced = async {
        server.counted(|counts| counts.calls(Rpc::FindMissing) == 1).await;
        tokio::time::pause();
    };
    let (asked, ()) = tokio::join!(asking, silenced);
    assert!(asked.is_err(), "{asked:?}");
}

/// A caller gives up on a call and retries before keep-alive has found the silence. The retry does
/// not use the silent connection.
#[tokio::test]
async fn after_a_call_on_a_silent_connection_is_cancelled_the_next_uses_another() {
    let server = ReapiServer::start(ReapiOptions::default()).await.unwrap();
    let cache = connect(&server, asking_after(None));
    let name = digest(&server.put(&b"data"[..]));
    server.script().next(Rpc::FindMissing, ReapiFault::Silence);
    let given_up = async {
        let asked = tokio::time::timeout(Duration::from_secs(2), cache.missing(&[name])).await;
        tokio::time::resume();
        asked
    };
    let silenced = async {
        server.counted(|counts| counts.calls(Rpc::FindMissing) == 1).await;
        tokio::time::pause();
    };
    let (asked, ()) = tokio::join!(given_up, silenced);
    assert!(asked.is_err(), "{asked:?}");
    let next = tokio::time::timeout(Duration::from_mins(1), cache.missing(&[name])).await;
    assert!(next.unwrap().unwrap().is_empty());
    assert_eq!(server.connections(), 2);
}

/// A call that waits long for a live server is no sign of silence.
#[tokio::test]
async fn a_connection_that_delivered_bytes_is_kept_when_a_call_is_cancelled() {
    let server = ReapiServer::start(ReapiOptions::default()).await.unwrap();
    let cache = connect(&server, asking_after(None));
    let name = digest(&server.put(&b"data"[..]));
    let gate = Gate::new();
    server.script().next(Rpc::FindMissing, ReapiFault::Hold(gate.clone()));
    let held = async { cache.missing(&[name]).await };
    let others = async {
        gate.reached(1).await;
        tokio::time::pause();
        tokio::time::advance(Duration::from_mins(1)).await;
        tokio::time::resume();
        cache.missing(&[name]).await.unwrap();
    };
    tokio::select! {
        held = held => panic!("{held:?}"),
        () = others => {}
    }
    cache.missing(&[name]).await.unwrap();
    assert_eq!(server.connections(), 1);
}

/// Relays between a client and a server. Adds a permit for each PING of the client.
async fn relay(server: &ReapiServer, pings: Arc<Semaphore>) -> (String, JoinSet<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("grpc://{}", listener.local_addr().unwrap());
    let to = server.addr();
    let mut tasks = JoinSet::new();
    tasks.spawn(async move {
        let (client, _) = listener.accept().await.unwrap();
        let (mut from_client, mut to_client) = client.into_split();
        let server = TcpStream::connect(to).await.unwrap();
        let (mut from_server, mut to_server) = server.into_split();
        let back = tokio::io::copy(&mut from_server, &mut to_client);
        let forth = async {
            let mut frames = Frames::default();
            loop {
                let mut bytes = BytesMut::new();
                if from_client.read_buf(&mut bytes).await.unwrap_or(0) == 0 {
                    return;
                }
                pings.add_permits(frames.pings(&bytes));
                if to_server.write_all(&bytes).await.is_err() {
                    return;
                }
            }
        };
        tokio::select! {
            _ = back => {}
            () = forth => {}
        }
    });
    (url, tasks)
}

/// The position of a byte stream within a client's frames (RFC 9113, section 4.1).
struct Frames {
    /// Bytes before the next frame header: at first the connection preface.
    skip: usize,
    head: Vec<u8>,
}

impl Default for Frames {
    fn default() -> Self {
        Self { skip: 24, head: Vec::new() }
    }
}

impl Frames {
    /// Counts the PINGs whose frame header ends in these bytes, without acknowledgements.
    fn pings(&mut self, bytes: &[u8]) -> usize {
        const PING: u8 = 6;
        const ACK: u8 = 1;
        let mut pings = 0;
        for byte in bytes {
            if self.skip > 0 {
                self.skip -= 1;
                continue;
            }
            self.head.push(*byte);
            if let [a, b, c, kind, flags, ..] = self.head[..]
                && self.head.len() == 9
            {
                self.skip = usize::from(a) << 16 | usize::from(b) << 8 | usize::from(c);
                pings += usize::from(kind == PING && flags & ACK == 0);
                self.head.clear();
            }
        }
        pings
    }
}

#[tokio::test]
async fn a_live_server_gets_pings_and_is_waited_for() {
    let server = ReapiServer::start(ReapiOptions::default()).await.unwrap();
    let pings = Arc::new(Semaphore::new(0));
    let (url, _relaying) = relay(&server, Arc::clone(&pings)).await;
    let reapi = asking_after(Some(10));
    let remotes = client_of(RemoteOptions { reapi, ..RemoteOptions::default() });
    let cache = crate::call::store(&remotes, &url).unwrap();
    let gate = Gate::new();
    server.script().next(Rpc::FindMissing, ReapiFault::Hold(gate.clone()));
    let name = digest(&server.put(&b"data"[..]));
    let asked = async {
        gate.reached(1).await;
        // The client sends a PING only after the server has answered the previous one.
        let _ = pings.acquire_many(5).await.unwrap();
        gate.open();
    };
    let (missing, ()) = tokio::join!(async { cache.missing(&[name]).await }, asked);
    assert!(missing.unwrap().is_empty());
    assert_eq!(server.connections(), 1);
}
