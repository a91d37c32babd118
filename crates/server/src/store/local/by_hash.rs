//! Blobs by hash alone, as HTTP names them.

use bytes::Bytes;
use tidegate::{Operation, Result};
use tidegate_core::digest::Digest;

use super::LocalStore;
use crate::store::blobs::{BlobHash, IncomingByHash};
use crate::trace::TraceOperation;

impl LocalStore {
    /// The digest of a blob that is there; `None` if there is none with this hash. Sets its last
    /// use.
    pub async fn find_by_hash(&self, name: BlobHash) -> Result<Option<Digest>> {
        let target = name.with_len(0).checksum().hex();
        let looked =
            self.blocking(Operation::Read, &target, move |blobs| blobs.find_by_hash(&name)).await?;
        if let Some(digest) = &looked {
            self.record_blob(TraceOperation::Find, digest);
        }
        Ok(looked)
    }

    /// Begins to store a blob of unknown length.
    pub fn begin_by_hash(&self, name: BlobHash) -> HashWriter {
        let target = name.with_len(0).checksum().hex();
        let incoming = self.0.blobs.receive_by_hash(name);
        HashWriter { store: self.clone(), target, incoming }
    }
}

/// A blob of unknown length that arrives. Dropping it keeps nothing.
#[derive(Debug)]
pub struct HashWriter {
    store: LocalStore,
    target: String,
    incoming: IncomingByHash,
}

impl HashWriter {
    /// The next bytes.
    pub async fn write(self, bytes: Bytes) -> Result<Self> {
        let Self { store, target, mut incoming } = self;
        let written = store.blocking(Operation::Write, &target, move |_| {
            incoming.write(&bytes)?;
            Ok(incoming)
        });
        let incoming = written.await?;
        Ok(Self { store, target, incoming })
    }

    /// Names the blob. Fails with `Integrity` if the bytes have another hash.
    pub async fn finish(self) -> Result<Digest> {
        let Self { store, target, incoming } = self;
        let digest = store.blocking(Operation::Write, &target, move |_| incoming.finish()).await?;
        store.record_blob(TraceOperation::Put, &digest);
        Ok(digest)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tidegate::Budget;
    use tidegate::store::{BlobStore as _, ChunkStore as _, Manifest, PutRequest};
    use tidegate_core::digest::DigestFunction;

    use super::*;
    use crate::store::StoreOptions;

    const FUNCTIONS: [DigestFunction; 2] = [DigestFunction::Sha256, DigestFunction::Blake3];

    fn name(digest: &Digest) -> BlobHash {
        BlobHash { function: digest.function, hash: digest.hash }
    }

    fn noise(len: usize) -> Bytes {
        let mut random = fastrand::Rng::with_seed(len as u64);
        std::iter::repeat_with(|| random.u8(..)).take(len).collect()
    }

    async fn open(folder: &tempfile::TempDir) -> LocalStore {
        LocalStore::open(folder.path(), StoreOptions::new(512 << 20)).await.unwrap()
    }

    /// A record and a file, and both again after a restart.
    #[tokio::test(flavor = "multi_thread")]
    async fn blobs_of_any_client_are_found() {
        let folder = tempfile::tempdir().unwrap();
        let mut store = open(&folder).await;
        let bodies = [Bytes::new(), noise(1), noise(5000), noise(300_000)];
        for (function, bytes) in FUNCTIONS.iter().flat_map(|f| bodies.iter().map(move |b| (f, b))) {
            let digest = Digest::of(*function, bytes);
            let expected = bytes.is_empty().then_some(digest);
            assert_eq!(store.find_by_hash(name(&digest)).await.unwrap(), expected);
            if bytes.len() == 5000 {
                // Without its length.
                let writer = store.begin_by_hash(name(&digest));
                let writer = writer.write(bytes.slice(..1000)).await.unwrap();
                let writer = writer.write(bytes.slice(1000..)).await.unwrap();
                assert_eq!(writer.finish().await.unwrap(), digest);
            } else {
                store.put(&PutRequest::new(digest, Arc::new(bytes.clone()))).await.unwrap();
            }
            assert!(store.missing(&[digest]).await.unwrap().is_empty());
            let longer = Digest { len: digest.len + 1, ..digest };
            assert_eq!(store.missing(&[longer]).await.unwrap(), [longer]);
        }
        for _ in 0..2 {
            for (function, bytes) in
                FUNCTIONS.iter().flat_map(|f| bodies.iter().map(move |b| (f, b)))
            {
                let digest = Digest::of(*function, bytes);
                assert_eq!(store.find_by_hash(name(&digest)).await.unwrap(), Some(digest));
            }
            store.close().await;
            store = open(&folder).await;
        }
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn wrong_bytes_name_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let store = open(&folder).await;
        let digest = Digest::of(DigestFunction::Sha256, b"right");
        let writer = store.begin_by_hash(name(&digest)).write("wrong".into()).await.unwrap();
        assert!(writer.finish().await.unwrap_err().to_string().contains("differ"));
        assert_eq!(store.find_by_hash(name(&digest)).await.unwrap(), None);
    }

    /// A blob that exists as chunks only, and whose chunks are slices of another blob.
    #[tokio::test(flavor = "multi_thread")]
    async fn blobs_of_chunks_and_slices_are_found() {
        let folder = tempfile::tempdir().unwrap();
        let store = open(&folder).await;
        let chunks = [noise(40_000), noise(40_001)];
        let digests = chunks.clone().map(|chunk| Digest::of(DigestFunction::Sha256, &chunk));
        for (digest, chunk) in digests.iter().zip(&chunks) {
            store.put(&PutRequest::new(*digest, Arc::new(chunk.clone()))).await.unwrap();
        }
        let whole = Digest::of(DigestFunction::Sha256, &chunks.concat());
        let manifest = Manifest::new(whole, digests.to_vec(), None).unwrap();
        let _ = store.register(&manifest).await.unwrap();
        assert_eq!(store.find_by_hash(name(&whole)).await.unwrap(), Some(whole));

        let long = noise(3_000_000);
        let digest = Digest::of(DigestFunction::Sha256, &long);
        store.put(&PutRequest::new(digest, Arc::new(long))).await.unwrap();
        let manifest = store.manifest(&digest, None, &Budget::default()).await.unwrap().unwrap();
        assert!(manifest.chunks().len() > 1);
        for chunk in manifest.chunks() {
            assert_eq!(store.find_by_hash(name(chunk)).await.unwrap(), Some(*chunk));
        }
    }
}
