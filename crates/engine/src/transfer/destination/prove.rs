//! The comparison at the end of a download. It is more than a comparison if a composite checksum does
//! not match and the sizes of its parts were inferred: then the remote is asked for the size of each
//! part, and if the parts are others, their checksums are computed again.

use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use tidegate_core::checksum::{ChecksumAlgorithm, CompositeChecksummer, PartLayout};

use super::hashing::follow_buffer;
use crate::buffer::ShardBuffer;
use crate::error::{Operation, Result};
use crate::read::PartsCheck;
use crate::sink::file::PartFile;
use crate::sink::file::target::storage_error;
use crate::sink::hashers::{Hashers, Sums};
use crate::transfer::blocking::blocking;
use crate::transfer::checks::{Checks, PartsToCheck, Proof, Verdict};
use crate::verified::{Unverified, Verified};

/// One read of a file.
const READ_BYTES: usize = 1 << 20;

/// Where the bytes are that were compared, and their number.
pub(super) enum Kept<'a> {
    /// They were delivered, or dropped.
    Nowhere,
    File(&'a PartFile, u64),
    Buffer(&'a Arc<ShardBuffer>, u64),
}

/// Compares the checksums of all bytes with those that are expected of `target`.
pub(super) async fn prove(
    checks: &Checks,
    sums: Sums,
    target: &str,
    kept: Kept<'_>,
) -> Result<Proof> {
    let (computed, error) = match checks.verify(sums, target)? {
        Verdict::Proof(proof) => return Ok(proof),
        Verdict::Inferred { computed, error } => (computed, error),
    };
    let Some(PartsToCheck { check, lookup, .. }) = checks.parts() else { return Err(error) };
    let algorithm = check.expected.algorithm();
    let not = |reason: &str| {
        let reason = reason.to_owned();
        Verified::Not(Unverified::PartSizes { algorithm, reason })
    };
    let layout = match lookup.exact_layout(&check.layout).await {
        Err(reason) => return Ok(Proof { computed, verified: not(&reason) }),
        Ok(layout) if layout == check.layout => return Err(error),
        Ok(layout) => layout,
    };
    let Some(composite) = kept.composite(algorithm, &layout).await? else {
        let reason =
            "they are of different sizes, which was known only after the bytes were delivered";
        return Ok(Proof { computed, verified: not(reason) });
    };
    let check = PartsCheck { layout, is_inferred: false, ..check.clone() };
    let exact = PartsToCheck::new(check, lookup.clone());
    match exact.compare(computed, composite.parts, target)? {
        Verdict::Proof(proof) => Ok(proof),
        Verdict::Inferred { error, .. } => Err(error),
    }
}

impl Kept<'_> {
    /// The composite checksum of the bytes; `None` if they are not here any more.
    async fn composite(
        self,
        algorithm: ChecksumAlgorithm,
        layout: &PartLayout,
    ) -> Result<Option<Sums>> {
        let Ok(summer) = CompositeChecksummer::new(algorithm, layout.clone()) else {
            return Ok(None);
        };
        let hashers = Hashers::new(Vec::new(), Some(summer));
        match self {
            Self::Nowhere => Ok(None),
            Self::Buffer(buffer, len) => {
                follow_buffer(Arc::clone(buffer), len, hashers).await.map(Some)
            }
            Self::File(part, len) => {
                let name = part.target.display().clone();
                let file = part.reader();
                let read = move || read_again(&file?, len, hashers);
                let failed = move |error| storage_error(Operation::Verify, &name, error);
                blocking(move || read().map_err(failed)).await.map(Some)
            }
        }
    }
}

fn read_again(file: &std::fs::File, len: u64, mut hashers: Hashers) -> io::Result<Sums> {
    let mut buffer = vec![0; READ_BYTES];
    let mut at = 0;
    while at < len {
        let count = usize::try_from(len - at).unwrap_or(READ_BYTES).min(READ_BYTES);
        let bytes = buffer.get_mut(..count).unwrap_or_default();
        file.read_exact_at(bytes, at)?;
        hashers.update(bytes);
        at += count as u64;
    }
    Ok(hashers.finish())
}
