//! [`RecurringChunks`]: keeps chunks that recur later in a target that takes bytes in order.
//!
//! Chunks are kept only in bytes of the budget that no transfer waits for. `RecurringChunks` never waits for
//! the budget. It releases all its chunks when any reservation cannot be granted at once. So no
//! blob waits for bytes that it keeps itself. A released chunk is fetched again.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use tidegate_core::digest::Digest;

use crate::budget::{Budget, BytesPermit, Reclaim};
use crate::chunked::Manifest;
use crate::chunked::chunk::Chunk;

/// One blob keeps at most the budget divided by this. With a budget of 256 MiB that is 32 MiB.
const SHARE: u64 = 8;

/// The kept chunks of one blob.
#[derive(Debug)]
pub(super) struct RecurringChunks(Arc<Store>);

#[derive(Debug)]
struct Store {
    budget: Budget,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// For each chunk that recurs: the number of places that are still to be written.
    uses: HashMap<Digest, usize>,
    kept: HashMap<Digest, (Chunk, BytesPermit)>,
    bytes: u64,
}

impl RecurringChunks {
    /// Counts the places of each chunk of `manifest`. Keeps nothing yet.
    pub(super) fn new(manifest: &Manifest, budget: Budget) -> Self {
        let mut uses: HashMap<Digest, usize> = HashMap::with_capacity(manifest.chunks().len());
        for chunk in manifest.chunks() {
            *uses.entry(*chunk).or_default() += 1;
        }
        uses.retain(|_, count| *count > 1);
        uses.shrink_to_fit();
        let state = Mutex::new(State { uses, ..State::default() });
        let store = Arc::new(Store { budget, state });
        let weak: Weak<Store> = Arc::downgrade(&store);
        let weak: Weak<dyn Reclaim> = weak;
        store.budget.call_on(&weak);
        Self(store)
    }

    /// Returns the chunk if it is kept.
    pub(super) fn take(&self, digest: &Digest) -> Option<Chunk> {
        self.0.lock().kept.get(digest).map(|(chunk, _)| chunk.clone())
    }

    /// Keeps a chunk that has arrived, if it recurs and the budget has room.
    pub(super) fn offer(&self, digest: &Digest, chunk: &Chunk) {
        let mut state = self.0.lock();
        let bytes = state.bytes.saturating_add(digest.len);
        if state.uses.get(digest).is_none_or(|uses| *uses < 2)
            || state.kept.contains_key(digest)
            || bytes > self.0.budget.limits().bytes / SHARE
        {
            return;
        }
        let Some(permit) = self.0.budget.try_free_bytes(digest.len) else { return };
        // A reservation that already waits has called `reclaim` before and does not call it again.
        // A reservation that comes later calls `reclaim`, which takes this lock first.
        if self.0.budget.is_wanted() {
            drop(state);
            drop(permit);
        } else {
            state.bytes = bytes;
            state.kept.insert(*digest, (chunk.apart(), permit));
        }
    }

    /// Counts one written place of a chunk. Releases the chunk after its last place.
    pub(super) fn placed(&self, digest: &Digest) {
        let mut state = self.0.lock();
        let Some(uses) = state.uses.get_mut(digest) else { return };
        *uses = uses.saturating_sub(1);
        if *uses > 0 {
            return;
        }
        state.uses.remove(digest);
        let dropped = state.kept.remove(digest);
        state.bytes = state.bytes.saturating_sub(dropped.as_ref().map_or(0, |_| digest.len));
        drop(state);
        drop(dropped);
    }
}

impl Store {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Reclaim for Store {
    fn reclaim(&self) {
        let kept = {
            let mut state = self.lock();
            state.bytes = 0;
            std::mem::take(&mut state.kept)
        };
        drop(kept);
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use tidegate_core::digest::DigestFunction;

    use super::*;
    use crate::budget::BudgetOptions;

    fn digest(text: &'static str) -> Digest {
        Digest::of(DigestFunction::Sha256, text.as_bytes())
    }

    fn chunk(text: &'static str) -> Chunk {
        Chunk::verified(&digest(text), Bytes::from_static(text.as_bytes())).unwrap()
    }

    fn keep(budget: &Budget, texts: &[&'static str]) -> RecurringChunks {
        let chunks = texts.iter().copied().map(digest).collect();
        let blob = Digest::of(DigestFunction::Sha256, texts.concat().as_bytes());
        RecurringChunks::new(&Manifest::new(blob, chunks, None).unwrap(), budget.clone())
    }

    #[test]
    fn only_what_recurs_is_kept_and_only_until_its_last_place() {
        let budget = Budget::new(BudgetOptions { requests: 1, bytes: 1 << 20 });
        let recurring = keep(&budget, &["a", "b", "a"]);
        recurring.offer(&digest("a"), &chunk("a"));
        recurring.offer(&digest("b"), &chunk("b"));
        assert!(recurring.take(&digest("a")).is_some() && recurring.take(&digest("b")).is_none());
        recurring.placed(&digest("a"));
        assert!(recurring.take(&digest("a")).is_some());
        recurring.placed(&digest("a"));
        assert!(recurring.take(&digest("a")).is_none());
        assert_eq!(budget.held_bytes(), 0);
    }

    /// The frame of a small chunk is a slice of its batch; keeping it must not keep the batch
    /// alive.
    #[test]
    fn nothing_else_is_kept_alive() {
        let budget = Budget::new(BudgetOptions { requests: 1, bytes: 1 << 20 });
        let recurring = keep(&budget, &["a", "b", "a"]);
        let batch: Arc<[u8]> = b"...a...".as_slice().into();
        let came = Bytes::from_owner(Owned(Arc::clone(&batch))).slice(3..4);
        recurring.offer(&digest("a"), &Chunk::verified(&digest("a"), came).unwrap());
        assert_eq!(Arc::strong_count(&batch), 1);
        assert_eq!(recurring.take(&digest("a")).unwrap().frames(), [Bytes::from_static(b"a")]);
    }

    struct Owned(Arc<[u8]>);

    impl AsRef<[u8]> for Owned {
        fn as_ref(&self) -> &[u8] {
            &self.0
        }
    }

    #[tokio::test]
    async fn kept_chunks_are_released_when_the_budget_is_needed() {
        let budget = Budget::new(BudgetOptions { requests: 1, bytes: 64 << 10 });
        let recurring = keep(&budget, &["a", "b", "a"]);
        recurring.offer(&digest("a"), &chunk("a"));
        assert!(budget.held_bytes() > 0);
        assert_eq!(budget.bytes(64 << 10).await.bytes(), 64 << 10);
        assert!(recurring.take(&digest("a")).is_none());
    }

    /// The rest of the budget stays available for units in flight.
    #[test]
    fn no_more_than_a_part_of_the_budget_is_kept() {
        let budget = Budget::new(BudgetOptions { requests: 1, bytes: 1 << 20 });
        let [a, b, c] = ["a", "b", "c"].map(|text| &*text.repeat(60_000).leak());
        let recurring = keep(&budget, &[a, b, c, a, b, c]);
        for text in [a, b, c] {
            recurring.offer(&digest(text), &chunk(text));
        }
        assert!(recurring.take(&digest(b)).is_some() && recurring.take(&digest(c)).is_none());
    }
}
