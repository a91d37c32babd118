//! What fuzz targets need of this crate, and programs do not: it is there under `cfg(fuzzing)` only.

/// Documents and headers of object stores, from the network.
#[cfg(all(feature = "gcs", feature = "s3", feature = "azure"))]
pub use crate::remote::fuzzed::{block_list, kept_by_session, session_address, xml_documents};

/// The journal of an upload, as text.
pub fn upload_journal(text: &str) {
    crate::upload::fuzzed::journal(text);
}
