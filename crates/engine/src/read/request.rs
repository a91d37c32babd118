//! One request, from its permit to the head of its response, and the hedge that may race it.
//!
//! A hedge is a second request for the same bytes. It reduces the tail of latency: if the head of
//! the first response is late, the second request often reaches a faster server (Dean and Barroso,
//! "The Tail at Scale", Communications of the ACM, 2013).
//!
//! Invariant: the hedge is sent only if a permit is free at once. If every permit holder waited for
//! a second permit, none would release its first one.
//!
//! The body of the response is not read here: see `live`. Retries are decided in `retrying`.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::FutureExt;
use tidegate_core::retry::RetryClass;
use tokio::time::{sleep, timeout};

use super::ReadStats;
use crate::budget::{Budget, RequestPermit};
use crate::error::{Error, ErrorKind, Operation, Result};
use crate::remote::{Location, OpenRequest, Opened};
use crate::transfer::window::{Sent, TransferWindow};

/// The inputs of a request.
pub(super) struct RequestPlan {
    pub(super) location: Arc<Location>,
    pub(super) request: OpenRequest,
    pub(super) budget: Budget,
    pub(super) stats: Arc<ReadStats>,
    /// The permit, if the caller already has one. Without it, the request waits for a permit.
    pub(super) permit: Option<RequestPermit>,
    /// Timeout for the head of the response. It starts when the request is sent.
    pub(super) limit: Duration,
    /// After this long without a response, the hedge is sent.
    pub(super) hedge: Option<Duration>,
    /// It records when a request is sent and how it ends.
    pub(super) window: Option<Arc<TransferWindow>>,
    /// Counted from 1.
    pub(super) attempt: u32,
}

/// A response whose body has not been read yet.
pub(super) struct Answered {
    pub(super) opened: Opened,
    pub(super) permit: RequestPermit,
    /// Reports the end of the body to the window.
    pub(super) sent: Option<Sent>,
}

type OpenResult = Result<Answered>;

/// A request in flight. Dropping it ends the request and releases its permit.
pub(super) struct Asking {
    span: tracing::Span,
    answer: Pin<Box<dyn Future<Output = OpenResult> + Send>>,
}

impl Asking {
    pub(super) fn new(ask: RequestPlan) -> Self {
        let span = tracing::debug_span!(
            "request",
            blob = ask.location.display(),
            range = %ask.request.range,
            attempt = ask.attempt
        );
        Self { span, answer: Box::pin(answer(ask)) }
    }

    /// The response, and the tracing span of its body.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<(OpenResult, tracing::Span)> {
        let _entered = self.span.enter();
        self.answer.as_mut().poll(cx).map(|answer| (answer, self.span.clone()))
    }
}

async fn answer(mut ask: RequestPlan) -> OpenResult {
    let permit = match ask.permit.take() {
        Some(permit) => permit,
        None => ask.budget.request().await,
    };
    match ask.hedge {
        Some(hedge) if hedge < ask.limit => raced(&ask, permit, hedge).await,
        _ => open(&ask, permit).await,
    }
}

/// The first successful response of the two requests; the other request is dropped. If one request
/// fails while both are in flight, the result of the other is returned.
async fn raced(ask: &RequestPlan, permit: RequestPermit, hedge: Duration) -> OpenResult {
    let mut first = std::pin::pin!(open(ask, permit));
    tokio::select! {
        biased;
        answer = &mut first => return answer,
        () = sleep(hedge) => {}
    }
    // CANCEL: if no permit is free at once, dropping the wait for it removes it from the queue.
    let Some(permit) = ask.budget.request().now_or_never() else { return first.await };
    tracing::debug!(blob = ask.location.display(), "hedged");
    ask.stats.hedge();
    let mut second = std::pin::pin!(open(ask, permit));
    tokio::select! {
        biased;
        answer = &mut first => match answer {
            Ok(answer) => Ok(answer),
            Err(_) => second.await,
        },
        answer = &mut second => match answer {
            Ok(answer) => Ok(answer),
            Err(_) => first.await,
        },
    }
}

async fn open(ask: &RequestPlan, permit: RequestPermit) -> OpenResult {
    ask.stats.request();
    let asked = ask.location.remote.open(&ask.location.blob, &ask.request, &ask.budget);
    let sent = ask.window.as_ref().map(TransferWindow::send);
    let outcome = timeout(ask.limit, asked).await.unwrap_or_else(|_elapsed| {
        let message = format!("timed out after {} s: no answer", ask.limit.as_secs_f64());
        Err(Error::new(ErrorKind::Timeout, Operation::Read, ask.location.display(), message)
            .retryable(RetryClass::Now))
    });
    match outcome {
        Ok(opened) => Ok(Answered { opened, permit, sent }),
        Err(error) => {
            if let Some(sent) = sent {
                sent.failed(&error);
            }
            Err(error)
        }
    }
}
