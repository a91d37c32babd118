//! Uploads: a success has an acknowledgement for every byte, under exactly the given digest.
//!
//! It is not enough that the store has the bytes: a client without an acknowledgement cannot know
//! this.

use tidegate::{Error, Form, Report};
use tidegate_core::window::WindowOptions;
use tidegate_testkit::reapi::{Acknowledged, BlobName, Spliced};

use super::scenario::{Kept, Named};
use super::stage::{Bed, digest};
use crate::call::{UploadOptions, client_with, upload};

/// Plays an upload. Returns its error, or what it did wrong.
pub(crate) async fn play(bed: &Bed<'_>, named: Named) -> Result<Option<Error>, String> {
    let path = bed.folder.path().join("source");
    std::fs::write(&path, &bed.data).unwrap();
    let given = match named {
        Named::Not => None,
        Named::Rightly => Some(bed.digest()),
        Named::Wrongly { is_there } => Some(other(bed, is_there)),
    };
    let client = &bed.scenario.client;
    let options = UploadOptions {
        digest: given,
        // Otherwise the cache would choose the function.
        digest_function: Some(bed.digest().function),
        // A client requires chunks only if the cache accepts them.
        whole_fallback: client.whole_fallback || !client.chunks || !bed.scenario.cache.can_splice,
        window: WindowOptions::fixed(client.window),
        retry: bed.retry(),
        client: client_with(&bed.budget),
        ..UploadOptions::default()
    };
    let store = crate::call::store(&bed.remotes, &bed.server.url()).unwrap();
    let outcome = upload(&store, &path, &options).await;
    match outcome {
        Ok(report) if given.is_some_and(|given| given != bed.digest()) => {
            Err(format!("bytes of another digest were taken: {report:?}"))
        }
        Ok(report) => justified(bed, &report).map(|()| None),
        Err(error) if must_succeed(bed, named) => {
            Err(format!("an honest cache, and {}", error.chain()))
        }
        Err(error) => Ok(Some(error)),
    }
}

/// The digest of other bytes of the same length.
fn other(bed: &Bed<'_>, is_there: bool) -> tidegate_core::digest::Digest {
    let bytes = other_bytes(bed);
    let name = bed.scenario.function.name(&bytes);
    if is_there {
        bed.server.put_as(bed.scenario.function, bytes);
    }
    digest(&name)
}

fn other_bytes(bed: &Bed<'_>) -> Vec<u8> {
    let mut bytes = bed.data.to_vec();
    for byte in &mut bytes {
        *byte ^= 0x20;
    }
    // Empty content has no other content of its length, so it gets another length.
    bytes.extend(bytes.is_empty().then_some(1));
    bytes
}

fn must_succeed(bed: &Bed<'_>, named: Named) -> bool {
    let is_named_rightly = !matches!(named, Named::Wrongly { .. });
    bed.scenario.calls.is_empty() && is_named_rightly && bed.scenario.cache.kept != Kept::Haunted
}

/// Checks that every byte has been acknowledged.
fn justified(bed: &Bed<'_>, report: &Report) -> Result<(), String> {
    if report.digest.unwrap() != bed.digest() {
        return Err(format!(
            "expected {}, the report names {}",
            bed.digest(),
            report.digest.unwrap()
        ));
    }
    let acknowledged = bed.server.acknowledged();
    if !holds(&acknowledged, &bed.name) {
        return Err(format!("{:?}, and the blob was not acknowledged", report.form));
    }
    if report.form != Form::Chunks {
        return Ok(());
    }
    let mine = acknowledged.spliced().iter().filter(|spliced| spliced.blob == bed.name);
    let mut flaws: Vec<String> =
        mine.filter_map(|spliced| unjustified(bed, &acknowledged, spliced)).collect();
    match flaws.pop() {
        None if acknowledged.spliced().is_empty() => {
            Err("the chunks were not acknowledged to make the blob".to_owned())
        }
        None => Ok(()),
        Some(flaw) => Err(flaw),
    }
}

/// The fault in the chunks that a blob was made of, if there is one.
fn unjustified(bed: &Bed<'_>, acknowledged: &Acknowledged, spliced: &Spliced) -> Option<String> {
    let mut rest = &bed.data[..];
    for chunk in &spliced.chunks {
        let len = usize::try_from(chunk.len_bytes).unwrap();
        let Some((bytes, after)) = rest.split_at_checked(len) else {
            return Some("the chunks are longer than the blob".to_owned());
        };
        if bed.scenario.function.name(bytes) != *chunk {
            return Some(format!("{chunk:?} is not what the blob has there"));
        }
        if !holds(acknowledged, chunk) {
            return Some(format!("the chunk {chunk:?} was not acknowledged"));
        }
        rest = after;
    }
    (!rest.is_empty()).then(|| format!("the chunks lack {} bytes", rest.len()))
}

fn holds(acknowledged: &Acknowledged, name: &BlobName) -> bool {
    name.len_bytes == 0 || acknowledged.holds(name)
}
