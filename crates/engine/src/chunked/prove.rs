//! [`Prover`]: the chunks of a download verified on threads of their own, side by side.
//!
//! A core hashes sixteen chunks side by side twice as fast as one after the other (see
//! [`tidegate_core::sha256`]). So what arrives is not verified where it arrives, which also would
//! hold up one of the runtime's threads, but put in line. A thread takes what waits there, up to
//! sixteen chunks, and takes more as some of them end: the more there is to do, the more of it is
//! done at once. A second thread begins only when one has all that it can take.
//!
//! # Invariants
//!
//! - Each chunk in line is one whose caller waits, and pays for its bytes; one whose caller has gone
//!   is thrown away unverified.
//! - While chunks are in line, a thread is running, or is about to, that will look there again; it
//!   ends when it finds none.

use std::collections::VecDeque;
use std::num::NonZero;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

use bytes::Bytes;
use tidegate_core::checksum::Crc;
use tidegate_core::digest::{Digest, DigestFunction};
use tidegate_core::sha256::{self, LANES, Sha256};
use tokio::sync::oneshot;

use super::chunk::{CRC, Chunk, Frames, Gathering};
use crate::error::Result;

/// Less is verified where it is: handing it over would take longer.
const HANDED_OVER_BYTES_MIN: u64 = 32 << 10;

/// Each chunk goes on by so much at a time, so that its CRC is of bytes that are still in the core's
/// own cache.
const STEP_BYTES: usize = 32 << 10;

/// What SHA-256 hashes at a time.
const BLOCK_BYTES: usize = 64;

/// A chunk's bytes, and what they should be.
#[derive(Clone, Debug)]
pub(crate) struct Claim {
    pub(crate) digest: Digest,
    pub(crate) frames: Arc<[Bytes]>,
}

impl Claim {
    /// Of bytes that came at once.
    pub(crate) fn new(digest: Digest, bytes: Bytes) -> Self {
        Self { digest, frames: Arc::new([bytes]) }
    }

    fn bytes(&self) -> u64 {
        self.frames.iter().map(|frame| frame.len() as u64).sum()
    }

    /// Whether threads hash it; of another length, it is wrong already.
    fn is_fit(&self) -> bool {
        self.digest.function == DigestFunction::Sha256 && self.bytes() == self.digest.len
    }
}

/// Verifies the chunks of one download. Clones share the line.
#[derive(Clone, Debug, Default)]
pub(crate) struct Prover {
    line: Arc<Line>,
}

impl Prover {
    /// For each claim the chunk, if the bytes are those that the digest names. Cancel-safe.
    ///
    /// # Errors
    ///
    /// For each, `Integrity` where they are not, `Unsupported` where the function cannot be
    /// computed.
    pub(crate) async fn prove_all(&self, claims: Vec<Claim>) -> Vec<Result<Chunk>> {
        let is_worth_it = claims.iter().map(Claim::bytes).sum::<u64>() >= HANDED_OVER_BYTES_MIN;
        let answers =
            if is_worth_it { self.put_all(&claims) } else { claims.iter().map(|_| None).collect() };
        let mut chunks = Vec::with_capacity(claims.len());
        for (Claim { digest, frames }, answer) in claims.into_iter().zip(answers) {
            let answer = match answer {
                Some(answer) => answer.await.ok(),
                None => None,
            };
            chunks.push(match answer {
                Some((hash, crc)) if hash == digest.hash => Ok(Chunk::proven(frames, crc)),
                // A wrong one is hashed once more, for the words of the error.
                Some(_) | None => Chunk::of_frames(&digest, frames),
            });
        }
        chunks
    }

    /// The same of one.
    async fn prove(&self, claim: Claim) -> Result<Chunk> {
        let (digest, frames) = (claim.digest, Arc::clone(&claim.frames));
        let proven = self.prove_all(vec![claim]).await.pop();
        proven.unwrap_or_else(|| Chunk::of_frames(&digest, frames))
    }

    /// Puts those in line that threads hash; an answer for each of them.
    fn put_all(&self, claims: &[Claim]) -> Vec<Option<Answer>> {
        let mut state = self.line.lock();
        let mut put = |claim: &Claim| {
            claim.is_fit().then(|| {
                let (reply, answer) = oneshot::channel();
                state.doubts.push_back(Doubt { frames: Arc::clone(&claim.frames), reply });
                answer
            })
        };
        let answers = claims.iter().map(&mut put).collect();
        let cores = thread::available_parallelism().map_or(1, NonZero::get);
        let is_due = match state.threads {
            0 => !state.doubts.is_empty(),
            threads => threads < cores && state.doubts.len() > LANES,
        };
        if is_due {
            state.threads += 1;
            drop(state);
            let mut thread = Working { line: Arc::clone(&self.line), is_counted: true };
            // The runtime owns it, and it ends by itself when the line is empty.
            drop(tokio::task::spawn_blocking(move || thread.work()));
        }
        answers
    }
}

/// A chunk whose bytes come one frame after another.
#[derive(Debug)]
pub(crate) enum Arriving {
    /// Verified at the end, beside others.
    SideBySide(Digest, Frames),
    /// Verified as it comes.
    Alone(Gathering),
}

impl Arriving {
    /// Nothing yet of the chunk that `digest` names.
    pub(crate) fn new(digest: Digest) -> Result<Self> {
        if digest.function == DigestFunction::Sha256 && digest.len >= HANDED_OVER_BYTES_MIN {
            Ok(Self::SideBySide(digest, Frames::default()))
        } else {
            Gathering::new(digest).map(Self::Alone)
        }
    }

    /// The bytes that follow those taken before; no more than the digest says.
    pub(crate) fn push(&mut self, frame: Bytes) -> Result<()> {
        match self {
            Self::SideBySide(_, frames) => frames.push(frame),
            Self::Alone(gathering) => gathering.push(frame)?,
        }
        Ok(())
    }

    /// The chunk, if its bytes are those that its digest names.
    pub(crate) async fn finish(self, prover: &Prover) -> Result<Chunk> {
        match self {
            Self::SideBySide(digest, frames) => {
                prover.prove(Claim { digest, frames: frames.finish() }).await
            }
            Self::Alone(gathering) => gathering.finish(),
        }
    }
}

/// Bytes to be hashed, and who waits for that.
#[derive(Debug)]
struct Doubt {
    frames: Arc<[Bytes]>,
    reply: oneshot::Sender<([u8; 32], Crc)>,
}

/// What they come to.
type Answer = oneshot::Receiver<([u8; 32], Crc)>;

/// What waits for threads.
#[derive(Debug, Default)]
struct Line {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    doubts: VecDeque<Doubt>,
    /// Threads that will look at the line again, or are about to begin.
    threads: usize,
}

impl Line {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A thread, from when it was counted among those that will look at the line.
struct Working {
    line: Arc<Line>,
    is_counted: bool,
}

impl Working {
    fn work(&mut self) {
        let mut lanes: Vec<Lane> = Vec::with_capacity(LANES);
        while self.take(&mut lanes) {
            advance(&mut lanes);
            // Nobody pays for the bytes of a caller that has gone.
            lanes.retain(|lane| !lane.doubt.reply.is_closed());
            for lane in lanes.extract_if(.., |lane| lane.is_done()) {
                // Nobody minds where the caller has gone meanwhile.
                let _ = lane.doubt.reply.send((lane.hasher.finish(), lane.crc));
            }
        }
    }

    /// Fills the lanes from the line. False where both are empty: the thread ends.
    fn take(&mut self, lanes: &mut Vec<Lane>) -> bool {
        let mut state = self.line.lock();
        let free = LANES - lanes.len();
        let next = std::iter::from_fn(|| state.doubts.pop_front());
        lanes.extend(next.filter(|doubt| !doubt.reply.is_closed()).take(free).map(Lane::new));
        if lanes.is_empty() {
            // With the lock held: whoever puts something in line after this starts another.
            state.threads -= 1;
            self.is_counted = false;
        }
        !lanes.is_empty()
    }
}

impl Drop for Working {
    /// Where the runtime ended before this began, nobody waits in vain for it.
    fn drop(&mut self) {
        if self.is_counted {
            let mut state = self.line.lock();
            state.threads -= 1;
            state.doubts.clear();
        }
    }
}

/// A chunk beside others.
#[derive(Debug)]
struct Lane {
    doubt: Doubt,
    /// The frame that is being hashed, and how much of it was.
    frame: usize,
    at: usize,
    hasher: Sha256,
    crc: Crc,
}

impl Lane {
    fn new(doubt: Doubt) -> Self {
        Self { doubt, frame: 0, at: 0, hasher: Sha256::new(), crc: Crc::empty(CRC) }
    }

    fn is_done(&self) -> bool {
        self.frame == self.doubt.frames.len()
    }

    /// What is left of the frame.
    fn head(&self) -> &[u8] {
        self.doubt.frames.get(self.frame).map_or(&[], |frame| &frame[self.at..])
    }

    /// Goes over the seams between frames, so that whole blocks follow, if anything does.
    fn cross_seams(&mut self) {
        while !self.is_done() {
            let begun = usize::try_from(self.crc.len() % BLOCK_BYTES as u64).unwrap_or(0);
            let len = match (begun, self.head().len()) {
                (0, left) if left >= BLOCK_BYTES => return,
                (0, left) => left,
                (begun, left) => left.min(BLOCK_BYTES - begun),
            };
            let bytes = &self.doubt.frames[self.frame][self.at..self.at + len];
            self.hasher.update(bytes);
            self.crc.update(bytes);
            self.at += len;
            if self.head().is_empty() {
                (self.frame, self.at) = (self.frame + 1, 0);
            }
        }
    }
}

/// Hashes on, all by as much as the lane that has least left of its frame.
fn advance(lanes: &mut [Lane]) {
    lanes.iter_mut().for_each(Lane::cross_seams);
    let under_way = || lanes.iter().filter(|lane| !lane.is_done());
    let blocks = under_way().map(|lane| lane.head().len() / BLOCK_BYTES).min().unwrap_or(0);
    let step = STEP_BYTES.min(blocks * BLOCK_BYTES);
    let mut messages = Vec::with_capacity(lanes.len());
    for lane in lanes.iter_mut().filter(|lane| !lane.is_done()) {
        let bytes = &lane.doubt.frames[lane.frame][lane.at..lane.at + step];
        lane.at += step;
        lane.crc.update(bytes);
        messages.push((&mut lane.hasher, bytes));
    }
    sha256::update_all(&mut messages);
    lanes.iter_mut().for_each(Lane::cross_seams);
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;
    use crate::error::ErrorKind;

    async fn prove_one(digest: Digest, bytes: Bytes) -> Result<Chunk> {
        Prover::default().prove(Claim::new(digest, bytes)).await
    }

    /// The same bytes in pieces.
    fn frames(mut bytes: Bytes, len: usize) -> Arc<[Bytes]> {
        let mut frames = Vec::new();
        while bytes.len() > len {
            frames.push(bytes.split_to(len));
            // An empty one does no harm.
            frames.push(Bytes::new());
        }
        frames.push(bytes);
        frames.into()
    }

    fn bytes(len: usize, seed: usize) -> Bytes {
        (0..len).map(|n| (n.wrapping_mul(seed | 1) >> 5).to_le_bytes()[0]).collect()
    }

    /// Many at once, of lengths to both sides of every bound, right and wrong and given up.
    #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
    async fn each_is_judged_by_its_own_bytes() {
        let around = |len: u64| [len - 1, len, len + 1].map(|len| usize::try_from(len).unwrap());
        let lens =
            [HANDED_OVER_BYTES_MIN, 2 * STEP_BYTES as u64, 200_000].into_iter().flat_map(around);
        let lens: Vec<usize> = lens.chain([0, 1, 64]).collect();
        let (prover, mut tasks) = (Prover::default(), HashMap::new());
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
            let task = {
                let frames = frames(given.clone(), 1 + round * 997 % 70_000);
                let prover = prover.clone();
                tokio::spawn(async move { prover.prove(Claim { digest, frames }).await })
            };
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
                .map(|bytes| Claim::new(Digest::of(DigestFunction::Sha256, &bytes), bytes))
                .collect();
            claims[7].frames = Arc::clone(&claims[8].frames);
            claims[20].frames = Arc::new([bytes(len + 20, 77)]);
            claims[30].digest = Digest::of(DigestFunction::Blake3, &claims[30].frames[0]);
            let wrong: Vec<usize> = Prover::default()
                .prove_all(claims.clone())
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
        let short = prove_one(digest, bytes.slice(1..)).await.unwrap_err();
        assert!(short.chain().contains("expected 100000 bytes, got 99999"), "{}", short.chain());
        let digest = Digest::of(DigestFunction::Blake3, &bytes);
        assert!(prove_one(digest, bytes.clone()).await.is_ok());
        assert!(prove_one(digest, bytes.slice(1..)).await.is_err());
    }
}
