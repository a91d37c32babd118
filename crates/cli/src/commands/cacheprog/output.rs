//! [`Output`]: the responses on standard output, one a line. A thread writes them: a pipe can block.

use std::io::Write as _;
use std::thread::JoinHandle;

use tokio::sync::mpsc;

use super::message::Response;

/// Responses that wait for the thread. Requests wait beyond that.
const QUEUE_MAX: usize = 256;

/// The responses. Dropping it lets the thread end after what it has.
#[derive(Debug)]
pub(super) struct Output {
    queue: mpsc::Sender<Response>,
    thread: Option<JoinHandle<()>>,
}

impl Output {
    pub(super) fn start() -> std::io::Result<Self> {
        let (queue, waiting) = mpsc::channel(QUEUE_MAX);
        let thread = std::thread::Builder::new().name("cacheprog output".to_owned());
        let thread = thread.spawn(move || write(waiting))?;
        Ok(Self { queue, thread: Some(thread) })
    }

    pub(super) fn queue(&self) -> mpsc::Sender<Response> {
        self.queue.clone()
    }

    /// Waits until everything is written. All other senders must be gone.
    pub(super) async fn finish(self) {
        let Self { queue, thread } = self;
        drop(queue);
        if let Some(thread) = thread {
            // It does not panic.
            let _ = tokio::task::spawn_blocking(move || thread.join()).await;
        }
    }
}

/// Flushes when nothing waits. Without a reader, the rest has no use.
fn write(mut waiting: mpsc::Receiver<Response>) {
    let mut out = std::io::BufWriter::new(std::io::stdout().lock());
    while let Some(first) = waiting.blocking_recv() {
        let mut next = Some(first);
        while let Some(response) = next {
            let line = serde_json::to_vec(&response).unwrap_or_default();
            if out.write_all(&line).and_then(|()| out.write_all(b"\n")).is_err() {
                return;
            }
            next = waiting.try_recv().ok();
        }
        if out.flush().is_err() {
            return;
        }
    }
}
