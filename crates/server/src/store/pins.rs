//! [`Pins`]: the bytes that are pinned, by the time when their pins expire.
//!
//! A pin sets the last use of a value to a time in the future; eviction by age takes no such value.
//! So a pin takes no memory, survives a restart, and expires by itself. Pins hold at most a part of the store, so eviction always finds something else. A value that
//! exceeds the part is touched and not pinned. The count is never too low.

use std::collections::VecDeque;

/// Slots of the time that a pin lasts. Pins expire up to one slot late in the count.
const SLOTS: u32 = 16;

/// How many bytes are pinned.
#[derive(Clone, Debug)]
pub(crate) struct Pins {
    bytes_max: u64,
    pin_ticks: u32,
    /// Pinned bytes by the slot in which they expire, from `first_slot` on.
    slots: VecDeque<u64>,
    first_slot: u32,
    bytes: u64,
}

impl Pins {
    /// Pins that last `pin_ticks` and hold at most `bytes_max`.
    pub(crate) fn new(bytes_max: u64, pin_ticks: u32) -> Self {
        Self { bytes_max, pin_ticks, slots: VecDeque::new(), first_slot: 0, bytes: 0 }
    }

    /// The last use to set for a value of `bytes` bytes that is pinned at `now`. `last_use` is its
    /// last use so far.
    pub(crate) fn pin(&mut self, now: u32, last_use: u32, bytes: u64) -> u32 {
        self.expire(now);
        let until = now.saturating_add(self.pin_ticks);
        if last_use > now {
            // It is pinned already, so only the slot changes.
            if self.slot(last_use) == self.slot(until) {
                return until.max(last_use);
            }
            self.remove(last_use, bytes);
        }
        if self.bytes.saturating_add(bytes) > self.bytes_max {
            return now;
        }
        self.add(until, bytes);
        until
    }

    /// The value is gone, so its pin holds no bytes.
    pub(crate) fn release(&mut self, now: u32, last_use: u32, bytes: u64) {
        self.expire(now);
        if last_use > now {
            self.remove(last_use, bytes);
        }
    }

    /// The pinned bytes.
    pub(crate) fn bytes(&mut self, now: u32) -> u64 {
        self.expire(now);
        self.bytes
    }

    fn slot_ticks(&self) -> u32 {
        (self.pin_ticks / SLOTS).max(1)
    }

    fn slot(&self, until: u32) -> u32 {
        until / self.slot_ticks()
    }

    /// Drops the slots that have passed.
    fn expire(&mut self, now: u32) {
        let current = self.slot(now);
        while self.first_slot < current {
            let Some(expired) = self.slots.pop_front() else {
                self.first_slot = current;
                return;
            };
            self.bytes = self.bytes.saturating_sub(expired);
            self.first_slot += 1;
        }
    }

    fn add(&mut self, until: u32, bytes: u64) {
        let at = self.slot(until).saturating_sub(self.first_slot) as usize;
        // `until` is at most `pin_ticks` ahead, so there are at most 2 * SLOTS + 1 slots.
        if self.slots.len() <= at {
            self.slots.resize(at + 1, 0);
        }
        if let Some(slot) = self.slots.get_mut(at) {
            *slot += bytes;
            self.bytes += bytes;
        }
    }

    fn remove(&mut self, until: u32, bytes: u64) {
        let at = self.slot(until).checked_sub(self.first_slot);
        let Some(slot) = at.and_then(|at| self.slots.get_mut(at as usize)) else { return };
        let removed = bytes.min(*slot);
        *slot -= removed;
        self.bytes -= removed;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn pins_hold_no_more_than_their_part() {
        let mut pins = Pins::new(100, 300);
        assert_eq!(pins.pin(1000, 0, 60), 1300);
        assert_eq!(pins.pin(1001, 0, 60), 1001, "it is touched and not pinned");
        assert_eq!(pins.pin(1100, 1300, 60), 1400, "pinning again counts once");
        assert_eq!(pins.bytes(1100), 60);
        assert_eq!(pins.bytes(1300), 60);
        assert_eq!(pins.bytes(1400 + 300 / SLOTS), 0);
        assert_eq!(pins.pin(2000, 1400, 100), 2300);
        pins.release(2001, 2300, 100);
        assert_eq!(pins.bytes(2001), 0);
    }

    proptest! {
        /// Against the sum over all values. A pin may count for one slot too long, and twice in it.
        #[test]
        fn the_count_is_that_of_the_pinned_values(
            steps in prop::collection::vec((0_usize..20, 0_u32..100), 1..200),
            pin_ticks in 1_u32..400,
        ) {
            let mut pins = Pins::new(500, pin_ticks);
            let mut last_uses = [0_u32; 20];
            let mut now = 1000;
            for (value, passed) in steps {
                now += passed;
                let bytes = value as u64 * 10;
                let until = pins.pin(now, last_uses[value], bytes);
                prop_assert!(until == now || until == now + pin_ticks);
                last_uses[value] = until;
                let pinned_after = |time: u32| -> u64 {
                    let values = last_uses.iter().enumerate();
                    values.filter(|(_, until)| **until > time).map(|(at, _)| at as u64 * 10).sum()
                };
                prop_assert!(pins.bytes(now) >= pinned_after(now));
                prop_assert!(pins.bytes(now) <= 500);
                let expired = now + pin_ticks + pins.slot_ticks();
                prop_assert_eq!(pins.clone().bytes(expired), 0);
            }
        }
    }
}
