//! Blobs as chunks: manifests, and slices of blobs that are stored whole.
//!
//! | file | idea |
//! |---|---|
//! | `record` | the bytes of manifests and slices in the store |
//! | `splice` | a manifest becomes a blob, which costs only its new chunks |
//! | `split` | a blob that is stored whole becomes chunks, which cost no bytes |

mod record;
mod splice;
mod split;

pub(super) use record::{ManifestRecord, Slice};
pub(super) use splice::Spliced;
