//! Torn, flipped, forged and foreign journals are refused, and ours are found.

use std::ffi::OsStr;

use super::super::user_key::UserKey;
use super::*;
use crate::remote::Version;

fn identity() -> Identity {
    Identity {
        source: "http://host/blob".to_owned(),
        selected: Some(Selected { all: [1; 32], object: [2; 32] }),
        revision: None,
        coding: None,
        version: Version::ETag("\"a\"".to_owned()),
        len_bytes: 10_000,
        crc: CrcName::Crc64Nvme,
    }
}

fn ours() -> Sealing {
    sealing(Some(1), "part")
}

fn sealing(key: Option<u8>, name: &str) -> Sealing {
    Sealing::new(key.map(UserKey::of_test), OsStr::new(name))
}

fn find(file: &File) -> Option<Found> {
    Journal::find(file, &ours()).unwrap().journal()
}

fn mark(start: u64, bytes: &[u8]) -> Mark {
    Mark { start, crc: Crc::of(CrcAlgorithm::Crc64Nvme, bytes) }
}

fn written() -> File {
    let file = tempfile::tempfile().unwrap();
    let mut journal = Journal::create(&file, &ours(), &identity()).unwrap();
    journal.append(&file, mark(0, b"abc")).unwrap();
    journal.append(&file, mark(100, b"defg")).unwrap();
    file
}

#[test]
fn what_was_written_is_found() {
    let found = find(&written()).unwrap();
    assert_eq!(found.identity, identity());
    assert_eq!(found.marks, [mark(0, b"abc"), mark(100, b"defg")]);
}

#[test]
fn a_found_journal_goes_on_where_it_ended() {
    let file = written();
    let mut found = find(&file).unwrap();
    found.journal.append(&file, mark(200, b"h")).unwrap();
    assert_eq!(find(&file).unwrap().marks.len(), 3);
}

#[test]
fn every_torn_end_leaves_the_records_before_it() {
    let file = written();
    let len = file.metadata().unwrap().len();
    for cut in 1..=RECORD_BYTES as u64 {
        file.set_len(len - cut).unwrap();
        let found = find(&file).unwrap();
        assert_eq!(found.marks, [mark(0, b"abc")], "{cut} bytes torn off");
        written_again(&file);
    }
}

fn written_again(file: &File) {
    let mut journal = Journal::create(file, &ours(), &identity()).unwrap();
    journal.append(file, mark(0, b"abc")).unwrap();
    journal.append(file, mark(100, b"defg")).unwrap();
}

#[test]
fn a_flipped_bit_anywhere_never_gives_another_record() {
    let file = written();
    let begin = start(10_000).unwrap();
    let len = file.metadata().unwrap().len();
    for offset in begin..len {
        let mut byte = [0];
        file.read_exact_at(&mut byte, offset).unwrap();
        file.write_all_at(&[byte[0] ^ 0x10], offset).unwrap();
        if let Some(found) = find(&file) {
            assert_eq!(found.identity, identity());
            let known = [mark(0, b"abc"), mark(100, b"defg")];
            assert!(found.marks.iter().all(|mark| known.contains(mark)), "at {offset}");
        }
        file.write_all_at(&byte, offset).unwrap();
    }
}

#[test]
fn foreign_and_empty_files_have_no_journal() {
    let file = tempfile::tempfile().unwrap();
    assert!(find(&file).is_none());
    file.write_all_at(&vec![0xA5; 100_003], 0).unwrap();
    assert!(find(&file).is_none());
}

#[test]
fn absurd_lengths_are_refused() {
    assert_eq!(start(u64::MAX), None);
    assert_eq!(start(0), Some(0));
    assert_eq!(start(4097), Some(8192));
}

/// A forger who knows the format but not the key can write a whole journal. It is not accepted.
#[test]
fn what_was_sealed_otherwise_is_not_believed() {
    for forger in [sealing(Some(2), "part"), sealing(Some(1), "other"), sealing(None, "part")] {
        let file = tempfile::tempfile().unwrap();
        let mut journal = Journal::create(&file, &forger, &identity()).unwrap();
        journal.append(&file, mark(0, b"abc")).unwrap();
        assert!(matches!(Journal::find(&file, &ours()).unwrap(), Ending::Foreign), "{forger:?}");
        let found = Journal::find(&file, &forger).unwrap().journal().unwrap();
        assert_eq!((found.marks.len(), found.is_sealed), (1, forger.key.is_some()));
    }
}

/// A valid header does not make the records behind it valid.
#[test]
fn a_forged_record_in_a_genuine_journal_is_passed_over() {
    let file = written();
    let mut found = find(&file).unwrap();
    let next = found.journal.next;
    found.journal.seal = sealing(Some(2), "part").of_journal(b"");
    found.journal.append(&file, mark(300, b"forged")).unwrap();
    assert_eq!(find(&file).unwrap().marks, [mark(0, b"abc"), mark(100, b"defg")]);
    // A record that was moved is not accepted either.
    let mut record = [0; RECORD_BYTES];
    file.read_exact_at(&mut record, next - RECORD_BYTES as u64).unwrap();
    file.write_all_at(&record, next).unwrap();
    assert_eq!(find(&file).unwrap().marks.len(), 2);
}

/// Without a key every whole record is read, and the caller decides how far to trust it.
#[test]
fn without_a_key_nothing_is_known_to_be_ours() {
    let found = Journal::find(&written(), &sealing(None, "x")).unwrap().journal().unwrap();
    assert_eq!((found.marks.len(), found.is_sealed), (2, false));
}

/// Format 1 had no seals.
#[test]
fn a_journal_of_format_1_is_not_believed() {
    let mut record = [0; RECORD_BYTES];
    record[..4].copy_from_slice(b"TGJ1");
    record[8] = KIND_HEADER;
    let crc = Crc::of(CrcAlgorithm::Crc32c, &record[8..]).value();
    record[4..8].copy_from_slice(&crc.to_le_bytes()[..4]);
    let file = tempfile::tempfile().unwrap();
    file.write_all_at(&record, 4096).unwrap();
    for sealing in [ours(), sealing(None, "part")] {
        assert!(matches!(Journal::find(&file, &sealing).unwrap(), Ending::Foreign));
    }
}

#[test]
fn two_journals_of_one_blob_are_sealed_differently() {
    let (one, other) = (written(), written());
    let last = |file: &File| {
        let mut record = [0; RECORD_BYTES];
        let len = file.metadata().unwrap().len();
        file.read_exact_at(&mut record, len - RECORD_BYTES as u64).unwrap();
        record
    };
    assert_ne!(last(&one), last(&other));
}

#[test]
fn a_header_that_could_not_be_read_back_is_not_written() {
    let long = Identity { source: "x".repeat(HEADER_BYTES_MAX), ..identity() };
    let error = Journal::create(&tempfile::tempfile().unwrap(), &ours(), &long).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::FileTooLarge);
}

proptest::proptest! {
    /// No bytes from a server, at the end of a file, cause a panic or are accepted.
    #[test]
    fn no_bytes_make_a_journal(
        bytes in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..600),
        flips in proptest::collection::vec((0_usize..5000, 1_u8..), 0..4),
        forged in proptest::prelude::any::<bool>(),
    ) {
        let file = tempfile::tempfile().unwrap();
        if forged {
            let sealing = sealing(Some(9), "part");
            let mut journal = Journal::create(&file, &sealing, &identity()).unwrap();
            journal.append(&file, mark(0, b"abc")).unwrap();
        }
        let end = file.metadata().unwrap().len();
        file.write_all_at(&bytes, end).unwrap();
        for (back, flip) in flips {
            let len = file.metadata().unwrap().len();
            let Some(at) = len.checked_sub(back as u64 + 1) else { continue };
            let mut byte = [0];
            file.read_exact_at(&mut byte, at).unwrap();
            file.write_all_at(&[byte[0] ^ flip], at).unwrap();
        }
        proptest::prop_assert!(find(&file).is_none());
        // Without a key this must not panic either; the caller verifies the extents in another way.
        let _ = Journal::find(&file, &sealing(None, "part")).unwrap();
    }
}
