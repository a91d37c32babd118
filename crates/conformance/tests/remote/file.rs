//! The suites on local files.

use tidegate_conformance::remote::{
    delete_suite, list_suite, parts_suite, read_suite, write_suite,
};

use crate::folder::Folder;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reads_as_every_remote() {
    read_suite(&Folder::new()).await.assert_kept("file");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn writes_as_every_remote() {
    write_suite(&Folder::new()).await.assert_kept("file");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn takes_parts_as_every_remote() {
    parts_suite(&Folder::new()).await.assert_kept("file");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lists_as_every_remote() {
    list_suite(&Folder::new()).await.assert_kept("file");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn deletes_as_every_remote() {
    delete_suite(&Folder::new()).await.assert_kept("file");
}
