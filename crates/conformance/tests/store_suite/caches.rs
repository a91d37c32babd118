//! Caches of the Remote Execution API, simulated by the testkit.

use std::sync::Arc;

use tidegate::remote::RemoteOptions;
use tidegate::remote::reapi::{Compression, ReapiOptions as CacheOptions};
use tidegate::store::ChunkStore;
use tidegate::{Client, ClientOptions};
use tidegate_testkit::reapi::{ReapiOptions, ReapiServer};

use crate::assert_conforms;

pub(crate) fn connect(url: &str, reapi: CacheOptions) -> Arc<dyn ChunkStore> {
    let remote = RemoteOptions { reapi, ..RemoteOptions::default() };
    let client = Client::new(ClientOptions::default().remote(remote));
    Arc::clone(client.locate_target(url).unwrap().store().unwrap())
}

#[tokio::test]
async fn a_cache_conforms() {
    for compression in [Compression::Never, Compression::Auto, Compression::Always] {
        let server = ReapiServer::start(ReapiOptions::default()).await.unwrap();
        let options = CacheOptions { compression, ..CacheOptions::default() };
        let store = connect(&server.url(), options);
        assert_conforms(&format!("{compression:?}"), &*store, 4).await;
    }
}

#[tokio::test]
async fn a_cache_of_whole_blobs_conforms() {
    let server = ReapiServer::start(ReapiOptions::default()).await.unwrap();
    let options = CacheOptions { chunks: false, ..CacheOptions::default() };
    let store = connect(&server.url(), options);
    assert!(!store.profile().await.unwrap().can_splice);
    assert_conforms("whole blobs", &*store, 5).await;
}
