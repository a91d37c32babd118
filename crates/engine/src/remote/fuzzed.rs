//! The documents and headers of object stores, for fuzz targets.

pub use super::azure_api::fuzzed::block_list;
pub use super::gcs_session::fuzzed::{kept_by_session, session_address};
pub use super::xml_api::fuzzed::xml_documents;
