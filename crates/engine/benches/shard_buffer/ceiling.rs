//! What memory can do: the same calls as a plain copy into maps of the process's own, without a
//! buffer, offsets, extents or checks.
//!
//! Each thread has a map with its share of the blob, so that nothing is shared but the kernel.
//! Fresh maps are made and given back within the operation, as a fresh buffer is.

use std::mem;
use std::sync::{Arc, Mutex, PoisonError};

use memmap2::{Advice, MmapMut};

use crate::case::{Case, Memory};
use crate::crew::{Crew, Job};

/// A huge page of x86-64, and of arm64 with 4 KiB pages. Shares begin and end at one.
const HUGE_PAGE_BYTES: usize = 2 << 20;

/// Maps that stay between operations, where the case is about touched memory.
pub(crate) struct Ceiling {
    case: Case,
    source: Arc<[u8]>,
    kept: Arc<Mutex<Vec<MmapMut>>>,
}

impl Ceiling {
    pub(crate) fn new(case: Case, source: Arc<[u8]>) -> Self {
        Self { case, source, kept: Arc::default() }
    }

    /// One operation.
    pub(crate) fn run(&self, crew: &Crew) -> Result<(), String> {
        let kept = mem::take(&mut *self.kept.lock().unwrap_or_else(PoisonError::into_inner));
        let mut kept = kept.into_iter();
        let mut jobs: Vec<Job> = Vec::new();
        for share in self.shares() {
            let target = match kept.next() {
                Some(map) => map,
                None => self.map(share)?,
            };
            jobs.push(self.job(target, share));
        }
        crew.run(jobs)
    }

    /// The blob in as many parts as there are threads, whole huge pages each.
    fn shares(&self) -> Vec<usize> {
        let blob = self.case.blob_bytes();
        let share = (blob / self.case.threads).next_multiple_of(HUGE_PAGE_BYTES);
        let parts = (0..blob).step_by(share);
        parts.map(|start| share.min(blob - start)).collect()
    }

    fn map(&self, share: usize) -> Result<MmapMut, String> {
        let say = |error| format!("mapping {share} bytes: {error}");
        // Room to begin at a huge page; what is before and behind is never touched.
        let map = MmapMut::map_anon(share + HUGE_PAGE_BYTES).map_err(say)?;
        let advice = match self.case.memory {
            Memory::CopyFresh4k => Advice::NoHugePage,
            _ => Advice::HugePage,
        };
        map.advise(advice).map_err(say)?;
        Ok(map)
    }

    fn job(&self, mut target: MmapMut, share: usize) -> Job {
        let source = Arc::clone(&self.source);
        let keeper = (self.case.memory == Memory::CopyReused).then(|| Arc::clone(&self.kept));
        Box::new(move || {
            let start = target.as_ptr().addr().wrapping_neg() % HUGE_PAGE_BYTES;
            for piece in target[start..start + share].chunks_mut(source.len()) {
                piece.copy_from_slice(&source[..piece.len()]);
            }
            if let Some(keeper) = keeper {
                keeper.lock().unwrap_or_else(PoisonError::into_inner).push(target);
            }
            Ok(())
        })
    }
}
