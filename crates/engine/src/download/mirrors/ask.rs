//! Asks the other mirrors for their description of the blob, while the first one delivers already.
//!
//! A mirror is asked for its first byte. So the answer also shows whether it serves ranges, and a
//! URL that is signed for downloads only works.

use std::sync::Arc;

use tidegate_core::range::ByteRange;

use super::super::{Job, ShardedDownloadOptions, opening};
use crate::error::Result;
use crate::read::{Flow, Known};
use crate::remote::{BlobInfo, Location};
use crate::transfer::attempt::Calls;

/// What a mirror says about the blob.
#[derive(Debug)]
pub(super) struct Description {
    pub(super) info: BlobInfo,
    pub(super) ignores_ranges: bool,
}

/// The answer of the mirror with this index.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(super) index: usize,
    pub(super) description: Result<Description>,
}

/// Asks the mirror with this index. It has its own limit on requests before the first byte.
pub(super) async fn ask(
    index: usize,
    location: Arc<Location>,
    options: ShardedDownloadOptions,
    calls: Calls,
) -> Answer {
    let flow = Flow::of_download(&options.retry);
    let job = Job { location: &location, options: &options, calls, flow };
    let mut channel = opening::channel(&job, ByteRange::first(1), Known::default());
    let facts = opening::facts(&mut channel, &job).await;
    let ignores_ranges = channel.ignores_ranges();
    let description = facts.map(|facts| Description { info: facts.info, ignores_ranges });
    Answer { index, description }
}
