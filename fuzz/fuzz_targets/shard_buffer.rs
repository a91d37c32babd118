//! Any sequence of calls on a buffer and its writers: the buffer reports and returns what a model
//! of plain cells has, and no input causes a panic.

#![no_main]

use std::io::{Read, Seek, SeekFrom, Write};

use arbitrary::Arbitrary;
use libfuzzer_sys::fuzz_target;
use tidegate::buffer::{Backing, BufferError, ShardBuffer, ShardBufferOptions, ShardWriter};

/// The buffer's limit. Calls also use positions beyond it, which the buffer refuses.
const LIMIT: usize = 300_000;

#[derive(Arbitrary, Debug)]
enum Call {
    Shard { start: u32, len: u32 },
    Put { writer: u8, len: u16 },
    Drop { writer: u8 },
    WriteAt { start: u64, len: u16 },
    ReadAt { start: u64, len: u16 },
    Overwrite { start: u32, len: u16 },
    SetTotal(u32),
    Freeze(u32),
}

/// `None`: not yet written.
type Model = Vec<Option<u8>>;

fn bytes(seed: usize, len: usize) -> Vec<u8> {
    (0..len).map(|at| (seed.wrapping_mul(31) + at.wrapping_mul(7)) as u8).collect()
}

fn set(model: &mut Model, start: usize, data: &[u8]) {
    for (cell, byte) in model[start..].iter_mut().zip(data) {
        *cell = Some(*byte);
    }
}

fn check_read(buffer: &ShardBuffer, model: &Model, start: u64, len: u16) {
    let mut target = vec![0; usize::from(len)];
    let Ok(count) = buffer.read_at(start, &mut target) else { return };
    for (at, byte) in target[..count].iter().enumerate() {
        assert_eq!(model[start as usize + at], Some(*byte), "at {start} + {at}");
    }
}

fn check_extents(buffer: &ShardBuffer, model: &Model) {
    let written = model.iter().filter(|cell| cell.is_some()).count() as u64;
    assert_eq!(buffer.extents().total(), written);
    for run in buffer.extents().iter() {
        assert!(model[run.start as usize..run.end as usize].iter().all(Option::is_some));
    }
    let contiguous = model.iter().take_while(|cell| cell.is_some()).count() as u64;
    assert_eq!(buffer.contiguous_len(), contiguous);
    assert!(buffer.is_complete(contiguous));
}

fuzz_target!(|input: (bool, Option<u32>, Vec<Call>)| {
    let (segments, len_hint, calls) = input;
    let backing = if segments { Backing::Segments } else { Backing::Auto };
    let limit_bytes = LIMIT as u64;
    let len_hint = len_hint.map(|hint| u64::from(hint) % (limit_bytes + 1));
    let options = ShardBufferOptions { len_hint, limit_bytes, backing, ..Default::default() };
    let mut buffer = ShardBuffer::new(options).expect("the hint is within the limit");
    let mut model: Model = vec![None; LIMIT];
    let mut writers: Vec<ShardWriter> = Vec::new();
    for (seed, call) in calls.into_iter().take(64).enumerate() {
        match call {
            Call::Shard { start, len } => {
                let (start, len) = (u64::from(start), u64::from(len));
                if let Ok(writer) = buffer.shard(start..start + len) {
                    let rest = start as usize..(start + len) as usize;
                    assert!(model[rest].iter().all(Option::is_none), "reserved what is written");
                    writers.push(writer);
                }
            }
            Call::Put { writer, len } if !writers.is_empty() => {
                let index = usize::from(writer) % writers.len();
                let start = writers[index].rest().start as usize;
                let data = bytes(seed, usize::from(len));
                let room = writers[index].room_bytes() as usize;
                let count = writers[index].put(&data);
                assert_eq!(count, data.len().min(room));
                set(&mut model, start, &data[..count]);
            }
            Call::Drop { writer } if !writers.is_empty() => {
                drop(writers.swap_remove(usize::from(writer) % writers.len()));
            }
            Call::Put { .. } | Call::Drop { .. } => {}
            Call::WriteAt { start, len } => {
                let data = bytes(seed, usize::from(len));
                if buffer.write_at(start, &data).is_ok() {
                    set(&mut model, start as usize, &data);
                }
            }
            Call::ReadAt { start, len } => check_read(&buffer, &model, start, len),
            Call::Overwrite { start, len } => {
                let data = bytes(seed, usize::from(len));
                let mut cursor = buffer.cursor();
                cursor.seek(SeekFrom::Start(u64::from(start))).expect("a position");
                if let Ok(count @ 1..) = cursor.write(&data) {
                    set(&mut model, start as usize, &data[..count]);
                    cursor.seek(SeekFrom::Start(u64::from(start))).expect("a position");
                    let mut again = vec![0; count];
                    cursor.read_exact(&mut again).expect("just written");
                    assert_eq!(again, data[..count]);
                }
            }
            Call::SetTotal(total) => drop(buffer.set_total(u64::from(total))),
            Call::Freeze(total) => match buffer.freeze(u64::from(total)) {
                Ok(bytes) => {
                    let all = model.iter().map_while(|cell| *cell);
                    assert!(bytes.iter().copied().eq(all), "frozen as other bytes");
                }
                Err(BufferError::WritersRemain { .. }) => assert!(!writers.is_empty()),
                Err(_) => {}
            },
        }
        check_extents(&buffer, &model);
    }
});
