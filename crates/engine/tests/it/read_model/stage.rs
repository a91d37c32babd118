//! The servers on which scripts run: one for each [`Place`], started once, with a new blob for each
//! script. Everything runs on the calling thread, inside [`Stage::run`]. So a script takes the same
//! course each time, as far as the kernel allows.

use std::collections::HashSet;
use std::time::Duration;

use bytes::Bytes;
use tidegate::remote::RemoteOptions;
use tidegate::transport::TransportOptions;
use tidegate::{Client, Location};
use tidegate_core::checksum::{Checksum, Crc, CrcAlgorithm};
use tidegate_testkit::{Blob, Fault, Flavour, Rule, Server};
use tokio::runtime::{Builder, Runtime};

use super::drive;
use super::model::Candidate;
use super::script::{self, PLACES, Place, Script};
use crate::call::client_of;

/// Far longer than a step takes, and shorter than the policy's timeouts. A stalled step must fail
/// here before a retry can hide it.
pub(crate) const STEP: Duration = Duration::from_secs(10);

/// Small, so that a blob arrives in many frames.
const FRAME_BYTES_MAX: usize = 16 << 10;

pub(crate) struct Stage {
    runtime: Runtime,
    beds: Vec<Bed>,
    scripts: u64,
}

struct Bed {
    place: Place,
    server: Server,
    remotes: Client,
}

/// The server, blob and faults of one script.
pub(crate) struct Play<'a> {
    pub(crate) script: &'a Script,
    pub(crate) location: Location,
    pub(crate) server: &'a Server,
    /// The blob's path in the server's log.
    pub(crate) path: String,
    bytes: Bytes,
}

impl Stage {
    pub(crate) fn new() -> Self {
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        let beds = runtime.block_on(async {
            let mut beds = Vec::new();
            for place in PLACES {
                beds.push(Bed::new(place).await);
            }
            beds
        });
        Self { runtime, beds, scripts: 0 }
    }

    /// Plays a script, and returns what failed.
    pub(crate) fn run(&mut self, script: &Script) -> Result<(), String> {
        self.scripts += 1;
        let name = format!("s{}", self.scripts);
        let Some(bed) = self.beds.iter().find(|bed| bed.place == script.place) else {
            return Err(format!("no server is like {:?}", script.place));
        };
        let play = bed.set(script, &name);
        let outcome = self.runtime.block_on(drive::play(&play));
        bed.server.remove(&play.path);
        outcome
    }

    /// A smaller script that fails too, and its failure.
    pub(crate) fn shrink(&mut self, script: &Script, wrong: String) -> (Script, String) {
        let mut best = (script.clone(), wrong);
        'again: loop {
            for smaller in best.0.smaller() {
                if let Err(wrong) = self.run(&smaller) {
                    best = (smaller, wrong);
                    continue 'again;
                }
            }
            return best;
        }
    }
}

impl Bed {
    async fn new(place: Place) -> Self {
        let options = place.server();
        let flavour = options.flavour;
        let server = Server::start(options).await.unwrap();
        let endpoint = match flavour {
            Flavour::Azure => format!("{}/account", server.endpoint()),
            _ => server.endpoint(),
        };
        let transport =
            TransportOptions { read_bytes_max: FRAME_BYTES_MAX, ..TransportOptions::default() };
        let options = RemoteOptions {
            endpoint: Some(endpoint),
            anonymous: true,
            transport,
            ..RemoteOptions::default()
        };
        Self { place, server, remotes: client_of(options) }
    }

    /// Places the blob and its faults.
    fn set<'a>(&'a self, script: &'a Script, name: &str) -> Play<'a> {
        let (path, url) = match self.place.server().flavour {
            Flavour::Azure => (format!("/account/bucket/{name}"), format!("az://bucket/{name}")),
            Flavour::Gcs => (format!("/bucket/{name}"), format!("gs://bucket/{name}")),
            Flavour::S3 => (format!("/bucket/{name}"), format!("s3://bucket/{name}")),
            Flavour::Http => {
                (format!("/bucket/{name}"), self.server.url(&format!("/bucket/{name}")))
            }
        };
        let bytes = script::first(script.len);
        self.server.script().clear();
        self.server.clear_log();
        self.server.put(&path, Blob::new(bytes.clone()));
        for planned in &script.faults {
            let rule = Rule::new(planned.fault.clone()).path(&path).nth(planned.nth);
            self.server.script().push(rule);
        }
        let location = self.remotes.locate(&url).unwrap();
        Play { script, location, server: &self.server, path, bytes }
    }
}

impl Play<'_> {
    /// The possible states of the blob.
    pub(crate) fn candidates(&self) -> Vec<Candidate> {
        let mut contents = vec![self.bytes.clone()];
        let mut lies = HashSet::from([0_i64]);
        for planned in &self.script.faults {
            match &planned.fault {
                Fault::ChangedVersion(other) => contents.push(script::content(other)),
                Fault::WrongContentRange(_) => lies.extend([1]),
                Fault::LieAboutLength(by) => lies.extend([*by, by.saturating_add(1)]),
                _ => {}
            }
        }
        let reported_len = |bytes: &Bytes, by| (bytes.len() as u64).saturating_add_signed(by);
        contents
            .iter()
            .flat_map(|bytes| {
                lies.iter()
                    .map(|by| Candidate { bytes: bytes.clone(), len: reported_len(bytes, *by) })
            })
            .collect()
    }

    pub(crate) fn flips(&self) -> HashSet<u64> {
        let flip = |fault: &Fault| match fault {
            Fault::FlipBit(offset) => Some(*offset),
            _ => None,
        };
        self.script.faults.iter().filter_map(|planned| flip(&planned.fault)).collect()
    }

    /// The checksum of the blob, and a wrong checksum.
    pub(crate) fn checksums(&self) -> (Checksum, Checksum) {
        let of = |bytes| Crc::of(CrcAlgorithm::Crc32c, bytes).to_checksum();
        (of(&self.bytes), of(b"something else"))
    }

    /// Whether a fault has been applied that satisfies the predicate.
    pub(crate) fn has_gone_wrong(&self, as_with: impl Fn(&Fault) -> bool) -> bool {
        let log = self.server.log();
        let mut mine = log.iter().filter(|logged| self.is_mine(&logged.path_and_query));
        mine.any(|logged| logged.faults.iter().any(&as_with))
    }

    /// Requests for the blob so far.
    pub(crate) fn requests(&self) -> usize {
        let log = self.server.log();
        log.iter().filter(|logged| self.is_mine(&logged.path_and_query)).count()
    }

    fn is_mine(&self, target: &str) -> bool {
        target.split('?').next() == Some(&self.path)
    }
}
