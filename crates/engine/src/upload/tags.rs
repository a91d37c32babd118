//! The tags of a copy: those of its source, unless the caller gives other ones.
//!
//! S3 keeps them in a copy in one request by itself, and in no other copy. Azure never does.

use crate::error::{ErrorKind, Result};
use crate::remote::{BlobInfo, Location, MetadataNames, WriteOptions, WriteProfile};
use crate::transfer::attempt::Calls;

/// Reads the tags of `source`, which has these facts, into `options`. Returns a sentence if the
/// target will lack them.
pub(crate) async fn keep(
    source: &Location,
    info: &BlobInfo,
    options: &mut WriteOptions,
    profile: &WriteProfile,
    calls: &Calls,
) -> Result<Option<String>> {
    let count = info.description.as_deref().map_or(0, |found| found.tag_count);
    // A remote without metadata keeps no tags either.
    if count == 0 || !options.tags.is_empty() || profile.metadata == MetadataNames::None {
        return Ok(None);
    }
    if !profile.keeps_tags {
        return Ok(Some(format!("the target cannot keep the tags of the source ({count})")));
    }
    let Some(remote) = source.remote.as_write() else { return Ok(None) };
    let call = |_| remote.tags(&source.blob, info.version.as_ref());
    match calls.attempt(calls.patience(0), call).await {
        Ok(tags) => options.tags = tags,
        Err(error) if error.kind() == ErrorKind::Cancelled => return Err(error),
        Err(error) => {
            let message = "the tags of the source were not read, so the copy may lack them; allow \
                           the credentials to read tags, or give the copy its own";
            return Ok(Some(format!("{message}: {error}")));
        }
    }
    Ok(None)
}
