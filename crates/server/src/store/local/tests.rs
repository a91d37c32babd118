//! The store through its asynchronous calls.

use std::io::BufReader;

use futures_util::TryStreamExt as _;
use prost::Message as _;
use tidegate_core::digest::DigestFunction;
use tidegate_reapi::digest::to_proto;
use tidegate_reapi::v2;
use tidegate_reapi::zstd::{Inflater, unpack};

use super::*;
use crate::store::actions::{ActionName, ActionPut};
use crate::store::closure::UnknownFields;
use crate::store::{BlobHash, PurgeFilter};
use crate::trace::TraceOperation::{Find, Get, Put};
use crate::trace::{TraceLimits, TraceReader, TraceRequest};

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

/// A blob, its chunks, what has its hash and results that need it: all count for its tenant alone.
#[tokio::test(flavor = "multi_thread")]
async fn tenants_have_only_what_they_sent() {
    let (shared, _folder) = store().await;
    let (own, other) = (shared.of_tenant("a"), shared.of_tenant("b"));
    let bytes: Vec<u8> =
        (0..5_000_000_u32).map(|at| (at.wrapping_mul(at) >> 9).to_le_bytes()[0]).collect();
    let digest = Digest::of(DigestFunction::Sha256, &bytes);
    let put = |store: &LocalStore| {
        let (store, bytes) = (store.clone(), Bytes::from(bytes.clone()));
        async move { store.put(&PutRequest::new(digest, Arc::new(bytes))).await }
    };
    put(&own).await.unwrap();
    let budget = Budget::default();
    let manifest = own.manifest(&digest, None, &budget).await.unwrap().unwrap();
    let chunks = manifest.chunks().to_vec();
    let by_hash = BlobHash { function: digest.function, hash: digest.hash };
    let result = v2::ActionResult { stdout_digest: Some(to_proto(&digest)), ..Default::default() };
    let result = Bytes::from(result.encode_to_vec());
    let name = ActionName { instance: "", action: digest };
    for stranger in [&shared, &other, &shared.of_tenant("")] {
        assert!(!stranger.has(&digest).await.unwrap());
        assert_eq!(stranger.missing(&chunks).await.unwrap(), chunks);
        assert!(stranger.get(&digest, 0, &budget).await.is_err());
        assert_eq!(stranger.find_by_hash(by_hash).await.unwrap(), None);
        let put = stranger.put_action(&name, result.clone(), UnknownFields::Skip).await.unwrap();
        assert_eq!(put, ActionPut::Incomplete(digest));
    }
    assert!(own.missing(&chunks).await.unwrap().is_empty());
    assert_eq!(own.find_by_hash(by_hash).await.unwrap(), Some(digest));
    assert_eq!(
        own.put_action(&name, result, UnknownFields::Skip).await.unwrap(),
        ActionPut::Stored
    );
    put(&other).await.unwrap();
    assert!(other.has(&digest).await.unwrap() && !shared.has(&digest).await.unwrap());
}

/// What an invocation stored is purged with it, and nothing else.
#[tokio::test(flavor = "multi_thread")]
async fn results_are_purged_by_their_invocation() {
    let (store, _folder) = store().await;
    let result = v2::ActionResult { exit_code: 1, ..Default::default() };
    let result = Bytes::from(result.encode_to_vec());
    let action = |number: u8| Digest::of(DigestFunction::Sha256, &[number]);
    for number in 0..6 {
        let name =
            ActionName { instance: ["", "main"][usize::from(number % 2)], action: action(number) };
        let invocation = ["first", "second", ""][usize::from(number / 2)];
        let skip = UnknownFields::Skip;
        let put = store.put_action_of(&name, result.clone(), skip, invocation).await.unwrap();
        assert_eq!(put, ActionPut::Stored);
    }
    let left = async || {
        let mut left = Vec::new();
        for number in 0..6 {
            let instance = ["", "main"][usize::from(number % 2)];
            let name = ActionName { instance, action: action(number) };
            left.extend(store.action(&name).await.unwrap().map(|_| number));
        }
        left
    };
    let filter = PurgeFilter { invocation: Some("second".into()), ..PurgeFilter::default() };
    assert_eq!(store.purge(filter.clone(), false).await.unwrap().matched, 2);
    assert_eq!(left().await, [0, 1, 2, 3, 4, 5]);
    let purged = store.purge(filter.clone(), true).await.unwrap();
    assert_eq!((purged.matched, purged.values.len()), (2, 2));
    assert_eq!(left().await, [0, 1, 4, 5]);
    let filter = PurgeFilter { instance: Some("main".into()), ..filter };
    assert_eq!(store.purge(filter, true).await.unwrap().matched, 0);
    let filter = PurgeFilter { instance: Some("main".into()), ..PurgeFilter::default() };
    assert_eq!(store.purge(filter, true).await.unwrap().matched, 2);
    assert_eq!(left().await, [0, 4]);
    let key = Some(action(4).checksum().hex());
    let filter = PurgeFilter { key, ..PurgeFilter::default() };
    assert_eq!(store.purge(filter, true).await.unwrap().matched, 1);
    assert_eq!(left().await, [0]);
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

#[tokio::test(flavor = "multi_thread")]
async fn requests_are_recorded_from_when_the_owner_asks() {
    let (store, folder) = store().await;
    let bytes = Bytes::from(text(1000));
    let digest = Digest::of(DigestFunction::Sha256, &bytes);
    store.missing(&[digest]).await.unwrap();
    let path = folder.path().join("trace");
    let create = || TraceRecorder::create(&path, TraceLimits::default());
    assert!(store.record_trace(create().unwrap()));
    store.missing(&[digest, Digest::of(DigestFunction::Sha256, b"")]).await.unwrap();
    store.put(&PutRequest::new(digest, Arc::new(bytes))).await.unwrap();
    drop(store.get(&digest, 0, &Budget::default()).await.unwrap());
    let name = ActionName { instance: "", action: digest };
    assert_eq!(store.action(&name).await.unwrap(), None);
    let result = Bytes::from_static(&[0x20, 1]);
    let put = store.put_action(&name, result, UnknownFields::Refuse).await.unwrap();
    assert_eq!(put, ActionPut::Stored);
    drop(store);

    let file = BufReader::new(File::open(&path).unwrap());
    let found: Vec<TraceRequest> = TraceReader::new(file).unwrap().map(Result::unwrap).collect();
    let shown: Vec<_> = found.iter().map(|one| (one.operation, one.size_bytes)).collect();
    assert_eq!(shown, [(Find, 1000), (Put, 1000), (Get, 1000), (Get, 0), (Put, 2)]);
    let names: Vec<_> = found.iter().map(|one| one.fingerprint).collect();
    assert!(names[0] == names[1] && names[1] == names[2] && names[3] == names[4]);
    assert_ne!(names[0], names[3]);
}

/// A command that opens the store of a server by its folder must not shrink it.
#[tokio::test(flavor = "multi_thread")]
async fn a_store_keeps_its_limit_unless_the_owner_gives_another() {
    let folder = tempfile::tempdir().unwrap();
    let limit = |options: StoreOptions| async {
        let store = LocalStore::open(folder.path(), options).await.unwrap();
        let limit = store.bytes_max();
        store.close().await;
        limit
    };
    let by_folder = || LocalStore::options_of_command(folder.path());
    assert_eq!(limit(StoreOptions::new(512 << 20)).await, 512 << 20);
    assert_eq!(limit(by_folder()).await, 512 << 20);
    assert_eq!(limit(StoreOptions::new(256 << 20)).await, 256 << 20);
    assert_eq!(limit(by_folder()).await, 256 << 20);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_of_another_version_is_refused_and_stays() {
    let (store, folder) = store().await;
    store.close().await;
    let master = folder.path().join("index/master");
    let mut bytes = std::fs::read(&master).unwrap();
    let half = bytes.len() / 2;
    // The first byte is that of the version.
    bytes[0] ^= 0x0f;
    bytes[half] ^= 0x0f;
    std::fs::write(&master, &bytes).unwrap();
    let refused = LocalStore::open(folder.path(), StoreOptions::new(512 << 20)).await.unwrap_err();
    let first: &dyn std::error::Error = &refused;
    let causes = std::iter::successors(Some(first), |error| error.source());
    let text = causes.map(ToString::to_string).collect::<Vec<_>>().join(": ");
    assert!(text.contains("another version"), "{text}");
    assert_eq!(std::fs::read(&master).unwrap(), bytes);
}

/// A writer waits for eviction instead of failing.
#[tokio::test(flavor = "multi_thread")]
async fn three_times_the_limit_is_put() {
    let folder = tempfile::tempdir().unwrap();
    let mut options = StoreOptions::new(64 << 20);
    options.min_age = std::time::Duration::ZERO;
    let store = LocalStore::open(folder.path(), options).await.unwrap();
    for number in 0..192_u64 {
        let mut bytes = vec![7; 1 << 20];
        bytes[..8].copy_from_slice(&number.to_le_bytes());
        let digest = Digest::of(DigestFunction::Sha256, &bytes);
        let put = store.put(&PutRequest::new(digest, Arc::new(Bytes::from(bytes)))).await;
        put.unwrap_or_else(|error| panic!("blob {number}: {error}"));
    }
}
