//! [`upload`]: makes a source a blob of a remote, in one request or in parts.
//!
//! | file | idea |
//! |---|---|
//! | `options` | what the caller chooses |
//! | `source` | where the bytes come from |
//! | `file` | a file that is read by position, and watched for changes |
//! | `stream` | a stream, read part by part into memory |
//! | `encode` | a source is compressed on the way |
//! | `piece` | the payload of a range: read once for its checksum, once to be sent, and compared |
//! | `plan` | the lengths of the parts |
//! | `sums` | the checksums of the parts and of the whole |
//! | `units` | parts in flight, by window and budget |
//! | `send` | one request with bytes, and how long it may stall |
//! | `parted` | an upload in parts, from its beginning to its end |
//! | `whole` | a blob in one request |
//! | `copying` | a blob of a remote is the source |
//! | `condition` | whether the condition on the target can be kept, and holds |
//! | `copied_parts` | the provider copies it in parts |
//! | `kept` | the description of a copy |
//! | `landed` | what happened to a request whose response was lost |
//! | `journal`, `resume` | an interrupted upload of a file goes on |
//! | `proof` | the remote's checksum is compared with that of the bytes that were sent |
//!
//! Invariants:
//! - The remote makes the blob only of bytes whose checksum was computed before they were sent, and
//!   compared while they were sent.
//! - A source that changes is an error, and no blob is made.
//! - Whatever is held in memory is taken from the budget. A part of a file is not held.

mod condition;
mod copied_parts;
pub(crate) mod copying;
mod encode;
mod file;
#[cfg(fuzzing)]
pub(crate) mod fuzzed;
mod journal;
pub(crate) mod kept;
mod landed;
mod options;
mod parted;
mod piece;
mod plan;
mod proof;
mod resume;
mod send;
mod source;
mod stream;
mod sums;
pub(crate) mod tags;
mod units;
mod whole;

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tidegate_core::checksum::{Checksum, ChecksumAlgorithm};
use tidegate_core::retry::RetryPolicy;
use tokio::time::Instant;

pub use self::encode::ContentCoding;
pub use self::options::OnFailure;
pub(crate) use self::options::UploadOptions;
pub(crate) use self::plan::stream_bytes_max;
use self::source::OpenedSource;
pub use self::source::UploadSource;
pub(crate) use self::source::frames;
use crate::budget::Budget;
use crate::error::{Error, ErrorKind, Operation, Result};
use crate::progress::Progress;
use crate::remote::{Location, PartProfile, Write, WriteOptions, Written};
use crate::report::{Form, Report};
use crate::transfer::attempt::Calls;
use crate::transfer::deadline;
use crate::transfer::window::TransferWindow;
use crate::verified::Verified;

/// How often an upload begins anew: after a remote refused a checksum, or lost the upload.
const BEGINNINGS_MAX: u32 = 4;

/// One upload.
#[derive(Debug)]
struct Transfer {
    target: Location,
    calls: Calls,
    budget: Budget,
    progress: Arc<Progress>,
    window: Arc<TransferWindow>,
    options: UploadOptions,
    /// Set when the remote has confirmed the checksum of every request with bytes.
    unconfirmed: AtomicBool,
    /// What the user must know beside the outcome.
    notes: Mutex<Vec<String>>,
}

impl Transfer {
    fn write(&self) -> Result<&dyn Write> {
        self.target.write()
    }

    fn error(&self, kind: ErrorKind, message: impl Into<String>) -> Error {
        self.calls.error(kind, message)
    }

    /// The checksum that the remote verifies at present.
    fn algorithm(&self) -> Result<Option<ChecksumAlgorithm>> {
        let profile = self.write()?.write_profile(&self.options.write.precondition);
        Ok(profile.put_checksums.first().copied())
    }
}

/// What a finished upload made.
#[derive(Debug)]
struct Made {
    written: Written,
    /// The options of the write, with its mark.
    options: WriteOptions,
    len_bytes: u64,
    resumed_bytes: u64,
    checksum: Option<Checksum>,
    parts: u32,
    notes: Vec<String>,
}

/// Uploads `source` to `target`.
pub(crate) async fn upload(
    target: &Location,
    source: UploadSource,
    options: UploadOptions,
) -> Result<Report> {
    let (cancel, deadline_ms) = (options.cancel.clone(), options.retry.deadline_ms);
    deadline::in_time(deadline_ms, &cancel, Operation::Upload, target.display(), |cancel| {
        run(target.clone(), source, UploadOptions { cancel, ..options })
    })
    .await
}

async fn run(target: Location, source: UploadSource, mut options: UploadOptions) -> Result<Report> {
    let start = Instant::now();
    let path = source.as_path().map(Path::to_owned);
    encode::describe(path, &mut options).await?;
    let progress = Arc::clone(&options.progress);
    let stats = progress.call_stats();
    let calls = Calls {
        // The deadline is that of the whole upload, and `upload` enforces it.
        policy: RetryPolicy { deadline_ms: None, ..options.retry.clone() },
        budget: options.budget.clone(),
        cancel: options.cancel.clone(),
        operation: Operation::Upload,
        target: target.display().into(),
        stats: Arc::clone(&stats),
    };
    let mut transfer = Transfer {
        calls,
        budget: options.budget.clone(),
        progress,
        window: Arc::new(TransferWindow::new(options.window)),
        unconfirmed: AtomicBool::new(false),
        notes: Mutex::default(),
        target,
        options,
    };
    condition::refuse_early(&transfer)?;
    encode::adapt(&mut transfer)?;
    let transfer = Arc::new(transfer);
    let (coding, taken) = (transfer.options.coding, Arc::new(AtomicU64::new(0)));
    let opened = OpenedSource::open(source, &transfer.options).await?;
    let opened = encode::encoded(opened, coding, &taken)?;
    transfer.progress.expect(opened.len());
    let made = transfer.make(opened).await?;
    let (verified, info) = transfer.prove(&made).await?;
    let checksums = made.checksum.into_iter().collect();
    let mut notes = transfer.take_notes();
    notes.extend(made.notes);
    Ok(Report {
        bytes: made.len_bytes,
        resumed_bytes: made.resumed_bytes,
        elapsed: start.elapsed(),
        totals: stats.totals(),
        held_bytes_peak: transfer.budget.held_bytes_peak(),
        info,
        digest: None,
        checksums,
        verified,
        form: if made.parts > 1 { Form::Parts } else { Form::Whole },
        chunks: None,
        notes,
        source_bytes: coding.map(|_| taken.load(Ordering::Relaxed)),
        mirrors: Vec::new(),
        memory: None,
    })
}

impl Transfer {
    fn note(&self, note: String) {
        self.notes.lock().unwrap_or_else(PoisonError::into_inner).push(note);
    }

    fn take_notes(&self) -> Vec<String> {
        std::mem::take(&mut *self.notes.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Makes the blob. Begins anew if the remote refuses the checksum, or loses the upload.
    async fn make(self: &Arc<Self>, opened: OpenedSource) -> Result<Made> {
        let opened = match opened {
            OpenedSource::Stream(stream) if stream::needs_length(self)? => {
                condition::check(self, &self.options.write.precondition).await?;
                Arc::new(stream::spool(self, Some(stream), None).await?)
            }
            OpenedSource::Stream(stream) => return stream::upload(self, stream).await,
            OpenedSource::PositionalSource(at) => at,
        };
        let mut beginnings = 1;
        loop {
            let algorithm = self.algorithm()?;
            let error = match self.make_once(&opened, algorithm).await {
                Ok(made) => return Ok(made),
                Err(error) => error,
            };
            let is_refused =
                error.kind() == ErrorKind::Unsupported && self.algorithm()? != algorithm;
            if !(is_refused || landed::is_lost(&error)) || beginnings >= BEGINNINGS_MAX {
                return Err(error);
            }
            tracing::debug!(target = self.target.display(), error = error.chain(), "begins anew");
            beginnings += 1;
            self.progress.begin_anew(opened.len(), 0);
        }
    }

    async fn make_once(
        self: &Arc<Self>,
        source: &Arc<source::PositionalSource>,
        algorithm: Option<ChecksumAlgorithm>,
    ) -> Result<Made> {
        let profile = self.write()?.write_profile(&self.options.write.precondition);
        let len = source.len();
        if len > profile.blob_bytes_max {
            let max = profile.blob_bytes_max;
            let message = format!("it has {len} bytes, and the remote takes at most {max}");
            return Err(self.error(ErrorKind::Unsupported, message));
        }
        let parts = profile.parts.filter(|_| !self.options.is_whole);
        let part_bytes = match &parts {
            Some(parts) => Some(self.planned(len, self.options.part_bytes, parts)?),
            None => None,
        };
        match part_bytes {
            Some(part_bytes) if len > part_bytes || len > profile.put_bytes_max => {
                parted::upload(self, source, part_bytes).await
            }
            _ if len <= profile.put_bytes_max => whole::upload(self, source, algorithm).await,
            _ => {
                let max = profile.put_bytes_max;
                let message =
                    format!("it has {len} bytes, and one request to the remote at most {max}");
                Err(self.error(ErrorKind::Unsupported, message))
            }
        }
    }

    /// The length of the parts of `len` bytes.
    fn planned(&self, len: u64, wished: Option<u64>, profile: &PartProfile) -> Result<u64> {
        let planned = plan::part_bytes(len, wished, profile);
        planned.map_err(|no_plan| self.error(ErrorKind::Unsupported, no_plan.to_string()))
    }

    /// Records whether the remote confirmed the checksum of a request.
    fn confirmed(&self, sent: Option<&Checksum>, confirmed: Option<&Checksum>) {
        if sent.is_none() || sent != confirmed {
            self.unconfirmed.store(true, Ordering::Relaxed);
        }
    }

    async fn prove(&self, made: &Made) -> Result<(Verified, crate::remote::BlobInfo)> {
        proof::compare(self, made).await
    }
}

/// Bytes as hexadecimal digits.
fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    bytes.iter().fold(String::new(), |mut text, byte| {
        // Writing to a string does not fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}
