//! The cache with the Remote Execution API, through an independent gRPC library.

mod bytestream;
mod cas;
mod cutting;
mod faults;
mod lifecycle;
mod manifests;
mod tls;

use bytes::Bytes;
use tidegate_reapi::{
    bytestream::{ReadRequest, byte_stream_client::ByteStreamClient},
    v2::{
        self, capabilities_client::CapabilitiesClient,
        content_addressable_storage_client::ContentAddressableStorageClient,
    },
};
use tidegate_testkit::reapi::{BlobName, HashFunction, ReapiOptions, ReapiServer};
use tonic::{Code, Status, transport::Channel};

/// Longer than any message here.
const MESSAGE_BYTES_MAX: usize = 64 * 1024 * 1024;

/// A server and a client of each of its services, over one connection.
pub(crate) struct Bed {
    pub(crate) server: ReapiServer,
    pub(crate) capabilities: CapabilitiesClient<Channel>,
    pub(crate) cas: ContentAddressableStorageClient<Channel>,
    pub(crate) bytes: ByteStreamClient<Channel>,
}

impl Bed {
    pub(crate) async fn new(options: ReapiOptions) -> Self {
        let server = ReapiServer::start(options).await.unwrap();
        let endpoint = format!("http://{}", server.addr());
        let channel = Channel::from_shared(endpoint).unwrap().connect().await.unwrap();
        Self {
            server,
            capabilities: CapabilitiesClient::new(channel.clone()),
            cas: ContentAddressableStorageClient::new(channel.clone())
                .max_decoding_message_size(MESSAGE_BYTES_MAX)
                .max_encoding_message_size(MESSAGE_BYTES_MAX),
            bytes: ByteStreamClient::new(channel),
        }
    }

    pub(crate) async fn honest() -> Self {
        Self::new(ReapiOptions::default()).await
    }

    pub(crate) async fn read(&self, name: &BlobName) -> Result<Vec<u8>, Status> {
        self.read_from(name, 0, 0).await.1
    }

    /// The bytes of a `Read` and its end. After an error, also the bytes before it.
    pub(crate) async fn read_from(
        &self,
        name: &BlobName,
        offset: i64,
        limit: i64,
    ) -> (Vec<u8>, Result<Vec<u8>, Status>) {
        let request =
            ReadRequest { resource_name: resource(name), read_offset: offset, read_limit: limit };
        let mut data = Vec::new();
        let mut bytes = self.bytes.clone();
        let mut stream = match bytes.read(request).await {
            Ok(response) => response.into_inner(),
            Err(status) => return (data, Err(status)),
        };
        loop {
            match stream.message().await {
                Ok(Some(message)) => data.extend(&message.data),
                Ok(None) => return (data.clone(), Ok(data)),
                Err(status) => return (data, Err(status)),
            }
        }
    }

    /// The hashes of the missing blobs.
    pub(crate) async fn missing(&self, names: &[BlobName]) -> Result<Vec<String>, Status> {
        let request = v2::FindMissingBlobsRequest {
            blob_digests: names.iter().map(digest).collect(),
            digest_function: function(names),
            ..Default::default()
        };
        let answer = self.cas.clone().find_missing_blobs(request).await?.into_inner();
        Ok(answer.missing_blob_digests.into_iter().map(|digest| digest.hash).collect())
    }

    /// The status of each blob.
    pub(crate) async fn update(&self, blobs: &[(BlobName, Bytes)]) -> Result<Vec<Code>, Status> {
        let names: Vec<_> = blobs.iter().map(|(name, _)| name.clone()).collect();
        let requests = blobs.iter().map(|(name, data)| v2::batch_update_blobs_request::Request {
            digest: Some(digest(name)),
            data: data.clone(),
            compressor: 0,
        });
        let request = v2::BatchUpdateBlobsRequest {
            requests: requests.collect(),
            digest_function: function(&names),
            ..Default::default()
        };
        let answer = self.cas.clone().batch_update_blobs(request).await?.into_inner();
        Ok(answer.responses.into_iter().map(|r| Code::from(r.status.unwrap().code)).collect())
    }

    pub(crate) async fn batch(
        &self,
        names: &[BlobName],
    ) -> Result<Vec<v2::batch_read_blobs_response::Response>, Status> {
        let request = v2::BatchReadBlobsRequest {
            digests: names.iter().map(digest).collect(),
            digest_function: function(names),
            ..Default::default()
        };
        Ok(self.cas.clone().batch_read_blobs(request).await?.into_inner().responses)
    }

    pub(crate) async fn split(
        &self,
        name: &BlobName,
        chunking_function: i32,
    ) -> Result<v2::SplitBlobResponse, Status> {
        let request = v2::SplitBlobRequest {
            blob_digest: Some(digest(name)),
            digest_function: function(std::slice::from_ref(name)),
            chunking_function,
            ..Default::default()
        };
        Ok(self.cas.clone().split_blob(request).await?.into_inner())
    }

    pub(crate) async fn splice(&self, name: &BlobName, chunks: &[BlobName]) -> Result<(), Status> {
        let request = v2::SpliceBlobRequest {
            blob_digest: Some(digest(name)),
            chunk_digests: chunks.iter().map(digest).collect(),
            digest_function: function(std::slice::from_ref(name)),
            ..Default::default()
        };
        self.cas.clone().splice_blob(request).await.map(|_| ())
    }
}

fn function(names: &[BlobName]) -> i32 {
    match names.first().map(|name| name.function) {
        Some(HashFunction::Blake3) => 9,
        Some(HashFunction::Sha256) => 1,
        None => 0,
    }
}

pub(crate) fn digest(name: &BlobName) -> v2::Digest {
    let size_bytes = i64::try_from(name.len_bytes).unwrap();
    v2::Digest { hash: name.hash.clone(), size_bytes }
}

/// The resource name of a blob for `ByteStream.Read`.
pub(crate) fn resource(name: &BlobName) -> String {
    let function = match name.function {
        HashFunction::Sha256 => "",
        HashFunction::Blake3 => "blake3/",
    };
    format!("blobs/{function}{}/{}", name.hash, name.len_bytes)
}
