//! What an interrupted download from several mirrors leaves, and which later run resumes it.

use super::*;
use crate::resume::Place;

/// Interrupts a download from both, and returns the place with its part file.
async fn interrupted(one: &Bed, two: &Bed) -> Place {
    let place = Place::new();
    for bed in [one, two] {
        bed.server.script().push(Rule::new(Fault::status(500)).nth(5).always());
    }
    fetch(one, place.target(), &options(one, &[two])).await.unwrap_err();
    assert!(place.part.exists());
    for bed in [one, two] {
        bed.server.script().clear();
    }
    place
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_same_run_goes_on_where_it_stopped() {
    let (one, two) = (bed().await, bed().await);
    let place = interrupted(&one, &two).await;
    let report = fetch(&one, place.target(), &options(&one, &[&two])).await.unwrap();
    assert!(report.resumed_bytes > 0, "{report:?}");
    assert!(std::fs::read(&place.target).unwrap() == one.bytes);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_mirror_goes_on_where_the_checksum_decides() {
    let (one, two) = (bed().await, bed().await);
    let place = interrupted(&one, &two).await;
    one.server.remove(one.path());
    let report = fetch(&one, place.target(), &options(&one, &[&two])).await.unwrap();
    assert!(report.resumed_bytes > 0, "{report:?}");
    assert_eq!(of(&report, &two).bytes + report.resumed_bytes, LEN as u64);
    assert!(std::fs::read(&place.target).unwrap() == one.bytes);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn mixed_bytes_are_not_resumed_without_a_checksum() {
    let (one, two) = (bed().await, bed().await);
    let place = interrupted(&one, &two).await;
    // The version is the same, but not all bytes are of this server.
    let report = fetch(&one, place.target(), &without_checksum(&[])).await.unwrap();
    assert_eq!(report.resumed_bytes, 0, "{report:?}");
    assert!(std::fs::read(&place.target).unwrap() == one.bytes);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_resume_by_another_mirror_does_not_make_the_bytes_its_own() {
    let (one, two) = (bed().await, bed().await);
    let place = Place::new();
    // Only the first one delivers.
    one.server.script().push(Rule::new(Fault::status(500)).nth(5).always());
    fetch(&one, place.target(), &without_checksum(&[])).await.unwrap_err();
    one.server.script().clear();
    // Then only the second one, which resumes because a checksum decides.
    one.server.script().push(Rule::new(Fault::status(500)).always());
    two.server.script().push(Rule::new(Fault::status(500)).nth(4).always());
    fetch(&one, place.target(), &options(&one, &[&two])).await.unwrap_err();
    assert!(place.part.exists());
    two.server.script().clear();
    let report = fetch(&two, place.target(), &without_checksum(&[])).await.unwrap();
    assert_eq!(report.resumed_bytes, 0, "{report:?}");
    assert!(std::fs::read(&place.target).unwrap() == one.bytes);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn resumed_bytes_that_are_wrong_are_fetched_again() {
    let (one, two) = (bed().await, bed().await);
    let place = Place::new();
    // A part file with the bytes of another blob of the same length, from a mirror.
    let other = tidegate_testkit::pseudo_random(LEN, 9);
    two.server.replace(two.path(), tidegate_testkit::Blob::new(other));
    two.server.script().push(Rule::new(Fault::status(500)).nth(5).always());
    let first = without_checksum(&[]);
    fetch(&two, place.target(), &first).await.unwrap_err();
    assert!(place.part.exists());
    two.server.remove(two.path());
    let report = fetch(&one, place.target(), &options(&one, &[&two])).await.unwrap();
    assert_eq!(report.resumed_bytes, 0);
    assert_eq!(of(&report, &one).bytes, LEN as u64, "the refuted attempt does not count");
    assert!(std::fs::read(&place.target).unwrap() == one.bytes);
}
