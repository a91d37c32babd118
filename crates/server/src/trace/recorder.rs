//! [`TraceRecorder`]: writes a trace beside the requests of a server.
//!
//! A request puts its record into a bounded queue and never waits. If the queue is full, the record
//! is dropped and counted, so a slow disk costs records and never a request. One thread writes; the
//! recorder owns it and ends it.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::Instant;

use super::format::{HEAD, TraceOperation, TraceRequest};

/// Records in the queue: 2 MiB, and half a second of the requests of a busy server.
const QUEUE_MAX: usize = 64 << 10;

/// The longest line: 20 digits, a word, 16 digits, 20 digits, three spaces and the break.
const LINE_BYTES_MAX: u64 = 64;

/// The bounds of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceLimits {
    /// The trace ends when the file has this many bytes.
    pub file_bytes_max: u64,
}

impl Default for TraceLimits {
    /// 1 GiB: some 30 million requests.
    fn default() -> Self {
        Self { file_bytes_max: 1 << 30 }
    }
}

/// What a recorder wrote.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TraceCounts {
    /// Requests in the file.
    pub written: u64,
    /// Requests that are not in the file, because the queue or the file was full or a write failed.
    pub dropped: u64,
}

/// Records requests. Clones are not needed: it is shared by reference.
#[derive(Debug)]
pub struct TraceRecorder {
    queue: Option<SyncSender<TraceRequest>>,
    dropped: Arc<AtomicU64>,
    started: Instant,
    writer: Option<JoinHandle<io::Result<u64>>>,
}

impl TraceRecorder {
    /// Creates the file, which must not exist, and starts the thread.
    pub fn create(path: &Path, limits: TraceLimits) -> io::Result<Self> {
        Self::start(File::create_new(path)?, limits, QUEUE_MAX)
    }

    fn start(
        output: impl Write + Send + 'static,
        limits: TraceLimits,
        queue_max: usize,
    ) -> io::Result<Self> {
        let (queue, records) = sync_channel(queue_max);
        let dropped = Arc::new(AtomicU64::new(0));
        let counter = Arc::clone(&dropped);
        let writer = std::thread::Builder::new()
            .name("trace".to_owned())
            .spawn(move || write(output, &records, limits, &counter))?;
        Ok(Self { queue: Some(queue), dropped, started: Instant::now(), writer: Some(writer) })
    }

    /// Records one request. Never waits.
    pub fn record(&self, operation: TraceOperation, fingerprint: u64, size_bytes: u64) {
        let passed = self.started.elapsed().as_millis();
        let time_ms = u64::try_from(passed).unwrap_or(u64::MAX);
        let request = TraceRequest { time_ms, operation, fingerprint, size_bytes };
        let is_queued = self.queue.as_ref().is_some_and(|queue| queue.try_send(request).is_ok());
        if !is_queued {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Writes what is in the queue and ends the trace. Blocks.
    ///
    /// Fails if any write failed.
    pub fn finish(mut self) -> io::Result<TraceCounts> {
        let written = self.stop()?;
        Ok(TraceCounts { written, dropped: self.dropped.load(Ordering::Relaxed) })
    }

    fn stop(&mut self) -> io::Result<u64> {
        drop(self.queue.take());
        match self.writer.take().map(JoinHandle::join) {
            Some(Ok(outcome)) => outcome,
            Some(Err(_)) => Err(io::Error::other("the thread that writes the trace panicked")),
            None => Ok(0),
        }
    }
}

impl Drop for TraceRecorder {
    /// Blocks until the queue is written.
    fn drop(&mut self) {
        // `finish` reports a failure.
        let _ = self.stop();
    }
}

/// Writes records until the recorder ends, and returns their number. After a failure and beyond the
/// limit it only counts.
fn write(
    output: impl Write,
    records: &Receiver<TraceRequest>,
    limits: TraceLimits,
    dropped: &AtomicU64,
) -> io::Result<u64> {
    let mut output = BufWriter::new(output);
    let mut outcome = writeln!(output, "{HEAD}");
    let mut file_bytes = HEAD.len() as u64 + 1;
    let mut written = 0;
    let mut last_ms = 0;
    let mut line = Vec::new();
    while let Ok(first) = records.recv() {
        let mut next = Some(first);
        while let Some(mut record) = next {
            // Two threads may put their records in another order than that of their times.
            last_ms = record.time_ms.max(last_ms);
            record.time_ms = last_ms;
            let has_room = file_bytes.saturating_add(LINE_BYTES_MAX) <= limits.file_bytes_max;
            if outcome.is_ok() && has_room {
                line.clear();
                outcome = writeln!(line, "{record}").and_then(|()| output.write_all(&line));
                file_bytes += line.len() as u64;
                written += 1;
            } else {
                dropped.fetch_add(1, Ordering::Relaxed);
            }
            next = records.try_recv().ok();
        }
        // The queue is empty, so a reader of the file sees all of it.
        outcome = outcome.and_then(|()| output.flush());
    }
    outcome?;
    output.flush()?;
    Ok(written)
}

#[cfg(test)]
mod tests {
    use std::io::BufReader;
    use std::sync::mpsc;

    use super::super::TraceReader;
    use super::*;

    #[test]
    fn what_is_recorded_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("trace");
        let recorder = TraceRecorder::create(&path, TraceLimits::default()).unwrap();
        std::thread::scope(|threads| {
            for thread in 0..4 {
                let recorder = &recorder;
                threads.spawn(move || {
                    for number in 0..1000 {
                        recorder.record(TraceOperation::Put, thread, number);
                    }
                });
            }
        });
        let counts = recorder.finish().unwrap();
        assert_eq!(counts, TraceCounts { written: 4000, dropped: 0 });
        let file = BufReader::new(File::open(&path).unwrap());
        let requests: Vec<_> = TraceReader::new(file).unwrap().collect::<Result<_, _>>().unwrap();
        for thread in 0..4 {
            let of_thread = requests.iter().filter(|request| request.fingerprint == thread);
            assert!(of_thread.map(|request| request.size_bytes).eq(0..1000));
        }
        let again = TraceRecorder::create(&path, TraceLimits::default()).unwrap_err();
        assert_eq!(again.kind(), io::ErrorKind::AlreadyExists);
    }

    /// A disk whose first write waits for the test.
    struct Blocked(Receiver<()>);

    impl Write for Blocked {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let _ = self.0.recv();
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_blocked_disk_costs_records_and_no_request() {
        let (release, blocked) = mpsc::channel();
        let recorder = TraceRecorder::start(Blocked(blocked), TraceLimits::default(), 10).unwrap();
        for number in 0..100_000 {
            recorder.record(TraceOperation::Get, number, 1);
        }
        drop(release);
        let counts = recorder.finish().unwrap();
        assert_eq!(counts.written + counts.dropped, 100_000);
        assert!(counts.dropped > 0, "{counts:?}");
    }

    #[test]
    fn a_trace_ends_at_its_limit() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("trace");
        let limits = TraceLimits { file_bytes_max: 1000 };
        let recorder = TraceRecorder::create(&path, limits).unwrap();
        for number in 0..100 {
            recorder.record(TraceOperation::Find, number, 1);
        }
        let counts = recorder.finish().unwrap();
        assert_eq!(counts.written + counts.dropped, 100);
        assert!(counts.written > 10);
        assert!(std::fs::metadata(&path).unwrap().len() <= 1000);
    }

    #[test]
    fn a_failed_write_is_reported_at_the_end() {
        struct Full;
        impl Write for Full {
            fn write(&mut self, _: &[u8]) -> io::Result<usize> {
                Err(io::ErrorKind::StorageFull.into())
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let recorder = TraceRecorder::start(Full, TraceLimits::default(), 10).unwrap();
        recorder.record(TraceOperation::Get, 1, 1);
        assert_eq!(recorder.finish().unwrap_err().kind(), io::ErrorKind::StorageFull);
    }
}
