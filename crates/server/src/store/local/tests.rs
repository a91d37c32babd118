//! The store through its asynchronous calls.

use futures_util::TryStreamExt as _;
use tidegate_core::digest::DigestFunction;
use tidegate_reapi::zstd::{Inflater, unpack};

use super::*;

async fn store() -> (LocalStore, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let store = LocalStore::open(folder.path(), StoreOptions::new(512 << 20)).await.unwrap();
    (store, folder)
}

async fn all(body: Body) -> Vec<u8> {
    body.try_collect::<Vec<Bytes>>().await.unwrap().concat()
}

fn text(len: usize) -> Vec<u8> {
    (0..len).map(|at| b"abcdefgh"[at / 100 % 8]).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn opaque_values_are_replaced_and_removed() {
    let (store, _folder) = store().await;
    let name = b"/any/name";
    assert!(store.value(name).await.unwrap().is_none());
    for len in [0, 10, 500_000, 20] {
        let mut writer = store.begin_value(name).unwrap();
        for piece in text(len).chunks(100_000) {
            writer = writer.write(Bytes::copy_from_slice(piece)).await.unwrap();
        }
        writer.finish().await.unwrap();
        let (stored, body) = store.value(name).await.unwrap().unwrap();
        assert_eq!(stored, len as u64);
        assert!(all(body).await == text(len));
    }
    assert!(store.value(b"/any/nam").await.unwrap().is_none());
    assert!(store.begin_value(&[b'x'; 2000]).is_none());
    store.remove_value(name).await.unwrap();
    assert!(store.value(name).await.unwrap().is_none());
}

/// Plain and compressed, each asked for in both forms.
#[tokio::test(flavor = "multi_thread")]
async fn a_blob_is_given_in_the_form_that_is_asked_for() {
    let (store, _folder) = store().await;
    for len in [1, 5000, 1_000_000] {
        let bytes = text(len);
        let digest = Digest::of(DigestFunction::Blake3, &bytes);
        assert!(store.get_packed(&digest).await.unwrap().is_none());
        let request = PutRequest::new(digest, Arc::new(Bytes::from(bytes.clone())));
        store.put(&request).await.unwrap();
        let packed = all(store.get_packed(&digest).await.unwrap().unwrap()).await;
        assert!(unpack(&packed, digest.len).unwrap() == bytes);

        let other = Digest::of(DigestFunction::Sha256, &bytes);
        let writer = store.begin_packed(&other).unwrap();
        let writer = writer.write(packed.clone().into()).await.unwrap();
        writer.finish().await.unwrap();
        let again = all(store.get_packed(&other).await.unwrap().unwrap()).await;
        assert!(unpack(&again, other.len).unwrap() == bytes);
        let plain = store.get(&other, 0, &Budget::default()).await.unwrap();
        assert!(all(plain).await == bytes);
    }
    assert!(Inflater::new().unwrap().is_between_frames());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_is_open_once_and_keeps_its_blobs() {
    let (store, folder) = store().await;
    let bytes = Bytes::from(text(200_000));
    let digest = Digest::of(DigestFunction::Sha256, &bytes);
    store.put(&PutRequest::new(digest, Arc::new(bytes.clone()))).await.unwrap();
    let options = StoreOptions::new(512 << 20);
    let second = LocalStore::open(folder.path(), options.clone()).await.unwrap_err();
    assert!(second.to_string().contains("in use"), "{second}");
    store.close().await;
    let store = LocalStore::open(folder.path(), options).await.unwrap();
    let body = store.get(&digest, 0, &Budget::default()).await.unwrap();
    assert!(all(body).await == bytes);
}
