//! One request, from its permit to the head of its answer, and the second one that may race it.
//!
//! A hedge is for the tail of latency: where the head of an answer is late, a second request for
//! the same bytes often lands on a server that is quicker (Dean and Barroso, "The Tail at Scale",
//! Communications of the ACM, 2013). It is sent only if its permit is to be had at once: whoever
//! waited for a second permit while holding one could wait for ever.

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

/// What a request needs.
pub(super) struct RequestPlan {
    pub(super) location: Arc<Location>,
    pub(super) request: OpenRequest,
    pub(super) budget: Budget,
    pub(super) stats: Arc<ReadStats>,
    /// A permit that is there already.
    pub(super) permit: Option<RequestPermit>,
    /// The longest that the head of the answer may take.
    pub(super) limit: Duration,
    pub(super) hedge: Option<Duration>,
    /// Learns when a request is sent and how it ends.
    pub(super) window: Option<Arc<TransferWindow>>,
    /// Counted from 1.
    pub(super) attempt: u32,
}

/// A response whose body is still to be read.
pub(super) struct Answered {
    pub(super) opened: Opened,
    pub(super) permit: RequestPermit,
    /// What the window is told when the body has ended.
    pub(super) sent: Option<Sent>,
}

type Answer = Result<Answered>;

/// A request under way. Dropping it ends the request and gives its permit back.
pub(super) struct Asking {
    span: tracing::Span,
    answer: Pin<Box<dyn Future<Output = Answer> + Send>>,
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

    /// The answer, and the span that its body belongs to.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<(Answer, tracing::Span)> {
        let _entered = self.span.enter();
        self.answer.as_mut().poll(cx).map(|answer| (answer, self.span.clone()))
    }
}

async fn answer(mut ask: RequestPlan) -> Answer {
    let permit = match ask.permit.take() {
        Some(permit) => permit,
        None => ask.budget.request().await,
    };
    match ask.hedge {
        Some(hedge) if hedge < ask.limit => raced(&ask, permit, hedge).await,
        _ => open(&ask, permit).await,
    }
}

/// The answer to whichever request is answered first; the other is dropped. One that fails leaves
/// the word to the other.
async fn raced(ask: &RequestPlan, permit: RequestPermit, hedge: Duration) -> Answer {
    let mut first = std::pin::pin!(open(ask, permit));
    tokio::select! {
        biased;
        answer = &mut first => return answer,
        () = sleep(hedge) => {}
    }
    // CANCEL: a request for a permit that is not there at once is withdrawn when it is dropped.
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

async fn open(ask: &RequestPlan, permit: RequestPermit) -> Answer {
    ask.stats.request();
    let asked = ask.location.remote.open(&ask.location.blob, &ask.request, &ask.budget);
    let sent = ask.window.as_ref().map(TransferWindow::send);
    let outcome = timeout(ask.limit, asked).await.unwrap_or_else(|_elapsed| {
        let message = format!("no answer came within {} s", ask.limit.as_secs_f64());
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
