//! Records the requests of a store as a trace, if its owner asks for one.

use tidegate_core::digest::Digest;

use super::LocalStore;
use crate::store::key::Key;
use crate::trace::{TraceOperation, TraceRecorder};

impl LocalStore {
    /// Records all requests from now on. The first recorder stays until the store is dropped;
    /// returns `false`, and drops this one, if there is one already.
    pub fn record_trace(&self, recorder: TraceRecorder) -> bool {
        self.0.recorder.set(recorder).is_ok()
    }

    /// Records a request for a blob.
    pub(super) fn record_blob(&self, operation: TraceOperation, digest: &Digest) {
        if digest.len > 0 {
            self.record(operation, digest.len, || self.0.blobs.key(digest));
        }
    }

    /// Records a request for any value. The key is made only if there is a recorder.
    pub(super) fn record(&self, operation: TraceOperation, size: u64, key: impl FnOnce() -> Key) {
        if let Some(recorder) = self.0.recorder.get() {
            // The fingerprint is keyed, so a trace reveals no content.
            let fingerprint = self.0.blobs.core.fingerprint(&key());
            recorder.record(operation, fingerprint.high, size);
        }
    }
}
