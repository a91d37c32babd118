//! Writing a payload into a file, off the runtime's threads, with its checksum.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::StreamExt;
use tidegate_core::checksum::{Checksum, ChecksumAlgorithm, Checksummer, Crc, CrcAlgorithm};

use crate::error::{Error, ErrorKind, Operation, Result};
use crate::offload::offload;
use crate::remote::write::Payload;
use crate::sink::file::target::storage_error;

/// The writer collects frames up to this many bytes. That is large enough to hide the cost of the
/// switch to a blocking thread, and small compared with a part of 8 MiB.
const BATCH_BYTES: u64 = 1 << 20;

/// The checksums computed while the bytes arrive.
struct Sums {
    crc: Crc,
    asked: Option<Checksummer>,
}

/// Writes `payload` at `offset` and verifies its checksum: `Integrity` if it differs. Returns the
/// CRC32C of the bytes. `shown` is the blob's name, for errors.
pub(super) async fn receive(
    file: &Arc<File>,
    offset: u64,
    payload: &Payload,
    shown: &str,
) -> Result<Crc> {
    let asked =
        payload.checksum().map(|asked| checksummer(asked.algorithm(), shown)).transpose()?;
    let mut sums = Sums { crc: Crc::empty(CrcAlgorithm::Crc32c), asked };
    let mut body = payload.open();
    let mut is_over = false;
    while !is_over {
        let (mut batch, mut bytes) = (Vec::new(), 0);
        while bytes < BATCH_BYTES && !is_over {
            match body.next().await.transpose()? {
                // Endless empty frames must neither fill the batch nor keep the thread.
                Some(frame) if frame.is_empty() => tokio::task::consume_budget().await,
                Some(frame) => {
                    bytes += frame.len() as u64;
                    batch.push(frame);
                }
                None => is_over = true,
            }
        }
        let (file, target) = (Arc::clone(file), shown.to_owned());
        sums = offload(Operation::Write, shown, move || {
            write(&file, offset, &batch, sums)
                .map_err(|error| storage_error(Operation::Write, &target, error))
        })
        .await?;
    }
    if let (Some(expected), Some(asked)) = (payload.checksum(), sums.asked) {
        compare(expected, &asked.finish(), shown)?;
    }
    Ok(sums.crc)
}

fn write(file: &File, offset: u64, batch: &[Bytes], mut sums: Sums) -> std::io::Result<Sums> {
    for frame in batch {
        let at = offset.checked_add(sums.crc.len()).ok_or(std::io::ErrorKind::FileTooLarge)?;
        file.write_all_at(frame, at)?;
        sums.crc.update(frame);
        if let Some(asked) = &mut sums.asked {
            asked.update(frame);
        }
    }
    Ok(sums)
}

/// Computes a checksum that the caller asks for; `Unsupported` if the algorithm is not available.
pub(super) fn checksummer(algorithm: ChecksumAlgorithm, shown: &str) -> Result<Checksummer> {
    Checksummer::new(algorithm).map_err(|error| {
        let message = format!("the checksum {algorithm} is not computed here");
        Error::new(ErrorKind::Unsupported, Operation::Write, shown, message).caused_by(error)
    })
}

/// Returns `Integrity` if they differ.
pub(super) fn compare(expected: &Checksum, actual: &Checksum, shown: &str) -> Result<()> {
    if expected == actual {
        return Ok(());
    }
    let message = format!("expected {expected}, got {actual}");
    Err(Error::new(ErrorKind::Integrity, Operation::Write, shown, message))
}
