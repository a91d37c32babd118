//! The table of GCS's resumable sessions.
//!
//! A session keeps what it received in granules of 256 KiB at the moment when a granule is whole.
//! What a broken request sent before is therefore not lost, but less may be kept than was sent.

use std::{
    collections::BTreeMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

use bytes::BytesMut;
use serde_json::Value;

use super::{
    algorithm::{Hasher, Wanted},
    precondition::Condition,
    uploads::upload_id,
    written::Metadata,
};

/// The unit of what a session keeps, and of what clients send.
pub(crate) const GRANULE_BYTES: usize = 256 * 1024;

/// What a session has so far.
#[derive(Debug)]
pub(crate) struct Kept {
    pub(crate) len_bytes: u64,
    pub(crate) hasher: Hasher,
    /// `None` if bytes are dropped.
    pub(crate) bytes: Option<BytesMut>,
}

impl Kept {
    fn new(discards: bool, wanted: Wanted) -> Self {
        let bytes = (!discards).then(BytesMut::new);
        Self { len_bytes: 0, hasher: Hasher::new(wanted), bytes }
    }

    pub(crate) fn append(&mut self, piece: &[u8]) {
        self.hasher.update(piece);
        self.len_bytes += u64::try_from(piece.len()).unwrap_or(u64::MAX);
        if let Some(bytes) = &mut self.bytes {
            bytes.extend_from_slice(piece);
        }
    }
}

/// What the first request of a session says.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    pub(crate) path: String,
    pub(crate) metadata: Metadata,
    pub(crate) condition: Condition,
}

/// The state of a session.
#[derive(Debug)]
enum SessionState {
    Open(Box<Plan>, Box<Kept>),
    /// The object's resource, as the last response had it.
    Done(Value),
    Cancelled,
    /// It was there, and the server forgot it.
    Forgotten,
}

/// What a request finds under the id of a session.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Found {
    /// The number of bytes that are kept.
    Open(u64),
    Done(Value),
    Cancelled,
    Forgotten,
    Unknown,
}

#[derive(Debug, Default)]
struct Table {
    started: u64,
    sessions: BTreeMap<String, SessionState>,
}

/// See the module docs.
#[derive(Debug)]
pub(crate) struct Sessions {
    seed: u64,
    table: Mutex<Table>,
}

impl Sessions {
    pub(crate) fn new(seed: u64) -> Self {
        Self { seed: !seed, table: Mutex::default() }
    }

    /// Starts a session and returns its id.
    pub(crate) fn start(&self, plan: Plan, discards: bool, wanted: Wanted) -> String {
        let mut table = self.lock();
        table.started += 1;
        let id = upload_id(self.seed, table.started);
        let kept = Box::new(Kept::new(discards, wanted));
        table.sessions.insert(id.clone(), SessionState::Open(Box::new(plan), kept));
        id
    }

    pub(crate) fn find(&self, id: &str) -> Found {
        match self.lock().sessions.get(id) {
            None => Found::Unknown,
            Some(SessionState::Open(_, kept)) => Found::Open(kept.len_bytes),
            Some(SessionState::Done(resource)) => Found::Done(resource.clone()),
            Some(SessionState::Cancelled) => Found::Cancelled,
            Some(SessionState::Forgotten) => Found::Forgotten,
        }
    }

    /// Appends to a session that has `at` bytes; `false` if it has another number, because another
    /// request wrote to it, or is not open.
    pub(crate) fn append(&self, id: &str, at: u64, piece: &[u8]) -> bool {
        match self.lock().sessions.get_mut(id) {
            Some(SessionState::Open(_, kept)) if kept.len_bytes == at => {
                kept.append(piece);
                true
            }
            _ => false,
        }
    }

    /// Takes the content of an open session that has `len_bytes` bytes. The caller then says how
    /// the session ended.
    pub(crate) fn take(&self, id: &str, len_bytes: u64) -> Option<(Plan, Kept)> {
        let mut table = self.lock();
        match table.sessions.get(id) {
            Some(SessionState::Open(_, kept)) if kept.len_bytes == len_bytes => {}
            _ => return None,
        }
        match table.sessions.insert(id.to_owned(), SessionState::Forgotten) {
            Some(SessionState::Open(plan, kept)) => Some((*plan, *kept)),
            _ => None,
        }
    }

    /// Ends a session with the resource of its object.
    pub(crate) fn finish(&self, id: &str, resource: Value) {
        self.lock().sessions.insert(id.to_owned(), SessionState::Done(resource));
    }

    /// Ends a session without an object; `false` if it is not open.
    pub(crate) fn cancel(&self, id: &str) -> bool {
        match self.lock().sessions.get_mut(id) {
            Some(state @ SessionState::Open(..)) => {
                *state = SessionState::Cancelled;
                true
            }
            _ => false,
        }
    }

    /// Forgets all open sessions.
    pub(crate) fn forget(&self) {
        for state in self.lock().sessions.values_mut() {
            if matches!(state, SessionState::Open(..)) {
                *state = SessionState::Forgotten;
            }
        }
    }

    /// Path and id of each open session.
    pub(crate) fn names(&self) -> Vec<(String, String)> {
        let table = self.lock();
        let open = table.sessions.iter().filter_map(|(id, state)| match state {
            SessionState::Open(plan, _) => Some((plan.path.clone(), id.clone())),
            _ => None,
        });
        open.collect()
    }

    fn lock(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
