//! Checksums: what they are, how they are computed, combined, and read from servers' headers.
//!
//! | part | idea |
//! |---|---|
//! | `algorithm` | [`ChecksumAlgorithm`]: names, sizes, and which to prefer for verification |
//! | `value` | [`Checksum`]: one finished value, with its hexadecimal and base64 forms |
//! | `crc` | [`Crc`]: CRCs, which can be combined without reading the bytes again |
//! | `combine` | the polynomial arithmetic behind that |
//! | `checksummer` | [`Checksummer`]: any computable algorithm, fed piece by piece |
//! | `midstate` | one that is carried to another process |
//! | [`headers`] | what servers say: `x-goog-hash`, `x-amz-checksum-*`, `Content-MD5`, `Repr-Digest` |
//! | `etag` | [`ETag`]: a version's name, and never a checksum |

mod algorithm;
mod checksummer;
mod combine;
mod crc;
mod error;
mod etag;
pub mod headers;
mod midstate;
mod value;

pub use algorithm::ChecksumAlgorithm;
pub use checksummer::Checksummer;
pub use crc::{Crc, CrcAlgorithm};
pub use error::ChecksumError;
pub use etag::ETag;
pub use headers::{Coverage, StoredChecksum};
pub use value::Checksum;
