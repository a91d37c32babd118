//! The condition on the target: whether the remote keeps it, and whether it holds at present.
//!
//! A remote that compares first and writes afterwards would let two writers succeed, and each would
//! believe that it was the only one. So a condition is refused unless the remote keeps it in a race:
//! [`WriteProfile`](crate::remote::WriteProfile) says so, and
//! [`Write::prove`](crate::remote::Write::prove) confirms it.

use super::Transfer;
use crate::error::{Error, ErrorKind, Operation, Result};
use crate::remote::{Guarantee, Precondition, WriteWay};

/// Refuses a condition that the remote does not promise to keep, before any byte is read.
pub(super) fn refuse_early(transfer: &Transfer) -> Result<()> {
    let precondition = &transfer.options.write.precondition;
    let profile = transfer.write()?.write_profile(precondition);
    profile.check(precondition, Guarantee::Atomic, transfer.target.display())
}

/// Fails if the remote does not keep the condition in a race. No byte of the source is sent before.
///
/// A cancelled transfer waits for the end of a race, which removes what it stored.
pub(super) async fn prove(transfer: &Transfer, way: WriteWay) -> Result<()> {
    if transfer.options.write.precondition == Precondition::None {
        return Ok(());
    }
    let (write, blob) = (transfer.write()?, &transfer.target.blob);
    let limit = transfer.calls.patience(0);
    let mut attempts = transfer.calls.begin();
    loop {
        let permit = attempts.permit().await?;
        let proof = write.prove(blob, &transfer.options.write, way);
        let outcome = tokio::time::timeout(limit, proof).await;
        drop(permit);
        match outcome {
            Ok(Ok(note)) => {
                if let Some(note) = note {
                    transfer.note(note);
                }
                return Ok(());
            }
            Ok(Err(error)) => attempts.interrupted(error).await?,
            Err(_elapsed) => {
                let seconds = limit.as_secs_f64();
                let message = format!("the proof of its conditions took more than {seconds} s");
                return Err(transfer.error(ErrorKind::Timeout, message));
            }
        }
    }
}

/// Fails if the condition is already known not to hold: before the first byte is sent. A blob that
/// cannot be looked at may still be written, so other failures do not count.
pub(super) async fn check(transfer: &Transfer, precondition: &Precondition) -> Result<()> {
    if *precondition == Precondition::None {
        return Ok(());
    }
    let (target, limit) = (&transfer.target, transfer.calls.patience(0));
    let found = transfer.calls.first(limit, |_| async {
        match precondition {
            Precondition::Version(version) => {
                target.remote.stat_version(&target.blob, version).await
            }
            _ => target.remote.stat(&target.blob).await,
        }
    });
    let found = found.await;
    let refuse =
        |kind, message: String| Err(Error::new(kind, Operation::Upload, target.display(), message));
    match (precondition, found) {
        (Precondition::Absent, Ok(_)) => {
            refuse(ErrorKind::AlreadyExists, "a blob of that name is already there".to_owned())
        }
        (Precondition::Version(wanted), Err(error))
            if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::Changed) =>
        {
            let message = format!("the blob that was to be replaced is not {wanted}");
            refuse(ErrorKind::Changed, message)
        }
        _ => Ok(()),
    }
}
