//! Several callers of one cache in one process. The permissions of one caller give another caller
//! nothing.

use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use tidegate::chunked::{BlobStore as _, ChunkStore};
use tidegate::remote::reapi::{CacheUrl, ReapiCache, ReapiOptions as CacheOptions};
use tidegate::remote::{ExtraHeaders, RemoteOptions};
use tidegate::transport::{ClientIdentity, TransportOptions};
use tidegate::{Client, ErrorKind, Progress, Report, Target};
use tidegate_testkit::reapi::{
    BlobName, HashFunction, ReapiFault, ReapiOptions, ReapiRule, ReapiServer, Rpc,
};
use tidegate_testkit::{Gate, Tls, pseudo_random};

use super::bed::{Bed, Way, digest, in_time};
use crate::call::{ChunkedDownloadOptions, UploadOptions, client_of, download_chunks, upload};

const OWNER: &str = "owner";
const TENANT: &str = "tenant";

/// After this number of turns of the runtime a request would have been sent.
const TURNS: usize = 1_000;

/// The cache, reached with this token.
fn store(server: &ReapiServer, token: &str) -> Arc<dyn ChunkStore> {
    let mut headers = ExtraHeaders::new();
    headers.add("authorization", &format!("Bearer {token}")).unwrap();
    let remotes = client_of(RemoteOptions { headers, ..RemoteOptions::default() });
    crate::call::store(&remotes, &server.url()).unwrap()
}

/// Downloads with the client that all callers of a test share.
async fn get(
    client: &Client,
    server: &ReapiServer,
    token: &str,
    name: &BlobName,
) -> tidegate::Result<Report> {
    let store = store(server, token);
    let options = ChunkedDownloadOptions {
        client: client.clone(),
        retry: Bed::retry(),
        ..Default::default()
    };
    in_time(download_chunks(&store, &digest(name), Target::Memory, &options)).await
}

async fn put(
    client: &Client,
    server: &ReapiServer,
    token: &str,
    file: &Path,
    progress: &Arc<Progress>,
) -> tidegate::Result<Report> {
    let store = store(server, token);
    let progress = Arc::clone(progress);
    let options = UploadOptions {
        client: client.clone(),
        retry: Bed::retry(),
        progress,
        ..Default::default()
    };
    in_time(upload(&store, file, &options)).await
}

/// Opens `gate` after the second caller had every chance to wait for the first one's request.
async fn open(gate: &Gate, is_under_way: impl Fn() -> bool) {
    gate.reached(1).await;
    while !is_under_way() {
        tokio::task::yield_now().await;
    }
    for _ in 0..TURNS {
        tokio::task::yield_now().await;
    }
    gate.open();
}

#[tokio::test]
async fn a_caller_without_permission_gets_nothing_from_another_callers_download() {
    let server = ReapiServer::start(ReapiOptions {
        token: Some(OWNER.to_owned()),
        open_capabilities: true,
        ..ReapiOptions::default()
    });
    let server = server.await.unwrap();
    let data = pseudo_random(2_000, 1);
    let (client, name) = (Client::default(), server.put(data.clone()));
    let gate = Gate::new();
    server.script().next(Rpc::Read, ReapiFault::Hold(gate.clone()));
    let second = async {
        gate.reached(1).await;
        get(&client, &server, "another", &name).await
    };
    let open = open(&gate, || server.counts().calls(Rpc::Capabilities) == 2);
    let (first, second, ()) = tokio::join!(get(&client, &server, OWNER, &name), second, open);
    assert_eq!(first.unwrap().memory, Some(data));
    assert_eq!(second.unwrap_err().kind(), ErrorKind::NoAccess);
}

#[tokio::test]
async fn each_caller_sends_its_own_chunks() {
    for (way, rpc) in [(Way::Batches, Rpc::BatchUpdate), (Way::Streams, Rpc::Write)] {
        // One chunk, and several chunks.
        for len in [2_000, 20_000] {
            sends_to_its_own_side(way, rpc, len).await;
        }
    }
}

async fn sends_to_its_own_side(way: Way, rpc: Rpc, len: usize) {
    let server = ReapiServer::start(ReapiOptions {
        token: Some(OWNER.to_owned()),
        tenants: vec![TENANT.to_owned()],
        ..way.options()
    });
    let server = server.await.unwrap();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    let data: Bytes = pseudo_random(len, 2);
    std::fs::write(&file, &data).unwrap();
    let gate = Gate::new();
    server.script().push(ReapiRule::new(ReapiFault::Hold(gate.clone())).rpc(rpc));
    let client = Client::default();
    let progress = [Arc::default(), Arc::default()];
    let second = async {
        gate.reached(1).await;
        put(&client, &server, TENANT, &file, &progress[1]).await
    };
    let first = put(&client, &server, OWNER, &file, &progress[0]);
    let open = open(&gate, || progress[1].snapshot().read_bytes == len as u64);
    let (first, second, ()) = tokio::join!(first, second, open);
    first.unwrap();
    let second = second.unwrap();
    let seen = (
        second.chunks.unwrap().moved.bytes,
        second.chunks.unwrap().shared.bytes,
        second.chunks.unwrap().rounds,
    );
    assert_eq!(seen, (len as u64, 0, 0), "{way:?} {len}");
    let name = HashFunction::Sha256.name(&data);
    let report = get(&client, &server, TENANT, &name).await.unwrap();
    assert_eq!(report.memory, Some(data), "{way:?} {len}");
}

/// Callers are separate if they differ in anything that a server could distinguish them by.
#[tokio::test]
async fn callers_are_separate_if_the_cache_can_distinguish_them() {
    let tls = Some(Tls::default());
    let secured = || ReapiOptions { tls, client_certificate: true, ..ReapiOptions::default() };
    let (one, other) = (ReapiServer::start(secured()), ReapiServer::start(secured()));
    let (one, other) = (one.await.unwrap(), other.await.unwrap());
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    };
    let identity = |name: &str, server: &ReapiServer| {
        let (certificates, key) = server.client_pem().unwrap();
        let certificates = write(&format!("{name}.pem"), certificates);
        Some(ClientIdentity { certificates, key: write(&format!("{name}.key"), key) })
    };
    let identities = [None, identity("one", &one), identity("other", &other)];
    let authorities = [
        vec![],
        vec![write("one.ca", one.ca_pem().unwrap())],
        vec![write("other.ca", other.ca_pem().unwrap())],
    ];
    let tokens = ["", "Authorization: Bearer one", "Authorization: Bearer other", "X-User: one"];
    let builds = [None, Some("one".to_owned())];
    let url = CacheUrl::parse("grpc://cache.example/instance").unwrap();
    let mut seen = std::collections::HashSet::new();
    for (client_identity, ca_certs) in identities
        .iter()
        .zip(&authorities)
        .chain([(&identities[0], &authorities[1]), (&identities[1], &authorities[0])])
    {
        for token in tokens {
            for build in &builds {
                let make = || {
                    let mut headers = ExtraHeaders::new();
                    if !token.is_empty() {
                        headers.add_line(token).unwrap();
                    }
                    let options = CacheOptions {
                        correlated_invocations_id: build.clone(),
                        ..CacheOptions::default()
                    };
                    let transport = TransportOptions {
                        client_identity: client_identity.clone(),
                        ca_certs: ca_certs.clone(),
                        ..TransportOptions::default()
                    };
                    ReapiCache::new(&url, &options, &headers, &transport).unwrap()
                };
                let (cache, again) = (make(), make());
                assert_eq!(cache.identity(), again.identity(), "equal callers share");
                assert!(seen.insert(cache.identity().into_owned()), "{token} {build:?}");
                let shown = format!("{cache:?}");
                assert!(
                    !shown.contains(&*cache.identity()) && !shown.contains("Bearer"),
                    "{shown}"
                );
            }
        }
    }
}
