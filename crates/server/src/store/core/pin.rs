//! Pins: last uses in the future.

use std::sync::PoisonError;

use super::{Core, TICKS_PER_SECOND};
use crate::store::key::Fingerprint;
use crate::store::pins::Pins;

/// A client that got an action result reads its blobs within this time.
const PIN_TICKS: u32 = 300 * 8;
const _: () = assert!(TICKS_PER_SECOND == 8, "PIN_TICKS is 300 seconds");

impl Core {
    /// The pins of a store of at most `bytes_max` bytes: they hold at most half of it.
    pub(super) fn new_pins(bytes_max: u64) -> Pins {
        Pins::new(bytes_max / 2, PIN_TICKS)
    }

    /// As [`Core::contains_all`], and keeps what is there for some minutes. Pins hold at most half
    /// of the store; beyond that a value is only touched.
    pub(crate) fn pin_all(&self, fingerprints: &[Fingerprint]) -> Vec<bool> {
        let now = self.now();
        let mut pins = self.pins.lock().unwrap_or_else(PoisonError::into_inner);
        let pinned = fingerprints.iter().map(|fingerprint| {
            let Some(entry) = self.index.touch(fingerprint, now) else { return false };
            let bytes = entry.record_bytes() + entry.file_bytes();
            let until = pins.pin(now, entry.last_use(), bytes);
            until == now || self.index.touch(fingerprint, until).is_some()
        });
        pinned.collect()
    }

    /// When a key's value was last used, in the future if it is pinned. Does not touch it.
    #[cfg(test)]
    pub(crate) fn last_use(&self, key: &crate::store::key::Key) -> Option<u32> {
        self.index.find(&self.fingerprint(key)).map(|entry| entry.last_use())
    }
}
