//! [`drive`]: the units of one transfer in flight, from the first to the last.
//!
//! A transfer decides which unit comes next, which grant the unit needs before it starts, and what
//! its end means ([`Units`]). The driver waits for the next event, starts units, and handles their
//! ends.
//!
//! Invariants:
//! - Only one unit at a time waits for its grant. So a large blob does not queue hundreds of
//!   requests for memory ahead of a small one, and units get their grants in order.
//! - The first failure is the one that is returned.
//! - Nothing is in flight once [`drive`] has returned or was dropped: a unit that runs as a task is
//!   aborted when its [`Flight`] is dropped.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use tokio::task::{JoinError, JoinHandle};
use tokio_util::sync::CancellationToken;

/// A future of a unit in flight, or of a grant.
pub(crate) type UnitFuture<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// The units of one kind of transfer.
pub(crate) trait Units {
    /// A unit with its grant.
    type Granted: Send + 'static;
    /// How a unit ended.
    type Ended: Send + 'static;
    /// Any other event that a transfer waits for.
    type Event;
    type Error;

    /// Starts units that need no grant. Called before each wait.
    fn advance(&mut self, _flight: &mut Flight<Self::Ended>) {}

    /// The next unit, if there is room for it. The future waits for the unit's grant. Not called
    /// while another unit waits.
    fn next(&mut self, flight: &mut Flight<Self::Ended>) -> Option<UnitFuture<Self::Granted>>;

    /// Starts a unit that has its grant.
    fn start(&mut self, granted: Self::Granted, flight: &mut Flight<Self::Ended>);

    /// Handles the end of a unit.
    fn ended(&mut self, ended: Self::Ended) -> Result<(), Self::Error>;

    /// Waits for any other event that the transfer must handle. Must be cancel-safe: the driver
    /// drops the future when another event happens first.
    fn event(&mut self, in_flight: usize) -> impl Future<Output = Self::Event> + Send;

    /// Handles an event.
    fn on_event(
        &mut self,
        event: Self::Event,
        flight: &mut Flight<Self::Ended>,
    ) -> Result<(), Self::Error>;

    /// Whether nothing is left to do; `in_flight` counts the unit that waits for its grant.
    fn is_over(&self, in_flight: usize) -> bool;

    /// The error of a transfer that was cancelled.
    fn cancelled(&self) -> Self::Error;
}

/// The units in flight.
#[derive(Debug)]
pub(crate) struct Flight<T>(FuturesUnordered<UnitFuture<T>>);

impl<T> Default for Flight<T> {
    fn default() -> Self {
        Self(FuturesUnordered::new())
    }
}

impl<T: Send + 'static> Flight<T> {
    /// Adds a unit that runs in the transfer's own task.
    pub(crate) fn push(&mut self, unit: impl Future<Output = T> + Send + 'static) {
        self.0.push(Box::pin(unit));
    }

    /// Adds a unit that runs as a task of its own. If the task panicked, `lost` makes the unit's
    /// result.
    pub(crate) fn spawn(
        &mut self,
        unit: impl Future<Output = T> + Send + 'static,
        lost: impl FnOnce(JoinError) -> T + Send + 'static,
    ) {
        let task = Task(tokio::spawn(unit));
        self.push(async move { task.await.unwrap_or_else(lost) });
    }

    /// Units in flight.
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// Waits until nothing is in flight, regardless of the outcomes.
    async fn drain(&mut self) {
        while self.0.next().await.is_some() {}
    }
}

/// A task that is aborted when it is dropped.
struct Task<T>(JoinHandle<T>);

impl<T> Future for Task<T> {
    type Output = Result<T, JoinError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.0).poll(cx)
    }
}

impl<T> Drop for Task<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Drives units until nothing is left to do, one fails, or `cancel` is cancelled. `flight` holds
/// the units that are already in flight. Everything in flight has ended when this returns. To this
/// end it cancels `stop`, which must end every unit. After a failure it calls `abort`, which must
/// end every wait for the sink.
pub(crate) async fn drive_to_end<U: Units>(
    units: &mut U,
    mut flight: Flight<U::Ended>,
    cancel: &CancellationToken,
    stop: &CancellationToken,
    abort: impl FnOnce(),
) -> Result<(), U::Error> {
    let outcome = drive(units, &mut flight, cancel).await;
    stop.cancel();
    if outcome.is_err() {
        abort();
    }
    flight.drain().await;
    outcome
}

/// Drives units until nothing is left to do, one fails, or `cancel` is cancelled. The units that
/// are still in flight then stay in `flight`.
pub(crate) async fn drive<U: Units>(
    units: &mut U,
    flight: &mut Flight<U::Ended>,
    cancel: &CancellationToken,
) -> Result<(), U::Error> {
    let mut reserving: Option<UnitFuture<U::Granted>> = None;
    loop {
        units.advance(flight);
        if reserving.is_none() {
            reserving = units.next(flight);
        }
        let in_flight = flight.len() + usize::from(reserving.is_some());
        if units.is_over(in_flight) {
            return Ok(());
        }
        // CANCEL: a grant that is not ready stays in `reserving`, a unit in `flight`.
        tokio::select! {
            biased;
            () = cancel.cancelled() => return Err(units.cancelled()),
            Some(ended) = flight.0.next() => units.ended(ended)?,
            granted = granted(&mut reserving) => {
                reserving = None;
                units.start(granted, flight);
            }
            event = units.event(in_flight) => units.on_event(event, flight)?,
        }
    }
}

async fn granted<T>(reserving: &mut Option<UnitFuture<T>>) -> T {
    match reserving {
        Some(reserving) => reserving.await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use tokio::sync::Semaphore;

    use super::*;

    /// Units with a number each and a window of two. Each waits for a permit, then for `stop`.
    struct Numbers {
        rest: Vec<u32>,
        grants: Arc<Semaphore>,
        running: Arc<AtomicUsize>,
        started: Vec<u32>,
        stop: CancellationToken,
        fails_at: Option<u32>,
    }

    /// Counts a unit while it runs.
    struct Running(Arc<AtomicUsize>);

    impl Drop for Running {
        fn drop(&mut self) {
            self.0.fetch_sub(1, Ordering::SeqCst);
        }
    }

    impl Numbers {
        fn new(count: u32, grants: usize) -> Self {
            Self {
                rest: (0..count).rev().collect(),
                grants: Arc::new(Semaphore::new(grants)),
                running: Arc::default(),
                started: Vec::new(),
                stop: CancellationToken::new(),
                fails_at: None,
            }
        }
    }

    impl Units for Numbers {
        type Granted = u32;
        type Ended = Result<(), String>;
        type Event = ();
        type Error = String;

        fn next(&mut self, flight: &mut Flight<Self::Ended>) -> Option<UnitFuture<u32>> {
            if flight.len() >= 2 {
                return None;
            }
            let (number, grants) = (self.rest.pop()?, Arc::clone(&self.grants));
            Some(Box::pin(async move {
                grants.acquire_owned().await.unwrap().forget();
                number
            }))
        }

        fn start(&mut self, number: u32, flight: &mut Flight<Self::Ended>) {
            self.started.push(number);
            self.running.fetch_add(1, Ordering::SeqCst);
            let running = Running(Arc::clone(&self.running));
            let (stop, fails) = (self.stop.clone(), self.fails_at == Some(number));
            let unit = async move {
                let _running = running;
                if fails {
                    return Err(format!("number {number} failed"));
                }
                stop.cancelled().await;
                Err("stopped".to_owned())
            };
            flight.spawn(unit, |error| Err(error.to_string()));
        }

        fn ended(&mut self, ended: Self::Ended) -> Result<(), String> {
            ended
        }

        async fn event(&mut self, _in_flight: usize) {
            std::future::pending::<()>().await;
        }

        fn on_event(&mut self, (): (), _flight: &mut Flight<Self::Ended>) -> Result<(), String> {
            Ok(())
        }

        fn is_over(&self, in_flight: usize) -> bool {
            self.rest.is_empty() && in_flight == 0
        }

        fn cancelled(&self) -> String {
            "cancelled".to_owned()
        }
    }

    async fn run(units: &mut Numbers, cancel: &CancellationToken) -> Result<(), String> {
        let stop = units.stop.clone();
        drive_to_end(units, Flight::default(), cancel, &stop, || {}).await
    }

    #[tokio::test]
    async fn the_first_failure_ends_the_others_and_is_the_one_reported() {
        let mut units = Numbers { fails_at: Some(1), ..Numbers::new(5, 5) };
        let outcome = run(&mut units, &CancellationToken::new()).await;
        assert_eq!(outcome, Err("number 1 failed".to_owned()));
        assert_eq!(units.started, [0, 1]);
        assert_eq!(units.running.load(Ordering::SeqCst), 0, "nothing is left in flight");
    }

    #[tokio::test]
    async fn a_unit_that_waits_for_its_grant_holds_up_those_behind_it_and_is_not_started() {
        let mut units = Numbers::new(3, 1);
        let cancel = CancellationToken::new();
        let mut running = Box::pin(run(&mut units, &cancel));
        assert!(futures_util::poll!(&mut running).is_pending());
        cancel.cancel();
        assert_eq!(running.await, Err("cancelled".to_owned()));
        assert_eq!((units.started, units.rest), (vec![0], vec![2]));
    }

    #[tokio::test]
    async fn a_transfer_that_is_dropped_leaves_no_task() {
        let mut units = Numbers::new(2, 2);
        let (running, cancel) = (Arc::clone(&units.running), CancellationToken::new());
        let mut driving = Box::pin(run(&mut units, &cancel));
        while running.load(Ordering::SeqCst) < 2 {
            assert!(futures_util::poll!(&mut driving).is_pending());
            tokio::task::yield_now().await;
        }
        drop(driving);
        while running.load(Ordering::SeqCst) > 0 {
            tokio::task::yield_now().await;
        }
    }

    #[tokio::test]
    async fn a_transfer_without_units_is_over_at_once() {
        assert_eq!(run(&mut Numbers::new(0, 0), &CancellationToken::new()).await, Ok(()));
    }
}
