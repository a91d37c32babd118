//! Tests of the budget: which units are granted, in which order, and which are released.

use std::task::Poll;

use futures_util::{FutureExt as _, poll};

use super::*;

#[tokio::test]
async fn bytes_are_returned_and_the_peak_is_kept() {
    let budget = Budget::new(BudgetOptions { requests: 1, bytes: 1 << 20 });
    let mut first = budget.bytes(512 << 10).await;
    let second = budget.bytes(512 << 10).await;
    assert!(budget.try_bytes(1).is_none());
    drop(second);
    assert_eq!(budget.held_bytes(), 512 << 10);
    first.shrink(4096);
    assert_eq!((first.bytes(), budget.held_bytes()), (4096, 4096));
    drop(first);
    assert_eq!((budget.held_bytes(), budget.held_bytes_peak()), (0, 1 << 20));
}

#[tokio::test]
async fn a_wish_beyond_the_budget_gets_all_of_it() {
    let budget = Budget::new(BudgetOptions { requests: 1, bytes: 1 << 20 });
    assert_eq!(budget.bytes(u64::MAX).await.bytes(), 1 << 20);
}

#[tokio::test]
async fn merged_permits_count_once() {
    let budget = Budget::new(BudgetOptions { requests: 1, bytes: 1 << 20 });
    let mut one = budget.bytes(8192).await;
    one.merge(budget.bytes(8192).await);
    assert_eq!((one.bytes(), budget.held_bytes()), (16384, 16384));
    drop(one);
    assert_eq!(budget.held_bytes(), 0);
    assert!(budget.try_bytes(1 << 20).is_some());
}

#[tokio::test]
async fn the_last_request_waits_until_another_ends() {
    let budget = Budget::new(BudgetOptions { requests: 1, bytes: 1 });
    let held = budget.request().await;
    let mut waiting = Box::pin(budget.request());
    assert!(poll!(&mut waiting).is_pending());
    drop(held);
    assert!(poll!(&mut waiting).is_ready());
}

#[tokio::test]
async fn what_becomes_free_goes_to_the_share_that_holds_least() {
    let budget = Budget::new(BudgetOptions { requests: 4, bytes: 1 });
    let (large, small) = (budget.share(), budget.share());
    let mut held = Vec::new();
    for _ in 0..4 {
        held.push(large.request().await);
    }
    let mut greedy: Vec<_> = (0..8).map(|_| Box::pin(large.request())).collect();
    for wait in &mut greedy {
        assert!(poll!(wait).is_pending());
    }
    let (mut first, mut second) = (Box::pin(small.request()), Box::pin(small.request()));
    assert!(poll!(&mut first).is_pending() && poll!(&mut second).is_pending());
    drop(held.pop());
    let Poll::Ready(_one) = poll!(&mut first) else { panic!("the small one waits for the large") };
    // The small share holds one and the large one two: the small share is served first again,
    // although its wait is younger.
    drop(held.pop());
    assert!(poll!(&mut greedy[0]).is_pending());
    let Poll::Ready(_two) = poll!(&mut second) else { panic!("one is less than two") };
    drop(held.pop());
    assert!(poll!(&mut greedy[0]).is_ready(), "no other request waits");
}

#[tokio::test]
async fn within_a_share_it_is_first_come_first_served() {
    let budget = Budget::new(BudgetOptions { requests: 1, bytes: 1 });
    let held = budget.request().await;
    let clone = budget.clone();
    let (mut first, mut second) = (Box::pin(budget.request()), Box::pin(clone.request()));
    assert!(poll!(&mut first).is_pending() && poll!(&mut second).is_pending());
    drop(held);
    assert!(poll!(&mut second).is_pending());
    assert!(poll!(&mut first).is_ready());
    assert!(poll!(&mut second).is_ready());
}

#[tokio::test]
async fn a_large_wish_is_not_passed_by_small_ones() {
    let budget = Budget::new(BudgetOptions { requests: 1, bytes: 4 * 4096 });
    let held = budget.bytes(3 * 4096).await;
    let whole = budget.share();
    let mut large = Box::pin(whole.bytes(u64::MAX));
    assert!(poll!(&mut large).is_pending());
    let later = budget.share();
    assert!(later.try_bytes(1).is_none(), "there is room, but another request waits");
    let mut small = Box::pin(later.bytes(1));
    assert!(poll!(&mut small).is_pending());
    drop(held);
    assert!(poll!(&mut small).is_pending());
    let Poll::Ready(all) = poll!(&mut large) else { panic!("all of it is free") };
    drop(all);
    assert!(poll!(&mut small).is_ready());
    assert_eq!(budget.held_bytes(), 0);
}

/// A wait that is dropped leaves its place, and any unit granted to it, to the next.
#[tokio::test]
async fn waits_can_be_given_up() {
    let budget = Budget::new(BudgetOptions { requests: 2, bytes: 1 });
    let held = budget.request_pair().await.unwrap();
    let other = budget.share();
    let mut given_up = Box::pin(budget.request_pair());
    let mut granted = Box::pin(budget.request());
    let mut last = Box::pin(other.request_pair());
    assert!(poll!(&mut given_up).is_pending());
    assert!(poll!(&mut granted).is_pending());
    assert!(poll!(&mut last).is_pending());
    drop(given_up);
    drop(held);
    assert!(poll!(&mut last).is_pending(), "one of two is the other's, who waits for longer");
    drop(granted);
    assert!(poll!(&mut last).is_ready());
    drop(last);
    assert!(budget.request_pair().await.is_some(), "nothing was lost");
}

/// Units that one blob passes to another count for the other from then on.
#[tokio::test]
async fn joined_permits_count_for_the_share_that_has_them() {
    let budget = Budget::new(BudgetOptions { requests: 1, bytes: 4 * 4096 });
    let (one, other) = (budget.share(), budget.share());
    let mut mine = one.bytes(4096).await;
    mine.merge(other.bytes(2 * 4096).await);
    let rest = budget.bytes(4096).await;
    let (mut of_one, mut of_other) = (Box::pin(one.bytes(4096)), Box::pin(other.bytes(4096)));
    assert!(poll!(&mut of_one).is_pending() && poll!(&mut of_other).is_pending());
    drop(rest);
    assert!(poll!(&mut of_one).is_pending());
    assert!(poll!(&mut of_other).is_ready(), "it holds nothing any more");
    drop(mine);
    assert!(poll!(&mut of_one).is_ready());
    assert_eq!(budget.held_bytes(), 0);
}

/// Many tasks on several threads, with pairs and cancelled waits: the limit holds, every task is
/// served, and all units are released.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn under_stress_the_limit_holds_and_nothing_is_lost() {
    let budget = Budget::new(BudgetOptions { requests: 5, bytes: 1 });
    let in_flight = Arc::new(AtomicU64::new(0));
    let mut tasks = tokio::task::JoinSet::new();
    for blob in 0..16_u64 {
        let share = budget.share();
        for request in 0..50_u64 {
            let (share, in_flight) = (share.clone(), Arc::clone(&in_flight));
            tasks.spawn(async move {
                if (blob + request) % 7 == 0 {
                    let _ = poll!(Box::pin(share.request()));
                }
                let count = if request % 3 == 0 { 2 } else { 1 };
                let permits = match count {
                    2 => share.request_pair().await.map(|(one, other)| vec![one, other]),
                    _ => Some(vec![share.request().await]),
                };
                let now = in_flight.fetch_add(count, Ordering::SeqCst) + count;
                assert!(now <= 5, "{now} at once");
                tokio::task::yield_now().await;
                in_flight.fetch_sub(count, Ordering::SeqCst);
                drop(permits);
            });
        }
    }
    while let Some(ended) = tasks.join_next().await {
        ended.unwrap();
    }
    let all: Vec<_> = (0..5).map(|_| budget.share().request().now_or_never().unwrap()).collect();
    assert_eq!(all.len(), 5);
}
