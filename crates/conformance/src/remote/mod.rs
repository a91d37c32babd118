//! Suites for remotes: [`read_suite`], [`write_suite`], [`parts_suite`], [`list_suite`],
//! [`delete_suite`].
//!
//! A suite asks the remote's abilities directly, one attempt for each call, without retries: what it
//! checks is the remote, not the transfers above it. It adapts to the remote's profile: where the
//! profile promises less, less is checked.

mod content;
mod delete;
mod list;
mod parts;
mod parts_end;
mod read;
mod suite;
mod write;
mod write_conditions;

pub use content::{checksum, content};
pub use delete::delete_suite;
pub use list::list_suite;
pub use parts::parts_suite;
pub use read::{ReadPlace, Stored, read_suite};
pub use suite::{Broken, Report};
pub use write::write_suite;

use async_trait::async_trait;
use bytes::Bytes;
use tidegate::Location;

/// An empty place for blobs, such as a new folder or a new bucket.
#[async_trait]
pub trait Place: Sync {
    /// The location of a blob of this name, whether it is there or not. Names are plain, with slashes
    /// between their segments.
    fn at(&self, name: &str) -> Location;

    /// Stores a blob by other means than the remote, in place of what has the name.
    async fn put(&self, name: &str, bytes: Bytes);

    /// A blob's bytes, read by other means than the remote; `None` where there is no such blob.
    async fn get(&self, name: &str) -> Option<Bytes>;

    /// Names of everything in the place that is no blob: what calls have left behind.
    async fn leftovers(&self) -> Vec<String>;
}
