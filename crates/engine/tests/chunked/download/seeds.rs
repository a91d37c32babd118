//! Chunks of seeds are copied instead of fetched, and each is verified.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

use bytes::Bytes;
use tidegate::{Form, Target};
use tidegate_core::checksum::{ChecksumAlgorithm, Checksummer};
use tidegate_core::chunking::{Chunking, FastCdc2020Params, cuts};
use tidegate_core::digest::{Digest, DigestFunction};
use tidegate_testkit::pseudo_random;

use super::bed::Bed;
use super::fake::FakeStore;

fn chunking() -> Chunking {
    Chunking::FastCdc2020(FastCdc2020Params::new(4096, 0).unwrap())
}

/// An old version, and a new one that differs in a few places.
fn versions() -> (Vec<u8>, Vec<u8>) {
    let old = pseudo_random(2_000_000, 1).to_vec();
    let mut new = old.clone();
    new.splice(1_500_000..1_500_010, *b"other");
    new[300_000] ^= 1;
    new.extend_from_slice(b"more");
    (old, new)
}

/// A store that holds `content`, cut as seeds are.
fn bed(content: &[u8]) -> Bed {
    let bytes = Bytes::copy_from_slice(content);
    let mut rest = bytes.clone();
    let chunks = cuts(&chunking(), &bytes).map(|len| rest.split_to(len)).collect();
    let store = FakeStore::new().with_profile(|profile| profile.chunkings = vec![chunking()]);
    let bed = Bed::on(store, chunks);
    bed.store.hold(&bed.blob, &bed.chunks, Some(chunking()));
    bed
}

/// A bed for the new version, with a seed of the old one.
fn seeded() -> (Bed, PathBuf) {
    let (old, new) = versions();
    let mut bed = bed(&new);
    let seed = bed.folder.path().join("old");
    fs::write(&seed, old).unwrap();
    bed.options.seeds = vec![seed.clone()];
    (bed, seed)
}

fn index_of(seed: &Path) -> PathBuf {
    seed.with_file_name(format!(".{}.tidegate-chunks", seed.file_name().unwrap().to_str().unwrap()))
}

#[tokio::test(start_paused = true)]
async fn only_what_the_seed_lacks_is_fetched() {
    let (bed, seed) = seeded();
    let report = bed.to_file().await.unwrap();
    assert!(report.chunks.unwrap().moved.chunks <= 8, "{report:?}");
    assert!(report.chunks.unwrap().reused.bytes > 1_900_000, "{report:?}");
    assert_eq!(
        report.chunks.unwrap().reused.bytes + report.chunks.unwrap().moved.bytes,
        bed.blob.len
    );
    assert!(index_of(&seed).exists());
    for target in [Target::Memory, Target::Discard] {
        let again = bed.run(target).await.unwrap();
        assert_eq!(again.chunks.unwrap().reused.bytes, report.chunks.unwrap().reused.bytes);
    }
    let (again, given) = bed.to_writer().await;
    assert!(again.is_ok() && given == bed.content());
}

#[tokio::test(start_paused = true)]
async fn the_file_that_has_the_name_already_is_a_seed() {
    let (old, new) = versions();
    let mut bed = bed(&new);
    fs::write(bed.path(), &old).unwrap();
    let report = bed.to_file().await.unwrap();
    assert!(report.chunks.unwrap().reused.bytes > 1_900_000, "{report:?}");
    let files = || fs::read_dir(bed.folder.path()).unwrap().count();
    assert_eq!(files(), 1, "no index is kept of what is replaced");
    let report = bed.to_file().await.unwrap();
    assert_eq!((report.chunks.unwrap().moved.chunks, files()), (0, 1), "it is the blob itself");
    bed.options.seed_target = Some(false);
    assert_eq!(bed.to_file().await.unwrap().chunks.unwrap().reused.chunks, 0);
}

/// Gives the seed a forged index: valid for the file as it is now, with the chunks of `before`.
fn forge(seed: &Path, before: &[u8]) {
    let now = fs::read(index_of(seed)).unwrap();
    let header_end = |index: &[u8]| {
        12 + usize::try_from(u32::from_le_bytes(index[8..12].try_into().unwrap())).unwrap()
    };
    let chunks = &before[header_end(before)..before.len() - 32];
    let mut forged = [&now[..header_end(&now)], chunks].concat();
    let mut seal = Checksummer::new(ChecksumAlgorithm::Blake3).unwrap();
    seal.update(&forged);
    forged.extend_from_slice(seal.finish().as_bytes());
    fs::write(index_of(seed), forged).unwrap();
}

/// Changes the seed, with an index that does not show the change.
async fn change(bed: &Bed, seed: &Path, change: impl FnOnce()) {
    let index = fs::read(index_of(seed)).unwrap();
    change();
    // Makes the index of the seed as it is now.
    bed.run(Target::Memory).await.unwrap();
    forge(seed, &index);
}

/// The index is trusted for the places of chunks, never for their bytes. A chunk that is no longer
/// there costs a fetch.
#[tokio::test(start_paused = true)]
async fn a_seed_that_changes_under_its_index_costs_a_fetch() {
    let (bed, seed) = seeded();
    let first = bed.run(Target::Memory).await.unwrap();
    let mut bytes = fs::read(&seed).unwrap();
    bytes[1_000_000] ^= 1;
    change(&bed, &seed, || fs::write(&seed, &bytes).unwrap()).await;
    let report = bed.to_file().await.unwrap();
    // Exactly one chunk more is fetched: so the index was used, and the bytes were verified.
    assert_eq!(report.chunks.unwrap().moved.chunks, first.chunks.unwrap().moved.chunks + 1);
    assert_eq!(report.chunks.unwrap().reused.chunks, first.chunks.unwrap().reused.chunks - 1);
    let (report, given) = bed.to_writer().await;
    assert!(report.is_ok() && given == bed.content());
}

#[tokio::test(start_paused = true)]
async fn a_seed_that_is_cut_short_meanwhile_costs_fetches() {
    let (bed, seed) = seeded();
    bed.run(Target::Memory).await.unwrap();
    let cut_short = || {
        let file = fs::File::options().write(true).open(&seed).unwrap();
        file.set_len(1_000_000).unwrap();
        file.set_len(2_000_000).unwrap();
    };
    change(&bed, &seed, cut_short).await;
    let report = bed.to_file().await.unwrap();
    assert!(
        report.chunks.unwrap().reused.bytes < 1_000_000
            && report.chunks.unwrap().reused.bytes > 900_000,
        "{report:?}"
    );
}

/// A program can reset a file's modification time, but not its change time.
#[tokio::test(start_paused = true)]
async fn a_change_with_an_old_modification_time_makes_the_index_stale() {
    let (bed, seed) = seeded();
    let first = bed.run(Target::Memory).await.unwrap();
    let before = fs::metadata(&seed).unwrap();
    // The same length as before, and nearly the bytes of the blob. Repeated until the change time
    // moves, because the clock of the file system stands still between its ticks.
    while fs::metadata(&seed).unwrap().ctime_nsec() == before.ctime_nsec() {
        fs::write(&seed, [&bed.content()[..], b"x"].concat()).unwrap();
    }
    let file = fs::File::options().write(true).open(&seed).unwrap();
    file.set_modified(before.modified().unwrap()).unwrap();
    assert_eq!(fs::metadata(&seed).unwrap().len(), before.len());
    let report = bed.to_file().await.unwrap();
    assert!(
        report.chunks.unwrap().moved.chunks <= 2 && first.chunks.unwrap().moved.chunks > 2,
        "{report:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_stale_index_is_not_used() {
    let (bed, seed) = seeded();
    let first = bed.run(Target::Memory).await.unwrap();
    let index = fs::read(index_of(&seed)).unwrap();
    // A time with as many digits as any other in the index's header, so that only the digits
    // differ.
    let then = UNIX_EPOCH + Duration::new(1_600_000_000, 123_456_789);
    // The same length as before, but nearly the bytes of the blob.
    fs::write(&seed, [&bed.content()[..], b"x"].concat()).unwrap();
    fs::File::options().write(true).open(&seed).unwrap().set_modified(then).unwrap();
    let report = bed.to_file().await.unwrap();
    assert!(
        report.chunks.unwrap().moved.chunks <= 2 && first.chunks.unwrap().moved.chunks > 2,
        "{report:?}"
    );
    assert!(fs::read(index_of(&seed)).unwrap() != index);
}

#[tokio::test(start_paused = true)]
async fn an_index_that_is_damaged_is_replaced() {
    let (bed, seed) = seeded();
    let first = bed.run(Target::Memory).await.unwrap();
    let index = index_of(&seed);
    let right = fs::read(&index).unwrap();
    let mut wrong = right.clone();
    let last = wrong.len() - 1;
    wrong[last] ^= 1;
    fs::write(&index, wrong).unwrap();
    let report = bed.to_file().await.unwrap();
    assert_eq!(report.chunks.unwrap().reused.chunks, first.chunks.unwrap().reused.chunks);
    assert!(fs::read(&index).unwrap() == right);
}

#[tokio::test(start_paused = true)]
async fn an_unusable_seed_is_reported_in_a_note() {
    let (_, new) = versions();
    let mut bed = bed(&new);
    let folder = bed.folder.path();
    bed.options.seeds = vec![folder.join("none"), folder.to_path_buf()];
    let report = bed.to_file().await.unwrap();
    assert_eq!(report.notes.len(), 2, "{:?}", report.notes);
    assert_eq!(report.chunks.unwrap().reused.chunks, 0);
}

#[tokio::test(start_paused = true)]
async fn a_chunk_of_the_seed_goes_to_all_its_places() {
    let old = pseudo_random(100_000, 1).to_vec();
    let new = [&old[..], &old[..], &old[..]].concat();
    let mut bed = bed(&new);
    let seed = bed.folder.path().join("old");
    fs::write(&seed, old).unwrap();
    bed.options.seeds = vec![seed];
    let report = bed.to_file().await.unwrap();
    assert!(
        report.chunks.unwrap().reused.bytes > 80_000 && report.chunks.unwrap().moved.chunks < 8,
        "{report:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn blobs_named_by_blake3_have_seeds_too() {
    let (old, new) = versions();
    let mut bed = bed(&new);
    bed.blob = Digest::of(DigestFunction::Blake3, &new);
    bed.store.hold(&bed.blob, &bed.chunks, Some(chunking()));
    fs::write(bed.path(), old).unwrap();
    let report = bed.to_file().await.unwrap();
    assert!(report.chunks.unwrap().reused.bytes > 1_900_000, "{report:?}");
}

/// Chunks that are no longer in the seed are fetched in batches, as without a seed.
#[tokio::test(start_paused = true)]
async fn a_seed_that_lost_everything_costs_few_requests() {
    let (bed, seed) = seeded();
    bed.run(Target::Memory).await.unwrap();
    let found = fs::metadata(&seed).unwrap();
    fs::write(&seed, vec![0; usize::try_from(found.len()).unwrap()]).unwrap();
    let file = fs::File::options().write(true).open(&seed).unwrap();
    file.set_modified(found.modified().unwrap()).unwrap();
    for is_file in [true, false] {
        bed.store.forget();
        let report = if is_file { bed.to_file().await } else { bed.to_writer().await.0 };
        let report = report.unwrap();
        assert_eq!(
            (report.chunks.unwrap().reused.chunks, report.chunks.unwrap().moved.bytes),
            (0, bed.blob.len)
        );
        assert!(
            report.chunks.unwrap().moved.chunks > 300 && bed.store.fetches().len() < 30,
            "{report:?}"
        );
    }
}

/// After a download the blob's chunks are known: the index is the same as that of a cut.
#[tokio::test(start_paused = true)]
async fn a_target_that_is_kept_with_its_index_is_not_cut_as_a_seed() {
    let (old, new) = versions();
    let (mut old, mut new) = (bed(&old), bed(&new));
    let index = index_of(&old.path());
    old.to_file().await.unwrap();
    assert!(!index.exists(), "the caller did not ask for it");
    old.options.index_target = Some(true);
    old.to_file().await.unwrap();
    let kept = fs::read(&index).unwrap();
    fs::remove_file(&index).unwrap();
    new.options.seeds = vec![old.path()];
    let cut = new.run(Target::Memory).await.unwrap();
    assert!(fs::read(&index).unwrap() == kept);
    assert!(cut.chunks.unwrap().reused.bytes > 1_900_000, "{cut:?}");

    // All chunks have moved: with the index each is looked for at its old place, and not found.
    let mut moved = old.content();
    moved.rotate_left(1);
    change(&new, &old.path(), || fs::write(old.path(), moved).unwrap()).await;
    new.options.seeds.clear();
    new.folder = old.folder;
    new.options.index_target = Some(true);
    let report = new.to_file().await.unwrap();
    assert_eq!(report.chunks.unwrap().reused.chunks, 0, "the target's own index was used");
    let fresh = fs::read(&index).unwrap();
    assert!(fresh != kept);
    // The index now matches the file.
    let report = new.to_file().await.unwrap();
    assert_eq!((report.chunks.unwrap().moved.chunks, report.notes.len()), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn an_index_that_cannot_be_kept_is_a_note() {
    let mut bed = bed(&versions().0);
    bed.options.index_target = Some(true);
    fs::create_dir(index_of(&bed.path())).unwrap();
    let report = bed.to_file().await.unwrap();
    assert_eq!(report.notes.len(), 1, "{:?}", report.notes);
    assert_eq!(fs::read_dir(bed.folder.path()).unwrap().count(), 2, "nothing else is left");
}

/// A blob that was fetched whole was not verified chunk by chunk.
#[tokio::test(start_paused = true)]
async fn a_blob_fetched_whole_has_no_index() {
    let mut bed = bed(&versions().0);
    bed.options.index_target = Some(true);
    bed.store.evict(&bed.digest(7));
    assert!(bed.to_file().await.unwrap().form == Form::Whole);
    assert_eq!(fs::read_dir(bed.folder.path()).unwrap().count(), 1);
}

/// A pipe as a seed would never end.
#[tokio::test(start_paused = true)]
async fn a_pipe_is_no_seed() {
    let (_, new) = versions();
    let mut bed = bed(&new);
    let pipe = bed.folder.path().join("pipe");
    let mode = rustix::fs::Mode::from_raw_mode(0o600);
    rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, mode, 0).unwrap();
    bed.options.seeds = vec![pipe];
    let report = bed.to_file().await.unwrap();
    assert_eq!((report.notes.len(), report.chunks.unwrap().reused.chunks), (1, 0));
}
