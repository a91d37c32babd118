//! The conditions under which an object is fetched: where to, and over what kind of link.

use clap::ValueEnum;
use serde::Serialize;

/// One condition. Its name says where the bytes go and what stands in the way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Case {
    /// To `/dev/null`: what receiving alone costs.
    Null,
    /// To a file on disk.
    Disk,
    /// To a file in memory (`/dev/shm`).
    Tmpfs,
    /// To `/dev/null`, 20 ms before each answer.
    NullDelay,
    /// To a file on disk, 20 ms before each answer.
    DiskDelay,
    /// To `/dev/null`, 20 ms before each answer, 100 MiB/s a connection.
    NullCapped,
    /// To a file on disk, 20 ms before each answer, 100 MiB/s a connection.
    DiskCapped,
}

/// Where the fetched bytes go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sink {
    Null,
    Disk,
    Tmpfs,
}

/// What stands between server and tool. Figures as in the cloud from the same region: some
/// 20 ms to the first byte, some 100 MiB/s a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Link {
    Plain,
    Delay,
    Capped,
}

impl Case {
    pub(crate) const DEFAULTS: [Self; 5] =
        [Self::Null, Self::Disk, Self::DiskDelay, Self::DiskCapped, Self::NullCapped];

    pub(crate) fn sink(self) -> Sink {
        match self {
            Self::Null | Self::NullDelay | Self::NullCapped => Sink::Null,
            Self::Disk | Self::DiskDelay | Self::DiskCapped => Sink::Disk,
            Self::Tmpfs => Sink::Tmpfs,
        }
    }

    pub(crate) fn link(self) -> Link {
        match self {
            Self::Null | Self::Disk | Self::Tmpfs => Link::Plain,
            Self::NullDelay | Self::DiskDelay => Link::Delay,
            Self::NullCapped | Self::DiskCapped => Link::Capped,
        }
    }

    /// A heading for people.
    pub(crate) fn title(self) -> &'static str {
        match self {
            Self::Null => "to /dev/null",
            Self::Disk => "to disk",
            Self::Tmpfs => "to memory (tmpfs)",
            Self::NullDelay => "to /dev/null, +20 ms",
            Self::DiskDelay => "to disk, +20 ms",
            Self::NullCapped => "to /dev/null, +20 ms and 100 MiB/s a connection",
            Self::DiskCapped => "to disk, +20 ms and 100 MiB/s a connection",
        }
    }
}
