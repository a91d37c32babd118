//! Mirrors that cannot be mixed with others: they are used alone, if the first one fails.

use tidegate::{ErrorKind, Target};
use tidegate_core::range::ByteRange;

use super::*;

/// Delivers a part of the blob, then fails.
fn dies(bed: &Bed) {
    bed.server.script().push(Rule::new(Fault::status(500)).nth(3).always());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_checksum_bytes_are_not_mixed() {
    let (one, two) = (bed().await, bed().await);
    let report = fetch(&one, Target::Memory, &without_checksum(&[&two])).await.unwrap();
    assert!(*report.memory.as_ref().unwrap() == one.bytes);
    assert_eq!(of(&report, &one).bytes, LEN as u64);
    assert!(of(&report, &two).unused.as_ref().unwrap().contains("no checksum"));
    assert!(data_requests(&two).is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_checksum_another_mirror_delivers_the_whole_blob() {
    for kind in KINDS {
        let (one, two) = (bed().await, bed().await);
        dies(&one);
        let options = without_checksum(&[&two]);
        let progress = std::sync::Arc::clone(&options.progress);
        let trial = Trial::run(&one, kind, &options).await;
        within(two.server.idle()).await;
        if kind == Kind::Writer {
            // What was written cannot be taken back.
            trial.assert_fails(&one, kind, ErrorKind::Exhausted, "writer");
            continue;
        }
        let report = trial.result.as_ref().unwrap_or_else(|error| panic!("{kind:?}: {error:?}"));
        if let Some(content) = &trial.content {
            assert!(*content == one.bytes, "{kind:?}");
        }
        assert_eq!(of(report, &two).bytes, LEN as u64, "{kind:?}");
        assert!(of(report, &one).unused.is_some(), "{kind:?}");
        let snapshot = progress.snapshot();
        let bytes = (snapshot.done_bytes, snapshot.len_bytes);
        assert_eq!(bytes, (LEN as u64, Some(LEN as u64)), "{kind:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_range_comes_from_one_mirror() {
    let (one, two) = (bed().await, bed().await);
    let range = ByteRange::Bounded(1000..900_000);
    let options = DownloadOptions { range: Some(range), ..without_checksum(&[&two]) };
    let report = fetch(&one, Target::Memory, &options).await.unwrap();
    assert!(*report.memory.as_ref().unwrap() == one.bytes[1000..900_000]);
    assert_eq!(of(&report, &two).bytes, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_mirror_without_ranges_gives_way_to_one_with_ranges() {
    let whole = Bed::new(ServerOptions { ranges: false, ..ServerOptions::default() }, LEN).await;
    let (two, three) = (bed().await, bed().await);
    for (first, others) in [(&whole, [&two, &three]), (&two, [&whole, &three])] {
        let report = fetch(first, Target::Memory, &options(&two, &others)).await.unwrap();
        assert!(*report.memory.as_ref().unwrap() == two.bytes);
        let unused = of(&report, &whole);
        assert_eq!(unused.bytes, 0);
        assert!(unused.unused.as_ref().unwrap().contains("ranges"), "{unused:?}");
        assert_eq!(of(&report, &two).bytes + of(&report, &three).bytes, LEN as u64);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_mirror_without_ranges_is_used_if_no_other_is_left() {
    let whole = Bed::new(ServerOptions { ranges: false, ..ServerOptions::default() }, LEN).await;
    let two = bed().await;
    dies(&two);
    for (first, other) in [(&whole, &two), (&two, &whole)] {
        let report = fetch(first, Target::Memory, &options(&two, &[other])).await.unwrap();
        assert!(*report.memory.as_ref().unwrap() == two.bytes);
        assert_eq!(of(&report, &whole).bytes, LEN as u64);
    }
}
