//! Servers that contradict themselves, for every flavour and every reader. Each call delivers one
//! version of the blob, or fails.
//!
//! | what a user relies on | test |
//! |---|---|
//! | every response must name the version that the first response named | `versions::a_part_that_*` |
//! | after a first response without a version, the blob is read as one stream | `versions::a_first_part_*` |
//! | the server must name a version that is given by hand | `versions::a_version_given_by_hand_*` |
//! | a date pins a version only if it is older than the response | `dates::*` |
//! | a refused range means an empty blob only if the response says so | `emptiness::*` |
//! | bodies keep to their range and length, and all use one coding | `bodies::*` |
//! | a blob of unknown length does not end before the delivered bytes | `ends::*` |
//! | checksums that contradict each other verify nothing | `checksums::*` |
//! | all shards of a redirected blob come from one final URL | `redirects::*` |
//! | a report says what could not be verified | `notes::*` |

mod bodies;
mod checksums;
mod dates;
mod emptiness;
mod ends;
mod notes;
mod origin;
mod redirects;
mod versions;

use bytes::Bytes;
use tidegate::remote::RemoteOptions;
use tidegate::{ErrorKind, Location, Report, Result, Target};
use tidegate_core::range::ByteRange;
use tidegate_testkit::{Flavour, pseudo_random};

use self::origin::{Asked, Framing, Origin, Reply};
use crate::bed::{Bed, Collect};
use crate::call::{DownloadOptions, ReadOptions, client_of, download};
use crate::trial::within;

const LEN: usize = 300_000;
const ALL: [Flavour; 4] = [Flavour::Http, Flavour::Gcs, Flavour::S3, Flavour::Azure];

/// The blob's bytes. Another version has the bytes of [`other_blob`].
fn blob() -> Bytes {
    pseudo_random(LEN, 7)
}

fn other_blob() -> Bytes {
    pseudo_random(LEN, 8)
}

fn locate(origin: &Origin, flavour: Flavour) -> Location {
    let base = origin.endpoint();
    let (endpoint, url) = match flavour {
        Flavour::Gcs => (base.to_owned(), "gs://bucket/blob".to_owned()),
        Flavour::S3 => (base.to_owned(), "s3://bucket/blob".to_owned()),
        Flavour::Azure => (format!("{base}/account"), "az://bucket/blob".to_owned()),
        Flavour::Http => (base.to_owned(), format!("{base}/bucket/blob")),
    };
    let options =
        RemoteOptions { endpoint: Some(endpoint), anonymous: true, ..RemoteOptions::default() };
    client_of(options).locate(&url).unwrap()
}

/// How a test reads the blob.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reader {
    /// A download to memory, with this window.
    Memory(u32),
    File(u32),
    Ordered(u32),
    Channel,
}

const READERS: [Reader; 6] = [
    Reader::Memory(1),
    Reader::Memory(4),
    Reader::File(1),
    Reader::File(4),
    Reader::Ordered(4),
    Reader::Channel,
];

/// The outcome: the bytes, and the report of a download.
#[derive(Debug)]
struct Outcome {
    bytes: Vec<u8>,
    report: Option<Report>,
}

fn options(window: u32, range: Option<ByteRange>) -> DownloadOptions {
    let durability = tidegate::Durability::None;
    let mut options = DownloadOptions { window: Some(window), range, durability, ..Bed::options() };
    options.retry.attempts_max = 3;
    options.retry.stall_ms_max = 2000;
    options
}

impl Reader {
    async fn read(self, location: &Location) -> Result<Outcome> {
        self.read_range(location, ByteRange::All).await
    }

    async fn read_range(self, location: &Location, range: ByteRange) -> Result<Outcome> {
        let wanted = Some(range.clone()).filter(|range| *range != ByteRange::All);
        let fetch = |target, window| {
            let options = options(window, wanted);
            async move { within(download(location, target, &options)).await }
        };
        match self {
            Self::Memory(window) => {
                let report = fetch(Target::Memory, window).await?;
                let bytes = report.memory.clone().unwrap().to_vec();
                Ok(Outcome { bytes, report: Some(report) })
            }
            Self::File(window) => {
                let folder = tempfile::tempdir().unwrap();
                let path = folder.path().join("target");
                let fetched = fetch(Target::File(path.clone()), window).await;
                let bytes = std::fs::read(&path);
                assert_eq!(bytes.is_ok(), fetched.is_ok(), "a file without a success: {fetched:?}");
                Ok(Outcome { report: Some(fetched?), bytes: bytes.unwrap() })
            }
            Self::Ordered(window) => {
                let collect = Collect::default();
                let report = fetch(collect.target(), window).await?;
                Ok(Outcome { bytes: collect.bytes(), report: Some(report) })
            }
            Self::Channel => {
                let retry = options(1, None).retry;
                let options = ReadOptions { range, retry, ..ReadOptions::default() };
                let mut channel = crate::call::read(location.clone(), options);
                let mut bytes = Vec::new();
                while let Some(frame) = within(channel.next()).await? {
                    bytes.extend_from_slice(&frame);
                }
                Ok(Outcome { bytes, report: None })
            }
        }
    }
}

/// Every reader gets exactly `bytes`.
async fn all_get(location: &Location, bytes: &[u8], label: &str) {
    for reader in READERS {
        let outcome = reader.read(location).await;
        let outcome = outcome.unwrap_or_else(|error| panic!("{label} {reader:?}: {error:?}"));
        assert!(outcome.bytes == bytes, "{label} {reader:?}: {} bytes", outcome.bytes.len());
    }
}

/// Every reader fails with one of these kinds, possibly after its retries.
async fn all_fail(location: &Location, kinds: &[ErrorKind], label: &str) {
    for reader in READERS {
        fails(reader, location, kinds, label).await;
    }
}

async fn fails(reader: Reader, location: &Location, kinds: &[ErrorKind], label: &str) {
    match reader.read(location).await {
        Ok(outcome) => panic!("{label} {reader:?}: succeeded with {} bytes", outcome.bytes.len()),
        Err(error) => assert!(kinds.contains(&error.kind()), "{label} {reader:?}: {error:?}"),
    }
}

/// An honest response with a strong entity tag, a date, and what the flavour names versions by.
fn named(flavour: Flavour, asked: &Asked, bytes: &[u8]) -> Reply {
    let reply = Reply::of(asked, bytes).with("etag", "\"a\"");
    let reply = reply.with("last-modified", origin::MODIFIED);
    match flavour {
        Flavour::Gcs => reply.with("x-goog-generation", "17"),
        Flavour::S3 => reply.with("x-amz-version-id", "v17"),
        Flavour::Azure => reply.with("x-ms-version-id", "v17"),
        Flavour::Http => reply,
    }
}

/// The same without what names a version.
fn nameless(reply: Reply) -> Reply {
    ["etag", "last-modified", "x-goog-generation", "x-amz-version-id", "x-ms-version-id"]
        .into_iter()
        .fold(reply, Reply::without)
}
