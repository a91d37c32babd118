//! [`Column`]: what is measured.

use clap::ValueEnum;
use serde::Serialize;

/// One column of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Column {
    /// Large blobs as streams, one at a time.
    Write1,
    Read1,
    /// Eight at a time.
    Write8,
    Read8,
    /// Blobs of 4 KiB as streams, 8 at a time.
    SmallWrite8,
    SmallRead8,
    /// 64 at a time.
    SmallWrite64,
    SmallRead64,
    /// Batches of 100 blobs of 4 KiB; a blob is an operation.
    BatchUpdate,
    BatchRead,
    /// Questions for 1,000 blobs; half of them are there. A question is an operation.
    FindMissing,
    UpdateResult,
    GetResult,
}

impl Column {
    pub(crate) const fn label(self) -> &'static str {
        match self {
            Self::Write1 => "write x1, MiB/s",
            Self::Read1 => "read x1, MiB/s",
            Self::Write8 => "write x8, MiB/s",
            Self::Read8 => "read x8, MiB/s",
            Self::SmallWrite8 => "write 4 KiB x8, /s",
            Self::SmallRead8 => "read 4 KiB x8, /s",
            Self::SmallWrite64 => "write 4 KiB x64, /s",
            Self::SmallRead64 => "read 4 KiB x64, /s",
            Self::BatchUpdate => "BatchUpdate 4 KiB, /s",
            Self::BatchRead => "BatchRead 4 KiB, /s",
            Self::FindMissing => "FindMissing x1000, /s",
            Self::UpdateResult => "UpdateActionResult, /s",
            Self::GetResult => "GetActionResult, /s",
        }
    }

    /// Whether the rate counts bytes, not operations.
    pub(crate) const fn is_bytes(self) -> bool {
        matches!(self, Self::Write1 | Self::Read1 | Self::Write8 | Self::Read8)
    }

    /// Calls in flight.
    pub(crate) const fn workers(self) -> usize {
        match self {
            Self::Write1 | Self::Read1 => 1,
            Self::SmallWrite64 | Self::SmallRead64 => 64,
            _ => 8,
        }
    }
}
