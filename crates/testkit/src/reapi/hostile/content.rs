//! Lies about the bytes of a blob.

use bytes::Bytes;

use super::digests::place;
use super::lie::{ContentLie, Lie, PackedLie};
use super::packed;
use crate::data::pseudo_random;

/// The part of a blob that a response contains.
pub(crate) struct Content {
    /// All of the blob.
    pub(crate) blob: Bytes,
    /// The start of the requested bytes.
    pub(crate) start: usize,
    /// The end of the requested bytes.
    pub(crate) end: usize,
    /// Whether it is sent compressed.
    pub(crate) is_packed: bool,
}

/// The bytes as they are sent after the lies about them; `None` if there is no lie, which avoids a
/// copy of honest bytes. `entry` is the position of their entry in a batch and the number of
/// entries.
pub(crate) fn tell(
    lies: &[Lie],
    entry: Option<(usize, usize)>,
    content: &Content,
) -> Option<Bytes> {
    let mine = |lie: &Lie| match lie {
        Lie::Content(at, lie) => {
            entry.is_none_or(|(index, count)| place(*at, count) == Some(index)).then_some(*lie)
        }
        _ => None,
    };
    let lies: Vec<ContentLie> = lies.iter().filter_map(mine).collect();
    if lies.is_empty() {
        return None;
    }
    let (mut start, mut end) = (content.start, content.end);
    for lie in &lies {
        match lie {
            ContentLie::FromStart => start = 0,
            ContentLie::ToEnd => end = content.blob.len(),
            _ => {}
        }
    }
    let mut data = content.blob.slice(start.min(end)..end).to_vec();
    let mut packings: Vec<PackedLie> = Vec::new();
    for lie in &lies {
        match lie {
            ContentLie::Packed(packing) => packings.push(*packing),
            lie => plain(*lie, &mut data),
        }
    }
    let is_packed = content.is_packed || !packings.is_empty();
    Some(if is_packed { packed::pack(&data, &packings).into() } else { data.into() })
}

fn plain(lie: ContentLie, data: &mut Vec<u8>) {
    match lie {
        ContentLie::Clear => data.clear(),
        ContentLie::Cut(count) => data.truncate(data.len().saturating_sub(usize::from(count))),
        ContentLie::Longer(count) => data.extend(pseudo_random(usize::from(count), 1)),
        ContentLie::Flip(at) => {
            let at = usize::from(at) % data.len().max(1);
            if let Some(byte) = data.get_mut(at) {
                *byte ^= 1;
            }
        }
        ContentLie::Other => *data = pseudo_random(data.len(), 2).to_vec(),
        ContentLie::Twice => data.extend_from_within(..),
        ContentLie::FromStart | ContentLie::ToEnd | ContentLie::Packed(_) => {}
    }
}
