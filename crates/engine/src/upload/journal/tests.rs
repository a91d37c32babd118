//! Journals that are torn, foreign, damaged, readable by others or in use.

use std::os::unix::fs::symlink;
use std::path::Path;

use proptest::prelude::*;

use super::*;
use crate::remote::{PartNumber, StoredPart, UploadId, WriteOptions};

const PART: u64 = 5 << 20;

fn stamp() -> Version {
    Version::FileStamp("1".to_owned())
}

fn open(path: &Path) -> Option<UploadJournal> {
    UploadJournal::locked(path.to_owned(), stamp()).unwrap()
}

fn upload() -> Upload {
    let id = UploadId::new("crc64nvme:\"id\n\u{e4}\"");
    Upload::new("a/\"blob\"\n", id, &WriteOptions::default())
}

fn done(number: u32) -> Done {
    let mut stored = StoredPart::new(PartNumber::new(number).unwrap(), PART);
    stored.tag = Some(format!("\"tag\n{number}\""));
    let crc = Crc::from_value(tidegate_core::checksum::CrcAlgorithm::Crc64Nvme, 7, PART);
    Done { stored, crc }
}

/// The text of a journal with three parts.
async fn written(path: &Path) -> Vec<u8> {
    let journal = open(path).unwrap();
    journal.begin(&upload(), PART, 3 * PART).await;
    for number in [2, 1, 3] {
        journal.record(&done(number)).await;
    }
    fs::read(path).unwrap()
}

fn recorded(path: &Path, text: &[u8]) -> Option<Recorded> {
    fs::write(path, text).unwrap();
    open(path).unwrap().recorded()
}

#[tokio::test]
async fn what_was_recorded_is_found() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("uploads/journal");
    written(&path).await;
    let found = open(&path).unwrap().recorded().unwrap();
    assert_eq!(found.upload, upload());
    assert_eq!((found.part_bytes, found.len, found.stamp), (PART, 3 * PART, stamp()));
    assert_eq!(found.parts.keys().copied().collect::<Vec<_>>(), [1, 2, 3]);
    assert_eq!(found.parts[&2].crc(PART), Some(done(2).crc));
    assert_eq!(found.parts[&2].tag, done(2).stored.tag);
}

#[tokio::test]
async fn a_new_upload_replaces_what_was_recorded() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("journal");
    written(&path).await;
    let journal = open(&path).unwrap();
    journal.begin(&upload(), PART, PART).await;
    drop(journal);
    let found = open(&path).unwrap().recorded().unwrap();
    assert_eq!((found.len, found.parts.len()), (PART, 0));
}

#[tokio::test]
async fn a_torn_journal_has_the_parts_before_the_tear() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("journal");
    let text = written(&path).await;
    let lines_before = |at: usize| text[..at].split(|byte| *byte == b'\n').count() - 1;
    for at in 0..=text.len() {
        let found = recorded(&path, &text[..at]);
        let expected = lines_before(at).checked_sub(1);
        assert_eq!(found.map(|found| found.parts.len()), expected, "torn after {at} bytes");
    }
}

#[tokio::test]
async fn a_part_that_is_recorded_after_a_tear_is_found() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("journal");
    let text = written(&path).await;
    fs::write(&path, &text[..text.len() - 5]).unwrap();
    let journal = open(&path).unwrap();
    assert_eq!(journal.recorded().unwrap().parts.len(), 2);
    journal.record(&done(3)).await;
    drop(journal);
    let found = open(&path).unwrap().recorded().unwrap();
    assert_eq!(found.parts.keys().copied().collect::<Vec<_>>(), [1, 2, 3]);
}

#[tokio::test]
async fn a_journal_of_another_form_is_not_used() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("journal");
    let text = String::from_utf8(written(&path).await).unwrap();
    let newer = text.replacen("\"form\":1", "\"form\":2", 1);
    assert_ne!(newer, text);
    assert!(recorded(&path, newer.as_bytes()).is_none());
    for foreign in [&b"{}\n"[..], b"\n", b"\xff\xfe\n", b"[]\n[]\n", b"null\n"] {
        assert!(recorded(&path, foreign).is_none());
    }
}

#[tokio::test]
async fn one_process_at_a_time_has_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("journal");
    let first = open(&path).unwrap();
    assert!(open(&path).is_none());
    drop(first);
    let second = open(&path).unwrap();
    second.remove().await;
    assert!(!path.exists());
}

#[tokio::test]
async fn only_its_owner_can_read_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("uploads/journal");
    let mode = |path: &Path| fs::metadata(path).unwrap().mode() & 0o777;
    written(&path).await;
    assert_eq!((mode(&path), mode(path.parent().unwrap())), (0o600, 0o700));
    fs::set_permissions(&path, Permissions::from_mode(0o644)).unwrap();
    drop(open(&path));
    assert_eq!(mode(&path), 0o600);
}

#[test]
fn a_link_is_no_journal() {
    let folder = tempfile::tempdir().unwrap();
    let (path, other) = (folder.path().join("journal"), folder.path().join("other"));
    fs::write(&other, "precious").unwrap();
    symlink(&other, &path).unwrap();
    assert!(UploadJournal::locked(path, stamp()).is_err());
    assert_eq!(fs::read(&other).unwrap(), b"precious");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// No bytes cause a panic, and a damaged line adds no part that was not recorded.
    #[test]
    fn damage_costs_only_parts(at in 0..10_000_usize, byte in any::<u8>()) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("journal");
        let mut text = runtime.block_on(written(&path));
        let at = at % text.len();
        text[at] = byte;
        if let Some(found) = recorded(&path, &text) {
            prop_assert!(found.parts.len() <= 3);
        }
    }
}
