//! What happened to a request whose response was lost.
//!
//! A remote may have made the blob although its response did not arrive. A second request would
//! then be refused: the condition no longer holds, or the upload is gone. So after an attempt
//! without a response, such a refusal means "look": the blob is ours if it has our mark
//! ([`WriteOptions::mark`](crate::remote::WriteOptions::mark)).

use std::future::Future;
use std::time::Duration;

use super::{Transfer, hex};
use crate::error::{Error, ErrorKind, Operation, Result};
use crate::remote::{WriteOptions, Written};
use crate::store::SendProgress;

/// The message of an upload that the remote does not know any more.
const LOST: &str = "the remote has lost the upload";

/// Whether the remote may have executed the request that failed so.
fn is_unknown(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::Transport | ErrorKind::Timeout | ErrorKind::Remote)
}

/// Whether the refusal may be the consequence of an earlier success of our own.
fn may_be_ours(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::AlreadyExists | ErrorKind::Changed | ErrorKind::NotFound)
}

/// The error of an upload that must begin anew.
pub(super) fn lost(transfer: &Transfer, cause: Error) -> Error {
    transfer.error(ErrorKind::NotFound, LOST).caused_by(cause)
}

/// Whether the upload must begin anew.
pub(super) fn is_lost(error: &Error) -> bool {
    error.kind() == ErrorKind::NotFound && error.to_string().ends_with(LOST)
}

/// What a blob is made of.
#[derive(Clone, Copy, Debug)]
pub(super) enum Making {
    /// The bytes of the request, as many as this.
    Sent(u64),
    /// What the remote has; it may take this long.
    Stored(Duration),
}

impl Transfer {
    /// Makes the attempts at a request that makes the blob. `look` finds out what became of an attempt without a response.
    pub(super) async fn make_blob<C, CFut, L, LFut>(
        &self,
        making: Making,
        mut call: C,
        mut look: L,
    ) -> Result<Written>
    where
        C: FnMut(SendProgress) -> CFut,
        CFut: Future<Output = Result<Written>>,
        L: FnMut() -> LFut,
        LFut: Future<Output = Result<Option<Written>>>,
    {
        let mut attempts = self.calls.begin();
        let mut unknown = false;
        loop {
            let permit = attempts.permit().await?;
            if unknown {
                let seen = attempts.within(self.calls.patience(0), look()).await;
                match seen {
                    Ok(Some(written)) => return Ok(written),
                    Ok(None) => {}
                    Err(error) if error.kind() == ErrorKind::NotFound => return Err(error),
                    Err(error) => {
                        drop(permit);
                        attempts.interrupted(error).await?;
                        continue;
                    }
                }
            }
            // A request without bytes of the blob may wait long for its response, and sends nothing.
            let outcome = match making {
                Making::Sent(len) => {
                    attempts.within(self.calls.patience(len), self.once(len, &mut call)).await
                }
                Making::Stored(limit) => {
                    attempts.within(limit, call(SendProgress::default())).await
                }
            };
            let error = match outcome {
                Ok(written) => return Ok(written),
                Err(error) => error,
            };
            unknown = unknown || is_unknown(&error);
            if unknown
                && may_be_ours(&error)
                && let Ok(Some(written)) = attempts.within(self.calls.patience(0), look()).await
            {
                return Ok(written);
            }
            drop(permit);
            attempts.interrupted(error).await?;
        }
    }
}

/// Options with a mark of their own, so that the blob can be recognised.
pub(super) fn marked(options: &WriteOptions) -> Result<WriteOptions> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).map_err(|error| {
        let message = "the system gives no random bytes";
        Error::new(ErrorKind::Storage, Operation::Upload, "the upload", message)
            .caused_by(std::io::Error::from(error))
    })?;
    Ok(WriteOptions { mark: Some(hex(&bytes)), ..options.clone() })
}
