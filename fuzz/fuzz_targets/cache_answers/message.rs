//! The messages of a response: arbitrary bytes, and well-formed messages with arbitrary content.

use arbitrary::Arbitrary;
use bytes::Bytes;
use prost::Message as _;
use tidegate_reapi::{bytestream, rpc, v2};

use crate::blobs::{chosen, name};
use crate::capabilities::Capabilities;

#[derive(Arbitrary, Clone, Debug)]
pub(crate) enum Message {
    Raw(Vec<u8>),
    Missing(Vec<Name>),
    Split {
        chunks: Vec<Name>,
        times: u16,
        function: i32,
    },
    Splice(Option<Name>),
    Batch(Vec<Blob>),
    Updated(Vec<(Option<Name>, Option<GrpcStatus>)>),
    /// The bytes `from..to` of a blob.
    Read {
        blob: u8,
        from: u16,
        to: u16,
    },
    ReadBytes(Vec<u8>),
    /// The bytes `from..to` of a blob's zstd form.
    Packed {
        blob: u8,
        from: u8,
        to: u8,
    },
    Written(i64),
    WriteStatus {
        committed: i64,
        complete: bool,
    },
    Capabilities(Box<Capabilities>),
}

#[derive(Arbitrary, Clone, Debug)]
pub(crate) enum Name {
    Known(u8),
    /// The right hash with this length.
    Sized(u8, i64),
    Any(String, i64),
}

#[derive(Arbitrary, Clone, Debug)]
pub(crate) struct Blob {
    pub(crate) name: Option<Name>,
    /// These bytes, or the blob's own.
    pub(crate) data: Option<Vec<u8>>,
    pub(crate) compressor: i32,
    pub(crate) status: Option<GrpcStatus>,
}

#[derive(Arbitrary, Clone, Debug)]
pub(crate) struct GrpcStatus {
    pub(crate) code: i32,
    pub(crate) message: String,
    pub(crate) delay: Option<(i64, i32)>,
}

impl Name {
    pub(crate) fn proto(&self) -> v2::Digest {
        let of = |index: u8| name(&chosen(index));
        let (hash, size_bytes) = match self {
            Self::Known(index) => (of(*index).checksum().hex(), of(*index).len as i64),
            Self::Sized(index, len) => (of(*index).checksum().hex(), *len),
            Self::Any(hash, len) => (hash.clone(), *len),
        };
        v2::Digest { hash, size_bytes }
    }
}

impl GrpcStatus {
    pub(crate) fn proto(&self) -> rpc::Status {
        let details = self.delay.map(|(seconds, nanos)| prost_types::Any {
            type_url: "type.googleapis.com/google.rpc.RetryInfo".to_owned(),
            value: rpc::RetryInfo { retry_delay: Some(prost_types::Duration { seconds, nanos }) }
                .encode_to_vec(),
        });
        let details = details.into_iter().collect();
        rpc::Status { code: self.code, message: self.message.clone(), details }
    }
}

impl Message {
    pub(crate) fn encoded(&self) -> Vec<u8> {
        match self {
            Self::Raw(bytes) => bytes.clone(),
            Self::Missing(names) => {
                let missing_blob_digests = names.iter().map(Name::proto).collect();
                v2::FindMissingBlobsResponse { missing_blob_digests }.encode_to_vec()
            }
            Self::Split { chunks, times, function } => {
                let once: Vec<_> = chunks.iter().map(Name::proto).collect();
                let times = usize::from(*times % 1_000) + 1;
                let answer = v2::SplitBlobResponse {
                    chunk_digests: once.iter().cycle().take(once.len() * times).cloned().collect(),
                    chunking_function: *function,
                    ..v2::SplitBlobResponse::default()
                };
                answer.encode_to_vec()
            }
            Self::Splice(made) => {
                let blob_digest = made.as_ref().map(Name::proto);
                v2::SpliceBlobResponse { blob_digest, ..Default::default() }.encode_to_vec()
            }
            Self::Batch(blobs) => {
                let one = |blob: &Blob| v2::batch_read_blobs_response::Response {
                    digest: blob.name.as_ref().map(Name::proto),
                    data: blob.data.clone().map_or_else(
                        || match &blob.name {
                            Some(Name::Known(index) | Name::Sized(index, _)) => chosen(*index),
                            _ => Bytes::new(),
                        },
                        Bytes::from,
                    ),
                    compressor: blob.compressor,
                    status: blob.status.as_ref().map(GrpcStatus::proto),
                };
                let responses = blobs.iter().map(one).collect();
                v2::BatchReadBlobsResponse { responses }.encode_to_vec()
            }
            Self::Updated(blobs) => {
                let one = |(name, status): &(Option<Name>, Option<GrpcStatus>)| {
                    v2::batch_update_blobs_response::Response {
                        digest: name.as_ref().map(Name::proto),
                        status: status.as_ref().map(GrpcStatus::proto),
                    }
                };
                let responses = blobs.iter().map(one).collect();
                v2::BatchUpdateBlobsResponse { responses }.encode_to_vec()
            }
            Self::Read { blob, from, to } => {
                let bytes = chosen(*blob);
                let (from, to) = (usize::from(*from).min(bytes.len()), usize::from(*to));
                let data = bytes.slice(from..to.clamp(from, bytes.len()));
                bytestream::ReadResponse { data }.encode_to_vec()
            }
            Self::ReadBytes(bytes) => {
                bytestream::ReadResponse { data: bytes.clone().into() }.encode_to_vec()
            }
            Self::Packed { blob, from, to } => {
                let packed = zstd::bulk::compress(&chosen(*blob), 1).unwrap_or_default();
                let from = usize::from(*from).min(packed.len());
                let to = usize::from(*to).clamp(from, packed.len());
                let data = Bytes::copy_from_slice(&packed[from..to]);
                bytestream::ReadResponse { data }.encode_to_vec()
            }
            Self::Written(committed_size) => {
                bytestream::WriteResponse { committed_size: *committed_size }.encode_to_vec()
            }
            Self::WriteStatus { committed, complete } => bytestream::QueryWriteStatusResponse {
                committed_size: *committed,
                complete: *complete,
            }
            .encode_to_vec(),
            Self::Capabilities(capabilities) => capabilities.proto().encode_to_vec(),
        }
    }
}
