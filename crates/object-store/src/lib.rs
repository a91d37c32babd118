//! Tidegate as a store of the crate [`object_store`]: what reads and writes through that crate, such
//! as `DataFusion`, Delta and Lance, gets transfers that are verified, restarted and within a
//! budget.
//!
//! ```no_run
//! use std::sync::Arc;
//!
//! use object_store::ObjectStore;
//! use tidegate::Client;
//! use tidegate_object_store::TidegateStore;
//!
//! # fn example() -> tidegate::Result<()> {
//! let client = Client::default();
//! let store: Arc<dyn ObjectStore> = Arc::new(TidegateStore::new(&client, "s3://bucket/prefix")?);
//! # Ok(())
//! # }
//! ```
//!
//! # What is different from the stores of `object_store`
//!
//! - A read goes on after an interruption, at the first byte not delivered, in the same version.
//! - A read of a whole blob ends with an error if the remote's checksum does not match.
//! - A write sends a checksum with every request where the remote verifies one. A large `put` goes
//!   in parts. A write whose response was lost is recognised by its mark, and not repeated.
//! - All stores of one [`Client`](tidegate::Client) share its connections, and its
//!   [`Budget`](tidegate::Budget) of requests in flight and of memory.
//!
//! # What a caller should know
//!
//! - A [`GetResult`](object_store::GetResult) holds a request of the budget until its stream ends or
//!   is dropped. A caller that merges 100 streams needs a budget of more than 100 requests.
//! - A multipart upload gathers parts of equal length, 8 MiB at first. So small parts are allowed.
//!   An upload of less than one part is one request. A part is taken from the budget while it is
//!   sent. The rest of up to one part, which waits for more bytes, is not.
//! - A multipart upload that is dropped leaves its parts at the remote. Call `abort`.
//! - `list_with_delimiter` of a local folder walks everything below it.
//! - Google Cloud Storage and local files have no entity tag here that other tools know: the `e_tag`
//!   is the generation, or the file's stamp.
//! - A local file cannot be updated conditionally: `PutMode::Update` is `NotImplemented`.
//! - A web server (`http://`, `https://`) can be read, put and deleted, and has no lists and no uploads
//!   in parts.
//! - A copy that passes through this process keeps type and coding of the content, and loses metadata.
//!
//! # Errors
//!
//! The source of every error is Tidegate's [`Error`](tidegate::Error), which knows its kind, the
//! attempts and a hint. [`cause`] finds it.
//!
//! | file | idea |
//! |---|---|
//! | `store` | [`TidegateStore`] |
//! | `place` | the remote, and which blob a path names |
//! | `meta` | the description of a blob, in the words of `object_store` |
//! | `failure` | the errors |
//! | `attempts` | attempts at one request, within the budget |
//! | `get`, `put`, `list`, `delete`, `copy` | the operations |
//! | `multipart`, `gather` | an upload in parts, and how its bytes become parts |

mod attempts;
mod copy;
mod delete;
mod failure;
mod gather;
mod get;
mod list;
mod meta;
mod multipart;
mod place;
mod put;
mod store;

pub use failure::cause;
pub use store::TidegateStore;
