//! Files that go through the server and come back, by the engine's own client.

use std::path::Path;

use tidegate::{ChunkPolicy, Client, ClientOptions, Report, Target};
use tidegate_core::digest::Digest;

use crate::bed::{Bed, noise, sha256};

async fn upload(client: &Client, bed: &Bed, file: &Path, chunks: ChunkPolicy) -> Report {
    let target = client.locate_target(&format!("grpc://{}/main", bed.address)).unwrap();
    client.upload(file, &target).chunks(chunks).confirm(true).await.unwrap()
}

async fn download(client: &Client, bed: &Bed, digest: &Digest, chunks: ChunkPolicy) -> Vec<u8> {
    let url = format!("grpc://{}/main/{digest}", bed.address);
    let target = bed.folder.path().join("back");
    let _ = std::fs::remove_file(&target);
    let blob = client.locate(&url).unwrap();
    client.download(&blob, Target::File(target.clone())).chunks(chunks).await.unwrap();
    std::fs::read(target).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_and_its_edit_go_in_chunks() {
    let bed = Bed::new().await;
    let client = Client::new(ClientOptions::default());
    let first = noise(24 << 20, 9);
    let mut second = first.clone();
    second.splice(5_000_000..5_000_010, *b"other bytes, of another length");
    let file = bed.folder.path().join("file");
    let mut sent = Vec::new();
    for bytes in [&first, &second] {
        std::fs::write(&file, bytes).unwrap();
        let before = bed.store.counts().value_bytes_written;
        upload(&client, &bed, &file, ChunkPolicy::Required).await;
        sent.push(bed.store.counts().value_bytes_written - before);
        for policy in [ChunkPolicy::Required, ChunkPolicy::Never] {
            let back = download(&client, &bed, &sha256(bytes), policy).await;
            assert!(back == *bytes, "{policy:?}");
        }
    }
    assert!(sent[0] >= 24 << 20 && sent[1] < 8 << 20, "{sent:?}");
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn whole_files_come_back_in_chunks() {
    let bed = Bed::new().await;
    let client = Client::new(ClientOptions::default());
    let file = bed.folder.path().join("file");
    for len in [0, 1, 5000, 9 << 20] {
        let bytes = noise(len, len as u64);
        std::fs::write(&file, &bytes).unwrap();
        upload(&client, &bed, &file, ChunkPolicy::Never).await;
        let back = download(&client, &bed, &sha256(&bytes), ChunkPolicy::Auto).await;
        assert!(back == bytes, "{len}");
    }
    bed.end().await;
}
