//! [`Run`]: one seed.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use fastrand::Rng;
use tidegate_core::digest::{Digest, DigestFunction};
use tidegate_server::store::{
    Content, Core, Faults, Key, Level, Op, SimulatedDisk, Space, StoreOptions, Value, ValueContent,
};

use super::history::{History, Version};

/// Keys below this number are blobs. The others are opaque values with versions.
const BLOBS: u32 = 1000;
const INLINE_BYTES_MAX: usize = 400;
const PACK_BYTES: u64 = 32 << 10;

/// What a run meets.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Scenario {
    pub(crate) is_power: bool,
    pub(crate) has_faults: bool,
    pub(crate) is_full: bool,
}

/// One seed.
#[derive(Debug)]
pub(crate) struct Run {
    scenario: Scenario,
    random: Rng,
    disk: SimulatedDisk,
    core: Option<Core>,
    clock_ms: u64,
    history: History,
    next_version: u32,
    has_faults_now: bool,
    had_sync_fault: bool,
    reads: u64,
    /// What a loss of power brought back beyond the limit: files whose removal was not durable. It goes
    /// with the next eviction.
    returned_bytes: u64,
}

/// The bytes of a version of a key.
pub(crate) fn content(key: u32, version: u32) -> Bytes {
    let mut random = Rng::with_seed((u64::from(key) << 32) | u64::from(version));
    let len = match random.u8(..) {
        0..160 => random.usize(1..INLINE_BYTES_MAX / 4),
        160..220 => random.usize(1..INLINE_BYTES_MAX),
        _ => random.usize(INLINE_BYTES_MAX..6000),
    };
    let mut bytes = vec![0; 8 + len];
    random.fill(&mut bytes[8..]);
    bytes[..4].copy_from_slice(&version.to_le_bytes());
    bytes[4..8].copy_from_slice(&key.to_le_bytes());
    bytes.into()
}

pub(crate) fn key_of(key: u32) -> Key {
    if key < BLOBS {
        Key::blob(&Digest::of(DigestFunction::Blake3, &content(key, 0)))
    } else {
        Key::new(Space::Value, &key.to_le_bytes()).unwrap()
    }
}

impl Run {
    pub(crate) fn new(scenario: Scenario, seed: u64) -> Self {
        let mut random = Rng::with_seed(seed);
        let disk = SimulatedDisk::new(random.u64(..), 4 << 20);
        disk.set_sync_ms_max(20);
        let mut history = History::default();
        history.may_miss = scenario.is_full;
        let mut run = Self {
            scenario,
            random,
            disk,
            core: None,
            clock_ms: 1_000_000,
            history,
            next_version: 1,
            has_faults_now: false,
            had_sync_fault: false,
            reads: 0,
            returned_bytes: 0,
        };
        run.open();
        run
    }

    /// Plays random steps. Returns how many reads were compared.
    pub(crate) fn play(mut self, steps: u64) -> u64 {
        for _ in 0..steps {
            self.step();
        }
        self.disk.set_faults(Faults::default());
        self.disk.set_taken_by_others(0);
        self.kill();
        for key in self.keys() {
            self.read(key);
        }
        self.reads
    }

    /// Half of them are blobs. A full store has space for half of them.
    fn keys(&self) -> std::ops::Range<u32> {
        let half = if self.scenario.is_full { 1000 } else { 50 };
        BLOBS - half..BLOBS + half
    }

    fn key(&mut self) -> u32 {
        let keys = self.keys();
        self.random.u32(keys)
    }

    fn bytes_max(&self) -> u64 {
        if self.scenario.is_full { 40 * PACK_BYTES } else { 64 * PACK_BYTES }
    }

    fn options(&self) -> StoreOptions {
        let mut options = StoreOptions::new(self.bytes_max());
        options.level = if self.scenario.is_power { Level::Power } else { Level::Process };
        options.min_age = Duration::ZERO;
        options.inline_bytes_max = INLINE_BYTES_MAX;
        options.pack_bytes = Some(PACK_BYTES);
        options.salt = Some([7; 32]);
        options
    }

    fn open(&mut self) {
        let disk: Arc<SimulatedDisk> = Arc::new(self.disk.clone());
        loop {
            match Core::open(Arc::<SimulatedDisk>::clone(&disk), self.options(), self.clock_ms) {
                Ok(core) => {
                    self.core = Some(core);
                    return;
                }
                Err(error) => {
                    let error = anyhow_text(&error);
                    assert!(self.has_faults_now, "opening failed without a fault: {error}");
                    self.set_faults(false);
                }
            }
        }
    }

    fn core(&self) -> &Core {
        self.core.as_ref().unwrap()
    }

    fn kill(&mut self) {
        self.core = None;
        self.open();
    }

    fn cut_power(&mut self) {
        self.core = None;
        self.clock_ms += 60_000;
        self.disk.cut_power();
        self.returned_bytes = self.disk.named_bytes().saturating_sub(self.bytes_max());
        if !self.scenario.is_power {
            self.history.lost_power();
        }
        self.open();
    }

    fn set_faults(&mut self, are_on: bool) {
        self.has_faults_now = are_on;
        self.had_sync_fault |= are_on;
        if are_on && !self.scenario.is_power {
            // A failed sync may take bytes that were acknowledged before it.
            self.history.may_miss = true;
            self.history.may_roll_back = true;
        }
        self.disk.set_faults(if are_on {
            Faults { read: 300, write: 2000, sync: 2000, name: 1000 }
        } else {
            Faults::default()
        });
    }

    fn step(&mut self) {
        self.clock_ms += self.random.u64(0..50) + self.disk.take_slow_ms();
        self.core().tick(self.clock_ms);
        match self.random.u32(0..1000) {
            0..400 => self.put(),
            400..430 => self.purge(),
            430..800 => {
                let key = self.key();
                self.read(key);
            }
            800..840 => {
                let synced = self.core().sync();
                assert!(synced.is_ok() || self.has_faults_now || self.scenario.has_faults);
            }
            840..940 => {
                let maintained = self.core().maintain();
                assert!(
                    maintained.is_ok() || self.scenario.has_faults || self.scenario.is_full,
                    "{maintained:?}"
                );
            }
            940..960 => {
                let saved = self.core().checkpoint();
                assert!(saved.is_ok() || self.scenario.has_faults, "{saved:?}");
            }
            960..970 => self.abandon(),
            970..980 => self.kill(),
            980..986 => self.cut_power(),
            986..990 => self.clock_ms = self.clock_ms.saturating_sub(self.random.u64(0..1 << 30)),
            990..992 => self.clock_ms += self.random.u64(0..1 << 40),
            992..996 if self.scenario.has_faults => {
                let are_on = self.random.bool();
                self.set_faults(are_on);
            }
            996..1000 if self.scenario.has_faults => {
                let taken = if self.random.bool() { 4 << 20 } else { 0 };
                self.disk.set_taken_by_others(taken);
            }
            _ => {}
        }
        let (used, counted) = (self.disk.named_bytes(), self.core().used_bytes());
        if used <= self.bytes_max() {
            self.returned_bytes = 0;
        }
        let limit = self.bytes_max() * 105 / 100 + self.returned_bytes;
        assert!(used <= limit, "{used} of {limit} bytes used, the store counts {counted}");
    }

    fn op(&mut self) -> (u32, Version, Option<Op>) {
        let number = self.key();
        let version = if number < BLOBS { 0 } else { self.next_version };
        self.next_version += 1;
        let bytes = content(number, version);
        let key = key_of(number);
        let content = if bytes.len() <= INLINE_BYTES_MAX {
            Content::Bytes(bytes.clone())
        } else {
            let digest = Digest::of(DigestFunction::Blake3, &bytes);
            let staged = self.core().stage(Some(digest)).and_then(|mut staged| {
                for piece in bytes.chunks(1000) {
                    staged.write(piece)?;
                }
                Ok(staged)
            });
            match staged {
                Ok(staged) => Content::File(staged),
                Err(error) => {
                    let is_expected = self.scenario.has_faults || self.scenario.is_full;
                    assert!(is_expected, "staging failed: {}", anyhow_text(&error));
                    return (number, Some(version), None);
                }
            }
        };
        let size = bytes.len() as u64;
        (number, Some(version), Some(Op::Put { key, form: 3, size, content }))
    }

    fn put(&mut self) {
        let count = self.random.usize(1..6);
        let mut made = Vec::new();
        let mut ops = Vec::new();
        for _ in 0..count {
            let (number, version, op) = self.op();
            if let Some(op) = op {
                made.push((number, version));
                ops.push(op);
            }
        }
        let results = self.core().commit(ops);
        for ((number, version), result) in made.into_iter().zip(results) {
            match result {
                Ok(()) if number < BLOBS => self.history.exists(number),
                Ok(()) => self.history.done(number, version),
                Err(error) => {
                    let is_expected = self.scenario.has_faults || self.scenario.is_full;
                    assert!(is_expected, "a put failed: {}", anyhow_text(&error));
                    self.history.attempted(number, version);
                }
            }
        }
    }

    fn purge(&mut self) {
        let number = self.key();
        let results = self.core().commit(vec![Op::Purge { key: key_of(number) }]);
        match &results[0] {
            Ok(()) => self.history.done(number, None),
            Err(error) => {
                let is_expected = self.scenario.has_faults || self.scenario.is_full;
                assert!(is_expected, "a purge failed: {}", anyhow_text(error));
                self.history.attempted(number, None);
            }
        }
    }

    fn read(&mut self, number: u32) {
        let key = key_of(number);
        let is_claimed = self.core().contains(&key);
        let got = match self.core().get(&key).and_then(|value| value.map(bytes_of).transpose()) {
            Ok(got) => got,
            Err(error) => {
                assert!(self.scenario.has_faults, "a read failed: {}", anyhow_text(&error));
                return;
            }
        };
        let may_miss = self.had_sync_fault || self.has_faults_now;
        assert!(got.is_some() == is_claimed || may_miss, "key {number}: claimed {is_claimed}");
        self.reads += 1;
        let version = got.map(|bytes| self.version_of(number, &bytes));
        self.history.check(number, version);
    }

    /// The version of a key that has these bytes.
    fn version_of(&self, number: u32, bytes: &Bytes) -> u32 {
        let version = bytes.get(..4).and_then(|bytes| bytes.try_into().ok());
        let version = u32::from_le_bytes(version.unwrap_or_default());
        let is_known = version < self.next_version && content(number, version) == bytes;
        assert!(is_known, "key {number} has bytes that were never put");
        version
    }

    fn abandon(&mut self) {
        if let Ok(mut staged) = self.core().stage(None) {
            let _ = staged.write(&[7; 3000]);
        }
    }
}

/// The bytes of a value, read in pieces.
pub(crate) fn bytes_of(value: Value) -> Result<Bytes, tidegate_server::store::StoreError> {
    assert_eq!(value.form, 3, "the form is stored");
    let bytes = match value.content {
        ValueContent::Bytes(bytes) => bytes,
        ValueContent::File(file) => {
            let mut all = Vec::new();
            while (all.len() as u64) < file.len() {
                all.extend_from_slice(&file.read(all.len() as u64, 1000)?);
            }
            all.into()
        }
    };
    assert_eq!(value.size, bytes.len() as u64, "the size is stored");
    Ok(bytes)
}

fn anyhow_text(error: &tidegate_server::store::StoreError) -> String {
    let source = std::error::Error::source(error).map(|source| format!(": {source}"));
    format!("{error}{}", source.unwrap_or_default())
}
