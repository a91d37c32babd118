//! A copy of a local file by a clone: source and copy share the blocks on the disk (a reflink).
//!
//! No byte is moved, so none can be damaged. btrfs, XFS and some other file systems can do this for
//! files of one file system. Elsewhere the bytes are copied.
//!
//! Source: `ioctl_ficlone(2)`.

use std::fs::File;

use super::Job;
use super::opening::Opening;
use super::transfer::Transferred;
use crate::error::Result;
use crate::read::RangeStream;
use crate::transfer::blocking::blocking;
use crate::transfer::checks::Proof;
use crate::transfer::target::Prepared;
use crate::verified::Verified;

/// What became of the attempt to clone.
pub(super) enum Cloned {
    Done(Box<Transferred>),
    /// The file system cannot clone, or a checksum must be computed: copy the bytes.
    Not(Prepared, Box<Opening>),
}

/// Clones the source into the part file and gives it its name.
pub(super) async fn clone(job: &Job<'_>, prepared: Prepared, opening: Opening) -> Result<Cloned> {
    let not = |prepared, opening| Ok(Cloned::Not(prepared, Box::new(opening)));
    let Prepared::File { part, found, notes } = prepared else { return not(prepared, opening) };
    let (location, options) = (job.location, job.options);
    let is_whole = options.range.is_none() && opening.resumed.is_empty();
    let is_stream = opening.channel.as_ref().is_none_or(RangeStream::is_local_stream);
    let (true, true, false, Some(len), Some(version)) = (
        location.remote.scheme() == "file",
        is_whole && options.expected.is_empty(),
        is_stream,
        opening.info.len_bytes.filter(|len| *len > 0),
        opening.info.version.as_ref(),
    ) else {
        return not(Prepared::File { part, found, notes }, opening);
    };
    let source = location.blob.clone();
    let (part, is_cloned) = blocking(move || {
        let is_cloned = File::open(source).is_ok_and(|source| part.clone_of(&source));
        Ok((part, is_cloned))
    })
    .await?;
    if !is_cloned {
        return not(Prepared::File { part, found, notes }, opening);
    }
    // The version was read before the clone was made, so it must still hold now.
    if let Err(error) = location.remote.stat_version(&location.blob, version).await {
        let rest = Prepared::File { part, found: None, notes }.abandon(&error).await;
        return Err(error.with_rest(rest));
    }
    let durability = options.durability;
    options.progress.expect(Some(len));
    blocking(move || part.commit(len, durability)).await?;
    options.progress.done(len);
    let Opening { info, notes, .. } = opening;
    let proof = Proof { computed: Vec::new(), verified: Verified::Reflink };
    let done = Transferred { bytes: len, resumed_bytes: 0, info, proof, notes, memory: None };
    Ok(Cloned::Done(Box::new(done)))
}
