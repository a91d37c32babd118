//! The stores of this machine.

use tidegate::store::{FolderStore, MemoryStore};

use crate::assert_conforms;
use crate::shelf::Shelf;

#[tokio::test]
async fn a_store_of_three_methods_conforms() {
    assert_conforms("shelf", &Shelf::default(), 1).await;
}

#[tokio::test]
async fn the_memory_store_conforms() {
    assert_conforms("memory", &MemoryStore::new(1 << 30), 2).await;
}

#[tokio::test]
async fn the_folder_store_conforms() {
    let folder = tempfile::tempdir().unwrap();
    let store = FolderStore::open(folder.path()).await.unwrap();
    assert_conforms("folder", &store, 3).await;
    // Failed and dropped puts leave nothing, once the threads that remove it have run.
    let incoming = folder.path().join(".incoming");
    let left = || std::fs::read_dir(&incoming).unwrap().count();
    for _ in 0..500 {
        if left() == 0 {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    assert_eq!(left(), 0);
}
