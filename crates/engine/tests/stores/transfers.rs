//! A client's uploads to local stores, and downloads from them.

use std::sync::Arc;

use bytes::Bytes;
use tidegate::store::{ChunkStore, FolderStore, MemoryStore};
use tidegate::{Client, Form, Location, Report, Target};

use crate::noise;

async fn upload(client: &Client, store: &Arc<dyn ChunkStore>, bytes: &[u8]) -> Report {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("blob");
    std::fs::write(&path, bytes).unwrap();
    client.upload(&path, &Location::any_in_store(Arc::clone(store))).await.unwrap()
}

#[tokio::test]
async fn versions_of_a_file_share_chunks_and_are_read_back_whole() {
    let folder = tempfile::tempdir().unwrap();
    let stores: [Arc<dyn ChunkStore>; 2] = [
        Arc::new(MemoryStore::new(64 << 20)),
        Arc::new(FolderStore::open(folder.path()).await.unwrap()),
    ];
    for store in stores {
        let client = Client::default();
        let (_, first) = noise(20_000_000, 1);
        let report = upload(&client, &store, &first).await;
        assert_eq!(report.form, Form::Chunks, "{store:?}");
        // Some bytes in the middle differ.
        let second: Bytes = [&first[..9_000_000], b"other", &first[9_000_000..]].concat().into();
        let report = upload(&client, &store, &second).await;
        let chunks = report.chunks.unwrap();
        assert!(chunks.moved.bytes < 5_000_000, "{store:?}: {chunks:?}");
        let digest = report.digest.unwrap();
        let again = upload(&client, &store, &second).await;
        assert_eq!(again.form, Form::Present, "{store:?}");

        let out = tempfile::tempdir().unwrap();
        let target = out.path().join("copy");
        let blob = Location::in_store(Arc::clone(&store), &digest);
        let report = client.download(&blob, Target::file(&target)).await.unwrap();
        assert_eq!(report.form, Form::Chunks, "{store:?}");
        assert!(std::fs::read(target).unwrap() == second, "{store:?}");
    }
}
