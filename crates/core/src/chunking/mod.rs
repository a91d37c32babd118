//! Content-defined chunking: the content alone decides where a blob is cut, so two blobs that share
//! bytes share chunks.
//!
//! Both functions, their parameters and their cut points are those of the Remote Execution API
//! (`ChunkingFunction`, `FastCdc2020Params` and `RepMaxCdcParams` in `remote_execution.proto`),
//! checked against vectors that several independent implementations agree on.
//!
//! | file | idea |
//! |---|---|
//! | `params` | which function, with which parameters, and their allowed values |
//! | `cutter` | one interface to both functions |
//! | `fast_cdc` | `FastCDC` 2020: a chunk ends at the first hash with certain bits clear |
//! | `rep_max_cdc` | `RepMaxCDC`: a chunk ends at the position with the largest hash |
//! | `gear` | the rolling hash of both |
//! | `clear` | the search of `FastCDC`, for the first hash with bits clear |
//! | `records` | the search of `RepMaxCDC`, for hashes larger than all before them |
//! | `lanes` | how both hash several positions at once |
//! | `avx512` | how sixteen positions are hashed at once, if the processor can |
//!
//! ```
//! use tidegate_core::chunking::{Chunking, Cutter, FastCdc2020Params, cuts};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let chunking = Chunking::FastCdc2020(FastCdc2020Params::new(1024, 0)?);
//! let blob: Vec<u8> = (0..10_000_u32).flat_map(|n| n.wrapping_mul(n).to_le_bytes()).collect();
//! let lengths: Vec<usize> = cuts(&chunking, &blob).collect();
//! assert_eq!(lengths.iter().sum::<usize>(), blob.len());
//!
//! // The same from a stream, however it comes in pieces.
//! let mut cutter = Cutter::new(&chunking);
//! let mut streamed: Vec<u64> = Vec::new();
//! for piece in blob.chunks(777) {
//!     streamed.extend(cutter.feed(piece));
//! }
//! streamed.extend(cutter.finish());
//! assert!(streamed.iter().map(|len| *len as usize).eq(lengths));
//! # Ok(())
//! # }
//! ```

#[cfg(target_arch = "x86_64")]
mod avx512;
mod clear;
mod cutter;
mod fast_cdc;
mod gear;
mod lanes;
#[cfg(not(target_arch = "x86_64"))]
mod narrow;
#[cfg(test)]
mod noise;
mod params;
mod records;
mod rep_max_cdc;

pub use cutter::{Cuts, Cutter, cuts};
pub use fast_cdc::FastCdc2020;
pub use params::{Chunking, FastCdc2020Params, ParamsError, RepMaxCdcParams};
pub use rep_max_cdc::RepMaxCdc;
