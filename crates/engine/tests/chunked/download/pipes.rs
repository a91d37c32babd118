//! A named pipe as the target: the download waits for its reader, and ends when it is cancelled or
//! dropped.

use std::sync::mpsc;
use std::time::Duration;

use futures_util::poll;
use rustix::fs::{CWD, Mode, mkfifoat};
use tidegate::{ErrorKind, Target};

use super::bed::{Bed, chunks};
use crate::call::download_chunks;

/// Longer than any test needs.
const HANG: Duration = Duration::from_secs(20);

/// A bed with a pipe as its target.
fn piped() -> Bed {
    let bed = Bed::new(chunks((0..4).map(|seed| (300_000, seed))));
    mkfifoat(CWD, bed.path(), Mode::RUSR | Mode::WUSR).unwrap();
    bed
}

#[tokio::test]
async fn a_pipe_gets_the_bytes_once_it_is_read() {
    let bed = piped();
    let store = bed.dyn_store();
    let mut run =
        Box::pin(download_chunks(&store, &bed.blob, Target::File(bed.path()), &bed.options));
    assert!(poll!(&mut run).is_pending());
    let path = bed.path();
    let reading = std::thread::spawn(move || std::fs::read(path));
    run.await.unwrap();
    assert!(reading.join().unwrap().unwrap() == bed.content());
    assert!(!bed.part().exists());
}

#[tokio::test]
async fn a_wait_for_a_reader_can_be_cancelled() {
    let bed = piped();
    let store = bed.dyn_store();
    let mut run =
        Box::pin(download_chunks(&store, &bed.blob, Target::File(bed.path()), &bed.options));
    assert!(poll!(&mut run).is_pending());
    bed.options.cancel.cancel();
    let outcome = tokio::time::timeout(HANG, run).await;
    // Opens the pipe, so that a thread that still waits cannot keep the test from ending.
    let _reader = std::fs::File::options().read(true).write(true).open(bed.path()).unwrap();
    let error = outcome.expect("it goes on waiting").unwrap_err();
    assert_eq!((error.kind(), bed.store.log().len()), (ErrorKind::Cancelled, 0));
}

#[test]
fn a_dropped_wait_for_a_reader_leaves_no_thread() {
    let bed = piped();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let store = bed.dyn_store();
        let target = Target::File(bed.path());
        let mut run = Box::pin(download_chunks(&store, &bed.blob, target, &bed.options));
        assert!(poll!(&mut run).is_pending());
        // Threads take their work in order: the work of the poll has begun once this has.
        tokio::task::spawn_blocking(|| ()).await.unwrap();
    });
    let (ended, ends) = mpsc::channel();
    let dropping = std::thread::spawn(move || {
        // Waits for every thread that has begun.
        drop(runtime);
        let _ = ended.send(());
    });
    let outcome = ends.recv_timeout(HANG);
    let _reader = std::fs::File::options().read(true).write(true).open(bed.path()).unwrap();
    dropping.join().unwrap();
    assert!(outcome.is_ok(), "a thread goes on waiting");
}
