//! [`Load`]: the calls of each column, by gRPC. One connection carries all of them, as a build tool's
//! does.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use tidegate_core::digest::{Digest, DigestFunction};
use tidegate_reapi::bytestream::byte_stream_client::ByteStreamClient;
use tidegate_reapi::bytestream::{ReadRequest, WriteRequest};
use tidegate_reapi::digest::to_proto;
use tidegate_reapi::v2;
use tidegate_reapi::v2::action_cache_client::ActionCacheClient;
use tidegate_reapi::v2::batch_update_blobs_request::Request as Entry;
use tidegate_reapi::v2::content_addressable_storage_client::ContentAddressableStorageClient;
use tonic::Status;
use tonic::transport::{Channel, Endpoint};

use super::ServeBenchOptions;
use super::bare::BareLoad;
use super::blobs::{ASKED, BATCH, Blob, Blobs};
use super::column::Column;
use super::contender::Contender;
use super::process::ServerProcess;
use super::workers::{Done, Sample, Until, sample};

/// Bytes of a message of a stream, as common clients choose it.
const MESSAGE_BYTES: usize = 1 << 20;
const MESSAGE_BYTES_MAX: usize = 64 << 20;
const STREAM_WINDOW_BYTES: u32 = 8 << 20;
const CONNECTION_WINDOW_BYTES: u32 = 32 << 20;
/// Actions with results.
const ACTIONS: usize = 20_000;

/// A connection to a server, and what is sent over it.
pub(crate) struct Load<'a> {
    target: Target,
    blobs: &'a Blobs,
    options: &'a ServeBenchOptions,
}

enum Target {
    Grpc(Caller),
    Bare(BareLoad),
}

impl<'a> Load<'a> {
    pub(crate) async fn connect(
        contender: Contender,
        server: &ServerProcess,
        blobs: &'a Blobs,
        options: &'a ServeBenchOptions,
    ) -> Result<Self> {
        let target = if contender.is_bare() {
            Target::Bare(BareLoad::connect(&server.address).await?)
        } else {
            Target::Grpc(Caller::connect(server).await?)
        };
        Ok(Self { target, blobs, options })
    }

    /// Makes the calls of a column. Columns that read need those that write before them.
    pub(crate) async fn measure(&self, column: Column, server: &ServerProcess) -> Result<Sample> {
        let blobs = self.blobs.of(column);
        let caller = match &self.target {
            Target::Grpc(caller) => caller.clone(),
            Target::Bare(load) => {
                let (load, len) = (load.clone(), self.options.large_bytes);
                let call = move |_| load.clone().call(column, len);
                return sample(server, column.workers(), self.until(column), call).await;
            }
        };
        let (workers, until) = (column.workers(), self.until(column));
        match column {
            Column::Write1 | Column::Write8 | Column::SmallWrite8 | Column::SmallWrite64 => {
                let call = move |number| caller.clone().write(Arc::clone(&blobs), number);
                sample(server, workers, until, call).await
            }
            Column::Read1 | Column::Read8 | Column::SmallRead8 | Column::SmallRead64 => {
                let call = move |number| caller.clone().read(Arc::clone(&blobs), number);
                sample(server, workers, until, call).await
            }
            Column::BatchUpdate => {
                let call = move |number| caller.clone().batch_update(Arc::clone(&blobs), number);
                sample(server, workers, until, call).await
            }
            Column::BatchRead => {
                let call = move |number| caller.clone().batch_read(Arc::clone(&blobs), number);
                sample(server, workers, until, call).await
            }
            Column::FindMissing => {
                let question = question(&blobs);
                let call = move |_| caller.clone().find_missing(question.clone());
                sample(server, workers, until, call).await
            }
            Column::UpdateResult => {
                // The output is a blob of its own, which must be there.
                caller.clone().write(Arc::clone(&blobs), 0).await?;
                let output = blobs.first().context("there are no blobs")?.proto();
                let call = move |number| caller.clone().update(number, output.clone());
                sample(server, workers, until, call).await
            }
            Column::GetResult => {
                let call = move |number: usize| caller.clone().get(number % ACTIONS);
                sample(server, workers, until, call).await
            }
        }
    }

    fn until(&self, column: Column) -> Until {
        match column {
            Column::FindMissing | Column::GetResult => {
                Until::Time(Duration::from_secs(self.options.seconds))
            }
            Column::UpdateResult => Until::Calls(ACTIONS),
            Column::BatchUpdate | Column::BatchRead => {
                Until::Calls(self.blobs.of(column).len() / BATCH)
            }
            _ => Until::Calls(self.blobs.of(column).len()),
        }
    }
}

/// Digests of blobs that are there, and of as many that are not, in turns.
fn question(blobs: &[Blob]) -> v2::FindMissingBlobsRequest {
    let there = blobs.iter().cycle().take(ASKED / 2).map(Blob::proto);
    let absent = (0_u64..).map(|number| {
        to_proto(&Digest::of(
            DigestFunction::Sha256,
            &[&b"absent"[..], &number.to_le_bytes()].concat(),
        ))
    });
    let blob_digests = there.zip(absent).flat_map(<[_; 2]>::from).collect();
    v2::FindMissingBlobsRequest { blob_digests, ..v2::FindMissingBlobsRequest::default() }
}

/// The calls of gRPC.
#[derive(Clone)]
pub(crate) struct Caller {
    channel: Channel,
}

impl Caller {
    pub(crate) async fn connect(server: &ServerProcess) -> Result<Self> {
        let endpoint = Endpoint::from_shared(format!("http://{}", server.address))?
            .initial_stream_window_size(STREAM_WINDOW_BYTES)
            .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
            .tcp_nodelay(true);
        Ok(Self { channel: endpoint.connect().await.context("connecting")? })
    }

    fn cas(self) -> ContentAddressableStorageClient<Channel> {
        ContentAddressableStorageClient::new(self.channel)
            .max_decoding_message_size(MESSAGE_BYTES_MAX)
            .max_encoding_message_size(MESSAGE_BYTES_MAX)
    }

    pub(crate) async fn write(self, blobs: Arc<[Blob]>, number: usize) -> Result<Done> {
        Ok(self.write_one(&blobs[number]).await?)
    }

    /// Fails with the status of the server, for callers to whom it means something.
    pub(crate) async fn write_one(self, blob: &Blob) -> Result<Done, Status> {
        let digest = &blob.digest;
        let name = format!(
            "uploads/4f3a9c1e-0000-4000-8000-{:012x}/blobs/{}/{}",
            fastrand::u64(..1 << 48),
            digest.checksum().hex(),
            digest.len
        );
        let (mut offset, len) = (0, digest.len);
        let pieces = blob.pieces(MESSAGE_BYTES).into_iter();
        let messages = pieces.map(move |data| {
            let start = offset;
            offset += data.len() as u64;
            WriteRequest {
                resource_name: if start == 0 { name.clone() } else { String::new() },
                write_offset: i64::try_from(start).unwrap_or(i64::MAX),
                finish_write: offset == len,
                data,
            }
        });
        let mut streams = ByteStreamClient::new(self.channel);
        let written = streams.write(futures_util::stream::iter(messages)).await?;
        let committed = written.into_inner().committed_size;
        if u64::try_from(committed) != Ok(len) {
            return Err(Status::internal(format!("{committed} bytes of {len} were committed")));
        }
        Ok(Done { operations: 1, bytes: len })
    }

    async fn read(self, blobs: Arc<[Blob]>, number: usize) -> Result<Done> {
        Ok(self.read_one(&blobs[number]).await?)
    }

    pub(crate) async fn read_one(self, blob: &Blob) -> Result<Done, Status> {
        let digest = &blob.digest;
        let resource_name = format!("blobs/{}/{}", digest.checksum().hex(), digest.len);
        let request = ReadRequest { resource_name, ..ReadRequest::default() };
        let mut streams =
            ByteStreamClient::new(self.channel).max_decoding_message_size(MESSAGE_BYTES_MAX);
        let mut messages = streams.read(request).await?.into_inner();
        let mut bytes = 0;
        while let Some(message) = messages.message().await? {
            bytes += message.data.len() as u64;
        }
        if bytes != digest.len {
            return Err(Status::internal(format!("{bytes} bytes of {} came", digest.len)));
        }
        Ok(Done { operations: 1, bytes })
    }

    pub(crate) async fn batch_update(self, blobs: Arc<[Blob]>, number: usize) -> Result<Done> {
        let some = &blobs[number * BATCH..(number + 1) * BATCH];
        self.put(some.iter().map(|blob| (blob.digest, blob.bytes())).collect()).await
    }

    /// Puts blobs by one batch.
    pub(crate) async fn put(self, blobs: Vec<(Digest, bytes::Bytes)>) -> Result<Done> {
        let count = blobs.len();
        let bytes = blobs.iter().map(|(digest, _)| digest.len).sum();
        let entry = |(digest, data)| Entry { digest: Some(to_proto(&digest)), data, compressor: 0 };
        let request = v2::BatchUpdateBlobsRequest {
            requests: blobs.into_iter().map(entry).collect(),
            ..v2::BatchUpdateBlobsRequest::default()
        };
        let response = self.cas().batch_update_blobs(request).await?.into_inner();
        let mut statuses = response.responses.iter().map(|one| &one.status);
        ensure!(response.responses.len() == count, "{} responses", response.responses.len());
        let is_ok = statuses.all(|status| status.as_ref().is_none_or(|status| status.code == 0));
        ensure!(is_ok, "a blob of a batch was refused");
        Ok(Done { operations: count as u64, bytes })
    }

    async fn batch_read(self, blobs: Arc<[Blob]>, number: usize) -> Result<Done> {
        let some = &blobs[number * BATCH..(number + 1) * BATCH];
        let request = v2::BatchReadBlobsRequest {
            digests: some.iter().map(Blob::proto).collect(),
            ..v2::BatchReadBlobsRequest::default()
        };
        let response = self.cas().batch_read_blobs(request).await?.into_inner();
        let bytes = response.responses.iter().map(|one| one.data.len() as u64).sum();
        let expected: u64 = some.iter().map(|blob| blob.digest.len).sum();
        ensure!(bytes == expected, "{bytes} bytes of {expected} came");
        Ok(Done { operations: BATCH as u64, bytes })
    }

    pub(crate) async fn find_missing(self, question: v2::FindMissingBlobsRequest) -> Result<Done> {
        let missing = self.missing(question).await?;
        ensure!(missing == ASKED / 2, "{missing} are missing");
        Ok(Done { operations: 1, bytes: 0 })
    }

    /// How many of the blobs are missing.
    pub(crate) async fn missing(self, question: v2::FindMissingBlobsRequest) -> Result<usize> {
        let response = self.cas().find_missing_blobs(question).await?.into_inner();
        Ok(response.missing_blob_digests.len())
    }

    async fn update(self, number: usize, output: v2::Digest) -> Result<Done> {
        let output_file = v2::OutputFile {
            path: "bin/out.o".to_owned(),
            digest: Some(output),
            ..v2::OutputFile::default()
        };
        let request = v2::UpdateActionResultRequest {
            action_digest: Some(action(number)),
            action_result: Some(v2::ActionResult {
                output_files: vec![output_file],
                stdout_raw: b"ok\n"[..].into(),
                ..v2::ActionResult::default()
            }),
            ..v2::UpdateActionResultRequest::default()
        };
        ActionCacheClient::new(self.channel).update_action_result(request).await?;
        Ok(Done { operations: 1, bytes: 0 })
    }

    async fn get(self, number: usize) -> Result<Done> {
        let request = v2::GetActionResultRequest {
            action_digest: Some(action(number)),
            ..v2::GetActionResultRequest::default()
        };
        let found = ActionCacheClient::new(self.channel).get_action_result(request).await?;
        ensure!(found.get_ref().output_files.len() == 1, "another result came");
        Ok(Done { operations: 1, bytes: 0 })
    }
}

fn action(number: usize) -> v2::Digest {
    to_proto(&Digest::of(DigestFunction::Sha256, &(number as u64).to_le_bytes()))
}
