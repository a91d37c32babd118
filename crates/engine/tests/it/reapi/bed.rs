//! Helpers of these tests: a server, a cache connected to it, and blobs.

use std::sync::Arc;

use bytes::Bytes;
use futures_util::TryStreamExt as _;
use tidegate::Result;
use tidegate::chunked::{ChunkStore, PutRequest, PutSession, SendProgress};
use tidegate::remote::reapi::ReapiOptions as CacheOptions;
use tidegate::remote::{Body, RemoteOptions};
use tidegate_core::digest::{Digest, DigestFunction};
use tidegate_testkit::pseudo_random;
use tidegate_testkit::reapi::{BlobName, ReapiOptions, ReapiServer};

use crate::call::client_of;

pub(crate) async fn start(options: ReapiOptions) -> (ReapiServer, Arc<dyn ChunkStore>) {
    let server = ReapiServer::start(options).await.unwrap();
    let cache = connect(&server, CacheOptions::default());
    (server, cache)
}

pub(crate) fn connect(server: &ReapiServer, reapi: CacheOptions) -> Arc<dyn ChunkStore> {
    let remotes = client_of(RemoteOptions { reapi, ..RemoteOptions::default() });
    crate::call::store(&remotes, &server.url()).unwrap()
}

/// Bytes that no compressor shrinks, and their digest.
pub(crate) fn noise(len: usize, seed: u64) -> (Digest, Bytes) {
    let bytes = pseudo_random(len, seed);
    (sha256(&bytes), bytes)
}

/// Bytes that compress well, and their digest.
pub(crate) fn text(len: usize) -> (Digest, Bytes) {
    let line = b"the tide comes in, the tide goes out; ";
    let bytes: Vec<u8> = line.iter().copied().cycle().take(len).collect();
    (sha256(&bytes), bytes.into())
}

pub(crate) fn sha256(bytes: &[u8]) -> Digest {
    Digest::of(DigestFunction::Sha256, bytes)
}

/// The engine's digest for a blob's name.
pub(crate) fn digest(name: &BlobName) -> Digest {
    let function = format!("{:?}", name.function).to_lowercase();
    Digest::parse(&format!("{function}/{}/{}", name.hash, name.len_bytes)).unwrap()
}

pub(crate) async fn whole(body: Body) -> Result<Vec<u8>> {
    body.try_fold(Vec::new(), |mut all, piece| async move {
        all.extend_from_slice(&piece);
        Ok(all)
    })
    .await
}

pub(crate) fn request(digest: Digest, bytes: &Bytes) -> PutRequest {
    PutRequest {
        digest,
        session: PutSession::default(),
        resume: false,
        source: Arc::new(bytes.clone()),
        progress: SendProgress::default(),
    }
}
