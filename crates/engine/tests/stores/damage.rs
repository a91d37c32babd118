//! Files of a folder store whose content does not match their names.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use tidegate::ErrorKind;
use tidegate::store::{BlobStore, ChunkStore, FolderStore, Manifest, Registered};
use tidegate::{Budget, Digest, DigestFunction};

use crate::{files, get, is_missing, noise, put};

/// A change to the bytes of a file.
type Change = fn(&mut Vec<u8>);

/// Changes the bytes of a file.
fn damage(path: &Path, change: impl FnOnce(&mut Vec<u8>)) {
    let mut bytes = std::fs::read(path).unwrap();
    change(&mut bytes);
    std::fs::set_permissions(path, Permissions::from_mode(0o644)).unwrap();
    std::fs::write(path, bytes).unwrap();
}

#[tokio::test]
async fn a_damaged_file_is_never_delivered_and_can_be_put_again() {
    let folder = tempfile::tempdir().unwrap();
    let store = FolderStore::open(folder.path()).await.unwrap();
    // In one frame, and in several.
    for len in [1_000, 1_000_000] {
        let changes: [(&str, Change); 4] = [
            ("a bit", |bytes| *bytes.last_mut().unwrap() ^= 1),
            ("cut", |bytes| bytes.truncate(bytes.len() - 1)),
            ("longer", |bytes| bytes.push(0)),
            ("empty", Vec::clear),
        ];
        for (seed, (what, change)) in (1..).zip(changes) {
            let (digest, bytes) = noise(len, seed);
            put(&store, digest, &bytes).await.unwrap();
            let all = files(store.root());
            let hex = digest.checksum().hex();
            let path = all.iter().find(|path| path.to_string_lossy().contains(&hex)).unwrap();
            damage(path, change);
            let error = store.get(&digest, 0, &Budget::default()).await.err().unwrap();
            assert_eq!(error.kind(), ErrorKind::Integrity, "{what}, {len} bytes");
            assert!(is_missing(&store, &digest).await, "{what}, {len} bytes");
            put(&store, digest, &bytes).await.unwrap();
            assert_eq!(get(&store, &digest).await.unwrap(), bytes);
        }
    }
}

/// A blob of two chunks, registered.
async fn registered(store: &FolderStore) -> (Manifest, Vec<(Digest, Bytes)>) {
    let chunks = vec![noise(300_000, 1), noise(400_000, 2)];
    for (digest, bytes) in &chunks {
        put(store, *digest, bytes).await.unwrap();
    }
    let whole: Vec<u8> = chunks.iter().flat_map(|(_, bytes)| bytes.to_vec()).collect();
    let digests = chunks.iter().map(|(digest, _)| *digest).collect();
    let blob = Digest::of(DigestFunction::Sha256, &whole);
    let manifest = Manifest::new(blob, digests, None).unwrap();
    assert_eq!(store.register(&manifest).await.unwrap(), Registered::Done);
    assert_eq!(get(store, &blob).await.unwrap(), whole);
    (manifest, chunks)
}

#[tokio::test]
async fn a_damaged_chunk_ends_its_blob_and_can_be_put_again() {
    let folder = tempfile::tempdir().unwrap();
    let store = FolderStore::open(folder.path()).await.unwrap();
    let (manifest, chunks) = registered(&store).await;
    let hex = chunks[1].0.checksum().hex();
    let all = files(store.root());
    let path = all.iter().find(|path| path.to_string_lossy().contains(&hex)).unwrap();
    damage(path, |bytes| bytes[7] ^= 1);
    assert_eq!(get(&store, manifest.blob()).await.unwrap_err().kind(), ErrorKind::Integrity);
    // Once the damage is found, the chunk is missing, and so is the blob.
    assert!(is_missing(&store, &chunks[1].0).await && is_missing(&store, manifest.blob()).await);
    let given = store.manifest(manifest.blob(), None, &Budget::default()).await.unwrap();
    assert_eq!(given, None);
    assert_eq!(store.register(&manifest).await.unwrap(), Registered::ChunkMissing);
    put(&store, chunks[1].0, &chunks[1].1).await.unwrap();
    assert!(!is_missing(&store, manifest.blob()).await);
}

#[tokio::test]
async fn a_damaged_chunk_is_found_when_it_is_registered() {
    let folder = tempfile::tempdir().unwrap();
    let store = FolderStore::open(folder.path()).await.unwrap();
    let (manifest, chunks) = registered(&store).await;
    for path in files(store.root()) {
        let name = path.to_string_lossy().into_owned();
        if name.ends_with(".chunks") {
            std::fs::remove_file(path).unwrap();
        } else if name.contains(&chunks[0].0.checksum().hex()) {
            damage(&path, |bytes| bytes[7] ^= 1);
        }
    }
    assert_eq!(store.register(&manifest).await.unwrap(), Registered::ChunkMissing);
    assert!(is_missing(&store, &chunks[0].0).await);
    put(&store, chunks[0].0, &chunks[0].1).await.unwrap();
    assert_eq!(store.register(&manifest).await.unwrap(), Registered::Done);
}

#[tokio::test]
async fn a_damaged_manifest_is_a_miss_that_can_be_registered_again() {
    let folder = tempfile::tempdir().unwrap();
    let store = FolderStore::open(folder.path()).await.unwrap();
    let (manifest, _) = registered(&store).await;
    let blob = *manifest.blob();
    let all = files(store.root());
    let path = all.iter().find(|path| path.to_string_lossy().ends_with(".chunks")).unwrap();
    damage(path, |bytes| bytes[30] ^= 1);
    let given = store.manifest(&blob, None, &Budget::default()).await;
    assert_eq!(given.unwrap_err().kind(), ErrorKind::Integrity);
    assert!(is_missing(&store, &blob).await);
    assert_eq!(store.register(&manifest).await.unwrap(), Registered::Done);
    let given = store.manifest(&blob, None, &Budget::default()).await.unwrap();
    assert_eq!(given, Some(manifest));
}

#[tokio::test]
async fn two_stores_in_one_folder_are_one() {
    let folder = tempfile::tempdir().unwrap();
    let one = FolderStore::open(folder.path()).await.unwrap();
    let other: Arc<dyn BlobStore> =
        Arc::new(FolderStore::open(folder.path().join(".")).await.unwrap());
    assert_eq!(one.identity(), other.identity());
    let (digest, bytes) = noise(5_000, 9);
    put(&one, digest, &bytes).await.unwrap();
    assert_eq!(get(&*other, &digest).await.unwrap(), bytes);
}
