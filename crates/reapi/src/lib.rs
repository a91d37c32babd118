//! The messages and calls of the Remote Execution API's cache, for clients and servers.
//!
//! Generated code, always built:
//!
//! | module | content |
//! |---|---|
//! | [`v2`] | `build.bazel.remote.execution.v2`: content-addressable storage, action cache, capabilities |
//! | [`asset`] | `build.bazel.remote.asset.v1`: fetching blobs of other servers |
//! | [`bytestream`] | `google.bytestream`: blobs as streams |
//! | [`rpc`] | `google.rpc`: the error in a response |
//! | [`semver`] | `build.bazel.semver`: versions of the API |
//!
//! Wire code that both a client and a server need, with the feature `wire`, which is on by default:
//!
//! | module | content |
//! |---|---|
//! | `resource` | names of blobs in `google.bytestream` |
//! | `digest` | digests and hash functions in messages |
//! | `framing` | length-prefixed messages of gRPC |
//! | `deframe` | the data of a stream of messages, as it arrives |
//! | `pieces` | messages that carry blobs, sent without a copy |
//! | `bounded` | messages that are decoded only if they have few enough entries |
//! | `zstd` | compressed bytes, in bounded memory |
//! | `error` | what is wrong with bytes or names from the peer |
//!
//! The wire code is a feature because the testkit must not have it: a client and the server that
//! tests it would share its mistakes. None of it does I/O, waits or reads a clock. It never panics,
//! for any input. It allocates memory for bytes that have arrived, not for a claimed length; a
//! function that needs a checked length says so.
//!
//! Published crates are not used, because they decode every `bytes` field to a `Vec<u8>`, which
//! copies every chunk. Here these fields are [`prost::bytes::Bytes`], which a message shares with
//! the buffer in which it arrived.
//!
//! Invariant: `src/generated` is exactly the code generated from the definitions in `proto`,
//! without comments and without the services `Execution` and `Push`; a test compares them. `proto` documents
//! the messages.

#[cfg(feature = "wire")]
pub mod bounded;
#[cfg(feature = "wire")]
pub mod deframe;
#[cfg(feature = "wire")]
pub mod digest;
#[cfg(feature = "wire")]
pub mod error;
#[cfg(feature = "wire")]
pub mod framing;
#[cfg(feature = "wire")]
pub mod pieces;
#[cfg(feature = "wire")]
pub mod resource;
#[cfg(feature = "wire")]
pub mod zstd;

/// The generated code, in the module tree that the files use to refer to each other.
#[allow(
    clippy::all,
    clippy::pedantic,
    clippy::clone_on_ref_ptr,
    clippy::allow_attributes_without_reason,
    missing_docs,
    unreachable_pub,
    unused_qualifications,
    reason = "it is generated, and the definitions hold its documentation"
)]
mod generated {
    pub mod build {
        pub mod bazel {
            pub mod remote {
                pub mod asset {
                    pub mod v1 {
                        include!("generated/build.bazel.remote.asset.v1.rs");
                    }
                }
                pub mod execution {
                    pub mod v2 {
                        include!("generated/build.bazel.remote.execution.v2.rs");
                    }
                }
            }
            pub mod semver {
                include!("generated/build.bazel.semver.rs");
            }
        }
    }
    pub mod google {
        pub mod bytestream {
            include!("generated/google.bytestream.rs");
        }
        pub mod rpc {
            include!("generated/google.rpc.rs");
        }
    }
}

#[cfg(feature = "wire")]
pub use error::{Error, Result};
pub use generated::build::bazel::remote::asset::v1 as asset;
pub use generated::build::bazel::remote::execution::v2;
pub use generated::build::bazel::semver;
pub use generated::google::{bytestream, rpc};
