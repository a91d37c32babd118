//! The faults of one call, sorted by the time of their effect.

use super::fault::{BatchLie, Cut, FindMissingLie, ReapiFault, SplitLie};
use super::hostile::Lie;
use super::status::GrpcStatus;
use crate::gate::Gate;

/// The fate of a call at one of two moments.
#[derive(Debug)]
pub(crate) enum Verdict {
    Lost,
    Fail(GrpcStatus),
    Reset(u32),
    Close,
    Silence,
}

/// The faults of a call.
#[derive(Debug, Default)]
pub(crate) struct Plan {
    pub(crate) delay_ms: u64,
    pub(crate) holds: Vec<Gate>,
    pub(crate) evict_before: Vec<String>,
    pub(crate) haunt_before: Vec<String>,
    /// Replaces the work and the response.
    pub(crate) before: Option<Verdict>,
    pub(crate) evict_after: Vec<String>,
    /// Replaces the response.
    pub(crate) after: Option<Verdict>,
    pub(crate) go_away: bool,
    pub(crate) cut: Option<(u64, Cut)>,
    pub(crate) hold_after: Option<(u64, Gate)>,
    pub(crate) flipped: Vec<u64>,
    pub(crate) longer: u64,
    pub(crate) split: Option<SplitLie>,
    pub(crate) find_missing: Option<FindMissingLie>,
    pub(crate) batch: Option<BatchLie>,
    pub(crate) forget: bool,
    pub(crate) committed: Option<i64>,
    pub(crate) answer_first: Option<i64>,
    pub(crate) complete: bool,
    pub(crate) lies: Vec<Lie>,
}

impl Plan {
    pub(crate) fn of(faults: Vec<ReapiFault>) -> Self {
        let mut plan = Self::default();
        for fault in faults {
            plan.add(fault);
        }
        plan
    }

    fn tell(&mut self, lie: Lie) {
        match &lie {
            Lie::Forget => self.forget = true,
            Lie::Refuse(code) => {
                let status = GrpcStatus::new(*code, "refused");
                first(&mut self.before, Verdict::Fail(status));
            }
            _ => {}
        }
        self.lies.push(lie);
    }

    fn add(&mut self, fault: ReapiFault) {
        match fault {
            ReapiFault::Delay(ms) => self.delay_ms = self.delay_ms.saturating_add(ms),
            ReapiFault::Hold(gate) => self.holds.push(gate),
            ReapiFault::EvictBefore(hashes) => self.evict_before.extend(hashes),
            ReapiFault::EvictAfter(hashes) => self.evict_after.extend(hashes),
            ReapiFault::HauntBefore(hashes) => self.haunt_before.extend(hashes),
            ReapiFault::Lost => first(&mut self.before, Verdict::Lost),
            ReapiFault::Fail(status) => first(&mut self.before, Verdict::Fail(status)),
            ReapiFault::Reset(code) => first(&mut self.before, Verdict::Reset(code)),
            ReapiFault::Close => first(&mut self.before, Verdict::Close),
            ReapiFault::Silence => first(&mut self.before, Verdict::Silence),
            ReapiFault::AnswerLost => first(&mut self.after, Verdict::Lost),
            ReapiFault::FailAfter(status) => first(&mut self.after, Verdict::Fail(status)),
            ReapiFault::GoAway => self.go_away = true,
            ReapiFault::CutAfter { bytes, cut } => first(&mut self.cut, (bytes, cut)),
            ReapiFault::HoldAfter { bytes, gate } => first(&mut self.hold_after, (bytes, gate)),
            ReapiFault::FlipBit(offset) => self.flipped.push(offset),
            ReapiFault::Longer(bytes) => self.longer = self.longer.saturating_add(bytes),
            ReapiFault::Split(lie) => first(&mut self.split, lie),
            ReapiFault::FindMissing(lie) => first(&mut self.find_missing, lie),
            ReapiFault::Batch(lie) => first(&mut self.batch, lie),
            ReapiFault::Forget => self.forget = true,
            ReapiFault::Committed(bytes) => first(&mut self.committed, bytes),
            ReapiFault::AnswerFirst(bytes) => first(&mut self.answer_first, bytes),
            ReapiFault::Complete => self.complete = true,
            ReapiFault::Hostile(lie) => self.tell(lie),
        }
    }
}

fn first<T>(slot: &mut Option<T>, value: T) {
    if slot.is_none() {
        *slot = Some(value);
    }
}
