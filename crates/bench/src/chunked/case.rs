//! The cases: what is transferred, and under which conditions.

use clap::ValueEnum;
use serde::Serialize;
use tidegate_core::chunking::{Chunking, FastCdc2020Params, RepMaxCdcParams};
use tidegate_testkit::reapi::{ChunkFunction, ReapiOptions, RpcLatency};

use super::bounds::Latency;

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

/// One blob, one direction, one kind of link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Case {
    /// 32 chunks of 1 KiB, down, with latency.
    SmallDown,
    /// 512 chunks of 1 MiB, down, with latency.
    LargeDown,
    /// 32 KiB in some 29 chunks, up, with latency.
    SmallUp,
    /// 512 MiB in some 450 chunks, up, with latency.
    LargeUp,
    /// 512 MiB with usual settings, down, without latency.
    PlainDown,
    /// The same, up.
    PlainUp,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    Down,
    Up,
}

impl Case {
    pub(crate) const ALL: [Self; 6] = [
        Self::SmallDown,
        Self::LargeDown,
        Self::SmallUp,
        Self::LargeUp,
        Self::PlainDown,
        Self::PlainUp,
    ];

    pub(crate) fn label(self) -> &'static str {
        match self {
            Self::SmallDown => "32 x 1 KiB down",
            Self::LargeDown => "512 x 1 MiB down",
            Self::SmallUp => "32 KiB up",
            Self::LargeUp => "512 MiB up",
            Self::PlainDown => "512 MiB down, no latency",
            Self::PlainUp => "512 MiB up, no latency",
        }
    }

    pub(crate) fn direction(self) -> Direction {
        match self {
            Self::SmallDown | Self::LargeDown | Self::PlainDown => Direction::Down,
            Self::SmallUp | Self::LargeUp | Self::PlainUp => Direction::Up,
        }
    }

    pub(crate) fn is_small(self) -> bool {
        matches!(self, Self::SmallDown | Self::SmallUp)
    }

    pub(crate) fn has_latency(self) -> bool {
        !matches!(self, Self::PlainDown | Self::PlainUp)
    }

    /// The latency of every call; `None` if the case has none.
    pub(crate) fn latency(self) -> Option<Latency> {
        let RpcLatency { mean_ms, jitter_ms } = RpcLatency::FAR;
        self.has_latency().then(|| Latency {
            min_us: (mean_ms - jitter_ms) * 1000,
            max_us: (mean_ms + jitter_ms) * 1000,
        })
    }

    /// Calls that are sequential whatever the window: Split; or `FindMissingBlobs` and Splice.
    pub(crate) fn fixed_calls(self) -> u32 {
        match self.direction() {
            Direction::Down => 1,
            Direction::Up => 2,
        }
    }

    /// The blob's length; a 64th of the large ones in a trial, which only tests that the case
    /// works.
    pub(crate) fn len_bytes(self, is_trial: bool) -> u64 {
        match (self.is_small(), is_trial) {
            (true, _) => 32 * KIB,
            (false, false) => 512 * MIB,
            (false, true) => 8 * MIB,
        }
    }

    /// The blob's chunking function for the server: without a horizon, all chunks have one length.
    pub(crate) fn chunk_function(self) -> ChunkFunction {
        match self {
            Self::SmallDown => ChunkFunction::RepMaxCdc { min_bytes: KIB, horizon_bytes: 0 },
            Self::LargeDown => ChunkFunction::RepMaxCdc { min_bytes: MIB, horizon_bytes: 0 },
            Self::SmallUp => ChunkFunction::FastCdc2020 { avg_bytes: KIB, seed: 0 },
            Self::LargeUp => ChunkFunction::FastCdc2020 { avg_bytes: MIB, seed: 0 },
            Self::PlainDown | Self::PlainUp => ChunkFunction::FAST_CDC_2020,
        }
    }

    /// The same for the client that cuts.
    pub(crate) fn chunking(self) -> anyhow::Result<Chunking> {
        Ok(match self.chunk_function() {
            ChunkFunction::FastCdc2020 { avg_bytes, seed } => {
                Chunking::FastCdc2020(FastCdc2020Params::new(avg_bytes, seed)?)
            }
            ChunkFunction::RepMaxCdc { min_bytes, horizon_bytes } => {
                Chunking::RepMaxCdc(RepMaxCdcParams::new(min_bytes, horizon_bytes)?)
            }
        })
    }

    /// The server. It does not verify data, because it shares the cores with the measured process.
    /// It may not support chunks at all.
    pub(crate) fn server(self, has_chunks: bool) -> ReapiOptions {
        ReapiOptions {
            chunk_functions: vec![self.chunk_function()],
            split: has_chunks,
            splice: has_chunks,
            latency: if self.has_latency() { RpcLatency::FAR } else { RpcLatency::default() },
            trusting: true,
            ..ReapiOptions::default()
        }
    }

    /// The ways to measure, in turns.
    pub(crate) fn ways(self) -> &'static [Way] {
        if self.has_latency() {
            &[Way::OneAtATime, Way::Bazel, Way::Bare64, Way::Window16, Way::Adaptive]
        } else {
            &[Way::Whole, Way::Window16, Way::Adaptive]
        }
    }
}

/// A way to transfer the blob.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Way {
    /// Bazel's stages with one chunk in flight.
    OneAtATime,
    /// Bazel's stages and window.
    Bazel,
    /// Only the chunks, known beforehand, each in a call of its own, 64 in flight in any order,
    /// hashed and written to their place: the limit of the machine.
    Bare64,
    /// Ours, with a window that stays at 16.
    Window16,
    /// Ours.
    Adaptive,
    /// Ours, the blob in one stream.
    Whole,
}

impl Way {
    pub(crate) fn label(self) -> &'static str {
        match self {
            Self::OneAtATime => "one at a time",
            Self::Bazel => "Bazel's window of 16",
            Self::Bare64 => "bare calls, 64 in any order",
            Self::Window16 => "tidegate, window of 16",
            Self::Adaptive => "tidegate",
            Self::Whole => "tidegate, whole blob by ByteStream",
        }
    }

    /// Whether our library does the transfer; the other ways are models over plain calls.
    pub(crate) fn is_ours(self) -> bool {
        matches!(self, Self::Window16 | Self::Adaptive | Self::Whole)
    }
}
