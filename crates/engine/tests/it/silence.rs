//! Servers that accept requests and send nothing, or next to nothing, on a paused clock. The tests
//! check how often the engine asks them, and when the transfer ends.

use std::fmt;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use tidegate::remote::RemoteOptions;
use tidegate::transport::{Dial, DialedStream, TransportOptions};
use tidegate::{Budget, BudgetOptions, ErrorKind, Location, Setting, Target};
use tidegate_core::range::ByteRange;
use tidegate_core::retry::RetryPolicy;
use tidegate_testkit::pseudo_random;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio::time::{Instant, sleep};

use crate::bed::{Bed, Collect};
use crate::call::{DownloadOptions, ReadOptions, client_of, download};

const MIB: usize = 1 << 20;

/// How the server responds to the `n`th request, counted from 1.
#[derive(Clone, Copy)]
enum Manner {
    /// No response, not even a head.
    Nothing,
    /// A head, and no byte of the body.
    HeadOnly,
    /// Each time this many bytes, after this many milliseconds.
    Drip(usize, u64),
}

type Script = fn(usize) -> Manner;

/// A server behind [`Dial`]: one response for each connection.
#[derive(Clone)]
struct Source {
    bytes: Bytes,
    etag: bool,
    script: Script,
    gets: Arc<AtomicUsize>,
    requests: Arc<AtomicUsize>,
}

impl fmt::Debug for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Source")
    }
}

impl Dial for Source {
    fn dial(&self, _host: &str, _port: u16) -> io::Result<Box<dyn DialedStream>> {
        let (ours, theirs) = tokio::io::duplex(64 << 10);
        tokio::spawn(self.clone().serve(theirs));
        Ok(Box::new(ours))
    }
}

impl Source {
    fn new(len: usize, script: Script) -> Self {
        let bytes = pseudo_random(len, 3);
        let (gets, requests) = (Arc::default(), Arc::default());
        Self { bytes, etag: true, script, gets, requests }
    }

    fn locate(&self, url: &str) -> Location {
        let transport =
            TransportOptions { dial: Some(Arc::new(self.clone())), ..TransportOptions::default() };
        let options = RemoteOptions {
            endpoint: Some("http://server".to_owned()),
            anonymous: true,
            transport,
            ..RemoteOptions::default()
        };
        client_of(options).locate(url).unwrap()
    }

    fn asked(&self) -> usize {
        self.requests.load(Ordering::Relaxed)
    }

    async fn serve(self, mut stream: DuplexStream) {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            let Ok(byte) = stream.read_u8().await else { return };
            head.push(byte);
        }
        let head = String::from_utf8(head).unwrap().to_ascii_lowercase();
        self.requests.fetch_add(1, Ordering::Relaxed);
        let is_get = head.starts_with("get ");
        let n = if is_get { self.gets.fetch_add(1, Ordering::Relaxed) + 1 } else { 0 };
        let (drop_at, every) = match (self.script)(n) {
            Manner::Nothing => return std::future::pending().await,
            Manner::HeadOnly => (0, u64::MAX),
            Manner::Drip(bytes, every) => (bytes, every),
        };
        let len = self.bytes.len();
        let range = head.split_once("range: bytes=").and_then(|(_, rest)| {
            let (start, rest) = rest.split_once('-')?;
            let end = rest.split_once('\r')?.0;
            let end = end.parse::<usize>().map_or(len, |last| len.min(last + 1));
            Some(start.parse().ok()?..end)
        });
        let (status, part) = match &range {
            Some(part) => {
                let content_range = format!("bytes {}-{}/{len}", part.start, part.end - 1);
                (format!("206 Partial Content\r\nContent-Range: {content_range}"), part.clone())
            }
            None => ("200 OK".to_owned(), 0..len),
        };
        let etag = if self.etag { "ETag: \"a\"\r\n" } else { "" };
        let head = format!(
            "HTTP/1.1 {status}\r\n{etag}Content-Length: {}\r\nConnection: close\r\n\r\n",
            part.len()
        );
        if stream.write_all(head.as_bytes()).await.is_err() || !is_get {
            return;
        }
        if drop_at == 0 {
            return std::future::pending().await;
        }
        for bytes in self.bytes[part].chunks(drop_at) {
            if every > 0 {
                sleep(Duration::from_millis(every)).await;
            }
            if stream.write_all(bytes).await.is_err() {
                return;
            }
        }
    }
}

fn options(window: u32) -> DownloadOptions {
    let options = Bed::options();
    let retry = RetryPolicy { seed: Some(1), ..RetryPolicy::default() };
    let shard = MIB as u64;
    DownloadOptions {
        window: Some(window),
        shard_bytes_min: Some(shard),
        shard_bytes_max: Some(shard),
        retry,
        ..options
    }
}

/// The documented limit of requests to a server that sends no byte of a blob.
const SILENT_REQUESTS_MAX: usize = 24;

#[tokio::test(start_paused = true)]
async fn a_server_that_never_sends_a_byte_gets_few_requests() {
    let scripts: [Script; 2] = [|_| Manner::Nothing, |_| Manner::HeadOnly];
    for script in scripts {
        for len in [MIB / 2, 5 * MIB, 64 * MIB] {
            for window in [1, 2, 4, 32] {
                for url in ["http://server/blob", "gs://bucket/blob", "s3://bucket/blob"] {
                    let source = Source::new(len, script);
                    let got =
                        download(&source.locate(url), Target::Discard, &options(window)).await;
                    let error = got.unwrap_err();
                    let label = format!("{len} {window} {url}: {}", error.chain());
                    assert_eq!(error.kind(), ErrorKind::Exhausted, "{label}");
                    assert!(source.asked() <= SILENT_REQUESTS_MAX, "{} {label}", source.asked());
                }
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn after_the_first_byte_the_whole_window_is_requested() {
    // The first response delivers one byte and then nothing. The other requests get no response.
    let source = Source::new(64 * MIB, |n| match n {
        1 => Manner::Drip(1, 20_000),
        _ => Manner::Nothing,
    });
    let cancel = tokio_util::sync::CancellationToken::new();
    let options = DownloadOptions { cancel: cancel.clone(), ..options(8) };
    let location = source.locate("http://server/blob");
    let transfer = download(&location, Target::Discard, &options);
    let watch = async {
        sleep(Duration::from_secs(10)).await;
        let before = source.asked();
        sleep(Duration::from_secs(11)).await;
        cancel.cancel();
        (before, source.asked())
    };
    let (_, (before, after)) = tokio::join!(transfer, watch);
    assert!(before <= 3, "{before}");
    assert_eq!(after, 8);
}

/// About a byte a second, forever.
fn drip(_: usize) -> Manner {
    Manner::Drip(1, 900)
}

#[tokio::test(start_paused = true)]
async fn one_byte_per_second_is_retried_once_and_then_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    for window in [1, 4] {
        let file = Target::File(folder.path().join("target"));
        let targets = [Target::Discard, Target::Memory, Collect::default().target(), file];
        for target in targets {
            let source = Source::new(MIB / 4, drip);
            let label = format!("{window} {target:?}");
            let begun = Instant::now();
            let location = source.locate("http://server/blob");
            let error = download(&location, target, &options(window)).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Exhausted, "{label} {error:?}");
            assert!(error.setting() == Some(Setting::SpeedMin), "{label} {error:?}");
            assert_eq!(source.asked(), 2, "{label}");
            assert!(begun.elapsed() < Duration::from_mins(3), "{label}");
        }
    }
}

/// Time in which other transfers hold the budget does not count against the server.
#[tokio::test(start_paused = true)]
async fn waiting_for_the_budget_is_not_slow() {
    let source = Source::new(4 * MIB, |_| Manner::Drip(16 << 10, 10));
    let budget = Budget::new(BudgetOptions { requests: 1, bytes: 64 << 20 });
    let options = DownloadOptions { budget: budget.clone(), ..options(4) };
    let others = async {
        for _ in 0..4 {
            let permit = budget.request().await;
            sleep(Duration::from_mins(5)).await;
            drop(permit);
        }
    };
    let location = source.locate("http://server/blob");
    let (report, ()) = tokio::join!(download(&location, Target::Memory, &options), others);
    assert!(report.unwrap().memory.unwrap() == source.bytes);
    assert_eq!(source.asked(), 4, "each shard once");
}

#[tokio::test(start_paused = true)]
async fn a_new_connection_may_be_fast() {
    let source = Source::new(MIB / 4, |n| match n {
        1 => drip(n),
        _ => Manner::Drip(16 << 10, 10),
    });
    let location = source.locate("http://server/blob");
    let report = download(&location, Target::Memory, &options(1)).await.unwrap();
    assert!(report.memory.unwrap() == source.bytes);
    assert_eq!(source.asked(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_blob_without_a_version_fails_without_another_request() {
    let source = Source { etag: false, ..Source::new(MIB / 4, drip) };
    let location = source.locate("http://server/blob");
    let error = download(&location, Target::Discard, &options(1)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Exhausted, "{error:?}");
    assert_eq!(source.asked(), 1);
}

#[tokio::test(start_paused = true)]
async fn the_floor_can_be_switched_off() {
    let source = Source::new(2000, drip);
    for retry in [
        RetryPolicy { bytes_per_s_min: 0, ..RetryPolicy::default() },
        RetryPolicy { slow_ms_max: 0, ..RetryPolicy::default() },
        RetryPolicy { bytes_per_s_min: 1, ..RetryPolicy::default() },
    ] {
        let options = DownloadOptions { retry, ..options(1) };
        let location = source.locate("http://server/blob");
        let report = download(&location, Target::Memory, &options).await.unwrap();
        assert!(report.memory.unwrap() == source.bytes);
    }
}

#[tokio::test(start_paused = true)]
async fn a_channel_fails_below_the_floor_and_may_be_read_on() {
    let source = Source::new(MIB / 4, |n| match n {
        1 | 2 => drip(n),
        _ => Manner::Drip(16 << 10, 10),
    });
    let location = source.locate("http://server/blob");
    let options = ReadOptions { range: ByteRange::All, ..ReadOptions::default() };
    let mut channel = crate::call::read(location, options);
    let mut got = Vec::new();
    let error = loop {
        match channel.next().await {
            Ok(frame) => got.extend_from_slice(&frame.unwrap()),
            Err(error) => break error,
        }
    };
    assert_eq!(error.kind(), ErrorKind::Exhausted, "{error:?}");
    assert!(error.setting() == Some(Setting::SpeedMin), "{error:?}");
    assert_eq!(source.asked(), 2);
    while let Some(frame) = channel.next().await.unwrap() {
        got.extend_from_slice(&frame);
    }
    assert!(got == source.bytes);
}

#[tokio::test(start_paused = true)]
async fn time_in_which_the_reader_does_not_ask_is_not_counted() {
    // All bytes arrive at once, as far as the reader reads them.
    let source = Source::new(MIB / 2, |_| Manner::Drip(1000, 0));
    let mut channel =
        crate::call::read(source.locate("http://server/blob"), ReadOptions::default());
    let mut got = Vec::new();
    while let Some(frame) = channel.next().await.unwrap() {
        got.extend_from_slice(&frame);
        sleep(Duration::from_secs(500)).await;
    }
    assert!(got == source.bytes);
    assert_eq!(source.asked(), 1);
}
