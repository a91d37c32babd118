//! Blobs as chunks: only chunks that the other side lacks travel.
//!
//! The machinery knows a store of chunks by a small trait, [`ChunkStore`],
//! and nothing of the protocol behind it.
//!
//! | file | idea |
//! |---|---|
//! | `cut` | a file's chunks with their digests, on all cores |
//! | `profile` | what a store can do |
//! | `chunk` | a chunk's bytes, verified |
//! | `prove` | chunks verified beside the runtime's threads |
//! | `inflight` | what several transfers want at once is done once |
//! | `upload` | a file becomes a blob of a store |
//! | `seed` | files at hand that share chunks with a blob |
//! | `download` | a blob from a store, chunk by chunk |

mod chunk;
mod cut;
mod download;
mod inflight;
mod profile;
mod prove;
mod seed;
mod upload;

pub use crate::store::{
    BatchLimits, BlobStore, ChunkStore, Manifest, ManifestError, PutRequest, PutSession, PutSource,
    Registered, SendProgress, StoreProfile,
};
pub use tidegate_core::chunking::{Chunking, FastCdc2020Params, RepMaxCdcParams};

pub use cut::{CutChunk, CutOptions, CutStream, cut_file};
pub(crate) use download::{ChunkedDownloadOptions, download};
pub(crate) use inflight::ChunksInFlight;
pub(crate) use profile::profile;
pub(crate) use upload::{ChunkedUploadOptions, upload};
