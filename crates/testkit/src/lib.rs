//! Servers that misbehave on purpose, for Tidegate's tests, its measurements and its demo.
//!
//! [`reapi::ReapiServer`] is a cache that speaks the Remote Execution API; see its module.
//! [`hostile`] makes servers from seeds that deviate in any element of a response.
//!
//! [`Server`] is an HTTP/1.1 origin directly on TCP streams. A server library would not allow its
//! faults: to promise a range and send one byte of it, to reset in the middle, to send half a head.
//! It implements plain HTTP with `WebDAV`, and enough of GCS, S3 and Azure Blob for clients
//! that read and write.
//!
//! Invariants:
//! * Without a rule in its [`Script`] the server follows RFC 9110 and the behaviour of its
//!   [`Flavour`]. Every deviation is a [`Fault`] that the log names.
//! * Rules or a seed decide the faults, never the clock, so a failure repeats.
//! * Every task belongs to the [`Server`] and ends with it.
//!
//! ```
//! use tidegate_testkit::{Blob, Fault, Flavour, Rule, Server, ServerOptions, pseudo_random};
//!
//! # async fn example() -> std::io::Result<()> {
//! let server = Server::start(ServerOptions::of(Flavour::Gcs)).await?;
//! server.put("/bucket/key", Blob::new(pseudo_random(1_000_000, 1)));
//! // The second request for the key is cut after 4096 bytes of its body.
//! server.script().push(Rule::new(Fault::CutAfter(4096)).path("/bucket/key").nth(2));
//! // ... fetch from server.url("/bucket/key") and assert on the bytes and on ...
//! server.idle().await;
//! assert_eq!(server.log().len(), server.requests());
//! # Ok(())
//! # }
//! # let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
//! # runtime.unwrap().block_on(example()).unwrap();
//! ```
//!
//! Clients can write, too. [`WriteOptions`] says how strict a service the server imitates, and rules
//! may be about the parameters of a query:
//!
//! ```
//! use tidegate_testkit::{Fault, Flavour, Rule, Server, ServerOptions, WriteOptions};
//!
//! # async fn example() -> std::io::Result<()> {
//! let writes = WriteOptions { part_bytes_min: 0, page_len: 2, ..WriteOptions::default() };
//! let server = Server::start(ServerOptions { writes, ..ServerOptions::of(Flavour::S3) }).await?;
//! // The third part is damaged on its way, and the answer to the first Complete is lost.
//! server.script().push(Rule::new(Fault::FlipRequestByte(7)).query("partNumber=3"));
//! server.script().push(Rule::new(Fault::LoseResponse).method("POST").query("uploadId="));
//! // ... upload to server.url("/bucket/key") and assert on what the server has:
//! assert_eq!(server.object("/bucket/key").map(|stored| stored.len_bytes), None);
//! assert!(server.unfinished_uploads().is_empty() && server.parts_received().is_empty());
//! # Ok(())
//! # }
//! # let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
//! # runtime.unwrap().block_on(example()).unwrap();
//! ```
//!
//! It is not for production: it has no access control, and the test chooses its checksums.

mod blob;
mod checksums;
mod conditional;
mod connection;
mod customer_key;
mod data;
mod delivery;
mod fault;
mod flavour;
mod gate;
mod head;
pub mod hostile;
mod log;
mod mix;
mod network;
mod options;
mod origin;
mod proxy;
mod random;
mod range;
pub mod reapi;
mod refused_port;
mod request;
mod respond;
mod script;
mod server;
mod store;
mod tls;
mod treatment;
mod uploaded;
mod wire;
mod write;

pub use blob::Blob;
pub use checksums::Checksums;
pub use data::{fill, pseudo_random};
pub use fault::{ContentRangeLie, Fault, PartLie};
pub use flavour::Flavour;
pub use gate::Gate;
pub use log::Logged;
pub use mix::FaultMix;
pub use network::NetworkProfile;
pub use options::{EtagStyle, Framing, HttpDigests, Payer, ServerOptions};
pub use proxy::{Proxied, Proxy};
pub use random::SplitMix64;
pub use refused_port::RefusedPort;
pub use script::{RangeMatch, Rule, Script};
pub use server::Server;
pub use tls::Tls;
pub use uploaded::PartsAlgorithm;
pub use write::{CompleteAgain, Preconditions, Stored, WriteChecksums, WriteEtags, WriteOptions};
