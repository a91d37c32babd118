//! The remote's checksum is compared with that of the bytes that were sent.

use std::sync::atomic::Ordering;

use tidegate_core::checksum::{Checksum, StoredChecksum};

use super::{Made, Transfer};
use crate::error::{Error, ErrorKind, Operation, Result};
use crate::remote::{BlobInfo, MetadataNames, Written};
use crate::verified::{Unverified, Verified};

/// Compares what the remote says of the blob with what was sent. Fails with `Integrity` if they
/// differ.
pub(super) async fn compare(transfer: &Transfer, made: &Made) -> Result<(Verified, BlobInfo)> {
    let mut info = BlobInfo {
        len_bytes: Some(made.len_bytes),
        version: made.written.version.clone(),
        checksums: made.written.checksums.clone(),
        ..BlobInfo::default()
    };
    if let Some(verified) = verified(transfer, made, &info.checksums)? {
        return Ok((verified, info));
    }
    let (target, limit) = (&transfer.target, transfer.calls.patience(0));
    let found = transfer.calls.attempt(limit, |_| target.remote.stat(&target.blob)).await;
    let found = match found {
        Ok(found) => found,
        Err(error) if error.kind() == ErrorKind::Cancelled => return Err(error),
        // A web server may store what is sent under a name of its own choice.
        Err(error)
            if error.kind() == ErrorKind::NotFound
                && transfer.write()?.write_profile(&made.options.precondition).metadata
                    != MetadataNames::None =>
        {
            let message = "the remote acknowledged the blob, and does not have it";
            let target = transfer.target.display();
            return Err(Error::new(ErrorKind::Integrity, Operation::Verify, target, message)
                .caused_by(error)
                .with_hint("upload it again, unless another client deletes what is uploaded"));
        }
        // The credentials may allow writing only.
        Err(error) => {
            let reason = Unverified::LookupFailed(error.reason());
            return Ok((on_arrival(transfer, made).unwrap_or(Verified::Not(reason)), info));
        }
    };
    let is_another = match (&info.version, &found.version) {
        (Some(ours), Some(theirs)) => !ours.agrees(theirs),
        _ => false,
    };
    // Some imitations of S3 name one entity tag when they make a blob, and later another one.
    let is_ours = !is_another || {
        let landed = transfer.write()?.landed(&target.blob, &made.options);
        matches!(transfer.calls.unless_cancelled(landed).await?, Ok(Some(_)))
    };
    if !is_ours {
        let reason = "the blob was replaced after the upload".to_owned();
        return Ok((Verified::Not(Unverified::LookupFailed(reason)), info));
    }
    if found.len_bytes.is_some_and(|len| len != made.len_bytes) {
        let len = found.len_bytes.unwrap_or_default();
        let message = format!("{} bytes were sent, and the remote has {len}", made.len_bytes);
        return Err(differs(transfer, message));
    }
    let verified = verified(transfer, made, &found.checksums)?;
    let version = info.version.take().filter(|_| !is_another);
    let info = BlobInfo { version: version.or(found.version.clone()), ..found };
    let verified = verified.or_else(|| on_arrival(transfer, made));
    Ok((verified.unwrap_or_else(|| Verified::Not(Unverified::of(&info.checksums))), info))
}

/// Compares a copy that the provider made with its source.
pub(super) async fn compare_copy(
    transfer: &Transfer,
    source: &BlobInfo,
    written: Written,
) -> Result<(Verified, BlobInfo)> {
    let (target, limit) = (&transfer.target, transfer.calls.patience(0));
    let found = transfer.calls.attempt(limit, |_| target.remote.stat(&target.blob)).await;
    let found = match found {
        Ok(found) => found,
        Err(error) if error.kind() == ErrorKind::Cancelled => return Err(error),
        Err(error) => {
            let info = BlobInfo { version: written.version, ..BlobInfo::default() };
            return Ok((Verified::Not(Unverified::LookupFailed(error.reason())), info));
        }
    };
    if found.len_bytes != source.len_bytes {
        let len = found.len_bytes.unwrap_or_default();
        let message = format!("the copy has {len} bytes, and its source another number");
        return Err(differs(transfer, message));
    }
    match shared_checksum(&found, source) {
        Some((copy, source)) if copy == source => Ok((Verified::By(vec![copy.clone()]), found)),
        Some((copy, source)) => {
            let algorithm = copy.algorithm();
            let (copy, source) = (copy.hex(), source.hex());
            let message = format!("the copy has the {algorithm} {copy}, and its source {source}");
            Err(differs(transfer, message))
        }
        None => Ok((Verified::Not(Unverified::NoSharedChecksum), found)),
    }
}

/// The checksums of one algorithm by which two blobs can be compared.
pub(super) fn shared_checksum<'a>(
    one: &'a BlobInfo,
    other: &'a BlobInfo,
) -> Option<(&'a Checksum, &'a Checksum)> {
    let verifiable = |stored: &&StoredChecksum| stored.is_verifiable();
    one.checksums.iter().filter(verifiable).find_map(|stored| {
        let algorithm = stored.checksum.algorithm();
        let same = |other: &&StoredChecksum| other.checksum.algorithm() == algorithm;
        let other = other.checksums.iter().filter(verifiable).find(same)?;
        Some((&stored.checksum, &other.checksum))
    })
}

fn verified(
    transfer: &Transfer,
    made: &Made,
    stored: &[StoredChecksum],
) -> Result<Option<Verified>> {
    let Some(sent) = &made.checksum else { return Ok(None) };
    let same = |stored: &&StoredChecksum| {
        stored.is_verifiable() && stored.checksum.algorithm() == sent.algorithm()
    };
    match stored.iter().find(same) {
        Some(stored) if stored.checksum == *sent => Ok(Some(Verified::By(vec![sent.clone()]))),
        Some(stored) => {
            let message = format!(
                "the remote has other bytes than were sent: {} {} was sent, and it reports {}",
                sent.algorithm(),
                sent.hex(),
                stored.checksum.hex()
            );
            Err(differs(transfer, message))
        }
        None => Ok(None),
    }
}

/// The checksum that the remote confirmed with each request.
fn on_arrival(transfer: &Transfer, made: &Made) -> Option<Verified> {
    if transfer.unconfirmed.load(Ordering::Relaxed) || made.resumed_bytes > 0 {
        return None;
    }
    made.checksum.as_ref().map(Checksum::algorithm).map(Verified::OnArrival)
}

fn differs(transfer: &Transfer, message: String) -> Error {
    Error::new(ErrorKind::Integrity, Operation::Verify, transfer.target.display(), message)
        .with_hint(
            "delete the blob, or upload it again; if it repeats, the remote damages what it stores",
        )
}
