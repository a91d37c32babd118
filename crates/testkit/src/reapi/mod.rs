//! A cache with the Remote Execution API that misbehaves on purpose.
//!
//! It keeps all data in memory. Without a rule in its [`ReapiScript`] it follows the protocol
//! exactly: it verifies received bytes, reports a blob as missing if its manifest lacks a chunk,
//! and keeps limits to the byte. It has its own chunking and its own gRPC, so that it shares no
//! error with the client under test. It shares only the generated messages.
//!
//! | file | idea |
//! |---|---|
//! | `server`, `connection`, `call` | owners of tasks; the life of a call |
//! | `messages`, `answer`, `status` | gRPC over `h2` |
//! | `capabilities`, `find_missing`, `batches`, `manifests`, `read`, `write` | the calls |
//! | `cas`, `blob_name`, `resource`, `chunk_function`, `compression` | blobs, names, chunks |
//! | `options`, `script`, `fault`, `plan`, `split_lie` | a test's options and faults |
//! | `hostile` | responses with any wrong member, from a seed |
//! | `link`, `shared`, `counts` | the link's rate; shared state; counts for assertions |
//!
//! Invariants:
//! * Rules or a seed decide the faults, never the clock.
//! * A call ends as soon as its client resets it, so the server and the client have the same calls
//!   in flight.
//! * Every task belongs to the [`ReapiServer`] and ends with it.
//!
//! ```
//! use tidegate_testkit::reapi::{ReapiFault, ReapiOptions, ReapiRule, ReapiServer, Rpc};
//!
//! # async fn example() -> std::io::Result<()> {
//! let server = ReapiServer::start(ReapiOptions::default()).await?;
//! let blob = server.put(&b"data"[..]);
//! // The second read of the blob is never answered.
//! server.script().push(ReapiRule::new(ReapiFault::Lost).rpc(Rpc::Read).hash(&blob.hash).nth(2));
//! // ... transfer to and from server.url(), and assert on ...
//! server.idle().await;
//! assert_eq!(server.counts().calls(Rpc::Read), server.counts().total.arrived);
//! # Ok(())
//! # }
//! # let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
//! # runtime.unwrap().block_on(example()).unwrap();
//! ```

mod answer;
mod batches;
mod blob_name;
mod call;
mod capabilities;
mod cas;
mod chunk_function;
mod compression;
mod connection;
mod counts;
mod fault;
mod find_missing;
mod hostile;
mod link;
mod manifests;
mod messages;
mod options;
mod plan;
mod read;
mod resource;
mod rpc;
mod script;
mod server;
mod shared;
mod split_lie;
mod status;
mod write;

pub use blob_name::{BlobName, HashFunction};
pub use chunk_function::ChunkFunction;
pub use counts::{BatchSize, CallCounts, ReapiCall, ReapiCounts};
pub use fault::{BatchLie, Cut, FindMissingLie, ReapiFault, SplitLie};
pub use hostile::{
    Acknowledged, CapabilitiesLie, CommittedForm, ContentLie, DigestForm, DigestsLie, EndLie,
    EntriesLie, HashForm, HeadLie, HostileCall, Lie, MessageLie, PackedLie, Part, SizeForm,
    Spliced, StatusForm, Turns,
};
pub use options::{Congestion, ReapiOptions, RpcLatency, SplicedAgain};
pub use rpc::Rpc;
pub use script::{ReapiRule, ReapiScript};
pub use server::ReapiServer;
pub use status::{Code, GrpcStatus};
