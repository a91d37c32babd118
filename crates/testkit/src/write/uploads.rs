//! The table of unfinished uploads in parts, and of those that are complete.
//!
//! A part counts from the moment when its whole body has arrived and its checksum is right. An
//! upload stays in the table until it is complete or aborted.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Mutex, MutexGuard, PoisonError},
    time::SystemTime,
};

use super::{
    algorithm::Algorithm,
    call::Received,
    written::{Metadata, StoredChecksum},
};
use crate::random::{key, mix};

/// What the first request of an upload says.
#[derive(Debug, Clone)]
pub(crate) struct Intent {
    pub(crate) metadata: Metadata,
    /// The checksum that the object gets.
    pub(crate) algorithm: Algorithm,
    /// Whether the client named the algorithm. If not, the server chose it.
    pub(crate) is_named: bool,
    /// Whether the object gets a checksum of the parts' checksums.
    pub(crate) is_composite: bool,
}

/// An unfinished upload.
#[derive(Debug, Clone)]
pub(crate) struct Unfinished {
    pub(crate) intent: Intent,
    pub(crate) started: SystemTime,
    pub(crate) parts: BTreeMap<u64, Received>,
}

/// What a complete upload left.
#[derive(Debug, Clone)]
pub(crate) struct Finished {
    pub(crate) path: String,
    pub(crate) etag: String,
    pub(crate) checksum: Option<StoredChecksum>,
    pub(crate) version_id: String,
}

#[derive(Debug, Default)]
struct Table {
    started: u64,
    unfinished: BTreeMap<(String, String), Unfinished>,
    finished: HashMap<String, Finished>,
    received: BTreeMap<u64, u64>,
}

/// See the module docs.
#[derive(Debug)]
pub(crate) struct Uploads {
    seed: u64,
    table: Mutex<Table>,
}

impl Uploads {
    pub(crate) fn new(seed: u64) -> Self {
        Self { seed, table: Mutex::default() }
    }

    /// Starts an upload and returns its id, which depends on the seed and on earlier uploads.
    pub(crate) fn start(&self, path: &str, intent: Intent) -> String {
        let mut table = self.lock();
        table.started += 1;
        let id = upload_id(self.seed, table.started);
        let started = SystemTime::now();
        let upload = Unfinished { intent, started, parts: BTreeMap::new() };
        table.unfinished.insert((path.to_owned(), id.clone()), upload);
        id
    }

    pub(crate) fn find(&self, path: &str, id: &str) -> Option<Unfinished> {
        self.lock().unfinished.get(&(path.to_owned(), id.to_owned())).cloned()
    }

    /// What the first request of an upload said.
    pub(crate) fn intent(&self, path: &str, id: &str) -> Option<Intent> {
        let table = self.lock();
        table.unfinished.get(&(path.to_owned(), id.to_owned())).map(|upload| upload.intent.clone())
    }

    pub(crate) fn finished(&self, path: &str, id: &str) -> Option<Finished> {
        self.lock().finished.get(id).filter(|finished| finished.path == path).cloned()
    }

    /// Keeps a part, in place of an earlier one of its number; `false` if the upload is gone.
    pub(crate) fn keep(&self, path: &str, id: &str, number: u64, part: Received) -> bool {
        let mut table = self.lock();
        let Some(upload) = table.unfinished.get_mut(&(path.to_owned(), id.to_owned())) else {
            return false;
        };
        upload.parts.insert(number, part);
        *table.received.entry(number).or_default() += 1;
        true
    }

    /// Ends an upload that is complete.
    pub(crate) fn finish(&self, id: &str, finished: Finished) {
        let mut table = self.lock();
        table.unfinished.remove(&(finished.path.clone(), id.to_owned()));
        table.finished.insert(id.to_owned(), finished);
    }

    /// Ends an upload without an object; `false` if it is gone.
    pub(crate) fn abort(&self, path: &str, id: &str) -> bool {
        self.lock().unfinished.remove(&(path.to_owned(), id.to_owned())).is_some()
    }

    /// Forgets every unfinished upload, as a lifecycle rule does.
    pub(crate) fn forget(&self) {
        self.lock().unfinished.clear();
    }

    /// Path, id and start of each unfinished upload whose path begins with `prefix` and that comes
    /// after `(path, id)`, ordered by path.
    pub(crate) fn list(
        &self,
        prefix: &str,
        after: &(String, String),
    ) -> Vec<(String, String, Unfinished)> {
        let table = self.lock();
        let entries = table.unfinished.iter();
        let entries = entries.filter(|(key, _)| key.0.starts_with(prefix) && *key > after);
        entries.map(|((path, id), upload)| (path.clone(), id.clone(), upload.clone())).collect()
    }

    /// Path and id of each unfinished upload.
    pub(crate) fn names(&self) -> Vec<(String, String)> {
        self.lock().unfinished.keys().cloned().collect()
    }

    /// How often a part of each number was received and kept.
    pub(crate) fn received(&self) -> BTreeMap<u64, u64> {
        self.lock().received.clone()
    }

    fn lock(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// An id that a client cannot guess from an earlier one.
pub(crate) fn upload_id(seed: u64, number: u64) -> String {
    let first = key(seed, &[b"upload", &number.to_le_bytes()]);
    format!("{first:016x}{:016x}", mix(first))
}
