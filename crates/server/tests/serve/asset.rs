//! Remote Asset: blobs of other servers, through origins.

use std::slice::from_ref;

use tidegate_core::digest::{Digest, DigestFunction};
use tidegate_reapi::asset::fetch_client::FetchClient;
use tidegate_reapi::asset::{
    FetchBlobRequest, FetchBlobResponse, FetchDirectoryRequest, Qualifier,
};
use tidegate_reapi::digest::{from_proto, function};
use tidegate_server::serve::Origin;
use tidegate_testkit::{Blob, Fault, Server, ServerOptions};
use tonic::{Code, Status};

use crate::bed::{Bed, blob_name, noise, refused, sha256, within};

/// The checksums of `b"content"`, computed by another program.
const SHA256: &str = "sha256-7XACtDnprIRfIjV9giusFERzD722AW0+yUMil7nsn3M=";
const SHA384: &str = "sha384-VAbr6hYY6bc6cpDF1xbwtHtPH7xdjF54yQEKPgHBjYWUqpQuNTb34BV0JF00ZHUj";
const SHA512: &str = "sha512-stHShbUZnIX5iNA2ScN+RP093gHl1pxQ/vkGUZYvSBEOk0C2DUmkecTAtT9fB9aQaG3YfSSBk3pRLouF7nxhfw==";

async fn bed() -> (Server, Bed) {
    let remote = Server::start(ServerOptions::default()).await.unwrap();
    let url = remote.url("/files");
    let bed = Bed::with(|options| {
        options.origins.origins.push(Origin::parse(&format!("files={url}")).unwrap());
    })
    .await;
    (remote, bed)
}

fn request(uris: &[String], qualifiers: &[(&str, &str)]) -> FetchBlobRequest {
    let qualifier = |(name, value): &(&str, &str)| Qualifier {
        name: (*name).to_owned(),
        value: (*value).to_owned(),
    };
    FetchBlobRequest {
        uris: uris.to_vec(),
        qualifiers: qualifiers.iter().map(qualifier).collect(),
        ..FetchBlobRequest::default()
    }
}

async fn fetch(bed: &Bed, request: FetchBlobRequest) -> Result<FetchBlobResponse, Status> {
    let mut client = FetchClient::new(bed.channel().await);
    within(client.fetch_blob(request)).await.map(tonic::Response::into_inner)
}

/// The code in a response.
fn code(response: &FetchBlobResponse) -> Code {
    Code::from_i32(response.status.as_ref().unwrap().code)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_uri_is_fetched_through_its_origin() {
    let (remote, bed) = bed().await;
    let bytes = noise(300_000, 41);
    remote.put("/files/a.tar", Blob::new(bytes.clone()));
    let uris = ["http://elsewhere.invalid/a.tar".to_owned(), remote.url("/files/a.tar")];
    let response = fetch(&bed, request(&uris, &[("bazel.canonical_id", "x")])).await.unwrap();
    assert_eq!((code(&response), &response.uri), (Code::Ok, &uris[1]));
    let digest = from_proto(&response.blob_digest.unwrap(), DigestFunction::Sha256).unwrap();
    assert_eq!(digest, sha256(&bytes));
    assert!(bed.read(&blob_name(&digest), 0, 0).await.unwrap() == bytes);
    // The same in the other function, from the store.
    let requests = remote.requests();
    let blake3 = FetchBlobRequest {
        digest_function: function(DigestFunction::Blake3),
        ..request(&uris, &[])
    };
    for _ in 0..2 {
        let response = fetch(&bed, blake3.clone()).await.unwrap();
        assert_eq!(response.digest_function, function(DigestFunction::Blake3));
        let digest = from_proto(&response.blob_digest.unwrap(), DigestFunction::Blake3).unwrap();
        assert_eq!(digest, Digest::of(DigestFunction::Blake3, &bytes));
        assert!(bed.has(&digest).await);
    }
    assert_eq!(remote.requests(), requests);
}

#[tokio::test(flavor = "multi_thread")]
async fn checksums_are_compared() {
    let (remote, bed) = bed().await;
    remote.put("/files/right", Blob::new(&b"content"[..]));
    remote.put("/files/wrong", Blob::new(&b"other"[..]));
    let (right, wrong) = (remote.url("/files/right"), remote.url("/files/wrong"));
    let refusal =
        fetch(&bed, request(from_ref(&wrong), &[("checksum.sri", SHA256)])).await.unwrap();
    assert_eq!((code(&refusal), refusal.blob_digest), (Code::Aborted, None));
    let both = [wrong.clone(), right];
    let response = fetch(&bed, request(&both, &[("checksum.sri", SHA256)])).await.unwrap();
    assert_eq!((code(&response), &response.uri), (Code::Ok, &both[1]));
    // Known by its checksum, it needs no URI.
    let requests = remote.requests();
    let nowhere = ["http://elsewhere.invalid/x".to_owned()];
    let response = fetch(&bed, request(&nowhere, &[("checksum.sri", SHA256)])).await.unwrap();
    assert_eq!(code(&response), Code::Ok);
    for sri in [SHA384, SHA512] {
        let refusal =
            fetch(&bed, request(from_ref(&wrong), &[("checksum.sri", sri)])).await.unwrap();
        assert_eq!(code(&refusal), Code::Aborted, "{sri}");
        let response = fetch(&bed, request(&both, &[("checksum.sri", sri)])).await.unwrap();
        assert_eq!(code(&response), Code::Ok, "{sri}");
        let response = fetch(&bed, request(&nowhere, &[("checksum.sri", sri)])).await.unwrap();
        assert_eq!(code(&response), Code::Ok, "{sri}");
    }
    assert_eq!(remote.requests(), requests);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_no_origin_covers_is_refused() {
    let (remote, bed) = bed().await;
    remote.put("/secret", Blob::new(&b"secret"[..]));
    let uris = [
        remote.url("/secret"),
        format!("{}/../secret", remote.url("/files")),
        "file:///etc/passwd".to_owned(),
    ];
    for uri in uris {
        let response = fetch(&bed, request(from_ref(&uri), &[])).await.unwrap();
        assert_eq!(code(&response), Code::PermissionDenied, "{uri}");
    }
    assert_eq!(remote.requests(), 0);
    let any = Bed::with(|options| options.origins.fetches_any = true).await;
    let response = fetch(&any, request(&[remote.url("/secret")], &[])).await.unwrap();
    assert_eq!(code(&response), Code::Ok);
    let response = fetch(&any, request(&["file:///etc/passwd".to_owned()], &[])).await.unwrap();
    assert_eq!(code(&response), Code::PermissionDenied);
}

#[tokio::test(flavor = "multi_thread")]
async fn wrong_requests_and_remotes_have_statuses() {
    let (remote, bed) = bed().await;
    let uri = remote.url("/files/none");
    let response = fetch(&bed, request(from_ref(&uri), &[])).await.unwrap();
    assert_eq!(code(&response), Code::NotFound);
    remote.script().always(Fault::status(503));
    let response = fetch(&bed, request(from_ref(&uri), &[])).await.unwrap();
    assert_eq!(code(&response), Code::Unavailable);
    refused(fetch(&bed, request(&[], &[])).await, Code::InvalidArgument);
    let header = [("http_header:Authorization", "x")];
    let status =
        refused(fetch(&bed, request(from_ref(&uri), &header)).await, Code::InvalidArgument);
    assert!(status.message().contains("http_header:Authorization"), "{status:?}");
    let sri = [("checksum.sri", "md5-x")];
    refused(fetch(&bed, request(&[uri], &sri)).await, Code::InvalidArgument);
    let mut client = FetchClient::new(bed.channel().await);
    let directory = client.fetch_directory(FetchDirectoryRequest::default()).await;
    refused(directory, Code::Unimplemented);
}
