//! The store of the cache server, on a folder.

use std::time::Duration;

use tidegate_server::store::{Level, LocalStore, StoreOptions};

use crate::assert_conforms;

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
