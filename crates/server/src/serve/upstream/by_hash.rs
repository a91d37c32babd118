//! The length of a blob that HTTP names by its hash alone.
//!
//! The Remote Execution API names a blob by hash and length. A request for `/cas/HASH` has no length,
//! so the upstream is asked for it by `HEAD /cas/HASH` at the same address, as `tidegate serve`
//! answers it. An upstream that speaks gRPC only is then a miss, and is not asked again.

use std::sync::atomic::Ordering;

use tidegate::{Digest, DigestFunction, ErrorKind, RetryPolicy};

use super::{ANSWER_TIME_MAX, Upstream};
use crate::store::BlobHash;

impl Upstream {
    /// Fills a blob by its hash; `None` if the upstream does not give it. Cancel-safe.
    pub(in crate::serve) async fn fill_by_hash(&self, name: BlobHash) -> Option<Digest> {
        if self.0.lacks_http.load(Ordering::Relaxed) || self.is_down() {
            return None;
        }
        let url = self.0.cache.url();
        let scheme = if url.is_tls() { "https" } else { "http" };
        let folder = match name.function {
            DigestFunction::Blake3 => "cas/blake3",
            _ => "cas",
        };
        let hash = name.with_len(0).checksum().hex();
        let location = format!("{scheme}://{}/{folder}/{hash}", url.authority());
        let location = self.0.client.locate(&location).ok()?;
        let policy = RetryPolicy { attempts_max: 1, ..RetryPolicy::default() };
        let asked = self.0.client.stat(&location).retry(policy).into_future();
        let len = match tokio::time::timeout(ANSWER_TIME_MAX, asked).await {
            Ok(Ok(info)) => info.len_bytes?,
            Ok(Err(error)) if error.kind() == ErrorKind::NotFound => return None,
            Ok(Err(error)) => {
                let error = error.chain();
                tracing::warn!(error, "the upstream does not answer HTTP; /cas/ is not filled");
                self.0.lacks_http.store(true, Ordering::Relaxed);
                return None;
            }
            Err(_late) => {
                self.is_late();
                return None;
            }
        };
        let digest = name.with_len(len);
        self.fill(&digest).await.then_some(digest)
    }
}
