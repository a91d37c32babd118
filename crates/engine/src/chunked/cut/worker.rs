//! One worker thread: takes the most urgent task from the board until no work is left.

use std::fs::File;
use std::io;
use std::num::NonZero;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::thread;

use tidegate_core::checksum::Checksummer;
use tidegate_core::digest::{Digest, DigestFunction};

use super::CutOptions;
use super::board::{Board, Cutting, Piece, Task, WholeHashing};
use super::ended::CutEnded;
use super::lanes::{Lanes, SLOTS_BYTES};
use super::room::Room;
use super::stream::CutChunk;
use crate::budget::Budget;
use crate::error::{Error, ErrorKind, Operation, Result};

/// Cutting and the whole do this much in one step. Then the thread asks the board again for the
/// most urgent task.
const STEP_BYTES: u64 = 1 << 20;

/// Cutting reads this much at once. A short read contains little of the next chunk when it contains
/// the end of one, so that cutting can skip more of the next chunk. The size is four blocks of the
/// widest search. Half and twice as much were slower.
const CUT_BYTES: u64 = 132 << 10;

/// Each thread needs at least this much to do. With less, starting a thread would take longer than
/// its work.
const THREAD_BYTES_MIN: u64 = 1 << 20;

#[derive(Debug)]
struct Worker {
    file: Arc<File>,
    board: Arc<Board>,
    digest_function: DigestFunction,
    name: String,
    budget: Budget,
}

/// Starts the threads.
pub(super) fn begin(file: Arc<File>, options: CutOptions) -> Arc<Board> {
    let cores = thread::available_parallelism().map_or(1, NonZero::get);
    let wanted = usize::try_from(options.len / THREAD_BYTES_MIN).unwrap_or(usize::MAX);
    let threads = wanted.clamp(1, cores);
    let board = Arc::new(Board::new(&options, threads));
    let worker = Arc::new(Worker {
        file,
        board: Arc::clone(&board),
        digest_function: options.digest_function,
        name: options.name,
        budget: options.budget,
    });
    for index in 0..threads {
        let started = {
            let worker = Arc::clone(&worker);
            thread::Builder::new().name("tidegate-cut".to_owned()).spawn(move || worker.run())
        };
        match started {
            Ok(_) => {}
            Err(error) if index == 0 => {
                board.fail(Error::no_thread(Operation::Read, &*worker.name, error));
            }
            // With fewer threads the work only takes longer.
            Err(_) => break,
        }
    }
    board
}

impl Worker {
    fn run(&self) {
        // BLAKE3 is not hashed side by side: one message already uses the whole core.
        let is_side_by_side = self.digest_function == DigestFunction::Sha256;
        let slots_bytes = if is_side_by_side { SLOTS_BYTES } else { 0 };
        let mut room = None;
        let mut lanes = Lanes::default();
        while let Some(task) = self.board.claim(&mut room, lanes.free(), !lanes.is_empty()) {
            if room.is_none() {
                room = Room::wait(&self.budget, slots_bytes, self.board.stopped());
            }
            // `None` if the work was stopped. The task is then dropped.
            let Some(room) = room.as_mut() else { return };
            let done = match task {
                Task::Cut(cutting) => self.cut(cutting, room),
                Task::Whole(whole) => self.whole(whole, room),
                Task::Digest(pieces) if is_side_by_side => {
                    lanes.take(pieces);
                    self.advance(&mut lanes, room)
                }
                Task::Digest(pieces) => self.digest(&pieces, room),
                Task::Advance => self.advance(&mut lanes, room),
            };
            if let Err(error) = done {
                self.board.fail(error);
            }
        }
    }

    fn cut(&self, mut cutting: Cutting, room: &mut Room) -> Result<()> {
        let len = self.board.len();
        let step_end = len.min(cutting.at + STEP_BYTES);
        let Cutting { cutter, at, lengths } = &mut cutting;
        while *at < step_end {
            *at += cutter.pass(len - *at);
            let end = len.min(*at + CUT_BYTES);
            self.read(*at..end, room, |bytes| lengths.extend(cutter.feed(bytes)))?;
            *at = end;
        }
        let is_cut = *at == len;
        if is_cut {
            lengths.extend(cutter.finish());
        }
        self.board.put_cutting(cutting, is_cut);
        Ok(())
    }

    fn whole(&self, mut whole: WholeHashing, room: &mut Room) -> Result<()> {
        let end = self.board.len().min(whole.at + STEP_BYTES);
        let hasher = &mut whole.hasher;
        self.read(whole.at..end, room, |bytes| hasher.update(bytes))?;
        whole.at = end;
        if end == self.board.len() {
            self.board.whole_done(self.named(whole.hasher, end));
        } else {
            self.board.put_whole(whole);
        }
        Ok(())
    }

    fn advance(&self, lanes: &mut Lanes, room: &mut Room) -> Result<()> {
        let ended = lanes.advance(&mut room.slots, |slot, at| self.read_into(slot, at))?;
        if !ended.is_empty() {
            self.board.digested(ended);
        }
        Ok(())
    }

    /// Hashes the chunks one after another.
    fn digest(&self, pieces: &[Piece], room: &mut Room) -> Result<()> {
        let mut ended = CutEnded::default();
        for (number, Piece { index, range }) in pieces.iter().enumerate() {
            let mut hasher = hasher(self.digest_function)?;
            self.read(range.clone(), room, |bytes| hasher.update(bytes))?;
            let digest = self.named(hasher, range.end - range.start);
            ended.push(*index, CutChunk { offset: range.start, digest });
            let ready = ended.take(number + 1 < pieces.len());
            if !ready.is_empty() {
                self.board.digested(ready);
            }
        }
        Ok(())
    }

    fn named(&self, hasher: Checksummer, len: u64) -> Digest {
        // Both hash functions return 32 bytes.
        let hash = hasher.finish().as_bytes().try_into().unwrap_or_default();
        Digest { function: self.digest_function, hash, len }
    }

    /// Reads a range of the file through the buffer. Fails if it cannot read all of it.
    fn read(&self, range: Range<u64>, room: &mut Room, mut each: impl FnMut(&[u8])) -> Result<()> {
        let mut at = range.start;
        while at < range.end {
            let left = usize::try_from(range.end - at).unwrap_or(usize::MAX);
            let count = left.min(room.buffer.len());
            let buffer = &mut room.buffer[..count];
            self.read_into(buffer, at)?;
            each(buffer);
            at += count as u64;
        }
        Ok(())
    }

    fn read_into(&self, buffer: &mut [u8], at: u64) -> Result<()> {
        if self.board.stopped().is_cancelled() {
            let stopped = "it was cancelled";
            return Err(Error::new(ErrorKind::Cancelled, Operation::Read, &*self.name, stopped));
        }
        self.file.read_exact_at(buffer, at).map_err(|error| self.unread(at, error))
    }

    fn unread(&self, at: u64, error: io::Error) -> Error {
        if error.kind() == io::ErrorKind::UnexpectedEof {
            let len = self.board.len();
            let message = format!("expected {len} bytes, but it ends soon after {at}");
            return Error::new(ErrorKind::Changed, Operation::Read, &*self.name, message)
                .with_hint("something shortens the file; run the same command again after that");
        }
        self.storage_error("it cannot be read", error).at(at..self.board.len())
    }

    fn storage_error(&self, message: &str, error: io::Error) -> Error {
        Error::new(ErrorKind::Storage, Operation::Read, &*self.name, message).caused_by(error)
    }
}

/// Both hash functions are supported, so this does not fail.
pub(super) fn hasher(function: DigestFunction) -> Result<Checksummer> {
    Checksummer::new(function.algorithm()).map_err(|error| {
        Error::new(
            ErrorKind::Unsupported,
            Operation::Read,
            function.name(),
            "it cannot be computed",
        )
        .caused_by(error)
    })
}
