//! Server data that looks like a part file is never believed. And the use of a part file if there
//! is no key that could authenticate it.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use tempfile::TempDir;
use tidegate::remote::RemoteOptions;
use tidegate::{ErrorKind, Location, Report, StateFolder, Target};
use tidegate_core::{Checksum, ChecksumAlgorithm, Checksummer};
use tidegate_testkit::{
    Blob, Fault, Flavour, Framing, Gate, RangeMatch, Rule, ServerOptions, pseudo_random,
};

use crate::bed::{Bed, SHARD_BYTES};
use crate::call::{DownloadOptions, client_of, download};
use crate::resume::{LEN, Place, assert_done, cancel, options};
use crate::trial::{settle, within};

const HELD: (u64, u64) = (5 * SHARD_BYTES, 1000);

/// Seeds of the blob that is asked for, and of the blob that the forger wants delivered.
const GOOD: u64 = 7;
const EVIL: u64 = 99;

const RECORD_BYTES: usize = 64;

/// Records after a forged journal. They are more than a batch of bytes that wait to be written, so
/// a file cut anywhere among them still ends in a journal.
const RECORDS: usize = 64 << 10;

fn blob(seed: u64) -> Blob {
    Blob::new(pseudo_random(LEN, seed)).with_etag("same")
}

fn sha256(seed: u64) -> Checksum {
    let mut hash = Checksummer::new(ChecksumAlgorithm::Sha256).unwrap();
    hash.update(&pseudo_random(LEN, seed));
    hash.finish()
}

/// The key that seals a forged part file.
#[derive(Clone, Copy, Debug)]
enum Seals {
    /// Another user's key.
    Other,
    /// No key.
    None,
}

/// A server of the good blob, and a complete forged part file. The file claims to hold most of the
/// good blob, but holds the forger's bytes. A run of the forger has written it.
async fn forge(seals: Seals) -> (Bed, Vec<u8>) {
    let bed = Bed::with(ServerOptions::default(), pseudo_random(LEN, GOOD), blob(EVIL)).await;
    let place = Place::new();
    let folder = tempfile::tempdir().unwrap();
    let options = match seals {
        Seals::Other => DownloadOptions { state: StateFolder::at(folder.path()), ..options() },
        Seals::None => DownloadOptions {
            state: StateFolder::none(),
            expected: vec![sha256(EVIL)],
            ..options()
        },
    };
    cancel(&bed, &bed.location(), &place, options, HELD).await;
    bed.server.put(bed.path(), blob(GOOD));
    let forged = std::fs::read(&place.part).unwrap();
    assert!(forged.len() > LEN && forged[forged.len() - RECORD_BYTES..].starts_with(b"TGJ2"));
    (bed, forged)
}

async fn fetch(bed: &Bed, place: &Place, options: &DownloadOptions) -> Report {
    let report = within(download(&bed.location(), place.target(), options)).await.unwrap();
    within(bed.server.idle()).await;
    settle(options).await;
    report
}

/// The next download of the good blob ignores the existing part file.
#[track_caller]
fn assert_disbelieved(report: &Report, place: &Place, bed: &Bed, label: &str) {
    assert_done(place, &bed.bytes);
    assert_eq!(report.resumed_bytes, 0, "{label}");
    let is_noted =
        report.notes.iter().any(|note| note.contains("not written with this user's key"));
    assert!(is_noted, "{label}: {:?}", report.notes);
}

fn evil(bed: &Bed) -> Location {
    client_of(RemoteOptions::default()).locate(&bed.server.url("/bucket/evil")).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_forged_part_file_is_not_believed_and_no_target() {
    for seals in [Seals::Other, Seals::None] {
        let (bed, forged) = forge(seals).await;
        let place = Place::new();
        std::fs::write(&place.part, &forged).unwrap();
        let report = fetch(&bed, &place, &options()).await;
        assert_disbelieved(&report, &place, &bed, &format!("{seals:?}"));

        // The forger fetches a URL whose last part is the name of the part file.
        bed.server.put("/bucket/.target.tidegate-part", Blob::new(forged));
        let before = bed.server.requests();
        let url = bed.server.url("/bucket/.target.tidegate-part");
        let location = client_of(RemoteOptions::default()).locate(&url).unwrap();
        let target = Target::File(place.part.clone());
        let error = within(download(&location, target, &options())).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
        assert!(!place.part.exists() && bed.server.requests() == before);
    }
}

/// A journal that repeats itself, so that it is a journal wherever it is cut.
fn endless(forged: &[u8]) -> Vec<u8> {
    let last = &forged[forged.len() - RECORD_BYTES..];
    [forged, &last.repeat(RECORDS)].concat()
}

async fn until(mut is_so: impl FnMut() -> bool) {
    within(async {
        while !is_so() {
            tokio::task::yield_now().await;
        }
    })
    .await;
}

/// A dropped run cannot remove its part file, like a killed run.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_part_file_of_a_killed_stream_is_not_believed() {
    for seals in [Seals::Other, Seals::None] {
        let (bed, forged) = forge(seals).await;
        let place = Place::new();
        let stream = endless(&forged);
        let options = options();
        kill_stream(&place, &stream, forged.len() as u64, &options).await;
        let left = std::fs::read(&place.part).unwrap();
        assert!(left.len() >= forged.len() && stream.starts_with(&left), "{seals:?}");
        let report = fetch(&bed, &place, &options).await;
        assert_disbelieved(&report, &place, &bed, &format!("{seals:?}"));
    }
}

/// Downloads `stream`, whose length the server does not send. Drops the download once `bytes` bytes
/// are in the part file.
async fn kill_stream(place: &Place, stream: &[u8], bytes: u64, options: &DownloadOptions) {
    let server =
        ServerOptions { framing: Framing::Chunked, ranges: false, ..ServerOptions::default() };
    let bed = Bed::with(server, stream.to_vec().into(), Blob::new(stream.to_vec())).await;
    let gate = Gate::new();
    let hold = Fault::HoldAfter { bytes: stream.len() as u64 - 1, gate: gate.clone() };
    bed.server.script().push(Rule::new(hold).method("GET").always());
    let written = || std::fs::metadata(&place.part).is_ok_and(|part| part.len() >= bytes);
    let location = bed.location();
    tokio::select! {
        result = download(&location, place.target(), options) => panic!("it is held: {result:?}"),
        () = until(written) => {}
    }
    within(bed.server.idle()).await;
    settle(options).await;
}

/// The journal is cut off, and then the rename fails. From then on the file ends in the server's
/// bytes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_a_failed_rename_data_that_ends_in_a_journal_is_not_believed() {
    for seals in [Seals::Other, Seals::None] {
        let (bed, forged) = forge(seals).await;
        let place = Place::new();
        std::fs::remove_file(&place.target).unwrap();
        bed.server.put("/bucket/evil", Blob::new(forged.clone()));
        let gate = Gate::new();
        let hold = Fault::HoldAfter { bytes: 0, gate: gate.clone() };
        bed.server.script().push(Rule::new(hold).method("GET").range(RangeMatch::Covers(0)));
        let options = options();
        let location = evil(&bed);
        let block = async {
            gate.reached(1).await;
            std::fs::create_dir(&place.target).unwrap();
            gate.open();
        };
        let run = download(&location, place.target(), &options);
        let (result, ()) = within(async { tokio::join!(run, block) }).await;
        assert_eq!(result.unwrap_err().kind(), ErrorKind::Storage);
        assert_eq!(std::fs::read(&place.part).unwrap(), forged, "{seals:?}: only the data");
        std::fs::remove_dir(&place.target).unwrap();
        let report = fetch(&bed, &place, &options).await;
        assert_disbelieved(&report, &place, &bed, &format!("{seals:?}"));
    }
}

/// The three ways to have no usable key: none is wanted, none can be created, other users can read
/// it.
fn without_key(folder: &TempDir) -> [StateFolder; 3] {
    let file = folder.path().join("file");
    std::fs::write(&file, "no folder").unwrap();
    let open = folder.path().join("open");
    std::fs::create_dir(&open).unwrap();
    std::fs::write(open.join("key"), [7; 32]).unwrap();
    set_mode(&open.join("key"), 0o644);
    [StateFolder::none(), StateFolder::at(file.join("state")), StateFolder::at(open)]
}

fn set_mode(path: &Path, mode: u32) {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_key_a_run_resumes_only_with_a_hash_of_the_whole_blob() {
    let folder = tempfile::tempdir().unwrap();
    for state in without_key(&folder) {
        // The cloud has only a CRC, or an MD5 too, or the caller knows a hash.
        for (md5, expected, goes_on) in
            [(false, None, false), (true, None, true), (false, Some(sha256(GOOD)), true)]
        {
            let blob = if md5 { blob(GOOD) } else { blob(GOOD).without_md5() };
            let bytes = pseudo_random(LEN, GOOD);
            let bed = Bed::with(ServerOptions::of(Flavour::Gcs), bytes, blob).await;
            let label = format!("{state:?} {md5} {expected:?}");
            let expected: Vec<Checksum> = expected.into_iter().collect();
            let of = || DownloadOptions {
                state: state.clone(),
                expected: expected.clone(),
                ..options()
            };
            let place = Place::new();
            cancel(&bed, &bed.location(), &place, of(), HELD).await;
            assert_eq!(place.part.exists(), goes_on, "{label}: kept only for what it is worth");
            let report = fetch(&bed, &place, &of()).await;
            assert_done(&place, &bed.bytes);
            assert_eq!(report.resumed_bytes > 0, goes_on, "{label}: {:?}", report.notes);

            // The part file of a run with a key.
            let place = Place::new();
            cancel(&bed, &bed.location(), &place, options(), HELD).await;
            let report = fetch(&bed, &place, &of()).await;
            assert_done(&place, &bed.bytes);
            assert_eq!(report.resumed_bytes > 0, goes_on, "{label}: {:?}", report.notes);
            let is_noted = report.notes.iter().any(|note| note.contains("there is no key"));
            assert_eq!(is_noted, !goes_on, "{label}: {:?}", report.notes);
        }
    }
}

/// Without a key the engine reads a forged journal, but a hash of the whole blob refutes its bytes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_key_a_hash_refutes_a_forged_part_file() {
    for seals in [Seals::Other, Seals::None] {
        let (bed, forged) = forge(seals).await;
        let place = Place::new();
        std::fs::write(&place.part, forged).unwrap();
        let options = DownloadOptions {
            state: StateFolder::none(),
            expected: vec![sha256(GOOD)],
            ..options()
        };
        let report = fetch(&bed, &place, &options).await;
        assert_done(&place, &bed.bytes);
        let is_noted = report.notes.iter().any(|note| note.contains("was not of this blob"));
        assert!(is_noted && report.is_verified(), "{seals:?}: {:?}", report.notes);
    }
}

/// A key that other users can read is not used, and the report says so.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_that_is_not_used_is_reported() {
    let folder = tempfile::tempdir().unwrap();
    let [.., open] = without_key(&folder);
    let bed = Bed::new(ServerOptions::default(), 10).await;
    let report = fetch(&bed, &Place::new(), &DownloadOptions { state: open, ..options() }).await;
    assert!(report.notes.iter().any(|note| note.contains("mode must be 0600")), "{report:?}");
}
