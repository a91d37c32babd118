//! A blob of a remote is the source: copies by the provider, and streams from one remote to another.
//! Faults of the source and of the target, at each request.

use std::path::PathBuf;

use bytes::Bytes;
use tidegate::remote::{Precondition, WriteOptions};
use tidegate::{Error, ErrorKind, Location, Report, UploadSource};
use tidegate_testkit::{Blob, Fault, Flavour, Gate, Rule, Server, pseudo_random};

use crate::bed::{Bed, PART, noise};
use crate::matrix::fault::{FaultRow, Faulty, ROWS};

/// Two parts.
const LEN: usize = PART + 12_345;

const REQUESTS_MAX: u64 = 40;

/// Where the blob comes from and where it goes.
struct Pair {
    source: Bed,
    /// `None` if source and target are in one bucket, or if the target is a file.
    target: Option<Bed>,
    file: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum To {
    SameBucket,
    Remote(Flavour),
    File,
}

impl Pair {
    async fn new(from: Flavour, to: To) -> Self {
        let source = Bed::new(from).await.trusting();
        source.server.put(&source_path(from), Blob::new(noise(LEN)));
        let target = match to {
            To::Remote(flavour) => Some(Bed::new(flavour).await.trusting()),
            To::SameBucket | To::File => None,
        };
        let file = (to == To::File).then(|| {
            let folder = source.folder.path().join("target");
            std::fs::create_dir(&folder).unwrap();
            folder.join("blob.bin")
        });
        Self { source, target, file }
    }

    fn source_location(&self, from: Flavour) -> Location {
        let url = match from {
            Flavour::S3 => "s3://bucket/source.bin".to_owned(),
            Flavour::Gcs => "gs://bucket/source.bin".to_owned(),
            Flavour::Azure => "az://bucket/source.bin".to_owned(),
            Flavour::Http => self.source.server.url(&source_path(from)),
        };
        self.source.client.locate(&url).unwrap()
    }

    async fn copy(&self, from: Flavour, absent: bool) -> Result<Report, Error> {
        let source = UploadSource::blob(&self.source_location(from));
        let bed = self.target.as_ref().unwrap_or(&self.source);
        let target = match &self.file {
            Some(path) => bed.client.locate(path.to_str().unwrap()).unwrap(),
            None => bed.target(),
        };
        let condition = if absent { Precondition::Absent } else { Precondition::None };
        let upload = bed.client.upload(source, &target).part_bytes(PART as u64).window(1);
        upload.write(WriteOptions::when(condition)).await
    }

    /// The server that stores the copy.
    fn target_server(&self) -> &Server {
        &self.target.as_ref().unwrap_or(&self.source).server
    }

    fn copied(&self) -> Option<Bytes> {
        if let Some(path) = &self.file {
            return std::fs::read(path).ok().map(Bytes::from);
        }
        let bed = self.target.as_ref().unwrap_or(&self.source);
        bed.stored().map(|stored| stored.bytes.unwrap())
    }

    /// What is wrong after a copy, which may be one of `rights` or an error of one of `kinds`.
    fn flaw(
        &self,
        outcome: &Result<Report, Error>,
        rights: &[&Bytes],
        kinds: &[ErrorKind],
    ) -> Option<String> {
        if let Some(left) = self.left() {
            return Some(left);
        }
        match (outcome, self.copied()) {
            (Ok(_), Some(copied)) if rights.contains(&&copied) => None,
            (Ok(_), Some(_)) => Some("other bytes".to_owned()),
            (Ok(_), None) => Some("no blob".to_owned()),
            (Err(error), None) if kinds.contains(&error.kind()) => None,
            (Err(error), copied) => {
                let kind = error.kind();
                Some(format!("{kind:?}, made {}: {}", copied.is_some(), error.chain()))
            }
        }
    }

    /// What stays behind beside the blob.
    fn left(&self) -> Option<String> {
        if let Some(path) = &self.file {
            let folder = path.parent().unwrap();
            let names = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name());
            let names: Vec<_> = names.filter(|name| name != "blob.bin").collect();
            return (!names.is_empty()).then(|| format!("left: {names:?}"));
        }
        let uploads = self.target_server().unfinished_uploads();
        (!uploads.is_empty()).then(|| format!("left: {uploads:?}"))
    }
}

fn source_path(from: Flavour) -> String {
    match from {
        Flavour::Azure => "/account/bucket/source.bin".to_owned(),
        _ => "/bucket/source.bin".to_owned(),
    }
}

const STREAMS: [(Flavour, To); 5] = [
    (Flavour::S3, To::Remote(Flavour::Gcs)),
    (Flavour::Http, To::Remote(Flavour::S3)),
    (Flavour::Gcs, To::Remote(Flavour::Http)),
    (Flavour::S3, To::Remote(Flavour::Azure)),
    (Flavour::Azure, To::File),
];

/// Plays a fault at each request to one of the two servers, once.
async fn at_each_request(
    (from, to): (Flavour, To),
    absent: bool,
    is_target: bool,
    fault: impl Fn() -> Fault,
    mut check: impl FnMut(u64, &Pair, &Result<Report, Error>),
) {
    for nth in 1..REQUESTS_MAX {
        let pair = Pair::new(from, to).await;
        let server = if is_target { pair.target_server() } else { &pair.source.server };
        let rule = Rule::new(fault()).nth(nth);
        let rule = if is_target { rule } else { rule.path(source_path(from)) };
        server.script().push(rule);
        let outcome = pair.copy(from, absent).await;
        check(nth, &pair, &outcome);
        if server.script().applied() == 0 {
            return;
        }
    }
    panic!("{from:?} to {to:?}: more than {REQUESTS_MAX} requests");
}

async fn targets_fail(pair: (Flavour, To), absent: bool, to: Flavour) -> Vec<String> {
    let mut flaws = Vec::new();
    let right = noise(LEN);
    let rows = ROWS.iter().filter(|row| row.fits(to) && !row.hangs && !row.denies());
    for row in rows {
        let fault = || fault_of(row, to);
        at_each_request(pair, absent, true, fault, |nth, pair, outcome| {
            let flaw = pair.flaw(outcome, &[&right], row.kinds);
            // The response to the first request of an upload has its id.
            let flaw = flaw.filter(|flaw| !(row.has_effect && flaw.starts_with("left")));
            flaws.extend(flaw.map(|flaw| format!("{} at {nth}: {flaw}", row.name)));
        })
        .await;
    }
    flaws
}

fn fault_of(row: &FaultRow, flavour: Flavour) -> Fault {
    (row.fault)(&Faulty { flavour, body_bytes: 100_000, gate: Gate::new() })
}

#[tokio::test]
async fn a_copy_by_the_provider_survives_faults_or_makes_nothing() {
    for flavour in [Flavour::S3, Flavour::Gcs, Flavour::Azure] {
        for absent in [false, true] {
            let flaws = targets_fail((flavour, To::SameBucket), absent, flavour).await;
            assert!(flaws.is_empty(), "{flavour:?} {absent}:\n{}", flaws.join("\n"));
        }
    }
}

#[tokio::test]
async fn a_stream_to_another_remote_survives_faults_of_the_target_or_makes_nothing() {
    for (from, to) in STREAMS {
        let To::Remote(target) = to else { continue };
        let flaws = targets_fail((from, to), false, target).await;
        let flaws: Vec<_> = flaws
            .into_iter()
            // Azure removes blocks by itself: there is no request for it.
            .filter(|flaw| target != Flavour::Azure || !flaw.contains("left"))
            .collect();
        assert!(flaws.is_empty(), "{from:?} {to:?}:\n{}", flaws.join("\n"));
    }
}

#[tokio::test]
async fn a_source_that_breaks_is_read_on() {
    let right = noise(LEN);
    let faults = [
        Fault::CutAfter(1_000_000),
        Fault::ResetAfter(3_000_000),
        Fault::CloseBeforeFirstByte,
        Fault::TruncatedHead,
        Fault::BodyShortByOne,
        Fault::status(503),
        Fault::status_retry_after(429, "0"),
    ];
    for pair in STREAMS {
        for fault in &faults {
            let again = || fault.clone();
            at_each_request(pair, false, false, again, |nth, made, outcome| {
                let flaw = made.flaw(outcome, &[&right], &[]);
                assert_eq!(flaw, None, "{pair:?} {fault:?} at {nth}");
            })
            .await;
        }
    }
}

#[tokio::test]
async fn a_source_that_stays_broken_makes_nothing() {
    for (from, to) in STREAMS {
        let pair = Pair::new(from, to).await;
        let rule = Rule::new(Fault::CutAfter(1_000)).method("GET");
        pair.source.server.script().push(rule.always());
        let outcome = pair.copy(from, false).await;
        assert!(pair.copied().is_none(), "{from:?} {to:?}");
        let kind = outcome.unwrap_err().kind();
        assert_eq!(kind, ErrorKind::Exhausted, "{from:?} {to:?}");
        if to != To::Remote(Flavour::Azure) {
            assert_eq!(pair.left(), None, "{from:?} {to:?}");
        }
    }
}

#[tokio::test]
async fn a_source_that_changes_meanwhile_makes_no_mixture() {
    let (old, new) = (noise(LEN), pseudo_random(LEN, 12));
    for pair in STREAMS {
        let changed = || Fault::ChangedVersion(Blob::new(new.clone()));
        at_each_request(pair, false, false, changed, |nth, made, outcome| {
            // Google has no such generation any more.
            let kinds = [ErrorKind::Changed, ErrorKind::NotFound];
            let flaw = made.flaw(outcome, &[&old, &new], &kinds);
            assert_eq!(flaw, None, "{pair:?} at {nth}");
        })
        .await;
    }
    for pair in STREAMS {
        let changed = || Fault::ChangeDuringBody { after: 4_000_000, blob: Blob::new(new.clone()) };
        at_each_request(pair, false, false, changed, |nth, made, outcome| {
            // Without a checksum a mixture in one response cannot be found.
            if pair.0 == Flavour::Http {
                return;
            }
            let kinds = [ErrorKind::Changed, ErrorKind::Integrity];
            let flaw = made.flaw(outcome, &[&old], &kinds);
            let flaw = flaw
                .filter(|flaw| pair.1 != To::Remote(Flavour::Azure) || !flaw.starts_with("left"));
            assert_eq!(flaw, None, "{pair:?} at {nth}");
        })
        .await;
    }
}

#[tokio::test]
async fn a_provider_copies_the_version_that_was_found_or_nothing() {
    let (old, new) = (noise(LEN), pseudo_random(LEN, 12));
    for from in [Flavour::S3, Flavour::Gcs, Flavour::Azure] {
        let pair = Pair::new(from, To::SameBucket).await;
        let gate = Gate::new();
        let making = if from == Flavour::Gcs { "POST" } else { "PUT" };
        let held = Rule::new(Fault::HoldRequest(gate.clone())).method(making);
        pair.source.server.script().push(held);
        let change = async {
            gate.reached(1).await;
            pair.source.server.put(&source_path(from), Blob::new(new.clone()));
            gate.open();
        };
        let (outcome, ()) = tokio::join!(pair.copy(from, false), change);
        let flaw = pair.flaw(&outcome, &[&old], &[ErrorKind::Changed]);
        assert_eq!(flaw, None, "{from:?}");
        assert!(outcome.is_err(), "{from:?}: the old version is gone");
    }
}

#[tokio::test]
async fn a_damaged_source_makes_nothing() {
    for (from, to) in STREAMS {
        if from == Flavour::Http {
            continue;
        }
        let pair = Pair::new(from, to).await;
        pair.source.server.script().push(Rule::new(Fault::FlipBit(4_000_000)).always());
        let error = pair.copy(from, false).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Integrity, "{from:?} {to:?}: {}", error.chain());
        assert!(pair.copied().is_none(), "{from:?} {to:?}");
    }
}
