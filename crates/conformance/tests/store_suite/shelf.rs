//! [`Shelf`]: the smallest store, with three methods.

use std::collections::HashMap;
use std::sync::Mutex;

use async_trait::async_trait;
use bytes::Bytes;
use tidegate::remote::Body;
use tidegate::store::{self, BlobStore, ChunkStore, PutRequest};
use tidegate::{Budget, Digest, Result};

#[derive(Debug, Default)]
pub(crate) struct Shelf(Mutex<HashMap<Digest, Bytes>>);

#[async_trait]
impl BlobStore for Shelf {
    async fn missing(&self, digests: &[Digest]) -> Result<Vec<Digest>> {
        let blobs = self.0.lock().unwrap();
        let is_missing = |digest: &&Digest| digest.len > 0 && !blobs.contains_key(digest);
        Ok(digests.iter().filter(is_missing).copied().collect())
    }

    async fn get(&self, digest: &Digest, offset: u64, _: &Budget) -> Result<Body> {
        match self.0.lock().unwrap().get(digest) {
            Some(bytes) => Ok(store::body(bytes.clone(), offset)),
            None if digest.len == 0 => Ok(store::body(Bytes::new(), 0)),
            None => Err(store::not_found(digest)),
        }
    }

    async fn put(&self, request: &PutRequest) -> Result<()> {
        let bytes = request.read_verified().await?;
        self.0.lock().unwrap().insert(request.digest, bytes);
        Ok(())
    }
}

impl ChunkStore for Shelf {}
