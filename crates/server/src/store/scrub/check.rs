//! [`StoreCheck`]: reads every value of a store that is not in use.

use std::path::Path;
use std::sync::Arc;

use tidegate::{Error, ErrorKind, Operation, Result};

use super::{Repair, ScrubCounts, Scrubber};
use crate::store::checkpoint::MASTER_FOLDER;
use crate::store::core::Core;
use crate::store::local::{clock_ms, error, lock};
use crate::store::options::StoreOptions;

/// Bytes of one step, after which the caller can report.
const STEP_BYTES: u64 = 64 << 20;

/// What a check found.
pub type StoreCheckReport = ScrubCounts;

/// A check of a store. It holds the store's lock and changes no value.
#[derive(Debug)]
pub struct StoreCheck {
    scrubber: Scrubber,
    target: String,
    _lock: std::fs::File,
}

impl StoreCheck {
    /// Opens the store. Blocks.
    ///
    /// Fails with `NotFound` if there is no store in the folder, and with `Storage` if it is in use.
    pub fn open(root: &Path) -> Result<Self> {
        let target = root.display().to_string();
        if !root.join(MASTER_FOLDER).is_dir() {
            let message = "there is no store in the folder";
            return Err(Error::new(ErrorKind::NotFound, Operation::Read, target, message)
                .with_hint("check the path"));
        }
        let disk = crate::store::disk::RealDisk::open(root).map_err(|error| {
            Error::new(ErrorKind::Storage, Operation::Read, &target, "it cannot be opened")
                .caused_by(error)
        })?;
        let lock = lock(disk.root(), &target)?;
        let mut options = StoreOptions::new(u64::MAX);
        options.keeps_limit = true;
        let opened = Core::open(Arc::new(disk), options, clock_ms());
        let core = opened.map_err(|failure| error(Operation::Read, &target, failure))?;
        let scrubber = Scrubber::new(&Arc::new(core), Repair::Nothing);
        Ok(Self { scrubber, target, _lock: lock })
    }

    /// Reads some 64 MiB. Returns what was found so far, and whether all values were read. Blocks.
    pub fn step(&mut self) -> Result<(StoreCheckReport, bool)> {
        let stepped = self.scrubber.step(STEP_BYTES);
        let is_done = stepped.map_err(|failure| error(Operation::Read, &self.target, failure))?;
        Ok((self.scrubber.counts(), is_done))
    }
}
