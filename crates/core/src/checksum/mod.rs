//! Checksums: computed, combined, and read from servers' headers.
//!
//! | part | idea |
//! |---|---|
//! | `algorithm` | [`ChecksumAlgorithm`]: names, sizes, and which to prefer for verification |
//! | `value` | [`Checksum`]: one finished value, with its hexadecimal and base64 forms |
//! | `crc` | [`Crc`]: CRCs, which can be combined without reading the bytes again |
//! | `combine` | the polynomial arithmetic of the combination |
//! | `checksummer` | [`Checksummer`]: any computable algorithm, over pieces in order |
//! | `composite` | [`CompositeChecksummer`]: the checksum of the checksums of an upload's parts |
//! | `midstate` | the state of a [`Checksummer`], for another process |
//! | [`headers`] | headers: `x-goog-hash`, `x-amz-checksum-*`, `Content-MD5`, `Repr-Digest` |
//! | `etag` | [`ETag`]: a version's name, and never a checksum |

mod algorithm;
mod checksummer;
mod combine;
mod composite;
mod crc;
mod error;
mod etag;
pub mod headers;
mod midstate;
mod value;

pub use algorithm::ChecksumAlgorithm;
pub use checksummer::Checksummer;
pub use composite::{CompositeChecksummer, PartLayout};
pub use crc::{Crc, CrcAlgorithm};
pub use error::ChecksumError;
pub use etag::ETag;
pub use headers::{Coverage, StoredChecksum};
pub use value::Checksum;
