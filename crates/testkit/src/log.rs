//! What was asked and answered, for tests to assert on.
//!
//! An entry is made when a request arrives and filled in while it is answered. A client may see the
//! end of a response a moment before its entry is complete; [`Server::idle`](crate::Server::idle)
//! waits that moment out.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use crate::{fault::Fault, request::Request};

/// Entries kept; the oldest go first, so that a long measurement cannot fill the memory.
const ENTRIES_MAX: usize = 100_000;

/// One request and its answer.
#[derive(Debug, Clone)]
pub struct Logged {
    /// Number of the connection, from 1 in the order of accepting.
    pub connection: u64,
    /// The method as sent.
    pub method: String,
    /// The target as sent.
    pub path_and_query: String,
    /// The range asked for (`Range`, or what the flavour has in its place), if any.
    pub range: Option<String>,
    /// All fields as sent.
    pub headers: Vec<(String, String)>,
    /// Status of the answer; `None` while it waits, and if none was sent.
    pub status: Option<u16>,
    /// Bytes of the body handed to the kernel so far.
    pub bytes_sent: u64,
    /// Faults that were applied.
    pub faults: Vec<Fault>,
    /// Whether the answer is over, well or not.
    pub finished: bool,
}

impl Logged {
    /// The first field of this name, whatever its case.
    pub fn header(&self, name: &str) -> Option<&str> {
        let mut headers = self.headers.iter();
        headers.find(|(n, _)| n.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    }
}

/// A handle on an entry that is being filled in; dropping it finishes the entry.
#[derive(Debug)]
pub(crate) struct Entry(Arc<Mutex<Logged>>);

impl Entry {
    pub(crate) fn edit(&self, change: impl FnOnce(&mut Logged)) {
        change(&mut lock(&self.0));
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        self.edit(|logged| logged.finished = true);
    }
}

#[derive(Debug, Default)]
pub(crate) struct Log(Mutex<VecDeque<Arc<Mutex<Logged>>>>);

impl Log {
    pub(crate) fn begin(&self, connection: u64, request: &Request, range: Option<&str>) -> Entry {
        let logged = Arc::new(Mutex::new(Logged {
            connection,
            method: request.method.clone(),
            path_and_query: request.path_and_query.clone(),
            range: range.map(str::to_owned),
            headers: request.fields.clone(),
            status: None,
            bytes_sent: 0,
            faults: Vec::new(),
            finished: false,
        }));
        let mut entries = lock(&self.0);
        if entries.len() >= ENTRIES_MAX {
            entries.pop_front();
        }
        entries.push_back(Arc::clone(&logged));
        Entry(logged)
    }

    pub(crate) fn snapshot(&self) -> Vec<Logged> {
        lock(&self.0).iter().map(|entry| lock(entry).clone()).collect()
    }

    pub(crate) fn clear(&self) {
        lock(&self.0).clear();
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
