//! A blob in one request.

use std::sync::Arc;

use tidegate_core::checksum::{Checksum, ChecksumAlgorithm};

use super::landed::Making;
use super::source::PositionalSource;
use super::{Made, Transfer, condition, landed, piece};
use crate::error::Result;
use crate::remote::{Payload, WriteOptions, WriteWay, Written};
use crate::store::SendProgress;

/// Sends a source that is read by position.
pub(super) async fn upload(
    transfer: &Arc<Transfer>,
    source: &Arc<PositionalSource>,
    algorithm: Option<ChecksumAlgorithm>,
) -> Result<Made> {
    let len = source.len();
    condition::check(transfer, &transfer.options.write.precondition).await?;
    condition::prove(transfer, WriteWay::Put).await?;
    let held = transfer.calls.unless_cancelled(transfer.budget.bytes(piece::held_bytes(len)));
    let held = held.await?;
    let sums = source.sums(0..len, algorithm).await?;
    source.check_unchanged().await?;
    let options = described(transfer, source.as_ref())?;
    let written = put(transfer, len, &options, |sending| source.payload(0..len, &sums, sending));
    let written = written.await?;
    drop(held);
    let made = Made {
        written,
        options,
        len_bytes: len,
        resumed_bytes: 0,
        checksum: Some(sums.crc.to_checksum()),
        parts: 1,
        notes: source.note().into_iter().collect(),
    };
    Ok(made)
}

/// The options of the write, with a mark and the time of the source.
pub(super) fn described(transfer: &Transfer, source: &PositionalSource) -> Result<WriteOptions> {
    let mut options = landed::marked(&transfer.options.write)?;
    if options.modified.is_none() {
        options.modified = source.file().and_then(|file| file.modified());
    }
    Ok(options)
}

/// Puts a payload, which `payload` makes for each attempt.
pub(super) async fn put(
    transfer: &Transfer,
    len: u64,
    options: &WriteOptions,
    payload: impl Fn(&SendProgress) -> Payload,
) -> Result<Written> {
    let (write, blob) = (transfer.write()?, &transfer.target.blob);
    let call = |sending: SendProgress| {
        let payload = payload(&sending);
        async move { write.put(blob, &payload, options).await }
    };
    let written =
        transfer.make_blob(Making::Sent(len), call, || write.landed(blob, options)).await?;
    transfer.progress.done(len);
    let sent = payload(&SendProgress::default()).checksum().cloned();
    let confirmed = |sum: &Checksum| {
        written.checksums.iter().any(|stored| stored.checksum == *sum).then_some(())
    };
    transfer.confirmed(sent.as_ref(), sent.as_ref().filter(|sum| confirmed(sum).is_some()));
    Ok(written)
}
