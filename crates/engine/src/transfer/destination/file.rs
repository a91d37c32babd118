//! A part file as the sink of a download: its start, the thread that hashes it, and whether it is
//! kept when the download fails.

use std::fs::File;
use std::sync::Arc;

use super::hashing::Hashing;
use super::{DestinationOptions, PartStart};
use crate::budget::BytesPermit;
use crate::error::{Error, Operation, Rest, Result};
use crate::progress::Progress;
use crate::sink::file::PartFile;
use crate::sink::file::follow::{self, WrittenBytes};
use crate::sink::file::part_file::Begun;
use crate::sink::file::target::storage_error;
use crate::sink::file::writer::WriteFailed;
use crate::sink::{FileSink, Mark};
use crate::transfer::blocking::blocking;

/// An open part file with its sink and its hashing thread.
pub(super) struct OpenedFile {
    pub(super) sink: FileSink,
    pub(super) hashing: Hashing,
    pub(super) reader: Arc<File>,
    pub(super) granted: Option<BytesPermit>,
    pub(super) note: Option<String>,
}

/// Starts the threads that write and hash the file.
pub(super) async fn open(part: PartFile, options: DestinationOptions) -> Result<OpenedFile> {
    let DestinationOptions { range, hashers, start, granted, lends, durability, progress, .. } =
        options;
    let kept = match &start {
        PartStart::Empty(_) => Vec::new(),
        PartStart::Kept(_, marks) | PartStart::Resumed(_, marks) => marks.clone(),
    };
    // The length of the file, if it is known.
    let len = if range.end == u64::MAX { 0 } else { range.end - range.start };
    let started = begin(part, start, len).await?;
    let Started { part, begun, reader } = started;
    let (mut hashing, mut written) = (Hashing::None, None);
    if !hashers.is_empty() {
        let follower =
            Arc::new(if lends { WrittenBytes::lending() } else { WrittenBytes::default() });
        for Mark { start, crc } in &kept {
            follower.written(*start..start + crc.len());
        }
        match follow::follow(Arc::clone(&reader), Arc::clone(&follower), hashers) {
            Ok(thread) => hashing = Hashing::File(thread),
            Err(error) => {
                let error = Error::no_thread(Operation::Verify, part.target.display(), error);
                let rest = leave(part, true, &progress).await;
                return Err(error.with_rest(rest));
            }
        }
        written = Some(follower);
    }
    // When the sink ends, it closes `written`, and that ends the hashing thread.
    match FileSink::new(part, begun.journal, written, durability) {
        Ok(sink) => {
            Ok(OpenedFile { sink, hashing, reader, granted: granted.permit, note: begun.note })
        }
        Err(failed) => {
            let (part, error) = *failed;
            let rest = leave(part, true, &progress).await;
            Err(error.with_rest(rest))
        }
    }
}

/// A part file with its disk space and its journal.
struct Started {
    part: PartFile,
    begun: Begun,
    reader: Arc<File>,
}

/// Reserves disk space for a part file, and begins its journal.
async fn begin(part: PartFile, start: PartStart, len: u64) -> Result<Started> {
    blocking(move || {
        let keeps = !matches!(&start, PartStart::Empty(_));
        let begun = match start {
            PartStart::Empty(identity) => part.begin(len, identity.as_ref()),
            PartStart::Kept(identity, marks) => part.begin_over(&identity, &marks),
            PartStart::Resumed(journal, _) => Ok(Begun { journal: Some(journal), note: None }),
        };
        let read = || {
            let failed = |error| storage_error(Operation::Read, &part.target.display(), error);
            part.reader().map(Arc::new).map_err(failed)
        };
        match begun.and_then(|begun| Ok((begun, read()?))) {
            Ok((begun, reader)) => Ok(Started { part, begun, reader }),
            Err(error) if keeps => Err(error.with_rest(Rest::Kept)),
            Err(error) => {
                part.remove();
                Err(error)
            }
        }
    })
    .await
}

/// Keeps a part file that a later run can resume, or removes it. Returns what is left.
pub(super) async fn leave(part: PartFile, keeps: bool, progress: &Progress) -> Rest {
    let had_any = progress.snapshot().done_bytes > 0;
    let rest = blocking(move || {
        if keeps && part.remembers() {
            return Ok(Rest::Kept);
        }
        part.remove();
        Ok(if had_any { Rest::Lost } else { Rest::Nothing })
    });
    rest.await.unwrap_or(Rest::Nothing)
}

/// The error of a file that could not be written, with a hint about what is left.
pub(super) async fn not_written(failed: WriteFailed, progress: &Progress) -> Error {
    let WriteFailed { part, error } = failed;
    match part {
        Some(part) => {
            let rest = leave(part, true, progress).await;
            error.with_rest(rest)
        }
        None => error,
    }
}
