//! [`Scenario`]: a transfer and the wrong responses to it, from a seed.

use bytes::Bytes;
use tidegate::remote::reapi::Compression;
use tidegate_testkit::reapi::{HashFunction, HostileCall, Rpc, SplicedAgain, Turns};
use tidegate_testkit::{SplitMix64, pseudo_random};

/// All parameters of one transfer. It is plain data: equal scenarios give equal transfers.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Scenario {
    pub(crate) blob: Blob,
    pub(crate) function: HashFunction,
    pub(crate) cache: Cache,
    pub(crate) client: Client,
    pub(crate) transfer: Transfer,
    pub(crate) calls: Vec<HostileCall>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Blob {
    pub(crate) len_bytes: usize,
    pub(crate) kind: Kind,
    pub(crate) seed: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// No two chunks are the same, and no chunk compresses.
    Noise,
    /// The blob compresses.
    Text,
    /// Most chunks are the same.
    Zeros,
}

impl Blob {
    pub(crate) fn bytes(&self) -> Bytes {
        match self.kind {
            Kind::Noise => pseudo_random(self.len_bytes, self.seed),
            Kind::Text => {
                let line = format!("{} the tide comes in, the tide goes out; ", self.seed);
                line.bytes().cycle().take(self.len_bytes).collect()
            }
            Kind::Zeros => {
                let mut bytes = vec![0; self.len_bytes];
                bytes.iter_mut().zip(self.seed.to_le_bytes()).for_each(|(at, byte)| *at = byte);
                bytes.into()
            }
        }
    }
}

/// The cache's capabilities and content.
#[expect(clippy::struct_excessive_bools, reason = "each is a capability that is there or not")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cache {
    pub(crate) batch_bytes_max: u64,
    pub(crate) can_split: bool,
    pub(crate) can_splice: bool,
    pub(crate) speaks_zstd: bool,
    pub(crate) spliced_again: SplicedAgain,
    /// The cache accepts bytes without checking their digest.
    pub(crate) trusts: bool,
    pub(crate) kept: Kept,
}

/// The part of the blob that the cache has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kept {
    Nothing,
    Whole,
    /// As chunks only.
    Chunks,
    /// Every other chunk. For a download also a complete manifest.
    SomeChunks,
    /// The cache says that it has a certain chunk, but does not have it.
    Haunted,
}

/// The client's settings.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Client {
    pub(crate) compression: Compression,
    pub(crate) chunks: bool,
    pub(crate) connections_max: usize,
    pub(crate) window: u32,
    pub(crate) attempts_max: u32,
    pub(crate) budget_bytes: u64,
    pub(crate) whole_fallback: bool,
    pub(crate) deadline_ms: Option<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Transfer {
    Down(Target),
    Up(Named),
}

/// The target of a download.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    File,
    /// An existing file, and a seed.
    OldFile,
    Memory,
    Writer,
    /// A file, by ranges of the whole blob.
    RangesToFile,
    /// A reader of the whole blob.
    Channel,
}

/// The digest that the uploader gives for the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Named {
    Not,
    Rightly,
    /// The digest of other bytes of the same length. The cache may have those bytes.
    Wrongly {
        is_there: bool,
    },
}

impl Scenario {
    /// The scenario that belongs to a seed.
    pub(crate) fn of(seed: u64) -> Self {
        let mut random = SplitMix64::new(seed);
        let random = &mut random;
        let is_up = random.below(2) == 0;
        let cache = Cache::draw(random, is_up);
        let transfer =
            if is_up { Transfer::Up(named(random)) } else { Transfer::Down(target(random)) };
        Self {
            blob: Blob::draw(random, seed),
            function: pick(
                random,
                &[HashFunction::Sha256, HashFunction::Sha256, HashFunction::Blake3],
            ),
            client: Client::draw(random, &cache),
            transfer,
            calls: calls(random, transfer, &cache),
            cache,
        }
    }

    /// Smaller versions of this scenario.
    pub(crate) fn smaller(&self) -> Vec<Self> {
        let mut smaller = Vec::new();
        for index in 0..self.calls.len() {
            let mut less = self.clone();
            less.calls.remove(index);
            smaller.push(less);
            for lie in 0..self.calls[index].lies.len() {
                let mut less = self.clone();
                less.calls[index].lies.remove(lie);
                smaller.push(less);
            }
            if self.calls[index].turns != Turns::First {
                let mut less = self.clone();
                less.calls[index].turns = Turns::First;
                smaller.push(less);
            }
        }
        let plain = Client { compression: Compression::Never, deadline_ms: None, ..self.client };
        let client = [
            plain,
            Client { chunks: true, connections_max: 1, window: 1, ..plain },
            Client { budget_bytes: 8 << 20, whole_fallback: true, ..self.client },
        ];
        smaller.extend(client.map(|client| Self { client, ..self.clone() }));
        let plain = Cache { speaks_zstd: false, ..self.cache };
        smaller.push(Self { cache: plain, ..self.clone() });
        let blob = Blob { kind: Kind::Noise, ..self.blob };
        smaller.push(Self { blob, ..self.clone() });
        smaller.retain(|less| less != self);
        smaller
    }
}

impl Blob {
    fn draw(random: &mut SplitMix64, seed: u64) -> Self {
        let len_bytes = pick(random, &[0, 1, 300, 3_000, 6_000, 20_000, 20_000, 20_000, 50_000]);
        let kind = pick(random, &[Kind::Noise, Kind::Noise, Kind::Text, Kind::Zeros]);
        Self { len_bytes, kind, seed }
    }
}

impl Cache {
    fn draw(random: &mut SplitMix64, is_up: bool) -> Self {
        let up = [
            Kept::Nothing,
            Kept::Nothing,
            Kept::SomeChunks,
            Kept::Chunks,
            Kept::Whole,
            Kept::Haunted,
        ];
        let down = [
            Kept::Whole,
            Kept::Whole,
            Kept::Whole,
            Kept::Chunks,
            Kept::Chunks,
            Kept::SomeChunks,
            Kept::Nothing,
        ];
        Self {
            // One chunk a batch, some chunks, or all chunks.
            batch_bytes_max: pick(random, &[1, 6_000, 4 << 20]),
            can_split: random.below(8) > 0,
            can_splice: random.below(4) > 0,
            speaks_zstd: random.below(2) == 0,
            spliced_again: pick(random, &[SplicedAgain::AlreadyExists, SplicedAgain::Extended]),
            trusts: random.below(4) == 0,
            kept: if is_up { pick(random, &up) } else { pick(random, &down) },
        }
    }
}

impl Client {
    fn draw(random: &mut SplitMix64, cache: &Cache) -> Self {
        let packs = [Compression::Always, Compression::Auto, Compression::Never];
        Self {
            compression: if cache.speaks_zstd { pick(random, &packs) } else { Compression::Never },
            chunks: random.below(8) > 0,
            connections_max: pick(random, &[1, 2]),
            window: pick(random, &[1, 4, 16]),
            attempts_max: pick(random, &[1, 2, 4]),
            budget_bytes: pick(random, &[64 << 10, 512 << 10, 8 << 20]),
            whole_fallback: random.below(4) > 0,
            deadline_ms: pick(random, &[None, None, None, None, Some(5_000)]),
        }
    }
}

fn named(random: &mut SplitMix64) -> Named {
    match random.below(8) {
        0 => Named::Wrongly { is_there: false },
        1 => Named::Wrongly { is_there: true },
        2..=4 => Named::Rightly,
        _ => Named::Not,
    }
}

fn target(random: &mut SplitMix64) -> Target {
    match random.below(10) {
        0..=3 => Target::File,
        4 => Target::OldFile,
        5 => Target::Memory,
        6 => Target::Writer,
        7 | 8 => Target::RangesToFile,
        _ => Target::Channel,
    }
}

/// The calls with wrong responses, mostly calls that this transfer makes. One scenario in 16 has
/// none, and succeeds.
fn calls(random: &mut SplitMix64, transfer: Transfer, cache: &Cache) -> Vec<HostileCall> {
    if random.below(16) == 0 {
        return Vec::new();
    }
    let is_single = cache.batch_bytes_max < 300;
    let asked: &[Rpc] = match transfer {
        Transfer::Down(Target::RangesToFile | Target::Channel) => &[Rpc::Read],
        Transfer::Down(_) if is_single => &[Rpc::Split, Rpc::Read, Rpc::Read],
        Transfer::Down(_) => &[Rpc::Split, Rpc::BatchRead, Rpc::BatchRead, Rpc::Read],
        Transfer::Up(_) if is_single => {
            &[Rpc::FindMissing, Rpc::Write, Rpc::Write, Rpc::QueryWriteStatus, Rpc::Splice]
        }
        Transfer::Up(_) => {
            &[Rpc::FindMissing, Rpc::BatchUpdate, Rpc::BatchUpdate, Rpc::Splice, Rpc::Write]
        }
    };
    let mut calls = Vec::new();
    for _ in 0..=random.below(3) {
        let rpc = if random.below(16) == 0 { Rpc::Capabilities } else { pick(random, asked) };
        calls.push(HostileCall::draw(rpc, random));
    }
    // The client asks for a Write's status only after a Write has failed.
    if calls.iter().any(|call| call.rpc == Rpc::QueryWriteStatus) {
        let mut failing = HostileCall::draw(Rpc::Write, random);
        failing.turns = Turns::First;
        calls.push(failing);
    }
    calls
}

fn pick<T: Copy>(random: &mut SplitMix64, among: &[T]) -> T {
    let count = u64::try_from(among.len()).unwrap();
    among[usize::try_from(random.below(count)).unwrap()]
}
