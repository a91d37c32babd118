//! The conditions under which an object is fetched: the target, and the kind of link.

use clap::ValueEnum;
use serde::Serialize;

/// One condition. Its name gives the target and the limits of the link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Case {
    /// To `/dev/null`: the cost of receiving alone.
    Null,
    /// To a file on disk.
    Disk,
    /// To a file in memory (`/dev/shm`).
    Tmpfs,
    /// To `/dev/null`, 20 ms before each response.
    NullDelay,
    /// To a file on disk, 20 ms before each response.
    DiskDelay,
    /// To `/dev/null`, 20 ms before each response, 100 MiB/s a connection.
    NullCapped,
    /// To a file on disk, 20 ms before each response, 100 MiB/s a connection.
    DiskCapped,
}

/// The target of the fetched bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sink {
    Null,
    Disk,
    Tmpfs,
}

/// The link between server and tool. The figures are those of a cloud in the same region: some 20
/// ms to the first byte, some 100 MiB/s a connection.
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

    /// Heading in the report.
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
