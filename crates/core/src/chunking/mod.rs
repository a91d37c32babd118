//! Content-defined chunking: where a blob is cut, decided by its content alone, so that two blobs
//! that share bytes share chunks.
//!
//! Both functions, their parameters and their cut points are those of the Remote Execution API
//! (`ChunkingFunction`, `FastCdc2020Params` and `RepMaxCdcParams` in `remote_execution.proto`).
//!
//! | file | idea |
//! |---|---|
//! | `params` | which function, with which parameters, and what those may be |

mod params;

pub use params::{Chunking, FastCdc2020Params, ParamsError, RepMaxCdcParams};
