//! [`StartingLine`]: requests that reach a server at the same moment.
//!
//! A server that compares a condition first and writes afterwards is wrong only between the two.
//! Each request of a race therefore keeps its last byte until every other request has sent all but
//! its own. Servers that look when the head arrives have then all looked, and those that look when
//! the body is complete look at once.
//!
//! Invariants:
//! - A runner that is dropped counts as arrived, so the others do not wait for a request that failed early.
//! - A runner waits at most [`HOLD_MS_MAX`]: a server that serves one connection at a time makes no
//!   race, and still finishes.

#![cfg_attr(
    not(any(feature = "gcs", feature = "s3")),
    expect(dead_code, reason = "only writers of the XML interface race")
)]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures_util::{StreamExt, stream};
use tokio::sync::watch;

use crate::error::Result;
use crate::remote::Body;

/// Connections are made within this time, also over TLS on a slow link.
const HOLD_MS_MAX: u64 = 2_000;

/// See the module docs. The value is the number of runners that have not arrived.
#[derive(Debug)]
pub(in crate::remote) struct StartingLine(Arc<watch::Sender<usize>>);

impl StartingLine {
    pub(in crate::remote) fn new(runners: usize) -> Self {
        Self(Arc::new(watch::Sender::new(runners)))
    }

    pub(in crate::remote) fn runner(&self) -> Runner {
        Runner { missing: Arc::clone(&self.0), has_arrived: Arc::default() }
    }
}

/// One request of the race.
#[derive(Debug)]
pub(in crate::remote) struct Runner {
    missing: Arc<watch::Sender<usize>>,
    has_arrived: Arc<AtomicBool>,
}

impl Runner {
    /// The same bytes; the last one of `len_bytes` comes when all runners have arrived.
    pub(in crate::remote) fn hold(&self, frames: Body, len_bytes: u64) -> Body {
        let (missing, has_arrived) = (Arc::clone(&self.missing), Arc::clone(&self.has_arrived));
        let mut sent = 0;
        let pieces = frames.flat_map(move |frame| {
            let (before, last) = match frame {
                Ok(frame) => {
                    sent += frame.len() as u64;
                    split(frame, sent >= len_bytes)
                }
                Err(error) => (Err(error), None),
            };
            let (missing, has_arrived) = (Arc::clone(&missing), Arc::clone(&has_arrived));
            let held = stream::iter(last).then(move |last| {
                let (missing, has_arrived) = (Arc::clone(&missing), Arc::clone(&has_arrived));
                async move {
                    arrive(&missing, &has_arrived);
                    let mut line = missing.subscribe();
                    let all = line.wait_for(|missing| *missing == 0);
                    let _ = tokio::time::timeout(Duration::from_millis(HOLD_MS_MAX), all).await;
                    Ok(last)
                }
            });
            stream::iter([before]).chain(held)
        });
        Box::pin(pieces)
    }
}

impl Drop for Runner {
    fn drop(&mut self) {
        arrive(&self.missing, &self.has_arrived);
    }
}

fn arrive(missing: &watch::Sender<usize>, has_arrived: &AtomicBool) {
    if !has_arrived.swap(true, Ordering::Relaxed) {
        missing.send_modify(|missing| *missing = missing.saturating_sub(1));
    }
}

/// A frame without its last byte, and that byte, if the frame ends the body.
fn split(mut frame: Bytes, ends: bool) -> (Result<Bytes>, Option<Bytes>) {
    if !ends || frame.is_empty() {
        return (Ok(frame), None);
    }
    let last = frame.split_off(frame.len() - 1);
    (Ok(frame), Some(last))
}

#[cfg(test)]
mod tests {
    use futures_util::{FutureExt, TryStreamExt};

    use super::*;

    fn body(frames: &'static [&'static str]) -> Body {
        Box::pin(stream::iter(frames.iter().map(|text| Ok(Bytes::from(*text)))))
    }

    async fn all(body: Body) -> Vec<u8> {
        body.try_collect::<Vec<_>>().await.unwrap().concat()
    }

    #[tokio::test(start_paused = true)]
    async fn the_last_byte_waits_for_the_other_runners() {
        let line = StartingLine::new(2);
        let (first, second) = (line.runner(), line.runner());
        let mut held = first.hold(body(&["ab", "cd"]), 4);
        assert_eq!(held.next().await.unwrap().unwrap(), "ab");
        assert_eq!(held.next().await.unwrap().unwrap(), "c");
        assert!(held.next().now_or_never().is_none(), "the other runner has not arrived");
        drop(second);
        assert_eq!(held.next().await.unwrap().unwrap(), "d");
        assert!(held.next().await.is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn a_runner_goes_on_alone_in_the_end() {
        let line = StartingLine::new(2);
        let (first, _second) = (line.runner(), line.runner());
        assert_eq!(all(first.hold(body(&["abc"]), 3)).await, b"abc");
    }
}
