//! The cases: kind of memory, quality of the hint, shards, length of a call, number of threads.
//!
//! A case's name is its parts with slashes between, so that another program can select it.

use std::fmt;
use std::str::FromStr;

const KIB: usize = 1 << 10;
const MIB: usize = 1 << 20;

/// The target of the bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Memory {
    /// A new buffer for each operation: every page is touched for the first time.
    Fresh,
    /// A buffer from a pool, whose memory an earlier buffer has touched.
    Recycled,
    /// No buffer: a plain copy into a fresh map of huge pages.
    CopyFreshHuge,
    /// No buffer: a plain copy into a fresh map of 4 KiB pages.
    CopyFresh4k,
    /// No buffer: a plain copy into a map of huge pages that was touched before.
    CopyReused,
}

/// The hint that the buffer gets about the blob's length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Hint {
    Whole,
    Half,
    None,
}

/// The shards of the blob.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shape {
    pub(crate) shards: usize,
    pub(crate) shard_bytes: usize,
}

/// One line of the results.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Case {
    pub(crate) memory: Memory,
    pub(crate) hint: Hint,
    pub(crate) shape: Shape,
    /// Length of one write; the whole shard if that is shorter.
    pub(crate) call_bytes: usize,
    pub(crate) threads: usize,
}

const MEMORIES: [(Memory, &str); 5] = [
    (Memory::Fresh, "fresh"),
    (Memory::Recycled, "recycled"),
    (Memory::CopyFreshHuge, "copy-fresh-huge"),
    (Memory::CopyFresh4k, "copy-fresh-4k"),
    (Memory::CopyReused, "copy-reused"),
];

const HINTS: [(Hint, &str); 3] =
    [(Hint::Whole, "whole"), (Hint::Half, "half"), (Hint::None, "none")];

/// Kraken's own sizes, and smaller shards as from many small layers.
const SHAPES: [Shape; 4] = [
    Shape { shards: 1, shard_bytes: 4 * MIB },
    Shape { shards: 4, shard_bytes: 4 * MIB },
    Shape { shards: 10, shard_bytes: 4 * MIB },
    Shape { shards: 32, shard_bytes: MIB },
];

/// The length of Go's `io.Copy`, and a whole shard.
const CALLS: [usize; 2] = [32 * KIB, 4 * MIB];

impl Case {
    /// Every case: buffers with each hint, and copies once. All of them use two threads if there
    /// are two shards; the whole hint also runs with one thread, for the limit of one thread.
    pub(crate) fn all() -> Vec<Self> {
        let mut cases = Vec::new();
        for (memory, _) in MEMORIES {
            for (hint, _) in HINTS {
                if !memory.is_buffer() && hint != Hint::Whole {
                    continue;
                }
                for shape in SHAPES {
                    for call_bytes in CALLS {
                        let threads = 2.min(shape.shards);
                        cases.push(Self { memory, hint, shape, call_bytes, threads });
                        if hint == Hint::Whole && threads > 1 {
                            cases.push(Self { memory, hint, shape, call_bytes, threads: 1 });
                        }
                    }
                }
            }
        }
        cases
    }

    /// Length of the blob.
    pub(crate) fn blob_bytes(&self) -> usize {
        self.shape.shards * self.shape.shard_bytes
    }

    /// The hint for the buffer.
    pub(crate) fn hint_bytes(&self) -> Option<usize> {
        match self.hint {
            Hint::Whole => Some(self.blob_bytes()),
            Hint::Half => Some(self.blob_bytes() / 2),
            Hint::None => None,
        }
    }
}

impl Memory {
    /// Whether a buffer is filled; otherwise plain memory.
    pub(crate) fn is_buffer(self) -> bool {
        matches!(self, Self::Fresh | Self::Recycled)
    }
}

fn name_of<T: Copy + PartialEq>(table: &[(T, &'static str)], wanted: T) -> &'static str {
    table.iter().find(|(value, _)| *value == wanted).map_or("?", |(_, name)| name)
}

fn by_name<T: Copy>(table: &[(T, &'static str)], wanted: &str) -> Result<T, String> {
    let found = table.iter().find(|(_, name)| *name == wanted);
    found.map(|(value, _)| *value).ok_or_else(|| format!("{wanted:?} is no part of a case"))
}

fn size(bytes: usize) -> String {
    if bytes.is_multiple_of(MIB) {
        format!("{}MiB", bytes / MIB)
    } else {
        format!("{}KiB", bytes / KIB)
    }
}

fn parse_size(text: &str) -> Result<usize, String> {
    let (digits, unit) = match (text.strip_suffix("KiB"), text.strip_suffix("MiB")) {
        (Some(digits), _) => (digits, KIB),
        (_, Some(digits)) => (digits, MIB),
        _ => return Err(format!("{text:?} has no unit, expected KiB or MiB")),
    };
    let number: usize = digits.parse().map_err(|error| format!("{text:?}: {error}"))?;
    let bytes = number.checked_mul(unit).filter(|bytes| (KIB..=1 << 30).contains(bytes));
    bytes.ok_or_else(|| format!("{text:?} is not from 1 KiB to 1 GiB"))
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}/{}/{}x{}/{}/{}t",
            name_of(&MEMORIES, self.memory),
            name_of(&HINTS, self.hint),
            self.shape.shards,
            size(self.shape.shard_bytes),
            size(self.call_bytes),
            self.threads
        )
    }
}

impl FromStr for Case {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parts: Vec<&str> = text.split('/').collect();
        let [memory, hint, shape, call, threads] = parts[..] else {
            return Err(format!("{text:?} has {} parts, expected 5", parts.len()));
        };
        let (shards, shard) =
            shape.split_once('x').ok_or_else(|| format!("{shape:?} is not COUNTxSIZE"))?;
        let count = |digits: &str| -> Result<usize, String> {
            let number = digits.parse().map_err(|error| format!("{digits:?}: {error}"))?;
            if (1..=1024).contains(&number) { Ok(number) } else { Err(format!("{number} of them")) }
        };
        Ok(Self {
            memory: by_name(&MEMORIES, memory)?,
            hint: by_name(&HINTS, hint)?,
            shape: Shape { shards: count(shards)?, shard_bytes: parse_size(shard)? },
            call_bytes: parse_size(call)?,
            threads: count(threads.trim_end_matches('t'))?,
        })
    }
}
