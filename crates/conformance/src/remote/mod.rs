//! Suites for remotes: [`read_suite`], [`write_suite`], [`parts_suite`], [`list_suite`],
//! [`delete_suite`].
//!
//! A suite calls the remote's abilities directly, one attempt for each call, without retries: it
//! checks the remote, not the transfers above it. It adapts to the remote's profile: if the profile
//! promises less, the suite checks less.

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

/// All suites but that for reading, in one place that is empty at the beginning.
pub async fn every_suite(place: &dyn Place) -> Report {
    let mut report = write_suite(place).await;
    report.extend(parts_suite(place).await);
    report.extend(list_suite(place).await);
    report.extend(delete_suite(place).await);
    report
}

/// An empty place for blobs, such as a new folder or a new bucket.
#[async_trait]
pub trait Place: Sync {
    /// The location of a blob with this name, existing or not. Names are plain, with slashes
    /// between their segments.
    fn at(&self, name: &str) -> Location;

    /// Stores a blob without using the remote, and replaces a blob of that name.
    async fn put(&self, name: &str, bytes: Bytes);

    /// The bytes of a blob, read without using the remote; `None` if there is no such blob.
    async fn get(&self, name: &str) -> Option<Bytes>;

    /// Names of everything in the place that is not a blob: leftovers of calls.
    async fn leftovers(&self) -> Vec<String>;
}
