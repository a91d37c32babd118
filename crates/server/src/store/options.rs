//! [`StoreOptions`]: the limit, the level, the age.

use std::time::Duration;

/// What an acknowledgement means.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Level {
    /// It survives `kill -9`. It is synced within a second.
    #[default]
    Process,
    /// It survives a loss of power.
    Power,
}

impl Level {
    /// The name that the command and `/status` use.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Process => "process",
            Self::Power => "power",
        }
    }
}

/// What the owner of a store chooses.
#[derive(Clone, Debug)]
pub struct StoreOptions {
    /// The limit in bytes, for everything that the store has on the disk.
    pub bytes_max: u64,
    /// A store that exists keeps the limit that it was opened with before.
    pub keeps_limit: bool,
    /// What an acknowledgement means.
    pub level: Level,
    /// Values that were used within this time are not evicted. Zero turns it off.
    pub min_age: Duration,
    /// Values up to this length are records; longer ones are files.
    pub inline_bytes_max: usize,
    /// Bytes of one pack for a new store; `None` derives it from the limit.
    pub pack_bytes: Option<u64>,
    /// Bits that select a shard in a new store; `None` derives them from the limit.
    pub shard_bits: Option<u32>,
    /// The salt of a new store; `None` takes a random one. Tests choose it.
    pub salt: Option<[u8; 32]>,
}

impl StoreOptions {
    /// A store of at most `bytes_max` bytes at level `process`, with a minimum age of an hour.
    pub const fn new(bytes_max: u64) -> Self {
        Self {
            bytes_max,
            keeps_limit: false,
            level: Level::Process,
            min_age: Duration::from_hours(1),
            inline_bytes_max: 64 << 10,
            pack_bytes: None,
            shard_bits: None,
            salt: None,
        }
    }

    /// A 64th of the limit, from 1 MiB to 256 MiB. A store of 64 MiB has 64 packs of 1 MiB.
    pub(crate) fn pack_bytes_chosen(&self) -> u64 {
        let fitting = self.bytes_max / 64;
        let power_of_two = if fitting < 2 { 1 } else { 1 << fitting.ilog2() };
        self.pack_bytes.unwrap_or(power_of_two.clamp(1 << 20, 256 << 20))
    }

    /// Enough shards that a cold look-up reads little, and few enough that a small store's
    /// checkpoint is small: 64 below 1 GiB, 512 below 64 GiB, else 4,096.
    pub(crate) fn shard_bits_chosen(&self) -> u32 {
        let by_limit = match self.bytes_max >> 30 {
            0 => 6,
            1..64 => 9,
            _ => 12,
        };
        self.shard_bits.unwrap_or(by_limit).clamp(6, 12)
    }
}
