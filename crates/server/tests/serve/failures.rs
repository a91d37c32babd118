//! A store that is full, and bytes that rotted on the disk.

use std::path::{Path, PathBuf};

use tonic::Code;

use crate::bed::{Bed, blob_name, noise, refused, sha256, upload_name};

#[tokio::test(flavor = "multi_thread")]
async fn a_full_store_refuses_writes_with_a_delay_and_serves_reads() {
    let bed = Bed::with(|options| options.store.bytes_max = 64 << 20).await;
    let mut stored = Vec::new();
    let status = loop {
        let bytes = noise(4 << 20, stored.len() as u64);
        match bed.write_all(&upload_name(&sha256(&bytes)), &bytes, 1 << 20).await {
            Ok(_) => stored.push(bytes),
            Err(status) => break status,
        }
        assert!(stored.len() < 20, "the limit does not hold");
    };
    assert_eq!(status.code(), Code::ResourceExhausted);
    let details: tidegate_reapi::rpc::Status = prost::Message::decode(status.details()).unwrap();
    assert_eq!(details.details[0].type_url, "type.googleapis.com/google.rpc.RetryInfo");
    assert!(stored.len() > 5, "{}", stored.len());
    for bytes in &stored {
        let read = bed.read(&blob_name(&sha256(bytes)), 0, 0).await.unwrap();
        assert!(read == *bytes);
    }
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_blob_is_missing_and_can_be_written_again() {
    let bed = Bed::new().await;
    let bytes = noise(3 << 20, 1);
    let digest = sha256(&bytes);
    let name = blob_name(&digest);
    for at in [100, 2_000_000] {
        bed.write_all(&upload_name(&digest), &bytes, 1 << 20).await.unwrap();
        let file = largest_file(&bed.folder.path().join("store/files")).unwrap();
        let mut stored = std::fs::read(&file).unwrap();
        stored[at] ^= 1;
        std::fs::write(&file, stored).unwrap();
        // The first bytes of a stream may be sound, and are no blob without the status.
        refused(bed.read(&name, 0, 0).await, Code::NotFound);
        assert!(!bed.has(&digest).await);
        refused(bed.read(&name, 0, 0).await, Code::NotFound);
    }
    bed.write_all(&upload_name(&digest), &bytes, 1 << 20).await.unwrap();
    assert!(bed.read(&name, 0, 0).await.unwrap() == bytes);
    bed.end().await;
}

/// `None` for a folder without files.
fn largest_file(folder: &Path) -> Option<PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let files =
        entries.filter_map(|path| if path.is_dir() { largest_file(&path) } else { Some(path) });
    files.max_by_key(|path| std::fs::metadata(path).unwrap().len())
}
