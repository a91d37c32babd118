//! The suite that `object_store` has for stores, over each remote.

use object_store::integration::{
    copy_if_not_exists, copy_rename_nonexistent_object, get_nonexistent_object, get_opts,
    list_uses_directories_correctly, list_with_delimiter, list_with_offset_exclusivity,
    multipart_out_of_order, multipart_race_condition, put_get_attributes, put_get_delete_list,
    put_opts, rename_and_copy, stream_get,
};
use object_store::{Error, ObjectStore};
use tidegate::Client;
use tidegate_object_store::TidegateStore;
use tidegate_testkit::{Flavour, ServerOptions};

use crate::bed::Bed;

/// How remotes differ in what the suite asks for.
#[derive(Clone, Copy)]
struct Abilities {
    /// `PutMode::Update`.
    updates: bool,
    /// Of two uploads to one blob, the second to complete wins. Otherwise it fails.
    last_writer_wins: bool,
}

async fn suite(store: &TidegateStore, abilities: Abilities) {
    put_get_delete_list(store).await;
    list_uses_directories_correctly(store).await;
    list_with_delimiter(store).await;
    list_with_offset_exclusivity(store).await;
    rename_and_copy(store).await;
    copy_if_not_exists(store).await;
    copy_rename_nonexistent_object(store).await;
    let missing = get_nonexistent_object(store, None).await.unwrap_err();
    assert!(matches!(missing, Error::NotFound { .. }), "{missing}");
    stream_get(store).await;
    get_opts(store).await;
    put_opts(store, abilities.updates).await;
    put_get_attributes(store).await;
    multipart_out_of_order(store).await;
    multipart_race_condition(store, abilities.last_writer_wins).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn s3_is_an_object_store() {
    let bed = Bed::new(ServerOptions::of(Flavour::S3)).await;
    suite(&bed.store, Abilities { updates: true, last_writer_wins: true }).await;
}

/// The store names versions by generations. The suite then reads an earlier generation, which only a
/// bucket that keeps versions has.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn gcs_is_an_object_store() {
    let options = ServerOptions { versioning: true, ..ServerOptions::of(Flavour::Gcs) };
    let bed = Bed::new(options).await;
    suite(&bed.store, Abilities { updates: true, last_writer_wins: true }).await;
}

/// The first list of blocks that is committed removes the blocks of all other uploads to the blob.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn azure_is_an_object_store() {
    let bed = Bed::new(ServerOptions::of(Flavour::Azure)).await;
    suite(&bed.store, Abilities { updates: true, last_writer_wins: false }).await;
}

/// No file system replaces a file only if it has a certain version, so there are no updates.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_folder_is_an_object_store() {
    let folder = tempfile::tempdir().unwrap();
    let url = format!("file://{}", folder.path().display());
    let store = TidegateStore::new(&Client::default(), &url).unwrap();
    assert_eq!(store.to_string(), format!("Tidegate({}/)", folder.path().display()));
    let _: &dyn ObjectStore = &store;
    suite(&store, Abilities { updates: false, last_writer_wins: true }).await;
}
