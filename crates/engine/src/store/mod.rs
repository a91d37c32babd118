//! Stores: places that hold blobs by their digests, and blobs as lists of chunks.
//!
//! A store makes exactly one attempt for each call and says in the error whether another can help.
//! The caller retries, chooses windows, fills batches and takes memory from the budget. Every
//! method is cancel-safe: dropping its future ends its requests in flight.
//!
//! | file | idea |
//! |---|---|
//! | `blob_store` | [`BlobStore`]: which blobs are missing, get, put |
//! | `chunk_store` | [`ChunkStore`]: profile, batches, manifests; every method has a default |
//! | `put` | [`PutRequest`]: one attempt to put one blob |
//! | `profile` | [`StoreProfile`]: the capabilities of a store |
//! | `manifest` | [`Manifest`]: the ordered list of chunks that make up a blob, validated |
//! | `verify` | bytes compared with a digest, piece by piece |
//! | `memory` | [`MemoryStore`]: blobs in memory |
//! | `folder` | [`FolderStore`]: blobs in a folder, one file each |
//! | `store_remote` | the blobs of a store as those of a remote |
//! | `send_progress` | [`SendProgress`]: how many bytes of a request were sent |
//!
//! Caches of the Remote Execution API are stores, too: [`crate::remote`]'s `reapi`.
//!
//! A store of three methods is enough for uploads and downloads:
//!
//! ```
//! use std::collections::HashMap;
//! use std::sync::{Arc, Mutex, PoisonError};
//!
//! use bytes::Bytes;
//! use tidegate::remote::Body;
//! use tidegate::store::{self, BlobStore, ChunkStore, PutRequest};
//! use tidegate::{Budget, Client, Digest, Location, Result, Target};
//!
//! #[derive(Debug, Default)]
//! struct Shelf(Mutex<HashMap<Digest, Bytes>>);
//!
//! impl Shelf {
//!     fn find(&self, digest: &Digest) -> Option<Bytes> {
//!         self.0.lock().unwrap_or_else(PoisonError::into_inner).get(digest).cloned()
//!     }
//! }
//!
//! #[async_trait::async_trait]
//! impl BlobStore for Shelf {
//!     async fn missing(&self, digests: &[Digest]) -> Result<Vec<Digest>> {
//!         let is_missing = |digest: &&Digest| digest.len > 0 && self.find(digest).is_none();
//!         Ok(digests.iter().filter(is_missing).copied().collect())
//!     }
//!
//!     async fn get(&self, digest: &Digest, offset: u64, _budget: &Budget) -> Result<Body> {
//!         match self.find(digest) {
//!             Some(bytes) => Ok(store::body(bytes, offset)),
//!             None if digest.len == 0 => Ok(store::body(Bytes::new(), 0)),
//!             None => Err(store::not_found(digest)),
//!         }
//!     }
//!
//!     async fn put(&self, request: &PutRequest) -> Result<()> {
//!         let bytes = request.read_verified().await?;
//!         self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(request.digest, bytes);
//!         Ok(())
//!     }
//! }
//!
//! // The defaults of all its methods: whole blobs, no batches, no manifests.
//! impl ChunkStore for Shelf {}
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<()> {
//! # let folder = tempfile::tempdir().unwrap();
//! # let path = folder.path().join("blob");
//! # std::fs::write(&path, vec![7; 1_000_000]).unwrap();
//! let client = Client::default();
//! let shelf: Arc<dyn ChunkStore> = Arc::new(Shelf::default());
//!
//! let sent = client.upload(&path, &Location::any_in_store(Arc::clone(&shelf))).await?;
//! let digest = sent.digest.expect("an upload names its blob");
//!
//! let blob = Location::in_store(shelf, &digest);
//! let target = folder.path().join("copy");
//! let report = client.download(&blob, Target::file(&target)).await?;
//! assert_eq!(report.bytes, 1_000_000);
//! # assert_eq!(std::fs::read(path).unwrap(), std::fs::read(target).unwrap());
//! # Ok(())
//! # }
//! ```

mod blob_store;
mod chunk_store;
mod folder;
mod manifest;
mod memory;
mod profile;
mod put;
mod send_progress;
mod store_remote;
mod verify;

use blob_store::failed;
pub use blob_store::{BlobStore, body, not_found};
pub use chunk_store::{ChunkStore, Registered};
pub use folder::FolderStore;
pub use manifest::{Manifest, ManifestError};
pub use memory::MemoryStore;
pub use profile::{BatchLimits, StoreProfile};
pub use put::{PutRequest, PutSession, PutSource};
#[cfg(feature = "reapi")]
pub(crate) use send_progress::Outgoing;
pub use send_progress::SendProgress;
pub(crate) use send_progress::SentBytes;
pub(crate) use store_remote::StoreRemote;
