//! [`SourceCutter`]: the first stage. It delivers the file's chunks with their digests, in order, as
//! they become known, and at the end the digest of the whole file.
//!
//! A blob that is put whole is one chunk; it is hashed on one of the runtime's blocking threads.

use std::pin::Pin;
use std::sync::Arc;

use bytes::BytesMut;
use futures_util::FutureExt;
use tidegate_core::checksum::Checksummer;
use tidegate_core::chunking::Chunking;
use tidegate_core::digest::{Digest, DigestFunction};
use tokio_util::sync::{CancellationToken, DropGuard};

use super::source::SourceFile;
use crate::budget::Budget;
use crate::chunked::cut::{CutOptions, CutStream, cut_file};
use crate::error::{Error, ErrorKind, Operation, Result};

/// Bytes of one read of a file that is hashed whole.
const READ_BYTES: u64 = 1 << 20;

/// Chunks delivered together, if they are ready: this bounds how long other work waits.
const TOGETHER_MAX: usize = 256;

/// One step of cutting.
#[derive(Debug)]
pub(super) enum Cut {
    /// The next chunks, at least one.
    Chunks(Vec<Digest>),
    /// There are no more chunks; the digest of the whole file.
    End(Digest),
}

/// Chunks as they become known. Dropping it ends the work.
pub(super) struct SourceCutter {
    file: Arc<SourceFile>,
    stage: Stage,
}

enum Stage {
    Chunks {
        stream: CutStream,
        failure: Option<Error>,
    },
    /// The file as one chunk, whose digest is computed or known.
    Whole(
        Pin<Box<dyn Future<Output = Result<Digest>> + Send>>,
        #[expect(dead_code, reason = "ends hashing when dropped")] DropGuard,
    ),
    End(Digest),
    Ended,
}

impl SourceCutter {
    /// Starts to cut. The digest of the whole file is computed at the same time, even if the caller
    /// gives it: a store that does not verify would give the file a wrong name.
    pub(super) fn chunks(
        file: &Arc<SourceFile>,
        digest_function: DigestFunction,
        chunking: Chunking,
        budget: &Budget,
        cancel: &CancellationToken,
    ) -> Self {
        let options = CutOptions {
            chunking,
            digest_function,
            whole: true,
            len: file.len(),
            name: file.name().to_string(),
            budget: budget.clone(),
            cancel: cancel.clone(),
        };
        let stream = cut_file(Arc::clone(file.file()), options);
        Self { file: Arc::clone(file), stage: Stage::Chunks { stream, failure: None } }
    }

    /// The whole file as one chunk; `known` is its digest if it is already known.
    pub(super) fn whole(
        file: &Arc<SourceFile>,
        digest_function: DigestFunction,
        known: Option<Digest>,
        budget: &Budget,
    ) -> Self {
        let (source, budget, stop) = (Arc::clone(file), budget.clone(), CancellationToken::new());
        let stopped = stop.clone();
        let digest = async move {
            if let Some(known) = known {
                return Ok(known);
            }
            let permit = budget.bytes(READ_BYTES).await;
            source
                .blocking(move |file| {
                    let digest = hash(file, digest_function, permit.bytes(), &stopped);
                    drop(permit);
                    digest
                })
                .await
        };
        let stage = Stage::Whole(Box::pin(digest), stop.drop_guard());
        Self { file: Arc::clone(file), stage }
    }

    /// The next step. Cancel-safe.
    pub(super) async fn next(&mut self) -> Result<Cut> {
        match &mut self.stage {
            Stage::Whole(digest, _) => {
                let digest = digest.await?;
                self.stage = Stage::End(digest);
                Ok(Cut::Chunks(vec![digest]))
            }
            Stage::End(digest) => {
                let digest = *digest;
                self.stage = Stage::Ended;
                Ok(Cut::End(digest))
            }
            Stage::Ended => Err(self.early()),
            Stage::Chunks { stream, failure, .. } => {
                if let Some(error) = failure.take() {
                    return Err(error);
                }
                match stream.next().await {
                    Some(chunk) => {
                        let mut chunks = vec![chunk.map_err(placed)?.digest];
                        while chunks.len() < TOGETHER_MAX
                            && let Some(Some(chunk)) = stream.next().now_or_never()
                        {
                            match chunk {
                                Ok(chunk) => chunks.push(chunk.digest),
                                Err(error) => {
                                    *failure = Some(placed(error));
                                    break;
                                }
                            }
                        }
                        Ok(Cut::Chunks(chunks))
                    }
                    None => self.end().await,
                }
            }
        }
    }

    /// After the last chunk: the digest of the whole file, which must match the one that the caller
    /// gave.
    async fn end(&mut self) -> Result<Cut> {
        match std::mem::replace(&mut self.stage, Stage::Ended) {
            Stage::Chunks { stream, .. } => match stream.finish().await.map_err(placed)? {
                Some(digest) => self.file.check_named(&digest).map(|()| Cut::End(digest)),
                None => Err(self.early()),
            },
            _ => Err(self.early()),
        }
    }

    fn early(&self) -> Error {
        let name = &**self.file.name();
        Error::new(ErrorKind::Cancelled, Operation::Upload, name, "cutting it ended early")
    }
}

/// For an upload, the hint for a changed file is to send it again, not to fetch it.
fn placed(error: Error) -> Error {
    match error.kind() {
        ErrorKind::Changed => error.with_hint("upload it again when no process writes to it"),
        _ => error,
    }
}

fn hash(
    file: &SourceFile,
    function: DigestFunction,
    buffer_bytes: u64,
    stopped: &CancellationToken,
) -> Result<Digest> {
    let failed = |kind, message: &str| Error::new(kind, Operation::Upload, &**file.name(), message);
    let mut checksummer = Checksummer::new(function.algorithm()).map_err(|error| {
        failed(ErrorKind::Unsupported, "its digest cannot be computed").caused_by(error)
    })?;
    let count = usize::try_from(buffer_bytes.min(READ_BYTES).min(file.len())).unwrap_or(usize::MAX);
    let mut buffer = BytesMut::zeroed(count);
    let mut hashed = 0;
    while hashed < file.len() {
        if stopped.is_cancelled() {
            return Err(failed(ErrorKind::Cancelled, "it was cancelled"));
        }
        let left = usize::try_from(file.len() - hashed).unwrap_or(usize::MAX);
        let piece = &mut buffer[..left.min(count)];
        file.read(hashed, piece)?;
        checksummer.update(piece);
        hashed += piece.len() as u64;
    }
    // Both functions give 32 bytes.
    let hash = checksummer.finish().as_bytes().try_into().unwrap_or_default();
    Ok(Digest { function, hash, len: file.len() })
}
