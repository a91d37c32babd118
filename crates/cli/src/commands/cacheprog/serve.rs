//! Requests in parallel, and the end.
//!
//! A `put` is answered when its body is a file; the cache gets it in the background. `close` is
//! answered when the cache has everything.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::{Semaphore, mpsc};
use tokio::task::JoinSet;

use super::cache::{Cache, CacheError};
use super::entry::Entry;
use super::files::Files;
use super::input::{Input, Received, ReceivedBody};
use super::message::Response;
use super::output::Output;
use crate::exit::Exit;
use crate::report;
use crate::session::Session;
use crate::size;

/// Requests at once. Go sends one for each package that it builds, and hundreds at the start.
const REQUESTS_MAX: usize = 64;

/// What all requests share.
#[derive(Debug)]
struct Shared {
    session: Session,
    files: Files,
    counts: Counts,
}

#[derive(Debug, Default)]
struct Counts {
    hits: AtomicU64,
    misses: AtomicU64,
    puts: AtomicU64,
    put_bytes: AtomicU64,
    failures: AtomicU64,
}

pub(super) async fn run(session: &Session, cache: Cache, files: Files) -> Exit {
    let Ok(output) = Output::start() else {
        session.say("tidegate cacheprog: the system gives no threads");
        return Exit::Failure;
    };
    let queue = output.queue();
    // Only a reader that is gone refuses it, and then the input ends, too.
    let _ = queue.send(Response::greeting()).await;
    let shared = Arc::new(Shared { session: session.clone(), files, counts: Counts::default() });
    let closing = requests(&shared, &cache, &queue).await;
    cache.close().await;
    if let Some(id) = closing {
        let _ = queue.send(Response { id, ..Response::default() }).await;
    }
    drop(queue);
    output.finish().await;
    if session.output.verbose {
        session.say(&shared.counts.text());
    }
    Exit::Success
}

/// Answers requests until `close`, the end of the input, or the end of the session. Returns the
/// number of `close`.
async fn requests(
    shared: &Arc<Shared>,
    cache: &Cache,
    queue: &mpsc::Sender<Response>,
) -> Option<i64> {
    let mut received = read(shared);
    let slots = Arc::new(Semaphore::new(REQUESTS_MAX));
    let mut tasks = JoinSet::new();
    let mut closing = None;
    loop {
        let next = tokio::select! {
            next = received.recv() => next,
            () = shared.session.cancel.cancelled() => None,
        };
        let Some(Received { request, body }) = next else { break };
        if request.command == "close" {
            closing = Some(request.id);
            break;
        }
        let Ok(slot) = Arc::clone(&slots).acquire_owned().await else { break };
        let (shared, cache, queue) = (Arc::clone(shared), cache.clone(), queue.clone());
        tasks.spawn(async move {
            let _slot = slot;
            let id = request.id;
            match (request.command.as_str(), body) {
                ("get", _) => {
                    let response = shared.get(&cache, id, &request.action).await;
                    let _ = queue.send(response).await;
                }
                ("put", Some(Ok(body))) => {
                    shared.put(&cache, &queue, id, &request.action, &request.output, body).await;
                }
                ("put", Some(Err(error))) => {
                    let _ = queue.send(Response::failed(id, error.to_string())).await;
                }
                _ => {
                    let _ = queue.send(Response::failed(id, "the command is unknown")).await;
                }
            }
        });
        while tasks.try_join_next().is_some() {}
    }
    while tasks.join_next().await.is_some() {}
    closing
}

/// Reads standard input on a thread of its own, which ends with the input or with `close`. A read
/// that blocks ends with the process.
fn read(shared: &Arc<Shared>) -> mpsc::Receiver<Received> {
    let (queue, waiting) = mpsc::channel(REQUESTS_MAX);
    let (files, session) = (shared.files.clone(), shared.session.clone());
    let thread = std::thread::Builder::new().name("cacheprog input".to_owned());
    let spawned = thread.spawn(move || {
        let mut input = Input::new(std::io::stdin().lock(), files);
        loop {
            match input.next() {
                Ok(Some(received)) => {
                    let is_last = received.request.command == "close";
                    if queue.blocking_send(received).is_err() || is_last {
                        return;
                    }
                }
                Ok(None) => return,
                Err(error) => {
                    session.say(&format!("tidegate cacheprog: the input ends: {error}"));
                    return;
                }
            }
        }
    });
    if spawned.is_err() {
        shared.session.say("tidegate cacheprog: the system gives no threads");
    }
    waiting
}

impl Shared {
    async fn get(&self, cache: &Cache, id: i64, action: &[u8]) -> Response {
        let found = match cache.get(action, &self.files).await {
            Ok(found) => found,
            Err(error) => {
                self.failed(&error);
                None
            }
        };
        let output = found.as_ref().and_then(|(entry, _)| entry.output());
        let (Some((entry, path)), Some(output)) = (found, output) else {
            self.counts.misses.fetch_add(1, Ordering::Relaxed);
            return Response::miss(id);
        };
        self.counts.hits.fetch_add(1, Ordering::Relaxed);
        self.note_entry(action, &entry).await;
        Response {
            id,
            output,
            size: entry.digest().map(|digest| digest.len),
            time: Some(entry.time()),
            disk_path: Some(path.display().to_string()),
            ..Response::default()
        }
    }

    async fn put(
        &self,
        cache: &Cache,
        queue: &mpsc::Sender<Response>,
        id: i64,
        action: &[u8],
        output: &[u8],
        body: ReceivedBody,
    ) {
        let ReceivedBody { file, digest } = body;
        let files = self.files.clone();
        let kept = tokio::task::spawn_blocking(move || files.keep(file, &digest)).await;
        let kept = kept.unwrap_or_else(|error| Err(std::io::Error::other(error)));
        let path = match kept {
            Ok(path) => path,
            Err(error) => {
                let _ = queue.send(Response::failed(id, error.to_string())).await;
                return;
            }
        };
        let disk_path = Some(path.display().to_string());
        let _ = queue.send(Response { id, disk_path, ..Response::default() }).await;
        let entry = Entry::new(output, &digest);
        self.note_entry(action, &entry).await;
        match cache.put(action, &entry, &path).await {
            Ok(false) => {}
            Ok(true) => {
                self.counts.puts.fetch_add(1, Ordering::Relaxed);
                self.counts.put_bytes.fetch_add(digest.len, Ordering::Relaxed);
            }
            Err(error) => self.failed(&error),
        }
    }

    async fn note_entry(&self, action: &[u8], entry: &Entry) {
        let (files, action, entry) = (self.files.clone(), action.to_owned(), entry.clone());
        // It is an addition only.
        let _ = tokio::task::spawn_blocking(move || files.note_entry(&action, &entry)).await;
    }

    /// Reports the first failure. The others would be the same.
    fn failed(&self, error: &CacheError) {
        if self.counts.failures.fetch_add(1, Ordering::Relaxed) > 0 && !self.session.output.verbose
        {
            return;
        }
        let mut text = error.to_string();
        let mut cause = std::error::Error::source(error);
        while let Some(error) = cause {
            text = format!("{text}: {error}");
            cause = error.source();
        }
        self.session.say(&format!("tidegate cacheprog: {text}; the build goes on"));
    }
}

impl Counts {
    fn text(&self) -> String {
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        format!(
            "tidegate cacheprog: {}, {}, {} of {} stored, {}",
            report::count(count(&self.hits), "hit"),
            // The plural of "miss" is irregular.
            if count(&self.misses) == 1 {
                "1 miss".to_owned()
            } else {
                format!("{} misses", count(&self.misses))
            },
            report::count(count(&self.puts), "output"),
            size::human(count(&self.put_bytes)),
            report::count(count(&self.failures), "failure"),
        )
    }
}
