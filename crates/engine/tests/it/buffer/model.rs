//! Random plans, one step after the other, against a model of plain cells. After every step the
//! buffer's state agrees with the model. Exactly the waits that have ended are woken. A following
//! reader has got exactly the bytes before the first gap.

use std::collections::BTreeMap;
use std::io::Write;
use std::ops::Range;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use bytes::BufMut;
use futures_core::Stream;
use proptest::prelude::*;
use tidegate::buffer::{
    Backing, BufferError, ShardBuffer, ShardBufferOptions, ShardReader, ShardWriter, WaitFor,
};

use super::bed::{BACKINGS, Wakes, byte_at, poll};

/// Cells of a plan; each stands for `scale` bytes.
const CELLS: u64 = 48;

#[derive(Clone, Debug)]
enum Step {
    Shard(Range<u64>),
    Write { writer: usize, cells: u64, how: u8 },
    Drop { writer: usize },
    WriteAt(Range<u64>),
    ReadAt(Range<u64>),
    Wait(Range<u64>),
    SetTotal(u64),
    Freeze(u64),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cell {
    Free,
    Held,
    Written,
}

fn any_range() -> impl Strategy<Value = Range<u64>> {
    // Sometimes beyond the limit.
    (0..CELLS + 2, 0..12_u64).prop_map(|(start, len)| start..start + len)
}

fn any_step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => any_range().prop_map(Step::Shard),
        8 => (any::<usize>(), 0..8_u64, any::<u8>())
            .prop_map(|(writer, cells, how)| Step::Write { writer, cells, how }),
        3 => any::<usize>().prop_map(|writer| Step::Drop { writer }),
        4 => any_range().prop_map(Step::WriteAt),
        3 => any_range().prop_map(Step::ReadAt),
        4 => any_range().prop_map(Step::Wait),
        1 => (CELLS / 2..CELLS + 2).prop_map(Step::SetTotal),
        1 => (0..CELLS).prop_map(Step::Freeze),
    ]
}

/// The buffer, and the model's expected state of it.
struct Trial {
    buffer: ShardBuffer,
    scale: u64,
    cells: Vec<Cell>,
    // Keyed by the writer's first cell: the writer, its next cell, and its end.
    writers: BTreeMap<u64, (ShardWriter, u64, u64)>,
    waits: Vec<(WaitFor, Range<u64>, Arc<Wakes>)>,
    reader: ShardReader,
    followed: u64,
    total: Option<u64>,
    frozen: bool,
}

impl Trial {
    fn new(backing: Backing, scale: u64, len_hint: Option<u64>) -> Self {
        let limit_bytes = CELLS * scale;
        let len_hint = len_hint.map(|cells| cells * scale);
        let options = ShardBufferOptions { limit_bytes, len_hint, backing, ..Default::default() };
        let buffer = ShardBuffer::new(options).unwrap();
        let reader = buffer.reader();
        Self {
            buffer,
            scale,
            cells: vec![Cell::Free; CELLS as usize],
            writers: BTreeMap::new(),
            waits: Vec::new(),
            reader,
            followed: 0,
            total: None,
            frozen: false,
        }
    }

    fn bytes(&self, cells: &Range<u64>) -> Range<u64> {
        cells.start * self.scale..cells.end * self.scale
    }

    fn cells(&self, range: &Range<u64>) -> impl Iterator<Item = Cell> {
        let end = (range.end as usize).min(self.cells.len());
        self.cells[(range.start as usize).min(end)..end].iter().copied()
    }

    fn set(&mut self, range: Range<u64>, cell: Cell) {
        self.cells[range.start as usize..range.end as usize].fill(cell);
    }

    /// Runs of written cells, in bytes.
    fn runs(&self) -> Vec<Range<u64>> {
        let mut runs: Vec<Range<u64>> = Vec::new();
        for at in (0..CELLS).filter(|at| self.cells[*at as usize] == Cell::Written) {
            let bytes = self.bytes(&(at..at + 1));
            match runs.last_mut() {
                Some(run) if run.end == bytes.start => run.end = bytes.end,
                _ => runs.push(bytes),
            }
        }
        runs
    }

    /// The first missing bytes of a range.
    fn gap(&self, range: &Range<u64>) -> Option<Range<u64>> {
        let mut at = range.start;
        for run in self.runs().into_iter().filter(|run| run.end > range.start) {
            if run.start > at {
                break;
            }
            at = run.end;
        }
        let next = self.runs().into_iter().map(|run| run.start).find(|start| *start > at);
        (at < range.end).then(|| at..next.unwrap_or(range.end).min(range.end))
    }

    /// The refusal that a reservation must get, even if its range is free.
    fn refusal(&self, cells: &Range<u64>) -> Option<BufferError> {
        let Range { end, .. } = self.bytes(cells);
        let limit_bytes = CELLS * self.scale;
        if self.frozen {
            return Some(BufferError::Frozen);
        }
        if end > limit_bytes {
            return Some(BufferError::BeyondLimit { end, limit_bytes });
        }
        let total = self.total.map(|total| total * self.scale).filter(|total| end > *total);
        total.map(|total| BufferError::BeyondEnd { end, total })
    }

    /// Checks the result of a reservation, and returns whether it was granted.
    fn check_reserved(&self, cells: &Range<u64>, result: Result<(), &BufferError>) -> bool {
        let asked_bytes = self.bytes(cells);
        if let Some(refusal) = self.refusal(cells) {
            assert_eq!(format!("{:?}", result.unwrap_err()), format!("{refusal:?}"));
            return false;
        }
        let overlaps = |range: &Range<u64>| {
            range.start < asked_bytes.end && asked_bytes.start < range.end && !cells.is_empty()
        };
        match result {
            Ok(()) => assert!(self.cells(cells).all(|cell| cell == Cell::Free)),
            Err(BufferError::Reserved { asked, held }) => {
                assert_eq!(asked, &asked_bytes);
                assert!(overlaps(held), "{held:?} does not overlap {asked:?}");
                let held = self.writers.get(&(held.start / self.scale)).map(|(_, _, end)| *end)
                    == Some(held.end / self.scale);
                assert!(held, "no writer holds this range");
            }
            Err(BufferError::Written { asked, written }) => {
                assert_eq!(asked, &asked_bytes);
                assert!(overlaps(written), "{written:?} does not overlap {asked:?}");
                let cells = written.start / self.scale..written.end / self.scale;
                assert!(self.cells(&cells).all(|cell| cell == Cell::Written));
            }
            Err(other) => panic!("refused as {other}"),
        }
        result.is_ok()
    }

    fn take(&mut self, step: Step) {
        match step {
            Step::Shard(cells) => self.shard(&cells),
            Step::Write { writer, cells, how } => self.write(writer, cells, how),
            Step::Drop { writer } => self.drop_writer(writer),
            Step::WriteAt(cells) => self.write_at(cells),
            Step::ReadAt(cells) => self.read_at(&cells),
            Step::Wait(cells) => self.wait(&cells),
            Step::SetTotal(total) => self.set_total(total),
            Step::Freeze(total) => self.freeze(total),
        }
        self.check();
    }

    fn shard(&mut self, cells: &Range<u64>) {
        let result = self.buffer.shard(self.bytes(cells));
        if self.check_reserved(cells, result.as_ref().map(|_| ())) && !cells.is_empty() {
            self.set(cells.clone(), Cell::Held);
            self.writers.insert(cells.start, (result.unwrap(), cells.start, cells.end));
        }
    }

    fn nth_writer(&self, index: usize) -> Option<u64> {
        let count = self.writers.len().max(1);
        self.writers.keys().nth(index % count).copied()
    }

    fn write(&mut self, index: usize, cells: u64, how: u8) {
        let Some(key) = self.nth_writer(index) else { return };
        let scale = self.scale;
        let Some((writer, next, end)) = self.writers.get_mut(&key) else { return };
        // Sometimes more bytes than the writer has room for.
        let data: Vec<u8> = (*next * scale..(*next + cells) * scale).map(byte_at).collect();
        let room = ((*end - *next) * scale) as usize;
        let fits = data.len().min(room);
        match how % 3 {
            0 => assert_eq!(writer.put(&data), fits),
            1 => assert_eq!(writer.write(&data).unwrap(), fits),
            _ => writer.put_slice(&data[..fits]),
        }
        let written = *next..*next + cells.min(*end - *next);
        *next = written.end;
        assert_eq!(writer.rest(), *next * scale..*end * scale);
        self.set(written, Cell::Written);
    }

    fn drop_writer(&mut self, index: usize) {
        let Some(key) = self.nth_writer(index) else { return };
        let Some((writer, next, end)) = self.writers.remove(&key) else { return };
        drop(writer);
        self.set(next..end, Cell::Free);
    }

    fn write_at(&mut self, cells: Range<u64>) {
        let range = self.bytes(&cells);
        let data: Vec<u8> = range.clone().map(byte_at).collect();
        let result = self.buffer.write_at(range.start, &data);
        if self.check_reserved(&cells, result.as_ref().copied()) {
            self.set(cells, Cell::Written);
        }
    }

    fn read_at(&mut self, cells: &Range<u64>) {
        let mut range = self.bytes(cells);
        let mut target = vec![0xa5; (range.end - range.start) as usize];
        let result = self.buffer.read_at(range.start, &mut target);
        if let Some(total) = self.total {
            range.end = range.end.min(total * self.scale).max(range.start);
        }
        match self.gap(&range) {
            None => {
                let expected: Vec<u8> = range.map(byte_at).collect();
                assert_eq!(result.unwrap(), expected.len());
                assert!(target[..expected.len()] == expected);
            }
            Some(expected) => match result {
                Err(BufferError::Gap { gap }) => assert_eq!(gap, expected),
                other => panic!("{other:?} where {expected:?} is missing"),
            },
        }
    }

    /// The outcome of a wait for a range. `None` if the wait must continue.
    fn outcome(&self, range: &Range<u64>) -> Option<bool> {
        if range.end > CELLS * self.scale {
            return Some(false);
        }
        if self.gap(range).is_none() {
            return Some(true);
        }
        let beyond = self.total.is_some_and(|total| range.end > total * self.scale);
        beyond.then_some(false)
    }

    fn wait(&mut self, cells: &Range<u64>) {
        let range = self.bytes(cells);
        let (mut wait, wakes) = (self.buffer.wait_for(range.clone()), Wakes::new());
        let polled = poll(&mut wait, &wakes);
        assert_eq!(wakes.count(), 0);
        match (polled, self.outcome(&range)) {
            (Poll::Pending, None) => self.waits.push((wait, range, wakes)),
            (Poll::Ready(result), Some(written)) => assert_eq!(result.is_ok(), written),
            (polled, expected) => panic!("{polled:?} where {expected:?} was due for {range:?}"),
        }
    }

    fn set_total(&mut self, total: u64) {
        let result = self.buffer.set_total(total * self.scale);
        let used = (0..CELLS).rev().find(|at| self.cells[*at as usize] != Cell::Free);
        let fits = total <= CELLS && used.is_none_or(|at| at < total);
        assert_eq!(result.is_ok(), self.total.map_or(fits, |was| was == total), "{result:?}");
        if result.is_ok() {
            self.total = Some(total);
        }
    }

    fn freeze(&mut self, total: u64) {
        let end = total * self.scale;
        let result = self.buffer.freeze(end);
        let gap = self.gap(&(0..end));
        let len = self.runs().last().map_or(0, |run| run.end);
        match result {
            Ok(bytes) => {
                assert!(self.writers.is_empty() && gap.is_none() && len == end);
                assert!(self.total.is_none_or(|was| was == total));
                assert!(bytes == (0..end).map(byte_at).collect::<Vec<_>>());
                (self.frozen, self.total) = (true, Some(total));
            }
            Err(BufferError::WritersRemain { held }) => {
                let (first, (_, _, end)) = self.writers.first_key_value().unwrap();
                assert_eq!(held, *first * self.scale..*end * self.scale);
            }
            Err(BufferError::Gap { gap: named }) => assert_eq!(Some(named), gap),
            Err(BufferError::OtherLength { was, is }) => {
                assert_eq!((Some(was), is), (self.total.map(|total| total * self.scale), end));
                assert_ne!(was, is);
            }
            Err(BufferError::BeyondEnd { end: used, total }) => {
                assert_eq!((used, total), (len, end));
                assert!(used > total);
            }
            Err(other) => panic!("refused as {other}"),
        }
    }

    fn check(&mut self) {
        let runs = self.runs();
        let (buffer, len) = (&self.buffer, runs.last().map_or(0, |run| run.end));
        assert_eq!(buffer.extents().iter().collect::<Vec<_>>(), runs);
        assert_eq!((buffer.len(), buffer.is_empty()), (len, len == 0));
        let contiguous = runs.first().filter(|run| run.start == 0).map_or(0, |run| run.end);
        assert_eq!(buffer.contiguous_len(), contiguous);
        let mut gaps = Vec::new();
        let mut at = 0;
        for run in &runs {
            gaps.extend((run.start > at).then_some(at..run.start));
            at = run.end;
        }
        assert_eq!(buffer.gaps(), gaps);
        for total in [0, contiguous, contiguous + 1, len] {
            assert_eq!(buffer.is_complete(total), total <= contiguous);
        }
        self.check_waits();
        self.check_reader(contiguous);
    }

    fn check_waits(&mut self) {
        for (mut wait, range, wakes) in std::mem::take(&mut self.waits) {
            let outcome = self.outcome(&range);
            assert_eq!(wakes.count(), usize::from(outcome.is_some()), "wakes for {range:?}");
            match outcome {
                None => self.waits.push((wait, range, wakes)),
                Some(written) => match poll(&mut wait, &wakes) {
                    Poll::Ready(result) => assert_eq!(result.is_ok(), written),
                    Poll::Pending => panic!("woken for {range:?}, and still waits"),
                },
            }
        }
    }

    fn check_reader(&mut self, contiguous: u64) {
        let mut cx = Context::from_waker(Waker::noop());
        loop {
            match Pin::new(&mut self.reader).poll_next(&mut cx) {
                Poll::Pending => break,
                Poll::Ready(None) => {
                    assert_eq!(self.total.map(|total| total * self.scale), Some(self.followed));
                    break;
                }
                Poll::Ready(Some(piece)) => {
                    let piece = piece.unwrap();
                    let range = self.followed..self.followed + piece.len() as u64;
                    self.followed = range.end;
                    assert!(!piece.is_empty() && piece == range.map(byte_at).collect::<Vec<_>>());
                }
            }
        }
        assert_eq!((self.followed, self.reader.position()), (contiguous, contiguous));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 192, ..ProptestConfig::default() })]

    #[test]
    fn a_plan_of_single_bytes_does_what_the_model_does(
        steps in prop::collection::vec(any_step(), 1..60),
        len_hint in prop::option::of(0..=CELLS),
    ) {
        for &backing in BACKINGS {
            let mut trial = Trial::new(backing, 1, len_hint);
            steps.iter().cloned().for_each(|step| trial.take(step));
        }
    }

    #[test]
    fn a_plan_across_pages_and_segments_does_what_the_model_does(
        steps in prop::collection::vec(any_step(), 1..40),
        len_hint in prop::option::of(0..=CELLS),
    ) {
        // 48 cells of this size are three segments, with the seams inside a cell.
        let scale = 4_099;
        for &backing in BACKINGS {
            let mut trial = Trial::new(backing, scale, len_hint);
            steps.iter().cloned().for_each(|step| trial.take(step));
        }
    }
}
