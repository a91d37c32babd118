//! The blocks of Azure's blobs: uncommitted ones, and those that a blob was made of.
//!
//! Source: the REST reference of "Put Block", "Put Block List" and "Get Block List". A commit of any
//! kind to a name drops its uncommitted blocks.

use std::{
    collections::BTreeMap,
    ops::Bound,
    sync::{Mutex, MutexGuard, PoisonError},
};

use base64::{Engine as _, engine::general_purpose::STANDARD};

use super::{
    azure::{created, invalid_header},
    call::{Call, Outcome, Received, Stop, refuse, xml_answer},
    precondition::{Condition, Moment},
    written::{Assembled, Metadata},
    xml::{self, Event, element, group},
};
use crate::{
    blob::Blob,
    flavour::{Flavour, Problem},
    store::Selector,
};

/// The most uncommitted blocks of a blob.
const UNCOMMITTED_MAX: usize = 100_000;
/// The most bytes of a block's id before base64.
const ID_BYTES_MAX: usize = 64;

/// A block and its id in base64, as the client wrote it.
type Block = (String, Received);

#[derive(Debug, Default)]
struct Table {
    uncommitted: BTreeMap<String, Vec<Block>>,
    /// The version of the blob that consists of these blocks, and the blocks.
    committed: BTreeMap<String, (u64, Vec<Block>)>,
    received: BTreeMap<String, u64>,
}

/// See the module docs.
#[derive(Debug, Default)]
pub(crate) struct Blocks(Mutex<Table>);

impl Blocks {
    /// Keeps a block, in place of an earlier one of its id.
    fn keep(&self, path: &str, id: &str, block: Received) -> Result<(), Stop> {
        let mut table = self.lock();
        let blocks = table.uncommitted.entry(path.to_owned()).or_default();
        if blocks.iter().any(|(other, _)| other.len() != id.len()) {
            let message = "The specified blob or block content is invalid.";
            return Err(refuse(400, "InvalidBlobOrBlock", message));
        }
        if let Some((_, there)) = blocks.iter_mut().find(|(other, _)| other == id) {
            *there = block;
        } else if blocks.len() >= UNCOMMITTED_MAX {
            let message = "The uncommitted block count cannot exceed the maximum limit.";
            return Err(refuse(409, "BlockCountExceedsLimit", message));
        } else {
            blocks.push((id.to_owned(), block));
        }
        *table.received.entry(id.to_owned()).or_default() += 1;
        Ok(())
    }

    /// The uncommitted and the committed blocks of the blob that is there.
    fn of(&self, path: &str, there: Option<&Blob>) -> (Vec<Block>, Vec<Block>) {
        let table = self.lock();
        let uncommitted = table.uncommitted.get(path).cloned().unwrap_or_default();
        let committed = table.committed.get(path);
        let committed =
            committed.filter(|(version, _)| there.is_some_and(|blob| blob.version == *version));
        (uncommitted, committed.map(|(_, blocks)| blocks.clone()).unwrap_or_default())
    }

    /// Drops the uncommitted blocks of a blob and remembers what it consists of.
    pub(crate) fn commit(&self, path: &str, version: u64, blocks: Vec<Block>) {
        let mut table = self.lock();
        table.uncommitted.remove(path);
        table.committed.insert(path.to_owned(), (version, blocks));
    }

    /// Drops all uncommitted blocks.
    pub(crate) fn forget(&self) {
        self.lock().uncommitted.clear();
    }

    /// The paths of blobs with uncommitted blocks.
    pub(crate) fn names(&self) -> Vec<String> {
        self.lock().uncommitted.keys().cloned().collect()
    }

    /// The first path with uncommitted blocks that is not before `from`.
    pub(crate) fn next_at(&self, from: &str) -> Option<String> {
        let table = self.lock();
        let mut paths =
            table.uncommitted.range::<str, _>((Bound::Included(from), Bound::Unbounded));
        paths.next().map(|(path, _)| path.clone())
    }

    /// How often a block of each id was received and kept.
    pub(crate) fn received(&self) -> BTreeMap<String, u64> {
        self.lock().received.clone()
    }

    fn lock(&self) -> MutexGuard<'_, Table> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// `PUT ?comp=block&blockid=`
pub(crate) async fn put_block(call: &mut Call<'_>) -> Outcome {
    let invalid = || {
        let message =
            "Value for one of the query parameters specified in the request URI is invalid.";
        refuse(400, "InvalidQueryParameterValue", message)
    };
    let id = call.parameter("blockid").ok_or_else(invalid)?;
    let raw = STANDARD.decode(id).map_err(|_not_base64| invalid())?;
    if raw.is_empty() || raw.len() > ID_BYTES_MAX {
        return Err(invalid());
    }
    if call.field("content-length").is_none() && call.body.declared_bytes().is_none() {
        let message = "The Content-Length header was not specified.";
        return Err(refuse(411, "MissingContentLengthHeader", message));
    }
    let block = call.receive().await?;
    if block.len_bytes == 0 {
        return Err(invalid_header());
    }
    let digests = block.digests.clone();
    call.origin.blocks.keep(call.path(), id, block)?;
    Ok(created(call, &digests, None))
}

/// `PUT ?comp=blocklist`
pub(crate) async fn put_list(call: &mut Call<'_>) -> Outcome {
    let path = call.path();
    let condition = Condition::of(call)?.settle(call, path, Moment::Complete).await?;
    let document = call.text().await?;
    let there = call.origin.store.find(path, &Selector::Latest);
    condition.check(Flavour::Azure, there.as_ref())?;
    let blocks = listed(call, &document, there.as_ref())?;
    let parts: Vec<Received> = blocks.iter().map(|(_, block)| block.clone()).collect();
    let mut whole = Assembled::of_parts(&parts);
    // The MD5 of the whole is what the client says, and nothing compares it.
    whole.digests.md5 = md5_field(call)?;
    whole.part_lens.clear();
    let metadata = Metadata::of_list(call.request);
    let blob = whole.into_blob(call, metadata, None);
    let check = |there: Option<&Blob>| condition.check(Flavour::Azure, there);
    let written = call.origin.store.put_if(path, blob, check)?;
    call.origin.blocks.commit(path, written.version(), blocks);
    Ok(created(call, &super::algorithm::Digests::default(), Some(&written)))
}

/// The MD5 that the client states for the whole blob.
pub(crate) fn md5_field(call: &Call<'_>) -> Result<Option<Vec<u8>>, Stop> {
    let Some(text) = call.field("x-ms-blob-content-md5") else { return Ok(None) };
    let raw = STANDARD.decode(text).ok().filter(|raw| raw.len() == 16);
    raw.map(Some).ok_or_else(invalid_header)
}

/// The blocks that a list names, in its order.
fn listed(call: &Call<'_>, document: &str, there: Option<&Blob>) -> Result<Vec<Block>, Stop> {
    let malformed =
        || refuse(400, "InvalidXmlDocument", "XML specified is not syntactically valid.");
    let invalid = || refuse(400, "InvalidBlockList", "The specified block list is invalid.");
    let events = xml::events(document).ok_or_else(malformed)?;
    if events.first() != Some(&Event::Open("BlockList".to_owned())) {
        return Err(malformed());
    }
    let (uncommitted, committed) = call.origin.blocks.of(call.path(), there);
    let find = |blocks: &[Block], id: &str| blocks.iter().find(|(other, _)| other == id).cloned();
    let mut found = Vec::new();
    for triple in events.windows(2) {
        let [Event::Open(kind), Event::Text(id)] = triple else { continue };
        let id = id.trim();
        let block = match kind.as_str() {
            "Latest" => find(&uncommitted, id).or_else(|| find(&committed, id)),
            "Uncommitted" => find(&uncommitted, id),
            "Committed" => find(&committed, id),
            _ => return Err(malformed()),
        };
        found.push(block.ok_or_else(invalid)?);
    }
    let count_max = usize::try_from(call.options().parts_max).unwrap_or(usize::MAX).max(50_000);
    if found.len() > count_max {
        return Err(refuse(
            400,
            "BlockListTooLong",
            "The block list may not contain more than 50,000 blocks.",
        ));
    }
    Ok(found)
}

/// `GET ?comp=blocklist`
pub(crate) fn list(call: &Call<'_>) -> Outcome {
    let there = call.origin.store.find(call.path(), &Selector::Latest);
    let (uncommitted, committed) = call.origin.blocks.of(call.path(), there.as_ref());
    if there.is_none() && uncommitted.is_empty() {
        return Err(Problem::NoSuchKey.into());
    }
    let kind = call.parameter("blocklisttype").unwrap_or("committed").to_ascii_lowercase();
    let describe = |blocks: &[Block]| {
        let block = |(index, (id, block)): (usize, &Block)| {
            let number = u64::try_from(index + 1).unwrap_or(u64::MAX);
            let lie = call.faults.parts_lie.filter(|(lied, _)| *lied == number);
            match lie {
                Some((_, crate::fault::PartLie::Missing)) => String::new(),
                lie => {
                    let size = block.len_bytes + u64::from(lie.is_some());
                    let fields = element("Name", id) + &element("Size", size.to_string());
                    group("Block", fields)
                }
            }
        };
        blocks.iter().enumerate().map(block).collect::<String>()
    };
    let mut children = String::new();
    if kind != "uncommitted" {
        children.push_str(&group("CommittedBlocks", describe(&committed)));
    }
    if kind != "committed" {
        children.push_str(&group("UncommittedBlocks", describe(&uncommitted)));
    }
    let mut answer = xml_answer("BlockList", &children);
    let len_bytes = there.as_ref().map_or(0, Blob::len_bytes);
    answer.head.add("x-ms-blob-content-length", len_bytes.to_string());
    if let Some(blob) = &there {
        answer.head.add("ETag", format!("\"{}\"", blob.etag()));
    }
    Ok(answer)
}
