//! Stores with a known content: digests by number, and tiny records in any count.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use tidegate_core::digest::{Digest, DigestFunction};
use tidegate_server::store::{Content, Core, Key, Level, Op, RealDisk, StoreOptions, StoreResult};

use crate::Outcome;

/// Records of one commit.
const COMMIT_RECORDS: u64 = 1000;

/// The value of each tiny record.
const VALUE: &[u8] = b"v";

/// The digest with this number. Nothing is hashed: the core does not compare it.
pub(crate) fn digest(number: u64) -> Digest {
    let mut random = fastrand::Rng::with_seed(number);
    let mut hash = [0; 32];
    random.fill(&mut hash);
    hash[..8].copy_from_slice(&number.to_le_bytes());
    Digest { function: DigestFunction::Sha256, hash, len: VALUE.len() as u64 }
}

/// Opens the store in a folder. Nothing in it is too young to be evicted.
pub(crate) fn open(folder: &Path, bytes_max: u64, level: Level) -> Outcome<Core> {
    let mut options = StoreOptions::new(bytes_max);
    options.level = level;
    options.min_age = Duration::ZERO;
    let disk = RealDisk::open(folder)?;
    Ok(Core::open(Arc::new(disk), options, clock_ms())?)
}

/// Puts the tiny records of these numbers, without background work.
pub(crate) fn put_tiny(core: &Core, numbers: std::ops::Range<u64>) -> Outcome {
    let mut next = numbers.start;
    while next < numbers.end {
        let end = numbers.end.min(next + COMMIT_RECORDS);
        let op = |number| {
            let (key, content) = (Key::blob(&digest(number)), Bytes::from_static(VALUE));
            Op::Put { key, form: 0, size: 1, content: Content::Bytes(content) }
        };
        core.commit((next..end).map(op).collect()).into_iter().collect::<StoreResult<()>>()?;
        next = end;
    }
    Ok(())
}

/// Background work until nothing is left of it.
pub(crate) fn settle(core: &Core) -> StoreResult<()> {
    core.tick(clock_ms());
    core.sync()?;
    while core.maintain()? {}
    Ok(())
}

/// The time for [`Core::tick`].
pub(crate) fn clock_ms() -> u64 {
    let passed = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(passed.as_millis()).unwrap_or(u64::MAX)
}
