//! What an interrupted download leaves, and how the next run of the same download uses it.

use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use tempfile::TempDir;
use tidegate::{ErrorKind, Location, Report, Target};
use tidegate_testkit::{
    Blob, Fault, Flavour, Gate, Logged, RangeMatch, Rule, ServerOptions, pseudo_random,
};
use tokio_util::sync::CancellationToken;

use crate::bed::{Bed, SHARD_BYTES};
use crate::call::{DownloadOptions, download};
use crate::trial::{settle, within};

const FLAVOURS: [Flavour; 4] = [Flavour::Http, Flavour::Gcs, Flavour::S3, Flavour::Azure];
pub(crate) const LEN: usize = 1_000_000;
const OLD: &[u8] = b"what was there before";

/// A folder with a target in it, and the path of the part file next to the target.
pub(crate) struct Place {
    _folder: TempDir,
    pub(crate) target: PathBuf,
    pub(crate) part: PathBuf,
}

impl Place {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let target = folder.path().join("target");
        let part = folder.path().join(".target.tidegate-part");
        std::fs::write(&target, OLD).unwrap();
        Self { _folder: folder, target, part }
    }

    pub(crate) fn target(&self) -> Target {
        Target::File(self.target.clone())
    }
}

pub(crate) fn options() -> DownloadOptions {
    DownloadOptions { durability: tidegate::Durability::None, ..Bed::options() }
}

async fn run(bed: &Bed, place: &Place) -> tidegate::Result<Report> {
    let options = options();
    let result = within(download(&bed.location(), place.target(), &options)).await;
    within(bed.server.idle()).await;
    settle(&options).await;
    result
}

/// Fetches into `place` until the shard that begins at `shard` has delivered `bytes` and all other
/// shards have arrived. Then cancels. Returns the number of bytes that the server has sent.
async fn cancel_at(bed: &Bed, place: &Place, shard: u64, bytes: u64) -> u64 {
    let sent = cancel(bed, &bed.location(), place, options(), (shard, bytes)).await;
    assert!(place.part.exists(), "what was fetched stays");
    sent
}

/// Like [`cancel_at`], with another location of the same blob and with these options.
pub(crate) async fn cancel(
    bed: &Bed,
    location: &Location,
    place: &Place,
    options: DownloadOptions,
    (shard, bytes): (u64, u64),
) -> u64 {
    let gate = Gate::new();
    let hold = Fault::HoldAfter { bytes, gate: gate.clone() };
    bed.server.script().push(Rule::new(hold).method("GET").range(RangeMatch::StartsAt(shard)));
    let cancel = CancellationToken::new();
    let options = DownloadOptions { cancel: cancel.clone(), window: Some(2), ..options };
    let progress = std::sync::Arc::clone(&options.progress);
    let stop = async {
        gate.reached(1).await;
        // All shards except the held one have arrived, and so have the sent bytes of the held one.
        let expected = LEN as u64 - (SHARD_BYTES - bytes).min(LEN as u64 - shard);
        while progress.snapshot().done_bytes < expected {
            tokio::task::yield_now().await;
        }
        cancel.cancel();
    };
    let (result, ()) =
        within(async { tokio::join!(download(location, place.target(), &options), stop) }).await;
    assert_eq!(result.unwrap_err().kind(), ErrorKind::Cancelled);
    within(bed.server.idle()).await;
    settle(&options).await;
    bed.server.script().clear();
    assert_eq!(std::fs::read(&place.target).unwrap(), OLD, "the old target stays");
    let sent = sent(&bed.server.log());
    bed.server.clear_log();
    sent
}

pub(crate) fn sent(log: &[Logged]) -> u64 {
    log.iter().filter(|logged| logged.method == "GET").map(|logged| logged.bytes_sent).sum()
}

pub(crate) fn assert_done(place: &Place, expected: &[u8]) {
    assert!(std::fs::read(&place.target).unwrap() == expected, "other content");
    assert!(!place.part.exists(), "the part file is gone");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cancelled_download_resumes_with_the_missing_ranges() {
    for flavour in FLAVOURS {
        let bed = Bed::new(ServerOptions::of(flavour), LEN).await;
        for (shard, bytes) in [(0, 1000), (0, 0), (5 * SHARD_BYTES, 0), (5 * SHARD_BYTES, 60_000)] {
            let place = Place::new();
            let first = if shard == 0 {
                cancel_first(&bed, &place, bytes).await
            } else {
                cancel_at(&bed, &place, shard, bytes).await
            };
            if first == 0 {
                continue;
            }
            let report = run(&bed, &place).await.unwrap();
            let label = format!("{flavour:?} {shard} {bytes}");
            assert_done(&place, &bed.bytes);
            let log = bed.server.log();
            assert_eq!(report.resumed_bytes + sent(&log), LEN as u64, "{label}");
            assert_eq!(report.resumed_bytes, first, "{label}: nothing is fetched twice");
            assert_eq!(report.is_verified(), flavour != Flavour::Http, "{label}");
            assert!(report.notes.iter().any(|note| note.contains("resumed")), "{:?}", report.notes);
            let pinned = |logged: &Logged| {
                logged.header("if-match").is_some() || logged.path_and_query.contains("generation=")
            };
            let gets = log.iter().filter(|logged| logged.method == "GET");
            assert!(gets.into_iter().all(pinned), "{label}: every request names the version");
            bed.server.clear_log();
        }
    }
}

/// Cancels within the first shard, before any other has been requested.
async fn cancel_first(bed: &Bed, place: &Place, bytes: u64) -> u64 {
    let gate = Gate::new();
    let hold = Fault::HoldAfter { bytes, gate: gate.clone() };
    bed.server.script().push(Rule::new(hold).method("GET"));
    let cancel = CancellationToken::new();
    let options = DownloadOptions { cancel: cancel.clone(), window: Some(1), ..options() };
    let location = bed.location();
    let progress = std::sync::Arc::clone(&options.progress);
    let stop = async {
        gate.reached(1).await;
        while progress.snapshot().done_bytes < bytes {
            tokio::task::yield_now().await;
        }
        cancel.cancel();
    };
    let (result, ()) =
        within(async { tokio::join!(download(&location, place.target(), &options), stop) }).await;
    assert_eq!(result.unwrap_err().kind(), ErrorKind::Cancelled);
    within(bed.server.idle()).await;
    bed.server.script().clear();
    bed.server.clear_log();
    assert_eq!(std::fs::read(&place.target).unwrap(), OLD, "the old target stays");
    assert_eq!(place.part.exists(), bytes > 0, "only what holds something stays");
    bytes
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_changed_version_is_fetched_from_the_start_with_a_note() {
    for flavour in FLAVOURS {
        for len in [LEN, LEN - 300_000, 10, 0] {
            let bed = Bed::new(ServerOptions::of(flavour), LEN).await;
            let place = Place::new();
            cancel_at(&bed, &place, 5 * SHARD_BYTES, 1000).await;
            let new = pseudo_random(len, 99);
            bed.server.put(bed.path(), Blob::new(new.clone()).with_version(2));
            let report = run(&bed, &place).await.unwrap();
            assert_done(&place, &new);
            let label = format!("{flavour:?} {len}: {:?}", report.notes);
            assert_eq!(report.resumed_bytes, 0, "{label}");
            assert!(report.notes.iter().any(|note| note.contains("changed")), "{label}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_blob_that_is_gone_leaves_the_part_file_and_the_target() {
    let bed = Bed::new(ServerOptions::of(Flavour::Gcs), LEN).await;
    let place = Place::new();
    cancel_at(&bed, &place, 5 * SHARD_BYTES, 1000).await;
    bed.server.remove(bed.path());
    assert_eq!(run(&bed, &place).await.unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(std::fs::read(&place.target).unwrap(), OLD);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn damage_in_what_was_fetched_is_found_and_fetched_again() {
    for flavour in FLAVOURS {
        for at in [0, 100_000, LEN as u64 - 1] {
            let bed = Bed::new(ServerOptions::of(flavour), LEN).await;
            let place = Place::new();
            cancel_at(&bed, &place, 5 * SHARD_BYTES, 0).await;
            flip(&place.part, at);
            let report = run(&bed, &place).await.unwrap();
            assert_done(&place, &bed.bytes);
            assert!(report.resumed_bytes > 0, "the rest is still good");
            assert!(sent(&bed.server.log()) > SHARD_BYTES, "{flavour:?}: more than the gap");
        }
    }
}

/// The part file is cut in each of its sections: in the data, in the journal's header, and within a
/// record.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_truncated_part_file_still_gives_the_right_file() {
    let bed = Bed::new(ServerOptions::of(Flavour::Gcs), LEN).await;
    let place = Place::new();
    cancel_at(&bed, &place, 5 * SHARD_BYTES, 1000).await;
    let whole = std::fs::read(&place.part).unwrap();
    let journal = (LEN as u64).next_multiple_of(4096);
    let len = whole.len() as u64;
    for keep in [0, 1, 500_000, journal, journal + 1, journal + 64, len - 65, len - 64, len - 1] {
        std::fs::write(&place.target, OLD).unwrap();
        std::fs::write(&place.part, &whole[..usize::try_from(keep).unwrap()]).unwrap();
        run(&bed, &place).await.unwrap();
        assert_done(&place, &bed.bytes);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_foreign_part_file_is_replaced() {
    let bed = Bed::new(ServerOptions::of(Flavour::Gcs), LEN).await;
    for foreign in [Vec::new(), b"notes of mine".to_vec(), pseudo_random(2 * LEN, 3).to_vec()] {
        let place = Place::new();
        std::fs::write(&place.part, foreign).unwrap();
        let report = run(&bed, &place).await.unwrap();
        assert_done(&place, &bed.bytes);
        assert_eq!(report.resumed_bytes, 0);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_part_file_of_another_source_is_replaced() {
    let bed = Bed::new(ServerOptions::of(Flavour::Gcs), LEN).await;
    let other = Bed::new(ServerOptions::of(Flavour::Http), LEN).await;
    let place = Place::new();
    cancel_at(&bed, &place, 5 * SHARD_BYTES, 1000).await;
    let report = run(&other, &place).await.unwrap();
    assert_done(&place, &other.bytes);
    assert_eq!(report.resumed_bytes, 0);
    assert_eq!(sent(&other.server.log()), LEN as u64);
}

/// A link of another user under the part file's name must not redirect the bytes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_symbolic_link_at_the_part_files_path_is_not_followed() {
    let bed = Bed::new(ServerOptions::of(Flavour::Gcs), 1000).await;
    let place = Place::new();
    let victim = place.target.with_file_name("victim");
    std::fs::write(&victim, OLD).unwrap();
    std::os::unix::fs::symlink(&victim, &place.part).unwrap();
    let result = run(&bed, &place).await;
    assert_eq!(std::fs::read(&victim).unwrap(), OLD);
    assert_eq!(result.unwrap_err().kind(), ErrorKind::Storage);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn resuming_can_be_switched_off() {
    let bed = Bed::new(ServerOptions::of(Flavour::Gcs), LEN).await;
    let place = Place::new();
    cancel_at(&bed, &place, 5 * SHARD_BYTES, 1000).await;
    let options = DownloadOptions { resume: Some(false), ..options() };
    let report = within(download(&bed.location(), place.target(), &options)).await.unwrap();
    within(bed.server.idle()).await;
    assert_eq!((report.resumed_bytes, sent(&bed.server.log())), (0, LEN as u64));
    assert_done(&place, &bed.bytes);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_second_run_on_one_target_is_refused_and_changes_nothing() {
    let bed = Bed::new(ServerOptions::of(Flavour::Gcs), LEN).await;
    let place = Place::new();
    let gate = Gate::new();
    let hold = Fault::HoldAfter { bytes: 1000, gate: gate.clone() };
    bed.server.script().push(Rule::new(hold).method("GET"));
    let second = async {
        gate.reached(1).await;
        let options = options();
        let error = download(&bed.location(), place.target(), &options).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Storage);
        assert!(error.to_string().contains("another run"), "{error}");
        assert!(error.hint().is_some());
        gate.open();
    };
    let (first, ()) = within(async { tokio::join!(run(&bed, &place), second) }).await;
    first.unwrap();
    assert_done(&place, &bed.bytes);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dropped_download_ends_its_requests_and_can_be_resumed() {
    for flavour in FLAVOURS {
        let bed = Bed::new(ServerOptions::of(flavour), LEN).await;
        let place = Place::new();
        let gate = Gate::new();
        for shard in [5 * SHARD_BYTES, 9 * SHARD_BYTES] {
            let hold = Fault::HoldAfter { bytes: 1000, gate: gate.clone() };
            let rule = Rule::new(hold).method("GET").range(RangeMatch::StartsAt(shard));
            bed.server.script().push(rule);
        }
        let options = options();
        within(async {
            let location = bed.location();
            tokio::select! {
                _ = download(&location, place.target(), &options) => panic!("it is held"),
                () = gate.reached(2) => {}
            }
        })
        .await;
        within(bed.server.idle()).await;
        settle(&options).await;
        bed.server.script().clear();
        assert_eq!(std::fs::read(&place.target).unwrap(), OLD);
        // The writer thread releases the part file once its queue is empty.
        let report = within(async {
            loop {
                match run(&bed, &place).await {
                    Err(error) if error.to_string().contains("another run") => {}
                    result => break result.unwrap(),
                }
            }
        })
        .await;
        assert_done(&place, &bed.bytes);
        assert_eq!(report.bytes, LEN as u64);
    }
}

/// After a transient error the next run continues. After damage nothing is kept.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failed_download_resumes_where_it_stopped() {
    for flavour in FLAVOURS {
        let bed = Bed::new(ServerOptions::of(flavour), LEN).await;
        let place = Place::new();
        let stay = Rule::new(Fault::status(503)).method("GET");
        bed.server.script().push(stay.range(RangeMatch::StartsFrom(10 * SHARD_BYTES)).always());
        let error = run(&bed, &place).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Exhausted, "{flavour:?}");
        assert!(place.part.exists());
        bed.server.script().clear();
        bed.server.clear_log();
        let report = run(&bed, &place).await.unwrap();
        assert!(report.resumed_bytes >= SHARD_BYTES, "{flavour:?}: {}", report.resumed_bytes);
        assert_eq!(report.resumed_bytes + sent(&bed.server.log()), LEN as u64, "{flavour:?}");
        assert_done(&place, &bed.bytes);
    }
}

fn flip(path: &Path, at: u64) {
    let file = std::fs::OpenOptions::new().read(true).write(true).open(path).unwrap();
    let mut byte = [0];
    file.read_exact_at(&mut byte, at).unwrap();
    file.write_all_at(&[byte[0] ^ 1], at).unwrap();
}
