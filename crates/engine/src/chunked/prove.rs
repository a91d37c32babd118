//! [`prove_all`]: chunks verified by threads of their own, beside whatever else in this process waits to
//! be verified.
//!
//! A core hashes sixteen chunks side by side twice as fast as one after the other (see
//! [`tidegate_core::sha256`]). So what arrives is not verified where it arrives, which also would
//! hold up one of the runtime's threads, but put into one queue for all downloads. A thread takes
//! what waits there, up to sixteen chunks, and takes more as some of them end: the more there is to
//! do, the more of it is done at once. A second thread begins only when one has all that it can
//! take.
//!
//! # Invariants
//!
//! - Each chunk in the queue is one whose caller waits, and pays for its bytes; one whose caller has
//!   gone is thrown away unverified.
//! - While chunks wait in the queue, a thread is running that will look there again. Where the
//!   system gives no thread, the caller verifies by itself.
//! - A thread that found nothing to do for [`IDLE`] ends.

use std::collections::VecDeque;
use std::num::NonZero;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use bytes::Bytes;
use tidegate_core::checksum::Crc;
use tidegate_core::digest::{Digest, DigestFunction};
use tidegate_core::sha256::{self, LANES, Sha256};
use tokio::sync::oneshot;

use super::chunk::{CRC, Chunk};
use crate::error::Result;

/// Less is verified where it is: handing it over would take longer.
const HANDED_OVER_BYTES_MIN: usize = 32 << 10;

/// Each chunk goes on by so much at a time, so that its CRC is of bytes that are still in the core's
/// own cache.
const STEP_BYTES: usize = 32 << 10;

/// How long a thread waits for more. Starting one takes a few hundredths of a millisecond only.
const IDLE: Duration = Duration::from_millis(500);

/// For each pair the chunk, if the bytes are those that the digest names. Cancel-safe.
///
/// # Errors
///
/// For each, `Integrity` where they are not, `Unsupported` where the function cannot be computed.
pub(crate) async fn prove_all(claims: Vec<(Digest, Bytes)>) -> Vec<Result<Chunk>> {
    let bytes: usize = claims.iter().map(|(_, bytes)| bytes.len()).sum();
    let is_worth_it = bytes >= HANDED_OVER_BYTES_MIN;
    let answers =
        if is_worth_it { QUEUE.put_all(&claims) } else { claims.iter().map(|_| None).collect() };
    let mut chunks = Vec::with_capacity(claims.len());
    for ((digest, bytes), answer) in claims.into_iter().zip(answers) {
        let answer = match answer {
            Some(answer) => answer.await.ok(),
            None => None,
        };
        chunks.push(match answer {
            Some((hash, crc)) if hash == digest.hash => Ok(Chunk::proven(bytes, crc)),
            // A wrong one is hashed once more, for the words of the error.
            Some(_) | None => Chunk::verified(&digest, bytes),
        });
    }
    chunks
}

static QUEUE: Queue = Queue {
    state: Mutex::new(State { doubts: VecDeque::new(), threads: 0, idle: 0 }),
    news: Condvar::new(),
};

/// Bytes to be hashed, and who waits for that.
#[derive(Debug)]
struct Doubt {
    bytes: Bytes,
    reply: oneshot::Sender<([u8; 32], Crc)>,
}

/// What they come to.
type Answer = oneshot::Receiver<([u8; 32], Crc)>;

/// What waits for all threads.
#[derive(Debug)]
struct Queue {
    state: Mutex<State>,
    news: Condvar,
}

#[derive(Debug)]
struct State {
    doubts: VecDeque<Doubt>,
    threads: usize,
    /// Those of them that wait.
    idle: usize,
}

impl Queue {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts those in line that threads hash; an answer for each that somebody will see to.
    fn put_all(&'static self, claims: &[(Digest, Bytes)]) -> Vec<Option<Answer>> {
        let mut state = self.lock();
        let mut put = |(digest, bytes): &(Digest, Bytes)| {
            let is_fit =
                digest.function == DigestFunction::Sha256 && bytes.len() as u64 == digest.len;
            if !is_fit || !self.has_thread(&mut state) {
                return None;
            }
            let (reply, answer) = oneshot::channel();
            state.doubts.push_back(Doubt { bytes: bytes.clone(), reply });
            Some(answer)
        };
        let answers: Vec<_> = claims.iter().map(&mut put).collect();
        if state.idle > 0 {
            self.news.notify_one();
        }
        answers
    }

    /// Whether a thread will look at what is put in line now; starts one where that is due.
    fn has_thread(&'static self, state: &mut State) -> bool {
        if state.idle == 0 && (state.threads == 0 || state.doubts.len() >= LANES) {
            let cores = thread::available_parallelism().map_or(1, NonZero::get);
            if state.threads < cores {
                let name = "tidegate-prove".to_owned();
                let started = thread::Builder::new().name(name).spawn(|| self.work());
                state.threads += usize::from(started.is_ok());
            }
        }
        state.threads > 0
    }

    fn work(&self) {
        let mut lanes: Vec<Lane> = Vec::with_capacity(LANES);
        while self.take(&mut lanes) {
            advance(&mut lanes);
            for lane in lanes.extract_if(.., |lane| lane.at == lane.doubt.bytes.len()) {
                // Nobody minds where the caller has gone meanwhile.
                let _ = lane.doubt.reply.send((lane.hasher.finish(), lane.crc));
            }
        }
    }

    /// Fills the lanes from the queue; waits where both are empty. False where nothing came.
    fn take(&self, lanes: &mut Vec<Lane>) -> bool {
        let mut state = self.lock();
        loop {
            let free = LANES - lanes.len();
            let next = std::iter::from_fn(|| state.doubts.pop_front());
            lanes.extend(next.filter(|doubt| !doubt.reply.is_closed()).take(free).map(Lane::new));
            if !lanes.is_empty() {
                return true;
            }
            state.idle += 1;
            let (woken, waited) =
                self.news.wait_timeout(state, IDLE).unwrap_or_else(PoisonError::into_inner);
            state = woken;
            state.idle -= 1;
            if waited.timed_out() && state.doubts.is_empty() {
                state.threads -= 1;
                return false;
            }
        }
    }
}

/// A chunk beside others.
#[derive(Debug)]
struct Lane {
    doubt: Doubt,
    at: usize,
    hasher: Sha256,
    crc: Crc,
}

impl Lane {
    fn new(doubt: Doubt) -> Self {
        Self { doubt, at: 0, hasher: Sha256::new(), crc: Crc::empty(CRC) }
    }
}

/// Hashes on, all by as much as the lane that has least left.
fn advance(lanes: &mut [Lane]) {
    let left = lanes.iter().map(|lane| lane.doubt.bytes.len() - lane.at).min().unwrap_or(0);
    let step = left.min(STEP_BYTES);
    let mut messages = Vec::with_capacity(lanes.len());
    for lane in lanes {
        let bytes = &lane.doubt.bytes[lane.at..lane.at + step];
        lane.at += step;
        lane.crc.update(bytes);
        messages.push((&mut lane.hasher, bytes));
    }
    sha256::update_all(&mut messages);
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;
    use crate::error::ErrorKind;

    async fn prove(digest: Digest, bytes: Bytes) -> Result<Chunk> {
        prove_all(vec![(digest, bytes)]).await.remove(0)
    }

    fn bytes(len: usize, seed: usize) -> Bytes {
        (0..len).map(|n| (n.wrapping_mul(seed | 1) >> 5).to_le_bytes()[0]).collect()
    }

    /// Many at once, of lengths to both sides of every bound, right and wrong and given up.
    #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
    async fn each_is_judged_by_its_own_bytes() {
        let around = |len: usize| [len - 1, len, len + 1];
        let lens = [HANDED_OVER_BYTES_MIN, 2 * STEP_BYTES, 200_000].into_iter().flat_map(around);
        let lens: Vec<usize> = lens.chain([0, 1, 64]).collect();
        let mut tasks = HashMap::new();
        for round in 0..100 {
            let right = bytes(lens[round % lens.len()], round);
            let digest = Digest::of(DigestFunction::Sha256, &right);
            let mut wrong = right.to_vec();
            let is_wrong = round % 3 == 0 && !wrong.is_empty();
            if is_wrong {
                let place = wrong.len() * round / 100;
                wrong[place] ^= 1;
            }
            let given = Bytes::from(wrong);
            let task = tokio::spawn(prove(digest, given.clone()));
            if round % 7 == 1 {
                task.abort();
            } else {
                tasks.insert(round, (task, given, is_wrong));
            }
        }
        for (round, (task, given, is_wrong)) in tasks {
            match task.await.unwrap() {
                Ok(chunk) => {
                    assert!(!is_wrong, "{round}");
                    assert_eq!(chunk.crc(), Crc::of(CRC, &given));
                    assert_eq!(chunk.frames().concat(), given);
                }
                Err(error) => {
                    assert!(is_wrong, "{round}: {error}");
                    assert_eq!(error.kind(), ErrorKind::Integrity);
                }
            }
        }
    }

    #[tokio::test]
    async fn a_batch_is_judged_one_by_one() {
        for len in [100, 10_000] {
            let mut claims: Vec<_> = (0..50)
                .map(|n| bytes(len + n, n))
                .map(|bytes| (Digest::of(DigestFunction::Sha256, &bytes), bytes))
                .collect();
            claims[7].1 = claims[8].1.clone();
            claims[20].1 = bytes(len + 20, 77);
            claims[30].0 = Digest::of(DigestFunction::Blake3, &claims[30].1);
            let wrong: Vec<usize> = prove_all(claims.clone())
                .await
                .iter()
                .enumerate()
                .filter_map(|(n, chunk)| chunk.is_err().then_some(n))
                .collect();
            assert_eq!(wrong, [7, 20]);
        }
    }

    #[tokio::test]
    async fn of_another_length_or_function() {
        let bytes = bytes(100_000, 3);
        let digest = Digest::of(DigestFunction::Sha256, &bytes);
        let short = prove(digest, bytes.slice(1..)).await.unwrap_err();
        assert!(short.chain().contains("expected 100000 bytes, got 99999"), "{}", short.chain());
        let digest = Digest::of(DigestFunction::Blake3, &bytes);
        assert!(prove(digest, bytes.clone()).await.is_ok());
        assert!(prove(digest, bytes.slice(1..)).await.is_err());
    }

    /// Threads that have ended are started again.
    #[test]
    fn after_a_rest() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let bytes = bytes(100_000, 5);
        let digest = Digest::of(DigestFunction::Sha256, &bytes);
        runtime.block_on(prove(digest, bytes.clone())).unwrap();
        let mut state = QUEUE.lock();
        // Whoever else proves meanwhile lets go of it at some time.
        while state.threads > 0 {
            drop(state);
            thread::yield_now();
            state = QUEUE.lock();
        }
        drop(state);
        runtime.block_on(prove(digest, bytes)).unwrap();
    }
}
