//! [`Gate`]: a semaphore that is fair between shares.
//!
//! A share is the part of one blob in the units that the gate grants. A free unit goes to the
//! waiting share that holds least, and among equals to the one that has waited longest. Within a
//! share, waiters are served in order of arrival. A share with many waiters therefore delays only
//! itself. For example, one blob has 256 requests to send and another has one. Both are granted
//! free units in turn, until both hold the same number or one of them has all that it wants
//! (max-min fairness).
//!
//! A `Wish` is one waiting acquire.
//!
//! # No waiter starves
//!
//! The first wish of a share that holds nothing can be overtaken only by shares that began to wait
//! before it: a new share holds no less than nothing, and is younger. A share that holds something
//! can be overtaken while other shares hold less. But its holders continue and release their units
//! (see the argument in `budget`), and then it holds nothing. If the next wish in order does not
//! fit yet, no later wish is granted: small wishes cannot overtake a large one for ever.
//!
//! # Cost
//!
//! There is one short lock, and no foreign code runs under it. Acquiring free units while no share
//! waits costs that lock and an entry in a small table: some 70 ns including the release. If shares
//! wait, the cost grows with the logarithm of their number.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use crate::sync::{Mutex, lock};

/// Identifies a share: one for each blob.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct ShareId(pub(super) u64);

/// Grants a fixed number of units, fairly.
#[derive(Debug)]
pub(super) struct Gate(Mutex<State>);

#[derive(Debug)]
struct State {
    free: u32,
    /// The shares that hold or want units; others have no entry.
    shares: BTreeMap<ShareId, Share>,
    /// The shares that want units, in the order of service: the units held, the oldest wish, the
    /// share.
    order: BTreeSet<(u64, u64, ShareId)>,
    wishes: BTreeMap<u64, Wish>,
    /// Numbers wishes, so that older ones are smaller.
    next_wish: u64,
}

#[derive(Debug, Default)]
struct Share {
    held: u64,
    /// Ascending: the oldest first.
    queue: VecDeque<u64>,
}

#[derive(Debug)]
struct Wish {
    units: u32,
    /// `None` once the wish is granted.
    waker: Option<Waker>,
}

/// The work to do after the lock is released: waking or dropping a waker can run arbitrary code.
#[derive(Debug, Default)]
struct Afterwards {
    wake: Vec<Waker>,
    drop: Option<Waker>,
}

impl Afterwards {
    fn run(self) {
        self.wake.into_iter().for_each(Waker::wake);
        drop(self.drop);
    }
}

impl Gate {
    pub(super) fn new(units: u32) -> Self {
        Self(Mutex::new(State {
            free: units,
            shares: BTreeMap::new(),
            order: BTreeSet::new(),
            wishes: BTreeMap::new(),
            next_wish: 0,
        }))
    }

    /// Acquires `units` at once, if they are free and no share waits.
    pub(super) fn try_acquire(self: &Arc<Self>, share: ShareId, units: u32) -> Option<Permit> {
        let taken = lock(&self.0).try_take(share, units);
        taken.then(|| Permit { gate: Arc::clone(self), share, units })
    }

    /// Waits for `units`, at most the gate's total. Cancel-safe: if a granted wait is dropped, its
    /// units go to the next.
    pub(super) fn acquire(self: &Arc<Self>, share: ShareId, units: u32) -> Acquire {
        Acquire { gate: Arc::clone(self), share, units, wish: None }
    }

    fn give_back(&self, share: ShareId, units: u32) {
        let afterwards = lock(&self.0).take_back(share, units);
        afterwards.run();
    }

    fn withdraw(&self, share: ShareId, wish: u64) {
        let afterwards = lock(&self.0).withdraw(share, wish);
        afterwards.run();
    }
}

impl State {
    fn try_take(&mut self, share: ShareId, units: u32) -> bool {
        let takes = self.order.is_empty() && units <= self.free;
        if takes {
            self.free -= units;
            self.shares.entry(share).or_default().held += u64::from(units);
        }
        takes
    }

    fn take_back(&mut self, share: ShareId, units: u32) -> Afterwards {
        self.free += units;
        if self.order.is_empty() {
            // No share waits: there is no order to keep.
            if let Entry::Occupied(mut known) = self.shares.entry(share) {
                let held = &mut known.get_mut().held;
                *held = held.saturating_sub(u64::from(units));
                if *held == 0 {
                    known.remove();
                }
            }
            return Afterwards::default();
        }
        self.change_held(share, |held| held.saturating_sub(u64::from(units)));
        self.grant()
    }

    /// The first poll of a wait: `None` if it is granted, else its wish.
    fn begin(&mut self, share: ShareId, units: u32, waker: &Waker) -> (Option<u64>, Afterwards) {
        if self.try_take(share, units) {
            return (None, Afterwards::default());
        }
        let wish = self.next_wish;
        self.next_wish += 1;
        self.wishes.insert(wish, Wish { units, waker: Some(waker.clone()) });
        self.take_out_of_order(share);
        self.shares.entry(share).or_default().queue.push_back(wish);
        self.put_in_order(share);
        // This wish may come before one that waits for more units than are free.
        let afterwards = self.grant();
        (self.take_granted(wish), afterwards)
    }

    /// A later poll.
    fn look(&mut self, wish: u64, waker: &Waker) -> (Option<u64>, Afterwards) {
        let old = (self.wishes.get_mut(&wish))
            .and_then(|wish| wish.waker.as_mut())
            .filter(|old| !old.will_wake(waker))
            .map(|old| std::mem::replace(old, waker.clone()));
        (self.take_granted(wish), Afterwards { wake: Vec::new(), drop: old })
    }

    /// Returns the wish if it still waits. Forgets it if it was granted.
    fn take_granted(&mut self, wish: u64) -> Option<u64> {
        if self.wishes.get(&wish).is_some_and(|wish| wish.waker.is_some()) {
            return Some(wish);
        }
        self.wishes.remove(&wish);
        None
    }

    /// Grants free units to the wishes in order, until one does not fit.
    fn grant(&mut self) -> Afterwards {
        let mut afterwards = Afterwards::default();
        while let Some((_, oldest, share)) = self.order.first().copied() {
            let Some(wish) = self.wishes.get_mut(&oldest).filter(|wish| wish.units <= self.free)
            else {
                break;
            };
            let units = wish.units;
            afterwards.wake.extend(wish.waker.take());
            self.free -= units;
            self.take_out_of_order(share);
            if let Some(share) = self.shares.get_mut(&share) {
                share.queue.pop_front();
                share.held += u64::from(units);
            }
            self.put_in_order(share);
        }
        afterwards
    }

    /// Removes a wish. If it was already granted, its units are free again.
    fn withdraw(&mut self, share: ShareId, wish: u64) -> Afterwards {
        let Some(Wish { units, waker }) = self.wishes.remove(&wish) else {
            return Afterwards::default();
        };
        if waker.is_none() {
            return self.take_back(share, units);
        }
        self.take_out_of_order(share);
        if let Some(share) = self.shares.get_mut(&share)
            && let Ok(index) = share.queue.binary_search(&wish)
        {
            share.queue.remove(index);
        }
        self.put_in_order(share);
        Afterwards { drop: waker, ..self.grant() }
    }

    fn change_held(&mut self, share: ShareId, change: impl FnOnce(u64) -> u64) {
        self.take_out_of_order(share);
        let known = self.shares.entry(share).or_default();
        known.held = change(known.held);
        self.put_in_order(share);
    }

    /// Moves held units from one share to another.
    fn pass_on(&mut self, from: ShareId, to: ShareId, units: u32) -> Afterwards {
        self.change_held(from, |held| held.saturating_sub(u64::from(units)));
        self.change_held(to, |held| held.saturating_add(u64::from(units)));
        self.grant()
    }

    fn take_out_of_order(&mut self, share: ShareId) {
        if let Some(Share { held, queue }) = self.shares.get(&share)
            && let Some(oldest) = queue.front()
        {
            self.order.remove(&(*held, *oldest, share));
        }
    }

    /// Enters a share that wants units into the order. Removes a share that neither wants nor holds
    /// any.
    fn put_in_order(&mut self, share: ShareId) {
        let Some(Share { held, queue }) = self.shares.get(&share) else { return };
        match queue.front() {
            Some(oldest) => {
                self.order.insert((*held, *oldest, share));
            }
            None if *held == 0 => {
                self.shares.remove(&share);
            }
            None => {}
        }
    }
}

/// A wait for units of a [`Gate`].
#[derive(Debug)]
#[must_use = "futures do nothing unless polled"]
pub(super) struct Acquire {
    gate: Arc<Gate>,
    share: ShareId,
    units: u32,
    wish: Option<u64>,
}

impl Future for Acquire {
    type Output = Permit;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Permit> {
        let (share, units) = (self.share, self.units);
        let (wish, afterwards) = match self.wish {
            None => lock(&self.gate.0).begin(share, units, cx.waker()),
            Some(wish) => lock(&self.gate.0).look(wish, cx.waker()),
        };
        self.wish = wish;
        afterwards.run();
        match wish {
            Some(_) => Poll::Pending,
            None => Poll::Ready(Permit { gate: Arc::clone(&self.gate), share, units }),
        }
    }
}

impl Drop for Acquire {
    fn drop(&mut self) {
        if let Some(wish) = self.wish.take() {
            self.gate.withdraw(self.share, wish);
        }
    }
}

/// Units of a [`Gate`]; released when dropped.
#[derive(Debug)]
pub(super) struct Permit {
    gate: Arc<Gate>,
    share: ShareId,
    units: u32,
}

impl Permit {
    /// Moves `units` of this permit to a new one, or all of them if it has fewer.
    pub(super) fn split(&mut self, units: u32) -> Self {
        let units = units.min(self.units);
        self.units -= units;
        Self { gate: Arc::clone(&self.gate), share: self.share, units }
    }

    /// Merges `other`, of the same gate, into this permit. Its units then count for this permit's
    /// share.
    pub(super) fn merge(&mut self, mut other: Self) {
        let units = std::mem::take(&mut other.units);
        self.units += units;
        if units > 0 && other.share != self.share {
            let afterwards = lock(&self.gate.0).pass_on(other.share, self.share, units);
            afterwards.run();
        }
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        if self.units > 0 {
            self.gate.give_back(self.share, self.units);
        }
    }
}
