//! The guarantees that leaders and followers rely on.

use std::sync::atomic::{AtomicU32, Ordering};

use futures_util::poll;
use tokio::task::JoinSet;

use super::*;

type Flights = InFlight<u32, u32>;

fn lead(flights: &Flights, key: u32) -> Leader<u32, u32> {
    match flights.join(&key) {
        Joined::Leader(lead) => lead,
        Joined::Follower(_) => panic!("expected a leader, got a follower"),
    }
}

fn follow(flights: &Flights, key: u32) -> Follower<u32> {
    match flights.join(&key) {
        Joined::Follower(follow) => follow,
        Joined::Leader(_) => panic!("expected a follower, got a leader"),
    }
}

#[tokio::test]
async fn followers_are_given_what_the_leader_has() {
    let flights = Flights::new();
    let leader = lead(&flights, 1);
    let (one, other) = (follow(&flights, 1), follow(&flights, 1));
    let mut one = Box::pin(one.outcome());
    assert!(poll!(&mut one).is_pending());
    leader.succeed(7);
    assert_eq!((one.await, other.outcome().await), (Some(7), Some(7)));
    assert_eq!(flights.len(), 0);
}

#[tokio::test]
async fn keys_do_not_share() {
    let flights = Flights::new();
    let (_one, _other) = (lead(&flights, 1), lead(&flights, 2));
    assert_eq!(flights.len(), 2);
}

#[tokio::test]
async fn a_leader_that_goes_away_leaves_the_work_to_one_follower() {
    let flights = Flights::new();
    let leader = lead(&flights, 1);
    let (one, other) = (follow(&flights, 1), follow(&flights, 1));
    drop(leader);
    assert_eq!((one.outcome().await, other.outcome().await), (None, None));
    let _again = lead(&flights, 1);
    let _behind = follow(&flights, 1);
}

#[tokio::test]
async fn what_is_done_is_done_anew_for_who_comes_later() {
    let flights = Flights::new();
    lead(&flights, 1).succeed(1);
    lead(&flights, 1).succeed(2);
    assert_eq!(flights.len(), 0);
}

#[tokio::test]
async fn a_late_drop_does_not_remove_the_next_leaders_flight() {
    let flights = Flights::new();
    let leader = lead(&flights, 1);
    let behind = follow(&flights, 1);
    leader.succeed(1);
    let _next = lead(&flights, 1);
    assert_eq!(behind.outcome().await, Some(1));
    assert_eq!(flights.len(), 1);
}

#[tokio::test]
async fn a_failure_is_the_leaders_own() {
    let flights = Flights::new();
    let gate = tokio::sync::Notify::new();
    let failing = flights.once(&1, async || {
        gate.notified().await;
        Err::<u32, _>("the leader's error")
    });
    let mut failing = Box::pin(failing);
    assert!(poll!(&mut failing).is_pending());
    let mut behind = Box::pin(flights.once(&1, async || Ok::<_, &str>(5)));
    assert!(poll!(&mut behind).is_pending());
    gate.notify_one();
    assert_eq!(failing.await, Err("the leader's error"));
    assert_eq!(behind.await, Ok(5));
    assert_eq!(flights.len(), 0);
}

#[tokio::test]
async fn a_cancelled_follower_leaves_the_others_alone() {
    let flights = Flights::new();
    let leader = lead(&flights, 1);
    let mut dropped = Box::pin(follow(&flights, 1).outcome());
    assert!(poll!(&mut dropped).is_pending());
    drop(dropped);
    let other = follow(&flights, 1);
    leader.succeed(3);
    assert_eq!(other.outcome().await, Some(3));
}

#[tokio::test]
async fn a_leader_that_panics_leaves_nothing_behind() {
    let flights = Flights::new();
    let mine = flights.clone();
    let task = tokio::spawn(async move {
        let _leading = lead(&mine, 1);
        tokio::task::yield_now().await;
        panic!("on purpose");
    });
    assert!(task.await.unwrap_err().is_panic());
    assert_eq!(flights.len(), 0);
    assert_eq!(flights.once(&1, async || Ok::<_, ()>(1)).await, Ok(1));
}

/// Many tasks need the same few keys. Some leaders fail, others are aborted. Every task that is not
/// aborted gets its result. Work on one key never runs twice at once. No key stays in flight.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn under_load_each_gets_an_outcome_and_no_work_is_done_twice_at_once() {
    let flights = Flights::new();
    let busy: Arc<Vec<AtomicU32>> = Arc::new((0..4).map(|_| AtomicU32::new(0)).collect());
    for round in 0..200_u32 {
        let mut tasks = JoinSet::new();
        for index in 0..32_u32 {
            let (flights, busy) = (flights.clone(), Arc::clone(&busy));
            tasks.spawn(async move {
                let key = index % 4;
                let mut tries = 0;
                loop {
                    let fails = index.wrapping_mul(2_654_435_761).wrapping_add(round) % 3 == 0;
                    let outcome = flights
                        .once(&key, async || {
                            let at_work = &busy[key as usize];
                            assert_eq!(at_work.fetch_add(1, Ordering::SeqCst), 0, "twice at once");
                            // Decrements the count when the work ends in any way.
                            let _guard = Working(at_work);
                            tokio::task::yield_now().await;
                            if fails && tries == 0 { Err(()) } else { Ok(key * 10) }
                        })
                        .await;
                    tries += 1;
                    match outcome {
                        Ok(value) => return assert_eq!(value, key * 10),
                        Err(()) => assert!(tries < 2, "another's error was inherited"),
                    }
                }
            });
        }
        let mut aborts = Vec::new();
        for index in 0..4 {
            let flights = flights.clone();
            let task = tasks.spawn(async move {
                let _ = flights
                    .once(&index, async || {
                        std::future::pending::<()>().await;
                        Ok::<_, ()>(0)
                    })
                    .await;
            });
            aborts.push(task);
        }
        for task in aborts {
            tokio::task::yield_now().await;
            task.abort();
        }
        while let Some(ended) = tasks.join_next().await {
            if let Err(error) = ended {
                assert!(error.is_cancelled(), "{error}");
            }
        }
        assert_eq!(flights.len(), 0);
    }
}

struct Working<'a>(&'a AtomicU32);

impl Drop for Working<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}
