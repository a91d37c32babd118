//! A blob that changes while it is fetched, and responses that contradict each other. The engine
//! never mixes versions, and never delivers a partial blob as whole.

use std::os::unix::fs::MetadataExt;

use tidegate::ErrorKind;
use tidegate::remote::RemoteOptions;
use tidegate_testkit::{Blob, Fault, Flavour, Rule, ServerOptions, pseudo_random};

use crate::bed::Bed;
use crate::call::{ReadOptions, client_of};
use crate::faults::{FLAVOURS, LEN, WINDOWS, once, options, requests};
use crate::trial::{KINDS, Kind, Trial};

/// A blob changes between two shards, or while a shard restarts.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_blob_that_changes_is_never_mixed() {
    let other = Blob::new(pseudo_random(LEN, 8)).with_version(2);
    let shorter = Blob::new(pseudo_random(LEN - 70_000, 9)).with_version(3);
    for flavour in [Flavour::Http, Flavour::Gcs, Flavour::S3, Flavour::Azure] {
        for window in WINDOWS {
            for kind in KINDS {
                for new in [&other, &shorter] {
                    let bed = Bed::new(ServerOptions::of(flavour), LEN).await;
                    if window == 1 {
                        bed.server.script().push(once(Fault::CutAfter(100_000)));
                    }
                    bed.server
                        .script()
                        .push(Rule::new(Fault::ChangedVersion(new.clone())).method("GET").nth(2));
                    let trial = Trial::run(&bed, kind, &options(window)).await;
                    let label = format!("{flavour:?} {window} {kind:?}");
                    trial.assert_fails(&bed, kind, ErrorKind::Changed, &label);
                }
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replaced_generation_that_still_exists_is_downloaded_whole() {
    let other = Blob::new(pseudo_random(LEN, 8)).with_version(2);
    for window in WINDOWS {
        let options_of = ServerOptions { versioning: true, ..ServerOptions::of(Flavour::Gcs) };
        let bed = Bed::new(options_of, LEN).await;
        if window == 1 {
            bed.server.script().push(once(Fault::CutAfter(100_000)));
        }
        let change = Rule::new(Fault::ChangedVersion(other.clone())).method("GET").nth(2);
        bed.server.script().push(change);
        let trial = Trial::run(&bed, Kind::File, &options(window)).await;
        let expected = requests(Flavour::Gcs, window) + usize::from(window == 1);
        trial.assert_whole(&bed, expected, &format!("{window}"));
    }
}

/// The body changes in the middle, and its head does not show the change. Only the checksum or a
/// later request can reveal it. Plain HTTP has no checksum here, so a change after the last request
/// goes unseen there.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_body_that_changes_midway_is_detected() {
    let other = Blob::new(pseudo_random(LEN, 8)).with_version(2);
    for flavour in [Flavour::Gcs, Flavour::S3] {
        for window in WINDOWS {
            for kind in KINDS {
                let bed = Bed::new(ServerOptions::of(flavour), LEN).await;
                let tear = Fault::ChangeDuringBody { after: 1000, blob: other.clone() };
                bed.server.script().push(Rule::new(tear).method("GET"));
                let trial = Trial::run(&bed, kind, &options(window)).await;
                let label = format!("{flavour:?} {window} {kind:?}");
                // Timing decides whether another request follows the change.
                let error = trial.result.as_ref().map(|_| ()).unwrap_err().kind();
                let is_reported = matches!(error, ErrorKind::Integrity | ErrorKind::Changed);
                assert!(is_reported, "{label}: {error:?}");
            }
        }
    }
}

/// One response gives a wrong length, and the other responses give the right one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wrong_length_is_never_delivered() {
    for flavour in FLAVOURS {
        for delta in [-70_000, -5, 5, 70_000] {
            for nth in [1, 2, 5] {
                for kind in KINDS {
                    let bed = Bed::new(ServerOptions::of(flavour), LEN).await;
                    let lie = Rule::new(Fault::LieAboutLength(delta)).method("GET").nth(nth);
                    bed.server.script().push(lie);
                    let trial = Trial::run(&bed, kind, &options(4)).await;
                    let label = format!("{flavour:?} {delta} {nth} {kind:?}");
                    match &trial.result {
                        Ok(report) => {
                            assert_eq!(report.bytes, LEN as u64, "{label}");
                            assert!(
                                trial.content.as_ref().is_none_or(|c| *c == bed.bytes),
                                "{label}"
                            );
                        }
                        Err(error) => assert!(
                            matches!(
                                error.kind(),
                                ErrorKind::Integrity | ErrorKind::Changed | ErrorKind::Exhausted
                            ),
                            "{label}: {error:?}"
                        ),
                    }
                }
            }
        }
    }
}

/// A local file is written to or replaced. The new content has the same length, and the
/// modification time is set back.
#[tokio::test]
async fn a_local_file_with_an_old_modification_time_is_another_version() {
    for is_replaced in [false, true] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("blob");
        std::fs::write(&path, vec![1; 8 << 20]).unwrap();
        let before = std::fs::metadata(&path).unwrap();
        let location = client_of(RemoteOptions::default()).locate(path.to_str().unwrap()).unwrap();
        let mut channel = crate::call::read(location.clone(), ReadOptions::default());
        channel.next().await.unwrap().unwrap();
        let state = channel.capture().unwrap();
        let new = if is_replaced { folder.path().join("new") } else { path.clone() };
        // The file system's clock advances only in ticks.
        loop {
            std::fs::write(&new, vec![2; 8 << 20]).unwrap();
            if std::fs::metadata(&new).unwrap().ctime_nsec() != before.ctime_nsec() {
                break;
            }
        }
        let file = std::fs::OpenOptions::new().write(true).open(&new).unwrap();
        file.set_modified(before.modified().unwrap()).unwrap();
        std::fs::rename(&new, &path).unwrap();
        let after = std::fs::metadata(&path).unwrap();
        assert_eq!(
            (before.len(), before.modified().unwrap()),
            (after.len(), after.modified().unwrap())
        );
        let restored =
            crate::call::restore_as_it_was(&location, &state, &tidegate::Budget::default());
        let kind = restored.unwrap().next().await.map(drop).map_err(|error| error.kind());
        assert_eq!(kind, Err(ErrorKind::Changed), "replaced: {is_replaced}");
    }
}
