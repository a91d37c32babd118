//! [`Losses`]: the last values that the store dropped because it had to, and why. A look-up that finds
//! nothing asks whether its value is among them, so that an operator learns why it was a miss.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use super::key::{Fingerprint, LOW_BITS_UNUSED};

/// Values that are remembered: 32 KiB. More of them at a time mean that a disk fails, which the count of
/// damaged values shows.
const COUNT_MAX: usize = 1024;

/// Why a value was dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Loss {
    /// Its bytes were damaged.
    Damaged,
    /// It is an action result that lost a blob.
    Incomplete,
}

/// The bits of a fingerprint that the index keeps, without those of the shard.
type KnownBits = (u64, u64);

const fn known_bits(fingerprint: &Fingerprint) -> KnownBits {
    (fingerprint.high, fingerprint.low >> LOW_BITS_UNUSED)
}

/// The last values that were dropped.
#[derive(Debug, Default)]
pub(super) struct Losses {
    values: Mutex<VecDeque<(KnownBits, Loss)>>,
    /// Their number: a look-up takes no lock while it is 0.
    count: AtomicUsize,
}

impl Losses {
    pub(super) fn add(&self, fingerprint: &Fingerprint, loss: Loss) {
        let mut values = self.values.lock().unwrap_or_else(PoisonError::into_inner);
        values.truncate(COUNT_MAX - 1);
        values.push_front((known_bits(fingerprint), loss));
        self.count.store(values.len(), Ordering::Release);
    }

    /// Why a value was dropped, once.
    pub(super) fn take(&self, fingerprint: impl FnOnce() -> Fingerprint) -> Option<Loss> {
        if self.count.load(Ordering::Acquire) == 0 {
            return None;
        }
        let wanted = known_bits(&fingerprint());
        let mut values = self.values.lock().unwrap_or_else(PoisonError::into_inner);
        let at = values.iter().position(|(one, _)| *one == wanted)?;
        let loss = values.remove(at).map(|(_, loss)| loss);
        self.count.store(values.len(), Ordering::Release);
        loss
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fingerprint(high: u64) -> Fingerprint {
        Fingerprint { shard: 1, high, low: 77 }
    }

    #[test]
    fn a_loss_is_reported_once() {
        let losses = Losses::default();
        assert_eq!(losses.take(|| unreachable!()), None);
        losses.add(&fingerprint(1), Loss::Damaged);
        losses.add(&fingerprint(2), Loss::Incomplete);
        assert_eq!(losses.take(|| fingerprint(3)), None);
        // The index has fewer bits than a key.
        let of_index = Fingerprint { shard: 0, high: 1, low: 64 };
        assert_eq!(losses.take(|| of_index), Some(Loss::Damaged));
        assert_eq!(losses.take(|| fingerprint(1)), None);
        assert_eq!(losses.take(|| fingerprint(2)), Some(Loss::Incomplete));
    }

    #[test]
    fn their_number_is_bounded() {
        let losses = Losses::default();
        for number in 0..3 * COUNT_MAX as u64 {
            losses.add(&fingerprint(number), Loss::Damaged);
        }
        assert_eq!(losses.values.lock().unwrap().len(), COUNT_MAX);
        assert_eq!(losses.take(|| fingerprint(0)), None);
        let last = fingerprint(3 * COUNT_MAX as u64 - 1);
        assert_eq!(losses.take(|| last), Some(Loss::Damaged));
    }
}
