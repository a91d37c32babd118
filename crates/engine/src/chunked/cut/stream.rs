//! [`CutStream`]: the chunks of a file, delivered to the caller in order while the file is being
//! cut.

use std::collections::VecDeque;
use std::fs::File;
use std::sync::Arc;

use tidegate_core::digest::Digest;
use tokio_util::sync::CancellationToken;

use super::CutOptions;
use super::board::{Board, Taken};
use super::worker;
use crate::error::{Error, ErrorKind, Operation, Result};

/// One chunk of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CutChunk {
    /// Offset of its first byte in the file.
    pub offset: u64,
    /// Its digest, which includes its length.
    pub digest: Digest,
}

/// The chunks of a file, in order; see [`cut_file`](super::cut_file).
#[derive(Debug)]
pub struct CutStream {
    board: Arc<Board>,
    cancel: CancellationToken,
    name: String,
    taken: VecDeque<CutChunk>,
    end: Option<End>,
}

/// How the stream ended.
#[derive(Clone, Copy, Debug)]
enum End {
    Done { whole: Option<Digest> },
    Failed,
}

impl CutStream {
    pub(super) fn begin(file: Arc<File>, options: CutOptions) -> Self {
        let cancel = options.cancel.clone();
        let name = options.name.clone();
        let board = worker::begin(file, options);
        Self { board, cancel, name, taken: VecDeque::new(), end: None }
    }

    /// The next chunk; `None` after the last one and after an error. Cancel-safe.
    ///
    /// # Errors
    ///
    /// `Changed` if the file is too short, `Storage` if it cannot be read, `Cancelled`.
    pub async fn next(&mut self) -> Option<Result<CutChunk>> {
        loop {
            if let Some(chunk) = self.taken.pop_front() {
                return Some(Ok(chunk));
            }
            if self.end.is_some() {
                return None;
            }
            match self.advance().await {
                Ok(chunks) => self.taken.extend(chunks),
                Err(error) => return Some(Err(error)),
            }
        }
    }

    /// Waits for the end and drops the chunks that were not taken. Returns the digest of the whole
    /// file, if requested.
    ///
    /// # Errors
    ///
    /// As [`Self::next`]; `Cancelled` if [`Self::next`] has already returned an error.
    pub async fn finish(mut self) -> Result<Option<Digest>> {
        loop {
            match self.end {
                None => drop(self.advance().await?),
                Some(End::Done { whole }) => return Ok(whole),
                Some(End::Failed) => return Err(self.cancelled()),
            }
        }
    }

    /// Waits for more chunks or for the end.
    async fn advance(&mut self) -> Result<Vec<CutChunk>> {
        loop {
            if self.cancel.is_cancelled() {
                self.board.stop();
                self.end = Some(End::Failed);
                return Err(self.cancelled());
            }
            match self.board.take() {
                Taken::Chunks(chunks) => return Ok(chunks),
                Taken::End(whole) => {
                    self.end = Some(End::Done { whole });
                    return Ok(Vec::new());
                }
                Taken::Failed(error) => {
                    self.end = Some(End::Failed);
                    return Err(error);
                }
                Taken::NotYet => {}
            }
            tokio::select! {
                () = self.cancel.cancelled() => {}
                () = self.board.news() => {}
            }
        }
    }

    fn cancelled(&self) -> Error {
        Error::new(ErrorKind::Cancelled, Operation::Read, &*self.name, "it was cancelled")
    }
}

impl Drop for CutStream {
    fn drop(&mut self) {
        self.board.stop();
    }
}
