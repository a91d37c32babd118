//! [`SendProgress`]: how much of a request has been handed to the connection while it is under way.
//!
//! On a slow link a request takes a minute to go out, and until its answer nothing of it counts. What
//! is told here is for people who watch: it may have to go again.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Told by a store what goes out for one request; a store that does not know says nothing. Clones
/// are for the same request.
#[derive(Clone, Debug, Default)]
pub struct SendProgress {
    inner: Arc<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    /// Of all requests that share the counter.
    going_bytes: Arc<AtomicU64>,
    /// Bytes of this one, and how many are left to be told of.
    own: Mutex<Own>,
}

#[derive(Debug, Default)]
struct Own {
    told_bytes: u64,
    left_bytes: u64,
}

impl SendProgress {
    /// Adds what goes out of a request of `len` bytes to `going_bytes`, until [`Self::end`].
    pub(crate) fn new(going_bytes: &Arc<AtomicU64>, len: u64) -> Self {
        let own = Mutex::new(Own { told_bytes: 0, left_bytes: len });
        Self { inner: Arc::new(Inner { going_bytes: Arc::clone(going_bytes), own }) }
    }

    /// So many bytes more were handed to the connection. Beyond the request's length it counts for
    /// nothing, so what stands around the bytes does no harm.
    pub fn passed(&self, bytes: u64) {
        let mut own = self.inner.own.lock().unwrap_or_else(PoisonError::into_inner);
        let bytes = bytes.min(own.left_bytes);
        own.left_bytes -= bytes;
        own.told_bytes += bytes;
        self.inner.going_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// The request has ended, well or not: nothing of it is under way, whatever is told later.
    pub(crate) fn end(&self) {
        let mut own = self.inner.own.lock().unwrap_or_else(PoisonError::into_inner);
        let told_bytes = std::mem::take(&mut *own).told_bytes;
        self.inner.going_bytes.fetch_sub(told_bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_under_way_counts_until_its_request_ends() {
        let going = Arc::new(AtomicU64::new(0));
        let (one, other) = (SendProgress::new(&going, 10), SendProgress::new(&going, 5));
        one.passed(7);
        one.clone().passed(7);
        other.passed(3);
        assert_eq!(going.load(Ordering::Relaxed), 13);
        one.end();
        one.passed(1);
        one.end();
        assert_eq!(going.load(Ordering::Relaxed), 3);
        other.end();
        assert_eq!(going.load(Ordering::Relaxed), 0);
        SendProgress::default().passed(4);
    }
}
