//! A script: one blob, one channel, its faults and its operations, all derived from bytes.
//!
//! Any bytes make a script. The first bytes decide the first parts of the script, so a fuzzer's
//! mutation of one byte changes one thing. Missing bytes count as 0. A script holds plain numbers,
//! so its `Debug` output is a complete report of a failure.

use std::io::SeekFrom;

use tidegate_core::range::ByteRange;
use tidegate_testkit::{Blob, ContentRangeLie as Lie, EtagStyle, Fault, Flavour};
use tidegate_testkit::{Framing, HttpDigests, ServerOptions, pseudo_random};

/// Faults of one script: at most as many as the channel survives before the first response.
const FAULTS_MAX: u8 = 3;

/// Operations of one script: enough to return to every state, and few enough to read.
const OPS_MAX: usize = 40;

/// The place of the blob: a server with its own behaviour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    Http,
    HttpChunked,
    HttpDigest,
    HttpNoRanges,
    /// A server that names no version.
    Nameless,
    Gcs,
    GcsVersioned,
    S3,
    S3Versioned,
    Azure,
}

pub(crate) const PLACES: [Place; 10] = [
    Place::Gcs,
    Place::Http,
    Place::S3,
    Place::HttpChunked,
    Place::GcsVersioned,
    Place::HttpDigest,
    Place::HttpNoRanges,
    Place::Nameless,
    Place::S3Versioned,
    Place::Azure,
];

impl Place {
    pub(crate) fn server(self) -> ServerOptions {
        let of = ServerOptions::of;
        let digests = HttpDigests { repr_digest: true, content_md5: true };
        match self {
            Self::Http => of(Flavour::Http),
            Self::HttpChunked => ServerOptions { framing: Framing::Chunked, ..of(Flavour::Http) },
            Self::HttpDigest => ServerOptions { digests, ..of(Flavour::Http) },
            Self::HttpNoRanges => ServerOptions { ranges: false, ..of(Flavour::Http) },
            Self::Nameless => {
                ServerOptions { etag: EtagStyle::Weak, last_modified: false, ..of(Flavour::Http) }
            }
            Self::Gcs => of(Flavour::Gcs),
            Self::GcsVersioned => ServerOptions { versioning: true, ..of(Flavour::Gcs) },
            Self::S3 => of(Flavour::S3),
            Self::S3Versioned => ServerOptions { versioning: true, ..of(Flavour::S3) },
            Self::Azure => of(Flavour::Azure),
        }
    }
}

/// The checksum that the bytes are compared with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Compare {
    Stored,
    Right,
    Wrong,
    Nothing,
}

/// A fault of the `nth` request, counted from 1.
#[derive(Clone, Debug)]
pub(crate) struct Planned {
    pub(crate) nth: u64,
    pub(crate) fault: Fault,
}

/// Whether a channel must survive this fault without an error.
pub(crate) fn passes(fault: &Fault) -> bool {
    match fault {
        Fault::Status { code, .. } => matches!(code, 429 | 500 | 503),
        Fault::WrongContentRange(lie) => !matches!(lie, Lie::OtherTotal),
        Fault::NotSatisfiable | Fault::ChangedVersion(_) | Fault::LieAboutLength(_) => false,
        _ => true,
    }
}

/// One operation on the channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Op {
    /// `next`, once.
    Next,
    /// `AsyncRead` into a buffer of this size, once.
    Read(usize),
    /// `fill_buf`, and this many of its bytes consumed.
    Fill(usize),
    /// `next` until the end.
    ToEnd,
    Seek(SeekFrom),
    Limit(u64),
    /// Capture, serialise, parse and restore.
    Carry,
    Suspend,
    Info,
    /// `next`, polled and dropped this many times.
    Glance(u8),
    /// A seek, polled once and dropped.
    SeekGlance(SeekFrom),
}

#[derive(Clone, Debug)]
pub(crate) struct Script {
    pub(crate) place: Place,
    pub(crate) len: usize,
    pub(crate) range: ByteRange,
    pub(crate) compare: Compare,
    pub(crate) buffer_bytes: usize,
    pub(crate) drain_bytes_max: u64,
    pub(crate) budget_requests: u32,
    pub(crate) budget_bytes: u64,
    pub(crate) seed: u64,
    pub(crate) faults: Vec<Planned>,
    pub(crate) ops: Vec<Op>,
}

impl Script {
    /// The script that these bytes stand for.
    pub(crate) fn of(bytes: &[u8]) -> Self {
        let mut input = Input { bytes, len: 0 };
        let place = input.one_of(&PLACES);
        let len = match input.byte() % 8 {
            0 => 0,
            1 => usize::from(input.byte()),
            2..=4 => usize::from(input.pair()),
            _ => 3 * usize::from(input.pair()),
        };
        input.len = len as u64;
        let range = match input.byte() % 8 {
            0..=3 => ByteRange::All,
            4 => ByteRange::From(input.position()),
            5 => {
                let (one, other) = (input.position(), input.position());
                ByteRange::Bounded(one.min(other)..one.max(other))
            }
            6 => ByteRange::Last(input.position()),
            _ => ByteRange::Last(u64::from(input.byte())),
        };
        let compares =
            [Compare::Stored, Compare::Stored, Compare::Right, Compare::Wrong, Compare::Nothing];
        let compare = input.one_of(&compares);
        let buffer_bytes = input.one_of(&[64 << 10, 0, 1, 1000, 9000, 1 << 20]);
        let drain_bytes_max = input.one_of(&[2 << 20, 0, 1, 5000, 60_000, u64::MAX]);
        let budget_requests = input.one_of(&[8, 1, 2]);
        let budget_bytes = input.one_of(&[8 << 20, 4096, 100_000]);
        let seed = u64::from(input.byte());
        let faults = (0..input.byte() % (FAULTS_MAX + 1)).map(|_| input.planned()).collect();
        let mut ops = Vec::new();
        while !input.bytes.is_empty() && ops.len() < OPS_MAX {
            ops.push(input.op());
        }
        Self {
            place,
            len,
            range,
            compare,
            buffer_bytes,
            drain_bytes_max,
            budget_requests,
            budget_bytes,
            seed,
            faults,
            ops,
        }
    }

    /// Simpler scripts, the shortest first. If one of them fails too, it is easier to debug.
    pub(crate) fn smaller(&self) -> Vec<Self> {
        let mut all = Vec::new();
        let without = |at: usize, count: usize| {
            let mut script = self.clone();
            script.ops.drain(at..(at + count).min(self.ops.len()));
            script
        };
        for count in [8, 3, 1] {
            all.extend((0..self.ops.len()).rev().step_by(count).map(|at| without(at, count)));
        }
        for at in 0..self.faults.len() {
            let mut script = self.clone();
            script.faults.remove(at);
            all.push(script);
        }
        if self.range != ByteRange::All {
            all.push(Self { range: ByteRange::All, ..self.clone() });
        }
        if self.place != Place::Gcs {
            all.push(Self { place: Place::Gcs, ..self.clone() });
        }
        let plain = Self {
            buffer_bytes: 64 << 10,
            drain_bytes_max: 2 << 20,
            budget_requests: 8,
            budget_bytes: 8 << 20,
            ..self.clone()
        };
        let settings =
            |of: &Self| (of.buffer_bytes, of.drain_bytes_max, of.budget_requests, of.budget_bytes);
        if settings(&plain) != settings(self) {
            all.push(plain);
        }
        all
    }
}

/// Bytes that are consumed one after the other, then 0.
struct Input<'a> {
    bytes: &'a [u8],
    /// The blob's length, once known: positions lie around it.
    len: u64,
}

impl Input<'_> {
    fn byte(&mut self) -> u8 {
        let (first, rest) = self.bytes.split_first().unwrap_or((&0, &[]));
        self.bytes = rest;
        *first
    }

    fn pair(&mut self) -> u16 {
        u16::from_be_bytes([self.byte(), self.byte()])
    }

    fn one_of<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[usize::from(self.byte()) % choices.len()]
    }

    /// An offset: near the start, near the end, anywhere, or far beyond.
    fn position(&mut self) -> u64 {
        match self.byte() % 8 {
            0 => u64::from(self.byte()),
            1 => self.len.saturating_sub(u64::from(self.byte())),
            2 => self.len,
            3 => self.len + u64::from(self.byte()),
            4 => u64::MAX - u64::from(self.byte()),
            _ => u64::from(self.pair()) * (self.len + 1) / 65_536,
        }
    }

    fn distance(&mut self) -> i64 {
        let far = i64::try_from(self.len).unwrap_or(0) + 2;
        match self.byte() % 8 {
            0..=2 => i64::from(self.byte().cast_signed()),
            3..=5 => i64::from(self.pair().cast_signed()) * far / 32_768,
            6 => i64::MIN + i64::from(self.byte()),
            _ => i64::MAX - i64::from(self.byte()),
        }
    }

    fn target(&mut self) -> SeekFrom {
        match self.byte() % 4 {
            0 | 1 => SeekFrom::Start(self.position()),
            2 => SeekFrom::Current(self.distance()),
            _ => SeekFrom::End(self.distance()),
        }
    }

    fn planned(&mut self) -> Planned {
        let nth = 1 + u64::from(self.byte() % 5);
        let fault = match self.byte() % 24 {
            0 | 1 => Fault::CutAfter(self.position()),
            2 => Fault::ResetAfter(self.position()),
            3 => Fault::CloseBeforeFirstByte,
            4 => Fault::OneByteBody,
            5 => Fault::BodyShortByOne,
            6 => Fault::ShortRange(self.position()),
            7 => Fault::status(self.one_of(&[503, 429, 500])),
            8 => Fault::status(self.one_of(&[404, 412, 403])),
            9 => Fault::WrongContentRange(self.one_of(&[Lie::Shifted, Lie::Longer])),
            10 => Fault::WrongContentRange(self.one_of(&[Lie::Malformed, Lie::Missing])),
            11 => Fault::WrongContentRange(Lie::OtherTotal),
            12 => Fault::WrongContentRange(Lie::UnknownTotal),
            13..=15 => Fault::FlipBit(self.position()),
            16 | 17 => Fault::ChangedVersion(other(self.position())),
            18 => Fault::NotSatisfiable,
            19 => Fault::NoRangeSupport,
            20 => Fault::GarbageHead,
            21 => Fault::TruncatedHead,
            22 => Fault::LieAboutLength(i64::from(self.byte().cast_signed())),
            // Each write takes a millisecond, so a blob takes at most 30 writes.
            _ => {
                let least = 1 + self.len / 30;
                Fault::SlowDrip { bytes: least + self.position().min(70_000), interval_ms: 0 }
            }
        };
        Planned { nth, fault }
    }

    fn op(&mut self) -> Op {
        match self.byte() % 16 {
            0 | 1 => Op::Next,
            2..=4 => Op::Read(usize::from(self.pair())),
            5 | 6 => Op::Fill(usize::from(self.pair())),
            7 => Op::ToEnd,
            8..=10 => Op::Seek(self.target()),
            11 => Op::Limit(self.position()),
            12 => Op::Carry,
            13 => self.one_of(&[Op::Suspend, Op::Info, Op::Limit(u64::MAX)]),
            14 => Op::Glance(self.byte() % 8),
            _ => Op::SeekGlance(self.target()),
        }
    }
}

/// The blob's first content.
pub(crate) fn first(len: usize) -> bytes::Bytes {
    pseudo_random(len, 1)
}

/// Another blob that replaces it, of at most 65,535 bytes.
fn other(len: u64) -> Blob {
    let len = usize::from(u16::try_from(len).unwrap_or(u16::MAX));
    Blob::new(pseudo_random(len, 2)).with_version(2)
}

/// The bytes that [`other`] made for a blob of this length.
pub(crate) fn content(other: &Blob) -> bytes::Bytes {
    pseudo_random(usize::try_from(other.len_bytes()).unwrap_or(0), 2)
}
