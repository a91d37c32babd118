//! [`Client`]: the owner of everything that transfers share.
//!
//! | file | idea |
//! |---|---|
//! | `options` | the options of all transfers |
//! | `download` | one download, from its options to its report |
//! | `read` | one read |
//! | `upload` | one upload |
//! | `delete` | deleting one blob |
//! | `presign` | signing a URL |
//! | `buckets` | making and removing buckets |
//! | `unfinished` | unfinished uploads |
//! | `calls` | calls that are no transfer |
//! | `stat` | the description of one blob |
//! | `compare` | whether two blobs are the same, without a transfer |
//! | `unchanged` | whether a local file is already the blob |

mod buckets;
mod calls;
mod compare;
mod delete;
mod download;
mod options;
mod presign;
mod read;
mod stat;
mod unchanged;
mod unfinished;
mod upload;

pub use compare::{CompareBuilder, Comparison, Difference};
pub use delete::DeleteBuilder;
pub use download::{ChunkPolicy, DownloadBuilder};
pub use options::ClientOptions;
pub use presign::PresignBuilder;
pub use read::ReadBuilder;
pub use stat::StatBuilder;
pub use unchanged::{Unchanged, file_matches};
pub use upload::UploadBuilder;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tidegate_core::retry::RetryPolicy;

use crate::budget::Budget;
use crate::buffer::BufferPool;
use crate::chunked::ChunksInFlight;
use crate::error::{Error, ErrorKind, Operation, Result};
use crate::read::ReadState;
use crate::remote::{Location, PresignMethod, Remotes};
use crate::sink::file::StateFolder;
use crate::transfer::target::Target;
use crate::upload::UploadSource;

/// Moves blobs. Create one client and use it for everything: clones are cheap and share everything.
///
/// A client owns the connections, the credentials, the memory and request limits ([`Budget`]), the
/// pool of buffers and the table of chunks in flight. All its transfers share these. Two clients
/// share nothing, unless they were given one budget or one pool. A server that must keep tenants
/// apart creates one client for each.
///
/// ```no_run
/// use tidegate::{Client, Target};
///
/// # async fn example() -> tidegate::Result<()> {
/// let client = Client::default();
/// let blob = client.locate("gs://bucket/model.safetensors")?;
/// let report = client.download(&blob, Target::file("model.safetensors")).window(16).await?;
/// println!("{} bytes, {:?}", report.bytes, report.verified);
/// # Ok(())
/// # }
/// ```
///
/// Its futures need a tokio runtime with its I/O and time drivers. Code without a runtime calls
/// `wait` on a builder instead of awaiting it.
#[derive(Clone)]
pub struct Client(Arc<Shared>);

struct Shared {
    remotes: Remotes,
    budget: Budget,
    pool: BufferPool,
    retry: RetryPolicy,
    state: StateFolder,
    in_flight: ChunksInFlight,
}

impl Client {
    /// A client with these options. Connects to nothing yet.
    pub fn new(options: ClientOptions) -> Self {
        let remotes = Remotes::new(options.remote);
        #[cfg(feature = "_transport")]
        let remotes = match options.by_url {
            Some(choice) => remotes.with_groups(choice),
            None => remotes,
        };
        let ClientOptions { budget, pool, retry, state, .. } = options;
        Self(Arc::new(Shared {
            remotes,
            budget: budget.unwrap_or_default(),
            pool: pool.unwrap_or_default(),
            retry,
            state,
            in_flight: ChunksInFlight::default(),
        }))
    }

    /// Finds the blob that `text` names: `gs://bucket/key`, `s3://bucket/key`,
    /// `az://container/key`, `http(s)://…`, `grpc(s)://host/instance/sha256/HASH/SIZE`,
    /// `file:///path`, or a path. No request is sent.
    ///
    /// # Errors
    ///
    /// `Invalid` for text that names no blob, `Unsupported` for a scheme that is unknown or whose
    /// feature is off, `NoAccess` or `Invalid` for credentials that cannot be used.
    pub fn locate(&self, text: &str) -> Result<Location> {
        self.0.remotes.locate(text)
    }

    /// Finds the place that `text` names for an upload: a blob as in [`Self::locate`], or a cache
    /// without a blob, `grpc(s)://host/instance`, in which the blob gets the name of its content.
    /// No request is sent.
    ///
    /// # Errors
    ///
    /// As [`Self::locate`].
    pub fn locate_target(&self, text: &str) -> Result<Location> {
        self.0.remotes.locate_target(text)
    }

    /// The cache that `text` names, `grpc(s)://host/instance`, with the connections and the
    /// credentials that blobs in it have. A blob in the URL is ignored. No request is sent.
    ///
    /// # Errors
    ///
    /// As [`Self::locate`].
    #[cfg(feature = "reapi")]
    pub fn cache(&self, text: &str) -> Result<crate::remote::reapi::ReapiCache> {
        self.0.remotes.cache(text)
    }

    /// Fetches one blob into `target`. Await the result, or set options first.
    ///
    /// If the blob is in a store of chunks, only the chunks that are not available locally are
    /// fetched. Otherwise many shards of the blob are fetched at once.
    pub fn download(&self, blob: &Location, target: Target) -> DownloadBuilder {
        DownloadBuilder::new(self, blob, target)
    }

    /// Fetches one blob into memory. The blob must fit the budget, which counts it until this
    /// returns.
    ///
    /// # Errors
    ///
    /// As [`Self::download`].
    pub async fn fetch(&self, blob: &Location) -> Result<Bytes> {
        let report = self.download(blob, Target::Memory).await?;
        let lost = || {
            let message = "the download returned no memory";
            Error::new(ErrorKind::Storage, Operation::Download, blob.display(), message)
        };
        report.memory.ok_or_else(lost)
    }

    /// Reads one blob as a stream. Set options, then open it.
    pub fn read(&self, blob: &Location) -> ReadBuilder {
        ReadBuilder::new(self, blob)
    }

    /// Continues the read that `state` was captured from. Set options, then open it.
    ///
    /// The options are those of the captured read, unless the caller sets others. Range, version,
    /// verification and decoding cannot be set again.
    pub fn restore(&self, blob: &Location, state: &ReadState) -> ReadBuilder {
        ReadBuilder::restored(self, blob, state)
    }

    /// Uploads `source` to `target`: the path of a file, bytes in memory, a stream or a reader.
    /// Await the result, or set options first.
    pub fn upload(&self, source: impl Into<UploadSource>, target: &Location) -> UploadBuilder {
        UploadBuilder::new(self, source.into(), target)
    }

    /// Deletes one blob. Await the result, or set options first.
    pub fn delete(&self, blob: &Location) -> DeleteBuilder {
        DeleteBuilder::new(self, blob)
    }

    /// Signs a URL that allows everyone who has it one kind of request for the blob, for `lifetime`.
    /// Await the result, or set options first.
    ///
    /// ```no_run
    /// use std::time::Duration;
    ///
    /// use tidegate::Client;
    /// use tidegate::remote::PresignMethod;
    ///
    /// # async fn example() -> tidegate::Result<()> {
    /// let client = Client::default();
    /// let blob = client.locate("s3://bucket/model.bin")?;
    /// let hour = Duration::from_secs(3600);
    /// let signed = client.presign(&blob, PresignMethod::Get, hour).await?;
    /// println!("{}", signed.url());
    /// # Ok(())
    /// # }
    /// ```
    pub fn presign(
        &self,
        blob: &Location,
        method: PresignMethod,
        lifetime: Duration,
    ) -> PresignBuilder {
        PresignBuilder::new(self, blob, method, lifetime)
    }

    /// Finds the place that `text` names for lists: a URL of a bucket, with or without the beginning
    /// of names in it, or a path. No request is sent.
    ///
    /// # Errors
    ///
    /// As [`Self::locate`].
    pub fn locate_prefix(&self, text: &str) -> Result<Location> {
        self.0.remotes.locate_prefix(text)
    }

    /// Requests the description of one blob. Await the result, or set options first.
    pub fn stat(&self, blob: &Location) -> StatBuilder {
        StatBuilder::new(self, blob)
    }

    /// The limits that all transfers of this client share.
    pub fn budget(&self) -> &Budget {
        &self.0.budget
    }

    /// How transfers of this client retry, unless they have a policy of their own.
    pub fn retry(&self) -> &RetryPolicy {
        &self.0.retry
    }

    /// The pool that keeps memory for later blobs.
    pub fn pool(&self) -> &BufferPool {
        &self.0.pool
    }
}

impl Default for Client {
    /// A client of its own, with [`ClientOptions::default`].
    fn default() -> Self {
        Self::new(ClientOptions::default())
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("budget", &self.0.budget).finish_non_exhaustive()
    }
}
