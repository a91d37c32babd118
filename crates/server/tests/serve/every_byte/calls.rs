//! A request for each call of gRPC, and what it would name.

use prost::Message;
use tidegate_core::digest::Digest;
use tidegate_reapi::bytestream::{QueryWriteStatusRequest, ReadRequest};
use tidegate_reapi::digest::to_proto;
use tidegate_reapi::v2;
use tonic::Code;

use crate::bed::{Bed, blob_name, entry, messages, noise, sha256, text, upload_name, zstd};
use crate::raw::{CAS, WRITE, framed};

const STREAMS: &str = "/google.bytestream.ByteStream";
const ACTIONS: &str = "/build.bazel.remote.execution.v2.ActionCache";

/// What a request would name.
#[derive(Clone, Debug)]
pub(super) enum Named {
    Nothing,
    Blob(Digest),
    Action(Digest),
}

/// A request that succeeds when it is whole.
#[derive(Clone, Debug)]
pub(super) struct Call {
    pub(super) path: String,
    /// The messages with their prefixes.
    pub(super) request: Vec<u8>,
    /// Where messages end; a write that ends there may continue later.
    pub(super) ends: Vec<usize>,
    pub(super) named: Named,
}

impl Call {
    fn unary(path: String, message: &impl Message, named: Named) -> Self {
        Self { path, request: framed(message), ends: Vec::new(), named }
    }

    fn write(name: &str, bytes: &[u8], digest: Digest) -> Self {
        let mut request = Vec::new();
        let mut ends = Vec::new();
        for message in messages(name, bytes, bytes.len() / 3 + 1, 0) {
            request.extend(framed(&message));
            ends.push(request.len());
        }
        Self { path: WRITE.to_owned(), request, ends, named: Named::Blob(digest) }
    }

    /// Fails if the name is there.
    pub(super) async fn names_nothing(&self, bed: &Bed) {
        match &self.named {
            Named::Nothing => {}
            Named::Blob(digest) => assert!(!bed.has(digest).await, "{} named a part", self.path),
            Named::Action(action) => {
                let found = action_result(bed, action).await;
                assert_eq!(found, Err(Code::NotFound), "{} named a part", self.path);
            }
        }
    }

    /// Fails if the name is not there.
    pub(super) async fn is_done(&self, bed: &Bed) {
        match &self.named {
            Named::Nothing => {}
            Named::Blob(digest) => assert!(bed.has(digest).await, "{} named nothing", self.path),
            Named::Action(action) => {
                assert_eq!(action_result(bed, action).await, Ok(()), "{} named nothing", self.path);
            }
        }
    }
}

async fn action_result(bed: &Bed, action: &Digest) -> Result<(), Code> {
    let request = v2::GetActionResultRequest {
        instance_name: "team".to_owned(),
        action_digest: Some(to_proto(action)),
        ..Default::default()
    };
    let found = bed.actions().await.get_action_result(request).await;
    found.map(|_| ()).map_err(|status| status.code())
}

/// Stores what the requests need, and returns one for each call.
pub(super) async fn all(bed: &Bed) -> Vec<Call> {
    let instance_name = "team".to_owned();
    let (first, second) = (noise(300, 1), noise(200, 2));
    let root = v2::Directory::default().encode_to_vec();
    let stored = bed.put(&[&first, &second, &root]).await;
    let whole = [first.clone(), second.clone()].concat();
    let spliced = sha256(&[second, first].concat());
    let digests: Vec<v2::Digest> = stored.iter().map(to_proto).collect();
    let splice = v2::SpliceBlobRequest {
        blob_digest: Some(to_proto(&spliced)),
        chunk_digests: vec![digests[1].clone(), digests[0].clone()],
        ..Default::default()
    };
    bed.cas().await.splice_blob(splice).await.unwrap();
    let known = Some(digests[0].clone());
    let action = sha256(b"an action");
    let result = Some(v2::ActionResult {
        output_files: vec![v2::OutputFile {
            path: "out".into(),
            digest: known.clone(),
            ..Default::default()
        }],
        ..Default::default()
    });
    let mut calls = with_digests(&instance_name, &digests, &whole, &spliced);
    calls.push(Call::unary(
        format!("{ACTIONS}/UpdateActionResult"),
        &v2::UpdateActionResultRequest {
            instance_name: instance_name.clone(),
            action_digest: Some(to_proto(&action)),
            action_result: result.clone(),
            ..Default::default()
        },
        Named::Action(action),
    ));
    let known_action = Some(to_proto(&sha256(b"a known action")));
    let known_result = v2::UpdateActionResultRequest {
        instance_name: instance_name.clone(),
        action_digest: known_action.clone(),
        action_result: result,
        ..Default::default()
    };
    bed.actions().await.update_action_result(known_result).await.unwrap();
    calls.push(Call::unary(
        format!("{ACTIONS}/GetActionResult"),
        &v2::GetActionResultRequest {
            instance_name: instance_name.clone(),
            action_digest: known_action,
            ..Default::default()
        },
        Named::Nothing,
    ));
    calls.extend(streams(&stored[0]));
    calls.push(Call::unary(
        "/build.bazel.remote.execution.v2.Capabilities/GetCapabilities".to_owned(),
        &v2::GetCapabilitiesRequest { instance_name },
        Named::Nothing,
    ));
    calls
}

/// The calls of the content-addressable storage. The stored blobs are two chunks of `whole` and a
/// directory; `spliced` is stored in chunks.
fn with_digests(
    instance: &str,
    stored: &[v2::Digest],
    whole: &[u8],
    spliced: &Digest,
) -> Vec<Call> {
    let instance_name = instance.to_owned();
    let batched = noise(150, 3);
    let update = v2::BatchUpdateBlobsRequest {
        instance_name: instance_name.clone(),
        requests: vec![entry(&sha256(&batched), &batched)],
        ..Default::default()
    };
    let splice = v2::SpliceBlobRequest {
        instance_name: instance_name.clone(),
        blob_digest: Some(to_proto(&sha256(whole))),
        chunk_digests: stored[..2].to_vec(),
        ..Default::default()
    };
    let find = v2::FindMissingBlobsRequest {
        instance_name: instance_name.clone(),
        blob_digests: stored.to_vec(),
        ..Default::default()
    };
    let read = v2::BatchReadBlobsRequest {
        instance_name: instance_name.clone(),
        digests: stored.to_vec(),
        ..Default::default()
    };
    let tree = v2::GetTreeRequest {
        instance_name: instance_name.clone(),
        root_digest: Some(stored[2].clone()),
        ..Default::default()
    };
    let split = v2::SplitBlobRequest {
        instance_name,
        blob_digest: Some(to_proto(spliced)),
        ..Default::default()
    };
    let cas = |method: &str| format!("{CAS}/{method}");
    vec![
        Call::unary(cas("BatchUpdateBlobs"), &update, Named::Blob(sha256(&batched))),
        Call::unary(cas("SpliceBlob"), &splice, Named::Blob(sha256(whole))),
        Call::unary(cas("FindMissingBlobs"), &find, Named::Nothing),
        Call::unary(cas("BatchReadBlobs"), &read, Named::Nothing),
        Call::unary(cas("GetTree"), &tree, Named::Nothing),
        Call::unary(cas("SplitBlob"), &split, Named::Nothing),
    ]
}

/// The calls of byte streams. The compressed write is short, and its blob is a file in the store.
fn streams(known: &Digest) -> Vec<Call> {
    let short = noise(90, 4);
    let long = text(70_000, 5);
    let digest = sha256(&long);
    let packed_name = upload_name(&digest).replacen("blobs/", "compressed-blobs/zstd/", 1);
    let read = ReadRequest { resource_name: blob_name(known), read_offset: 3, read_limit: 100 };
    let query = QueryWriteStatusRequest { resource_name: upload_name(known) };
    vec![
        Call::write(&upload_name(&sha256(&short)), &short, sha256(&short)),
        Call::write(&packed_name, &zstd(&long), digest),
        Call::unary(format!("{STREAMS}/Read"), &read, Named::Nothing),
        Call::unary(format!("{STREAMS}/QueryWriteStatus"), &query, Named::Nothing),
    ]
}
