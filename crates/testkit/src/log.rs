//! The log of requests and responses, for assertions of tests.
//!
//! An entry is created when a request arrives and is filled in while the response is sent. A client
//! may see the end of a response shortly before its entry is complete.
//! [`Server::idle`](crate::Server::idle) waits until all entries are complete.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use crate::{fault::Fault, request::Request};

/// Entries kept; the oldest are dropped first, so that a long measurement cannot fill the memory.
const ENTRIES_MAX: usize = 100_000;

/// One request and its response.
#[derive(Debug, Clone)]
pub struct Logged {
    /// Number of the connection, from 1 in the order of accepting.
    pub connection: u64,
    /// The method as sent.
    pub method: String,
    /// The target as sent.
    pub path_and_query: String,
    /// The requested range (`Range`, or the flavour's own field), if any.
    pub range: Option<String>,
    /// All fields as sent.
    pub headers: Vec<(String, String)>,
    /// Bytes of the request's body that a handler has read so far.
    pub body_bytes_received: u64,
    /// Status of the response; `None` if none was sent yet or ever.
    pub status: Option<u16>,
    /// Bytes of the body handed to the kernel so far.
    pub bytes_sent: u64,
    /// Faults that were applied.
    pub faults: Vec<Fault>,
    /// Whether the response has ended, successfully or not.
    pub finished: bool,
}

impl Logged {
    /// The query as sent, without the question mark; empty if there is none.
    pub fn query(&self) -> &str {
        self.path_and_query.split_once('?').map_or("", |(_, query)| query)
    }

    /// The first field of this name, in any case.
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
            body_bytes_received: 0,
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
