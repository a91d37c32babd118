//! `ContentAddressableStorage.GetTree`: the directories below a directory, breadth first, each once.
//!
//! Directories that are missing are left out, as the API allows; a missing root is `NOT_FOUND`. The
//! page token is the number of directories that earlier pages had. The order is the same each time,
//! so the walk starts over and leaves that many out.
//!
//! Bounds: a directory fits into one message; a tree has at most a million distinct directories,
//! which are charged to the budget.

use std::collections::{HashSet, VecDeque};

use bytes::{Bytes, BytesMut};
use futures_util::stream;
use tidegate::BytesPermit;
use tidegate_core::digest::{Digest, DigestFunction};
use tidegate_reapi::digest::required;
use tidegate_reapi::framing::{PREFIX_BYTES, put_prefix};
use tidegate_reapi::v2;
use tonic::Status;

use super::fields::{Fields, Value, digest, field_len, put_bytes};
use super::reply::Reply;
use super::request::RequestMessage;
use super::{Api, Outcome, RESPONSE_BYTES_MAX, decode, function, status};

/// A page ends at this length, or at the client's number of directories.
const PAGE_BYTES: usize = 1 << 20;
/// Directories that are read at a time.
const READ_TOGETHER: usize = 64;
/// Distinct directories of one tree.
const DIRECTORIES_MAX: usize = 1 << 20;
/// Memory of one directory: its digest, twice.
const DIRECTORY_MEMORY_BYTES: u64 = 128;
/// Directories that are charged at a time.
const CHARGED_TOGETHER: usize = 4096;

/// The fields of the response and of a directory.
const DIRECTORIES: u32 = 1;
const NEXT_PAGE_TOKEN: u32 = 2;
const SUBDIRECTORIES: u64 = 2;

/// The walk of a tree.
struct TreeWalk {
    api: Api,
    function: DigestFunction,
    seen: HashSet<Digest>,
    waiting: VecDeque<Digest>,
    /// Directories that are read and not sent.
    read: VecDeque<Bytes>,
    /// Directories that the client has.
    skipped: u64,
    sent: u64,
    page_max: usize,
    permits: Vec<BytesPermit>,
}

impl Api {
    pub(super) async fn get_tree(&self, message: RequestMessage) -> Outcome {
        let request: v2::GetTreeRequest = decode(&message)?;
        drop(message);
        self.check_instance(&request.instance_name)?;
        let function = function(request.digest_function)?;
        let root = required(request.root_digest.as_ref(), function)
            .map_err(|error| status::invalid(&error))?;
        let skipped = match request.page_token.as_str() {
            "" => Some(0),
            token => token.parse().ok(),
        };
        let skipped =
            skipped.ok_or_else(|| Status::invalid_argument("the page token is invalid"))?;
        if !self.store.has(&root).await.map_err(|error| status::of(&error))? {
            return Err(Status::not_found(format!("the cache does not have {root}")));
        }
        let page_max = usize::try_from(request.page_size).ok().filter(|size| *size > 0);
        let walk = TreeWalk {
            api: self.clone(),
            function,
            seen: HashSet::from([root]),
            waiting: VecDeque::from([root]),
            read: VecDeque::new(),
            skipped,
            sent: 0,
            page_max: page_max.unwrap_or(usize::MAX),
            permits: vec![self.bytes(charge()).await?],
        };
        let pages = stream::try_unfold(walk, |mut walk| async move {
            Ok(walk.page().await?.map(|page| (vec![page], walk)))
        });
        Ok(Reply::stream(Box::pin(pages)))
    }
}

fn charge() -> u64 {
    CHARGED_TOGETHER as u64 * DIRECTORY_MEMORY_BYTES + RESPONSE_BYTES_MAX as u64
}

impl TreeWalk {
    /// The next page, framed; `None` after the last one.
    async fn page(&mut self) -> Outcome<Option<Bytes>> {
        let (mut page, mut len) = (Vec::new(), 0);
        while page.len() < self.page_max {
            let Some(directory) = self.directory().await? else { break };
            let field = field_len(DIRECTORIES, directory.len());
            if !page.is_empty() && len + field > PAGE_BYTES {
                self.read.push_front(directory);
                break;
            }
            len += field;
            page.push(directory);
        }
        if page.is_empty() {
            return Ok(None);
        }
        self.sent += page.len() as u64;
        let is_last = self.read.is_empty() && self.waiting.is_empty();
        let token = if is_last { String::new() } else { self.sent.to_string() };
        if !is_last {
            len += field_len(NEXT_PAGE_TOKEN, token.len());
        }
        let mut framed = BytesMut::with_capacity(PREFIX_BYTES + len);
        put_prefix(&mut framed, len).map_err(|error| status::invalid(&error))?;
        for directory in page {
            put_bytes(&mut framed, DIRECTORIES, &directory);
        }
        if !is_last {
            put_bytes(&mut framed, NEXT_PAGE_TOKEN, token.as_bytes());
        }
        Ok(Some(framed.freeze()))
    }

    /// The next directory that the client does not have.
    async fn directory(&mut self) -> Outcome<Option<Bytes>> {
        loop {
            let Some(directory) = self.read.pop_front() else {
                if self.waiting.is_empty() {
                    return Ok(None);
                }
                self.read_some().await?;
                continue;
            };
            if self.sent >= self.skipped {
                return Ok(Some(directory));
            }
            self.sent += 1;
        }
    }

    /// Reads the next directories, and notes their subdirectories.
    async fn read_some(&mut self) -> Outcome<()> {
        let (mut next, mut len) = (Vec::new(), 0);
        while let Some(one) = self.waiting.front() {
            if one.len > (RESPONSE_BYTES_MAX - 1024) as u64 {
                let message = format!("the directory {one} is too long for a message");
                return Err(Status::resource_exhausted(message));
            }
            len += one.len;
            if next.len() == READ_TOGETHER || (!next.is_empty() && len > PAGE_BYTES as u64) {
                break;
            }
            next.extend(self.waiting.pop_front());
        }
        let found = self.api.store.get_entries(next, false).await;
        for entry in found.map_err(|error| status::of(&error))? {
            let Some(entry) = entry.map_err(|error| status::of(&error))? else { continue };
            self.note_subdirectories(&entry.data)?;
            self.read.push_back(entry.data);
        }
        Ok(())
    }

    fn note_subdirectories(&mut self, directory: &[u8]) -> Outcome<()> {
        for field in Fields::of(directory) {
            let Ok(field) = field else {
                return Err(Status::failed_precondition("a blob of the tree is not a directory"));
            };
            let (SUBDIRECTORIES, Value::Bytes(node)) = field else { continue };
            let named = Fields::of(node).find_map(|field| match field {
                Ok((2, Value::Bytes(named))) => Some(named),
                _ => None,
            });
            let Some(named) = named else { continue };
            let subdirectory =
                digest(named, self.function).map_err(|error| status::invalid(&error))?;
            if self.seen.insert(subdirectory) {
                self.charge()?;
                self.waiting.push_back(subdirectory);
            }
        }
        Ok(())
    }

    /// Charges the directories to the budget. It does not wait, because the walk holds bytes.
    fn charge(&mut self) -> Outcome<()> {
        if self.seen.len() > DIRECTORIES_MAX {
            let message = format!("the tree has more than {DIRECTORIES_MAX} directories");
            return Err(Status::resource_exhausted(message));
        }
        if self.seen.len().is_multiple_of(CHARGED_TOGETHER) {
            let bytes = CHARGED_TOGETHER as u64 * DIRECTORY_MEMORY_BYTES;
            let permit = self.api.parts.budget.try_bytes(bytes);
            self.permits.push(permit.ok_or_else(|| status::no_memory(bytes))?);
        }
        Ok(())
    }
}
