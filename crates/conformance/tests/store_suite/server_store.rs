//! The store of the cache server: on a folder, and through the server.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use tidegate::CancellationToken;
use tidegate::remote::reapi::{Compression, ReapiOptions};
use tidegate_server::serve::{ServeOptions, Server};
use tidegate_server::store::{Level, LocalStore, StoreOptions};

use crate::assert_conforms;
use crate::caches::connect;

#[tokio::test]
async fn the_store_of_the_server_conforms() {
    for level in [Level::Process, Level::Power] {
        let folder = tempfile::tempdir().unwrap();
        let mut options = StoreOptions::new(1 << 30);
        options.level = level;
        let store = LocalStore::open(folder.path(), options).await.unwrap();
        assert_conforms(&format!("{level:?}"), &store, 6).await;
    }
}

/// Everything is a file, so that no case sees records only.
#[tokio::test]
async fn a_store_without_records_conforms() {
    let folder = tempfile::tempdir().unwrap();
    let mut options = StoreOptions::new(1 << 30);
    options.inline_bytes_max = 0;
    options.min_age = Duration::ZERO;
    let store = LocalStore::open(folder.path(), options).await.unwrap();
    assert_conforms("files", &store, 7).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_server_conforms() {
    for compression in [Compression::Never, Compression::Auto, Compression::Always] {
        let folder = tempfile::tempdir().unwrap();
        let listen = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let options = ServeOptions::new(folder.path(), StoreOptions::new(1 << 30), listen);
        let server = Server::bind(options).await.unwrap();
        let url = format!("grpc://{}/main", server.address());
        let stop = CancellationToken::new();
        let serving = tokio::spawn(server.run(stop.clone()));
        let store = connect(&url, ReapiOptions { compression, ..ReapiOptions::default() });
        assert_conforms(&format!("{compression:?}"), &*store, 8).await;
        stop.cancel();
        serving.await.unwrap().unwrap();
    }
}
