//! Blobs as chunks: a transfer moves only the chunks that the other side lacks.
//!
//! The code knows a store of chunks through one small trait, [`ChunkStore`]. It knows nothing of
//! the protocol behind it.
//!
//! | file | idea |
//! |---|---|
//! | `cut` | cuts a file into chunks and computes their digests, on all cores |
//! | `profile` | asks a store for its abilities |
//! | `chunk` | a chunk's bytes, verified |
//! | `verify` | verifies chunks outside the runtime's threads |
//! | `inflight` | shares work that several transfers of a client need at once |
//! | `upload` | uploads a file to a store |
//! | `seed` | local files that share chunks with a blob |
//! | `download` | downloads a blob from a store, chunk by chunk |

mod chunk;
mod cut;
mod download;
mod inflight;
mod profile;
mod seed;
mod upload;
mod verify;

pub use crate::store::{
    BatchLimits, BlobStore, ChunkStore, Manifest, ManifestError, PutRequest, PutSession, PutSource,
    Registered, SendProgress, StoreProfile,
};
pub use tidegate_core::chunking::{Chunking, FastCdc2020Params, RepMaxCdcParams};

pub use cut::{CutChunk, CutOptions, CutStream, cut_file};
pub(crate) use download::{ChunkedDownloadOptions, download};
pub(crate) use inflight::ChunksInFlight;
pub(crate) use profile::profile;
pub(crate) use upload::{ChunkedSource, ChunkedUploadOptions, upload};
