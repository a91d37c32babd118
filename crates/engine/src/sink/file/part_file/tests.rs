//! One run at a time, private to one user, and only the written file gets the name.

use std::os::unix::fs::{FileExt, PermissionsExt};

use tidegate_core::checksum::{Crc, CrcAlgorithm};
use tokio_util::sync::CancellationToken;

use super::*;

fn part(folder: &std::path::Path) -> Result<PartFile> {
    PartFile::open(FileTarget::new(&folder.join("t"))?, &StateFolder::none())
}

#[test]
fn a_second_run_is_refused_while_the_first_lives() {
    let folder = tempfile::tempdir().unwrap();
    let first = part(folder.path()).unwrap();
    let _owner = first.owner();
    assert!(part(folder.path()).unwrap_err().to_string().contains("another run"));
    drop(first);
    assert!(part(folder.path()).is_ok());
}

/// A second run is refused while a caller wants the first. If the first is abandoned, the second
/// waits for its end.
#[test]
fn an_abandoned_run_is_waited_for() {
    let folder = tempfile::tempdir().unwrap();
    let first = part(folder.path()).unwrap();
    let owner = first.owner();
    assert!(part(folder.path()).unwrap_err().to_string().contains("another run"));
    drop(owner);
    let (ended, ends) = std::sync::mpsc::channel();
    let path = folder.path();
    std::thread::scope(|scope| {
        let second = scope.spawn(move || {
            let second = part(path);
            (second, ends.try_recv().is_ok())
        });
        // A handle that only reads does not keep the lock.
        let reading = first.file.try_clone().unwrap();
        ended.send(()).unwrap();
        drop(first);
        let (second, after) = second.join().unwrap();
        assert!(second.is_ok() && after);
        drop(reading);
    });
}

#[test]
fn commit_replaces_the_target_and_keeps_its_permissions() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t");
    fs::write(&path, b"old").unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
    let part = part(folder.path()).unwrap();
    part.begin(3, None).unwrap();
    part.file.write_all_at(b"new", 0).unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"old");
    part.commit(3, Durability::Full).unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"new");
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o640);
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
}

fn mode(path: &std::path::Path) -> u32 {
    fs::metadata(path).unwrap().mode() & 0o7777
}

#[test]
fn only_the_owner_may_read_it_before_it_has_its_name() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t");
    File::create(folder.path().join("plain")).unwrap();
    let plain = mode(&folder.path().join("plain"));
    for (before, after) in [(None, plain), (Some(0o600), 0o600), (Some(0o666), 0o666)] {
        if let Some(before) = before {
            fs::write(&path, b"old").unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(before)).unwrap();
        }
        let part = part(folder.path()).unwrap();
        part.begin(3, None).unwrap();
        assert_eq!(mode(&part.target.part), 0o600, "replaces {before:?}");
        part.commit(3, Durability::None).unwrap();
        assert_eq!(mode(&path), after, "replaces {before:?}");
    }
}

/// Otherwise other users could open it and write to a file that a later run resumes.
#[test]
fn a_rename_that_fails_leaves_the_part_file_private() {
    for before in [0o666, 0o644, 0o400] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("t");
        fs::write(&path, b"old").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(before)).unwrap();
        let part = part(folder.path()).unwrap();
        // A file cannot be renamed to a folder's name.
        fs::remove_file(&path).unwrap();
        fs::create_dir(&path).unwrap();
        assert!(part.commit(0, Durability::None).is_err());
        assert_eq!(mode(&folder.path().join(".t.tidegate-part")), 0o600, "{before:o}");
    }
}

/// The target's mode at the time of the replacement counts, not its mode before.
#[test]
fn a_target_made_private_meanwhile_stays_private() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t");
    let part = part(folder.path()).unwrap();
    fs::write(&path, b"secret").unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    part.commit(0, Durability::None).unwrap();
    assert_eq!(mode(&path), 0o600);
}

#[test]
fn what_an_earlier_run_left_open_to_others_is_closed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(".t.tidegate-part");
    fs::write(&path, b"left").unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o666)).unwrap();
    let part = part(folder.path()).unwrap();
    assert_eq!((mode(&path), fs::read(&path).unwrap()), (0o600, b"left".to_vec()));
    drop(part);
}

/// A user who owns the file, or has another name for it, would get the bytes.
#[test]
fn a_file_put_in_its_place_by_others_is_not_written_to() {
    let folder = tempfile::tempdir().unwrap();
    let (path, other) = (folder.path().join(".t.tidegate-part"), folder.path().join("other"));
    fs::write(&other, b"theirs").unwrap();
    fs::hard_link(&other, &path).unwrap();
    part(folder.path()).unwrap().begin(3, None).unwrap();
    assert_eq!(fs::read(&other).unwrap(), b"theirs");
    fs::write(&path, b"theirs").unwrap();
    // Only root may change a file's owner.
    if std::os::unix::fs::chown(&path, Some(4321), None).is_ok() {
        let part = part(folder.path()).unwrap();
        assert_eq!(part.file.metadata().unwrap().len(), 0);
        assert_ne!(fs::metadata(&path).unwrap().uid(), 4321);
    }
}

/// If the part file was removed by hand and created again, the older run must not take the newer
/// file for its own.
#[test]
fn only_the_file_that_was_written_gets_the_name() {
    let folder = tempfile::tempdir().unwrap();
    let older = part(folder.path()).unwrap();
    older.file.write_all_at(b"old", 0).unwrap();
    fs::remove_file(&older.target.part).unwrap();
    let younger = part(folder.path()).unwrap();
    younger.file.write_all_at(b"ne", 0).unwrap();
    let error = older.commit(3, Durability::None).unwrap_err();
    assert!(error.to_string().contains("removed or replaced"), "{error}");
    assert!(!folder.path().join("t").exists());
    younger.file.write_all_at(b"new", 0).unwrap();
    younger.commit(3, Durability::None).unwrap();
    assert_eq!(fs::read(folder.path().join("t")).unwrap(), b"new");
}

#[test]
fn only_the_file_that_was_written_is_removed() {
    let folder = tempfile::tempdir().unwrap();
    let older = part(folder.path()).unwrap();
    fs::remove_file(&older.target.part).unwrap();
    let younger = part(folder.path()).unwrap();
    older.remove();
    assert!(younger.target.part.exists());
}

#[test]
fn changed_bytes_are_not_believed() {
    let folder = tempfile::tempdir().unwrap();
    let part = part(folder.path()).unwrap();
    part.file.write_all_at(b"..abc", 0).unwrap();
    let crc = Crc::of(CrcAlgorithm::Crc32c, b"abc");
    let holds = |start| {
        let marks = [Mark { start, crc }];
        let kept = verified_marks(&part.file, &marks, &CancellationToken::new()).unwrap();
        !kept.is_empty()
    };
    assert!(holds(2));
    assert!(!holds(1));
    assert!(!holds(3), "beyond the end of the file");
}
