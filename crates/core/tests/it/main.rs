//! The pure modules together, through the public interface only: a download in simulated time, from
//! a server that disconnects, with shards in flight in parallel that finish in any order.
//!
//! | promise | test |
//! |---|---|
//! | plan, ranges, retry, extents and checksums together make a whole, verified blob of an interrupted download | `a_broken_download_is_whole_and_verified` |
//! | a server that sends one byte per attempt is given up, and its bytes are kept | `a_server_of_tiny_responses_is_given_up_and_its_bytes_are_kept` |
//! | chunks are cut where independent implementations cut them | `chunking::vectors` |
//! | chunks are cut where the definition says, for every split of the input | `chunking::properties` |

#![expect(clippy::unwrap_used, reason = "a test that cannot go on should say where")]

mod chunking;

use std::ops::Range;
use std::time::Duration;

use proptest::prelude::*;
use tidegate_core::{
    ByteRange, ContentRange, Crc, CrcAlgorithm, CrcParts, Extents, GiveUpReason, PlanOptions,
    Retry, RetryClass, RetryDecision, RetryPolicy, ShardPlan,
};

const ALGORITHM: CrcAlgorithm = CrcAlgorithm::Crc64Nvme;

/// Bytes that depend on their position.
fn blob(len: u64) -> Vec<u8> {
    (0..len).map(|at| u8::try_from(at.wrapping_mul(2_654_435_761) >> 7 & 0xff).unwrap()).collect()
}

/// The response to a `Range` header: a `Content-Range`, and at most `bytes_max` of the promised
/// bytes.
fn answer<'a>(blob: &'a [u8], header: &str, bytes_max: usize) -> (String, &'a [u8]) {
    let range: ByteRange = header.strip_prefix("bytes=").unwrap().parse().unwrap();
    let total = blob.len() as u64;
    let range = range.resolve(total).unwrap();
    let body = &blob[usize::try_from(range.start).unwrap()..usize::try_from(range.end).unwrap()];
    let content_range = ContentRange::Bytes { range, total: Some(total) }.to_string();
    (content_range, &body[..body.len().min(bytes_max)])
}

/// The state of one shard: its range, its CRC so far, its retries.
struct Shard {
    start: u64,
    rest: ByteRange,
    crc: Crc,
    retry: Retry,
}

impl Shard {
    fn new(range: Range<u64>, policy: &RetryPolicy) -> Self {
        Self {
            start: range.start,
            rest: ByteRange::from_to(range.start, range.end).unwrap(),
            crc: Crc::empty(ALGORITHM),
            retry: Retry::new(policy, Duration::ZERO),
        }
    }

    /// Makes one request; writes the response's bytes at their position.
    fn request(&mut self, blob: &[u8], bytes_max: usize, target: &mut [u8]) {
        let (content_range, body) = answer(blob, &self.rest.header().unwrap(), bytes_max);
        let Ok(ContentRange::Bytes { range, .. }) = ContentRange::parse(&content_range) else {
            panic!("{content_range} is not of bytes")
        };
        assert_eq!(range.start, self.start + self.crc.len(), "the answer continues the shard");
        let at = usize::try_from(range.start).unwrap();
        target[at..at + body.len()].copy_from_slice(body);
        self.crc.update(body);
        self.retry.on_bytes(body.len() as u64);
        self.rest = self.rest.after(body.len() as u64).unwrap();
    }
}

proptest! {
    #[test]
    fn a_broken_download_is_whole_and_verified(
        len in 1..3000_u64,
        window in 1..6_u32,
        done in proptest::collection::vec((0..3000_u64, 1..200_u64), 0..4),
        cuts in proptest::collection::vec(1..400_usize, 1..8),
        picks in proptest::collection::vec(any::<proptest::sample::Index>(), 1..32),
    ) {
        let blob = blob(len);
        let policy = RetryPolicy { progress_bytes_min: 1, seed: Some(len), ..RetryPolicy::default() };
        let plan = ShardPlan::new(&PlanOptions {
            window, shard_bytes_min: 64, shard_bytes_max: 256, bytes_budget: None,
        });
        // The extents of an earlier run, as a journal would restore them.
        let mut extents = Extents::new();
        let mut parts = CrcParts::new(ALGORITHM);
        let mut target = vec![0; blob.len()];
        for (start, n) in done {
            let gaps: Vec<_> = extents.gaps(start.min(len)..(start + n).min(len)).collect();
            for gap in gaps {
                let at = usize::try_from(gap.start).unwrap()..usize::try_from(gap.end).unwrap();
                target[at.clone()].copy_from_slice(&blob[at.clone()]);
                parts.insert(gap.start, Crc::of(ALGORITHM, &blob[at])).unwrap();
                extents.insert(gap);
            }
        }

        let mut waiting = plan.shards(len, &extents);
        let mut flying: Vec<Shard> = Vec::new();
        let mut cuts = cuts.iter().cycle();
        let mut picks = picks.iter().cycle();
        loop {
            while flying.len() < plan.window() as usize
                && let Some(range) = waiting.next()
            {
                flying.push(Shard::new(range, &policy));
            }
            if flying.is_empty() {
                break;
            }
            let picked = picks.next().unwrap().index(flying.len());
            let shard = &mut flying[picked];
            shard.request(&blob, *cuts.next().unwrap(), &mut target);
            if shard.rest.is_empty() {
                let shard = flying.swap_remove(picked);
                let range = shard.start..shard.start + shard.crc.len();
                prop_assert_eq!(extents.insert(range), shard.crc.len());
                parts.insert(shard.start, shard.crc).unwrap();
            } else {
                let decision = shard.retry.on_interruption(RetryClass::Now, Duration::ZERO);
                prop_assert_eq!(decision, RetryDecision::After(Duration::ZERO));
            }
        }

        prop_assert_eq!(&target, &blob);
        prop_assert!(extents.is_complete(len));
        prop_assert_eq!(parts.whole(len), Some(Crc::of(ALGORITHM, &blob)));
    }
}

#[test]
fn a_server_of_tiny_responses_is_given_up_and_its_bytes_are_kept() {
    let blob = blob(1000);
    let policy = RetryPolicy { seed: Some(1), ..RetryPolicy::default() };
    let mut shard = Shard::new(0..1000, &policy);
    let mut target = vec![0; 1000];
    let mut now = Duration::ZERO;
    let reason = loop {
        shard.request(&blob, 1, &mut target);
        match shard.retry.on_interruption(RetryClass::Now, now) {
            RetryDecision::After(delay) => now += delay,
            RetryDecision::GiveUp(reason) => break reason,
        }
    };
    assert_eq!(reason, GiveUpReason::AttemptsExhausted { attempts: policy.attempts_max });
    assert_eq!(shard.rest, ByteRange::Bounded(8..1000));
    assert_eq!(shard.crc, Crc::of(ALGORITHM, &blob[..8]));
}
