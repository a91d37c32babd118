//! The messages and calls of the Remote Execution API's cache, for clients and servers.
//!
//! | module | what is in it |
//! |---|---|
//! | [`v2`] | `build.bazel.remote.execution.v2`: content-addressable storage, action cache, capabilities |
//! | [`bytestream`] | `google.bytestream`: blobs as streams |
//! | [`rpc`] | `google.rpc`: what an answer says of an error |
//! | [`semver`] | `build.bazel.semver`: versions of the API |
//!
//! Why not a published crate: those give every `bytes` field as a `Vec<u8>`, which costs a copy of
//! every chunk that passes. Here they are [`prost::bytes::Bytes`], which a message that arrives shares
//! with the buffer that it arrived in.
//!
//! Invariant: `src/generated` is exactly what the definitions in `proto` give, without comments and
//! without the `Execution` service; a test compares. What a message means is said in `proto`.

/// What is generated, in the tree of modules by which the files name each other.
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

pub use generated::build::bazel::remote::execution::v2;
pub use generated::build::bazel::semver;
pub use generated::google::{bytestream, rpc};
