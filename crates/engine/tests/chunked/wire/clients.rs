//! What transfers share through their client, and how a client fetches and sends a cache's blobs by
//! URL.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::StreamExt as _;
use tidegate::{
    Budget, BudgetOptions, ChunkPolicy, Client, ClientOptions, ErrorKind, Location, Progress,
    Target,
};
use tidegate_core::checksum::{ChecksumAlgorithm, Checksummer};
use tidegate_core::range::ByteRange;
use tidegate_testkit::Gate;
use tidegate_testkit::reapi::{BlobName, ReapiFault, ReapiOptions, ReapiRule, ReapiServer, Rpc};
use tokio::io::AsyncReadExt as _;

use super::bed::{Bed, Way, blob, chunks, digest, in_time};

/// A cache with a blob of some 250 chunks, each in a request of its own, and the blob's URL.
async fn cache(options: ReapiOptions) -> (ReapiServer, BlobName, Bytes, String) {
    let server = ReapiServer::start(options).await.unwrap();
    let data = blob(7);
    let name = server.put(data.clone());
    let url = format!("{}/{}", server.url(), digest(&name));
    (server, name, data, url)
}

#[tokio::test]
async fn transfers_of_one_client_share_chunks_and_those_of_two_share_none() {
    for is_shared in [true, false] {
        let (server, _, data, url) = cache(Way::Streams.options()).await;
        let first_chunk = chunks(&data).remove(0).hash;
        let (one, other) = (Client::default(), Client::default());
        let other = if is_shared { one.clone() } else { other };
        let gate = Gate::new();
        server
            .script()
            .push(ReapiRule::new(ReapiFault::Hold(gate.clone())).rpc(Rpc::Read).always());
        let progress: [Arc<Progress>; 2] = Default::default();
        let fetch = async |client: &Client, progress: &Arc<Progress>| {
            let location = client.locate(&url).unwrap();
            let download = client.download(&location, Target::Memory);
            download.progress(Arc::clone(progress)).await.unwrap()
        };
        let open = async {
            // Both are fetching their first chunks.
            gate.reached(1).await;
            while progress.iter().any(|progress| progress.snapshot().in_flight < 16) {
                tokio::task::yield_now().await;
            }
            gate.open();
        };
        let both =
            async { tokio::join!(fetch(&one, &progress[0]), fetch(&other, &progress[1]), open) };
        let (a, b, ()) = in_time(both).await;
        assert_eq!((a.memory, b.memory), (Some(data.clone()), Some(data)));
        let times = if is_shared { 1 } else { 2 };
        assert_eq!(server.counts().served(&first_chunk), times, "shared: {is_shared}");
    }
}

#[tokio::test]
async fn a_clients_limits_bound_all_its_transfers_and_no_other_clients() {
    let (one, other) = (Client::default(), Client::default());
    let all = one.budget().limits().bytes;
    let held = one.budget().try_bytes(all).unwrap();
    assert!(one.clone().budget().try_bytes(4096).is_none(), "clones share");
    assert!(other.budget().try_bytes(all).is_some(), "two defaults share nothing");
    drop(held);

    let (server, _, data, url) = cache(Way::Streams.options()).await;
    let budget = Budget::new(BudgetOptions { requests: 3, bytes: 256 << 10 });
    let client = Client::new(ClientOptions::default().budget(budget.clone()));
    let location = client.locate(&url).unwrap();
    let downloads = (0..4).map(|_| async {
        let mut bytes = Vec::new();
        client.read(&location).open().unwrap().read_to_end(&mut bytes).await.unwrap();
        assert!(bytes == data);
        client.download(&location, Target::Discard).await.unwrap()
    });
    in_time(futures_util::future::join_all(downloads)).await;
    assert!(budget.held_bytes_peak() > 0 && budget.held_bytes_peak() <= 256 << 10);
    assert!(server.counts().total.in_flight_peak <= 3, "{:?}", server.counts().total);
}

#[tokio::test]
async fn a_cache_with_chunk_support_delivers_a_blob_as_chunks() {
    for split in [true, false] {
        let options = ReapiOptions { split, ..Way::Streams.options() };
        let (_server, _, data, url) = cache(options).await;
        let client = Client::default();
        let location = client.locate(&url).unwrap();
        let download = || client.download(&location, Target::Memory);

        let report = download().await.unwrap();
        assert_eq!(report.chunks.map(|chunks| chunks.all.chunks > 1), split.then_some(true));
        assert!(report.is_verified() && report.memory == Some(data.clone()));

        let required = download().chunks(ChunkPolicy::Required).await;
        match required {
            Ok(report) => assert!(split && report.chunks.is_some()),
            Err(error) => assert!(!split && error.kind() == ErrorKind::Unsupported, "{error:?}"),
        }
        // Each of these options makes the download fetch the blob whole.
        let sum = Checksummer::of(ChecksumAlgorithm::Md5, &data).unwrap();
        let report = download().expect(sum).await.unwrap();
        assert!(report.chunks.is_none() && report.verified.checksums().len() == 2, "{report:?}");
        let report = download().chunks(ChunkPolicy::Never).await.unwrap();
        assert!(report.chunks.is_none() && report.is_verified());
        let report = download().range(ByteRange::Bounded(5..105)).await.unwrap();
        assert!(report.chunks.is_none() && !report.is_verified());
        assert_eq!(report.memory.unwrap(), data.slice(5..105));
        assert!(client.fetch(&location).await.unwrap() == data);
    }
}

#[tokio::test]
async fn a_store_can_be_read_like_a_remote() {
    let (server, name, data, _) = cache(Way::Streams.options()).await;
    let client = Client::default();
    let target = client.locate_target(&server.url()).unwrap();
    let location = Location::in_store(Arc::clone(target.store().unwrap()), &digest(&name));
    let info = client.stat(&location).await.unwrap();
    assert_eq!(info.len_bytes, Some(data.len() as u64));
    let mut channel = client.read(&location).open().unwrap();
    let mut bytes = Vec::new();
    channel.read_to_end(&mut bytes).await.unwrap();
    assert!(bytes == data && channel.verified().is_verified());
    for range in [ByteRange::Bounded(100..5_000), ByteRange::Last(10), ByteRange::From(200_000)] {
        let wanted = range.resolve(data.len() as u64).unwrap();
        let wanted =
            &data[usize::try_from(wanted.start).unwrap()..usize::try_from(wanted.end).unwrap()];
        let mut bytes = Vec::new();
        let mut channel = client.read(&location).range(range.clone()).open().unwrap();
        channel.read_to_end(&mut bytes).await.unwrap();
        assert!(bytes == wanted, "{range}");
    }
    server.evict(&name.hash);
    assert_eq!(client.stat(&location).await.unwrap_err().kind(), ErrorKind::NotFound);
}

#[tokio::test]
async fn a_file_is_uploaded_under_its_content_or_the_name_in_the_url() {
    let bed = Bed::by(Way::Streams).await;
    let (client, data) = (Client::default(), blob(3));
    let path = bed.file("source", &data);
    let target = client.locate_target(&bed.server.url()).unwrap();
    let sent = client.upload(&path, &target).await.unwrap();
    assert_eq!(sent.digest.unwrap().len, data.len() as u64);
    assert!(sent.chunks.unwrap().moved.chunks > 100, "{sent:?}");

    let url = format!("{}/{}", bed.server.url(), sent.digest.unwrap());
    let named = client.locate(&url).unwrap();
    assert_eq!(
        client.upload(&path, &named).await.unwrap().chunks.unwrap().moved.chunks,
        0,
        "it is there"
    );
    assert!(client.fetch(&named).await.unwrap() == data);
    let other = bed.file("other", b"something else");
    let error = client.upload(&other, &named).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Integrity, "{error:?}");

    let whole = blob(4);
    let path = bed.file("whole", &whole);
    let sent = client.upload(&path, &target).chunks(ChunkPolicy::Never).await.unwrap();
    assert_eq!(
        (sent.chunks.unwrap().all.chunks, sent.digest.unwrap().len),
        (1, whole.len() as u64)
    );
}

#[tokio::test]
async fn a_cache_url_without_a_blob_is_only_an_upload_target() {
    let (server, ..) = cache(Way::Streams.options()).await;
    let client = Client::default();
    let target = client.locate_target(&server.url()).unwrap();
    let errors = [
        client.locate(&server.url()).unwrap_err(),
        client.download(&target, Target::Memory).await.unwrap_err(),
        client.stat(&target).await.unwrap_err(),
        client.read(&target).open().unwrap_err(),
    ];
    for error in errors {
        assert_eq!(error.kind(), ErrorKind::Invalid, "{error:?}");
        assert!(error.to_string().contains("names a cache, but no blob"), "{error}");
    }
    let file = tempfile::NamedTempFile::new().unwrap();
    let no_cache = client.locate(file.path().to_str().unwrap()).unwrap();
    let upload = client.upload(file.path(), &no_cache).chunks(ChunkPolicy::Required);
    let error = upload.await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{error:?}");
    assert_eq!(server.counts().total.arrived, 0, "nothing was sent");
}

/// Code without a runtime blocks its own thread; an async task must not.
#[test]
fn every_call_can_be_waited_for_without_a_runtime() {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let (server, _, data, url) = runtime.block_on(cache(Way::Streams.options()));
    let client = Client::default();
    let location = client.locate(&url).unwrap();
    assert_eq!(client.stat(&location).wait().unwrap().len_bytes, Some(data.len() as u64));
    let report = client.download(&location, Target::Memory).wait().unwrap();
    assert!(report.memory.unwrap() == data);
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), b"a file").unwrap();
    let target = client.locate_target(&server.url()).unwrap();
    assert_eq!(client.upload(file.path(), &target).wait().unwrap().bytes, 6);
    runtime.block_on(async {
        let errors = [
            client.stat(&location).wait().unwrap_err(),
            client.download(&location, Target::Discard).wait().unwrap_err(),
            client.upload(file.path(), &target).wait().unwrap_err(),
        ];
        for error in errors {
            assert_eq!(error.kind(), ErrorKind::Unsupported, "{error:?}");
            assert!(error.to_string().contains("inside an asynchronous task"), "{error}");
        }
    });
}

#[tokio::test]
async fn progress_events_end_with_the_transfer() {
    let (server, name, data, url) = cache(Way::Streams.options()).await;
    let client = Client::default();
    let location = client.locate(&url).unwrap();
    let follow = |progress: &Arc<Progress>| {
        let events = progress.events(Duration::from_millis(1));
        tokio::spawn(events.collect::<Vec<_>>())
    };

    let progress = Arc::<Progress>::default();
    let events = follow(&progress);
    let download = client.download(&location, Target::Memory).progress(Arc::clone(&progress));
    let report = download.await.unwrap();
    let events = in_time(events).await.unwrap();
    let last = *events.last().unwrap();
    assert_eq!(last, progress.snapshot());
    assert_eq!((last.done_bytes, last.in_flight), (report.bytes, 0));
    assert!(events.is_sorted_by_key(|snapshot| snapshot.done_bytes), "{events:?}");

    let progress = Arc::<Progress>::default();
    let events = follow(&progress);
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), blob(8)).unwrap();
    let target = client.locate_target(&server.url()).unwrap();
    let upload = client.upload(file.path(), &target).progress(Arc::clone(&progress));
    let sent = upload.await.unwrap();
    let last = *in_time(events).await.unwrap().last().unwrap();
    assert_eq!(
        (last.len_bytes, last.read_bytes),
        (Some(sent.digest.unwrap().len), sent.digest.unwrap().len)
    );
    assert_eq!(last.done_bytes - last.reused_bytes, sent.chunks.unwrap().moved.bytes);
    assert!(last.requests > 2, "{last:?}");

    let progress = Arc::<Progress>::default();
    let events = follow(&progress);
    for chunk in chunks(&data) {
        server.evict(&chunk.hash);
    }
    server.evict(&name.hash);
    let download = client.download(&location, Target::Memory).progress(Arc::clone(&progress));
    download.await.unwrap_err();
    assert_eq!(in_time(events).await.unwrap().last(), Some(&progress.snapshot()));
}
