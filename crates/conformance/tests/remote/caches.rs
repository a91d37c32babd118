//! The read suite on caches of the Remote Execution API: the testkit's, and real servers.
//!
//! `TIDEGATE_CONFORMANCE_STORES` holds the real servers' URLs, separated by commas. See
//! `tests/interop`.

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use tidegate::remote::RemoteOptions;
use tidegate::remote::reapi::{Compression, ReapiOptions as CacheOptions};
use tidegate::store::PutRequest;
use tidegate::{Client, ClientOptions, Digest, DigestFunction, Location};
use tidegate_conformance::remote::{ReadPlace, Stored, content, read_suite};
use tidegate_testkit::reapi::{ReapiOptions, ReapiServer};

const VARIABLE: &str = "TIDEGATE_CONFORMANCE_STORES";

/// The longest blob takes several messages.
const LENS: [usize; 4] = [0, 1, 1000, 5_000_001];

/// A cache that holds a blob of each length.
struct Cached {
    url: String,
    client: Client,
}

impl Cached {
    fn new(url: &str, reapi: CacheOptions) -> Self {
        let remote = RemoteOptions { reapi, ..RemoteOptions::default() };
        let client = Client::new(ClientOptions::default().remote(remote));
        Self { url: url.trim_end_matches('/').to_owned(), client }
    }

    fn contents() -> impl Iterator<Item = Bytes> {
        LENS.into_iter().zip(0..).map(|(len, seed)| content(len, seed))
    }

    /// Stores the blobs through the client: a real server has no other way.
    async fn fill(&self) {
        let target = self.client.locate_target(&self.url).unwrap();
        let store = target.store().unwrap();
        for bytes in Self::contents() {
            let digest = Digest::of(DigestFunction::Sha256, &bytes);
            store.put(&PutRequest::new(digest, Arc::new(bytes))).await.unwrap();
        }
    }

    fn locate(&self, bytes: &[u8]) -> Location {
        let digest = Digest::of(DigestFunction::Sha256, bytes);
        self.client.locate(&format!("{}/{digest}", self.url)).unwrap()
    }
}

#[async_trait]
impl ReadPlace for Cached {
    fn blobs(&self) -> Vec<Stored> {
        Self::contents().map(|bytes| Stored { location: self.locate(&bytes), bytes }).collect()
    }

    fn absent(&self) -> Location {
        self.locate(b"no cache holds this")
    }

    /// A blob's name is the digest of its bytes.
    async fn replace(&self, _blob: &Stored, _bytes: Bytes) -> bool {
        false
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cache_reads_as_every_remote() {
    for compression in [Compression::Never, Compression::Auto, Compression::Always] {
        let server = ReapiServer::start(ReapiOptions::default()).await.unwrap();
        for bytes in Cached::contents() {
            server.put(bytes);
        }
        let options = CacheOptions { compression, ..CacheOptions::default() };
        let report = read_suite(&Cached::new(&server.url(), options)).await;
        report.assert_kept(&format!("reapi, compression {compression:?}"));
    }
}

#[expect(clippy::print_stdout, reason = "it says what was checked, or why nothing was")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn real_servers_are_read_as_every_remote() {
    let urls = std::env::var(VARIABLE).unwrap_or_default();
    if urls.is_empty() {
        println!("skipped: {VARIABLE} names no server");
        return;
    }
    for url in urls.split(',') {
        println!("{url} as a remote");
        let cached = Cached::new(url, CacheOptions::default());
        cached.fill().await;
        read_suite(&cached).await.assert_kept(url);
    }
}
