//! [`Client`]: the calls of a build tool, by gRPC and by HTTP, on one connection each.

use std::sync::Arc;

use bytes::Bytes;
use futures_util::StreamExt as _;
use http::{Request, StatusCode};
use http_body_util::{BodyExt as _, Full};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use tidegate_core::digest::Digest;
use tidegate_reapi::bytestream::byte_stream_client::ByteStreamClient;
use tidegate_reapi::bytestream::{ReadRequest, WriteRequest};
use tidegate_reapi::digest::to_proto;
use tidegate_reapi::v2;
use tidegate_reapi::v2::action_cache_client::ActionCacheClient;
use tidegate_reapi::v2::content_addressable_storage_client::ContentAddressableStorageClient;
use tokio::net::TcpStream;
use tonic::Code;
use tonic::transport::{Channel, Endpoint};

use crate::life::Life;

/// Bytes of one message of a stream.
const MESSAGE_BYTES: usize = 32 << 10;

/// A request that failed: the connection broke, or the server refused.
pub(crate) type Outcome<T> = Result<T, String>;

#[derive(Clone, Debug)]
pub(crate) struct Client {
    life: Arc<str>,
    channel: Channel,
}

fn shown(error: impl std::fmt::Debug) -> String {
    format!("{error:?}")
}

impl Client {
    pub(crate) async fn connect(life: &Life) -> Outcome<Self> {
        let endpoint = Endpoint::from_shared(format!("http://{}", life.address)).map_err(shown)?;
        let channel = endpoint.connect().await.map_err(shown)?;
        Ok(Self { life: life.address.as_str().into(), channel })
    }

    fn cas(&self) -> ContentAddressableStorageClient<Channel> {
        ContentAddressableStorageClient::new(self.channel.clone())
    }

    /// Puts blobs by one batch.
    pub(crate) async fn batch(&self, blobs: &[(Digest, Bytes)]) -> Outcome<()> {
        let requests =
            blobs.iter().map(|(digest, bytes)| v2::batch_update_blobs_request::Request {
                digest: Some(to_proto(digest)),
                data: bytes.clone(),
                compressor: 0,
            });
        let request = v2::BatchUpdateBlobsRequest {
            requests: requests.collect(),
            ..v2::BatchUpdateBlobsRequest::default()
        };
        let response = self.cas().batch_update_blobs(request).await.map_err(shown)?.into_inner();
        let refused = response
            .responses
            .iter()
            .find(|one| one.status.as_ref().is_none_or(|status| status.code != 0));
        refused.map_or(Ok(()), |one| Err(shown(one)))
    }

    /// Puts a blob by a stream; each message is an event.
    pub(crate) async fn write(
        &self,
        life: &Arc<Life>,
        digest: &Digest,
        bytes: Bytes,
    ) -> Outcome<()> {
        let name = format!(
            "uploads/4f3a9c1e-0000-4000-8000-0000000000a1/blobs/{}/{}",
            digest.checksum().hex(),
            digest.len
        );
        let len = bytes.len();
        let starts = (0..len.max(1)).step_by(MESSAGE_BYTES);
        let messages = starts.map(move |start| {
            let end = (start + MESSAGE_BYTES).min(len);
            WriteRequest {
                resource_name: if start == 0 { name.clone() } else { String::new() },
                write_offset: i64::try_from(start).unwrap(),
                finish_write: end == len,
                data: bytes.slice(start..end),
            }
        });
        let life = Arc::clone(life);
        let messages = futures_util::stream::iter(messages).inspect(move |_| life.event());
        let written = ByteStreamClient::new(self.channel.clone()).write(messages).await;
        let committed = written.map_err(shown)?.into_inner().committed_size;
        if u64::try_from(committed) == Ok(digest.len) { Ok(()) } else { Err(shown(committed)) }
    }

    pub(crate) async fn update_action(&self, action: &Digest, result: &Bytes) -> Outcome<()> {
        let request = v2::UpdateActionResultRequest {
            action_digest: Some(to_proto(action)),
            action_result: Some(prost::Message::decode(result.clone()).map_err(shown)?),
            ..v2::UpdateActionResultRequest::default()
        };
        let mut actions = ActionCacheClient::new(self.channel.clone());
        actions.update_action_result(request).await.map_err(shown)?;
        Ok(())
    }

    /// The encoded result.
    pub(crate) async fn action(&self, action: &Digest) -> Outcome<Option<Bytes>> {
        let request = v2::GetActionResultRequest {
            action_digest: Some(to_proto(action)),
            ..v2::GetActionResultRequest::default()
        };
        let mut actions = ActionCacheClient::new(self.channel.clone());
        match actions.get_action_result(request).await {
            Ok(result) => Ok(Some(prost::Message::encode_to_vec(result.get_ref()).into())),
            Err(status) if status.code() == Code::NotFound => Ok(None),
            Err(status) => Err(shown(status)),
        }
    }

    /// The blobs that the server does not have.
    pub(crate) async fn missing(&self, digests: &[Digest]) -> Outcome<Vec<v2::Digest>> {
        let request = v2::FindMissingBlobsRequest {
            blob_digests: digests.iter().map(to_proto).collect(),
            ..v2::FindMissingBlobsRequest::default()
        };
        let response = self.cas().find_missing_blobs(request).await.map_err(shown)?;
        Ok(response.into_inner().missing_blob_digests)
    }

    /// A blob by a stream.
    pub(crate) async fn read(&self, digest: &Digest) -> Outcome<Option<Bytes>> {
        let resource_name = format!("blobs/{}/{}", digest.checksum().hex(), digest.len);
        let request = ReadRequest { resource_name, ..ReadRequest::default() };
        let read = async {
            let stream = ByteStreamClient::new(self.channel.clone()).read(request).await?;
            let mut messages = stream.into_inner();
            let mut bytes = Vec::new();
            while let Some(message) = messages.message().await? {
                bytes.extend_from_slice(&message.data);
            }
            Ok::<_, tonic::Status>(Bytes::from(bytes))
        };
        match read.await {
            Ok(bytes) => Ok(Some(bytes)),
            Err(status) if status.code() == Code::NotFound => Ok(None),
            Err(status) => Err(shown(status)),
        }
    }

    /// A blob by a batch.
    pub(crate) async fn batch_read(&self, digest: &Digest) -> Outcome<Option<Bytes>> {
        let request = v2::BatchReadBlobsRequest {
            digests: vec![to_proto(digest)],
            ..v2::BatchReadBlobsRequest::default()
        };
        let response = self.cas().batch_read_blobs(request).await.map_err(shown)?.into_inner();
        let [one] = &response.responses[..] else { return Err(shown(response)) };
        match one.status.as_ref().map_or(0, |status| status.code) {
            0 => Ok(Some(one.data.clone())),
            code if code == Code::NotFound as i32 => Ok(None),
            _ => Err(shown(one)),
        }
    }

    /// One request of HTTP/1.1, on a connection of its own.
    pub(crate) async fn http(
        &self,
        method: &str,
        path: &str,
        body: Bytes,
    ) -> Outcome<Option<Bytes>> {
        let socket = TcpStream::connect(&*self.life).await.map_err(shown)?;
        let (mut requests, connection) =
            http1::handshake(TokioIo::new(socket)).await.map_err(shown)?;
        let request = Request::builder().method(method).uri(path).header("host", "server");
        let request = request.body(Full::new(body)).map_err(shown)?;
        let exchange = async {
            let response = requests.send_request(request).await.map_err(shown)?;
            let status = response.status();
            let body = response.into_body().collect().await.map_err(shown)?.to_bytes();
            match status {
                StatusCode::NOT_FOUND if method == "GET" => Ok(None),
                status if status.is_success() => Ok(Some(body)),
                status => Err(format!("{status}: {}", String::from_utf8_lossy(&body))),
            }
        };
        let mut exchange = std::pin::pin!(exchange);
        tokio::select! {
            outcome = &mut exchange => outcome,
            // Its last response may not have been taken yet.
            _ = connection => exchange.await,
        }
    }
}
