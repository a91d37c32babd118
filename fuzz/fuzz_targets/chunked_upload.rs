//! Chunked uploads to a store with scripted failures, evictions and lies: nothing is in flight
//! after the return, a blob that the report says is stored is stored, and an upload to an honest
//! store succeeds.
//!
//! The store, which checks every request, and the chunking are those of the engine's tests.

#![no_main]
#![allow(dead_code, reason = "the tests use more of what they share")]

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;

use arbitrary::Arbitrary;
use libfuzzer_sys::fuzz_target;
use tidegate::chunked::BatchLimits;
use tidegate_core::digest::{Digest, DigestFunction};
use tidegate_core::retry::RetryClass;
use tidegate_core::window::WindowOptions;
use tokio::runtime::{Builder, Runtime};
use tidegate::ErrorKind;

#[path = "../../crates/engine/tests/chunked/upload/bed.rs"]
mod bed;
#[path = "../../crates/engine/tests/call/mod.rs"]
mod call;
#[path = "../../crates/engine/tests/chunked/upload/store.rs"]
mod store;

use bed::{budget, options, random, run, small};
use call::{UploadOptions, client_with};
use store::{Call, FakeStore, Reply, profile};

#[derive(Arbitrary, Debug)]
struct Input {
    /// The pieces of the file: seed and length of random bytes. Few seeds, so that chunks recur.
    pieces: Vec<(u8, u16)>,
    names_no_chunking: bool,
    can_splice: bool,
    batch: Option<(u16, u8)>,
    budget: (u8, u16),
    window: u8,
    digest: Option<Known>,
    /// Seeds of the blobs that the store has before the upload.
    present: Vec<u8>,
    faults: Vec<(Kind, u8, Hit)>,
}

#[derive(Arbitrary, Clone, Copy, Debug)]
enum Known {
    Right,
    Wrong,
}

#[derive(Arbitrary, Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Kind {
    Missing,
    Put,
    PutBatch,
    Register,
}

/// The fault of the n-th call of a kind.
#[derive(Arbitrary, Clone, Copy, Debug)]
enum Hit {
    Fail {
        how: u8,
        for_good: bool,
    },
    Break(u8),
    LacksNothing,
    LacksOthers,
    LacksAll,
    ChunkMissing,
    Refuse,
    Short,
    /// The store evicts all blobs before the call.
    Evict,
}

const FILE_BYTES_MAX: usize = 300_000;

impl Kind {
    fn of(call: &Call) -> Self {
        match call {
            Call::Missing(_) => Self::Missing,
            Call::Put { .. } => Self::Put,
            Call::PutBatch(_) => Self::PutBatch,
            Call::Register { .. } => Self::Register,
        }
    }
}

impl Hit {
    fn reply(self, call: &Call) -> Reply {
        let kinds = [
            ErrorKind::Transport,
            ErrorKind::Remote,
            ErrorKind::Throttled,
            ErrorKind::NotFound,
            ErrorKind::NoAccess,
            ErrorKind::Integrity,
            ErrorKind::Unsupported,
        ];
        match (self, call) {
            (Self::Fail { how, for_good }, _) => {
                let class = if for_good { RetryClass::Never } else { RetryClass::Now };
                Reply::Fail(kinds[usize::from(how) % kinds.len()], class)
            }
            (Self::Break(count), _) => Reply::Break(count.into()),
            (Self::LacksNothing, Call::Missing(_)) => Reply::Lacks(Vec::new()),
            (Self::LacksAll, Call::Missing(asked)) => Reply::Lacks(asked.clone()),
            (Self::LacksOthers, Call::Missing(_)) => {
                Reply::Lacks(vec![Digest::of(DigestFunction::Sha256, b"other")])
            }
            (Self::ChunkMissing, Call::Register { .. }) => Reply::ChunkMissing,
            (Self::Refuse, Call::PutBatch(_)) => Reply::Refuse,
            (Self::Short, Call::PutBatch(_)) => Reply::Short,
            _ => Reply::Go,
        }
    }
}

impl Input {
    fn bytes(&self) -> Vec<u8> {
        let pieces = self.pieces.iter().map(|(seed, len)| random((*len).into(), (seed % 8).into()));
        let mut bytes = pieces.collect::<Vec<_>>().concat();
        bytes.truncate(FILE_BYTES_MAX);
        bytes
    }

    fn store(&self) -> Arc<FakeStore> {
        let chunkings = if self.names_no_chunking { vec![] } else { vec![small()] };
        let mut profile = profile(&chunkings);
        profile.can_splice = self.can_splice;
        profile.batch = self.batch.map(|(bytes, count)| BatchLimits {
            bytes_max: bytes.into(),
            count_max: usize::from(count),
            overhead_bytes: 60,
        });
        let faults = self.faults.clone();
        let mut counts: HashMap<Kind, u8> = HashMap::new();
        FakeStore::scripted(profile, move |call, blobs| {
            let kind = Kind::of(call);
            let count = counts.entry(kind).or_default();
            let nth = *count;
            *count = count.saturating_add(1);
            let hit = faults.iter().find(|(of, at, _)| (*of, *at) == (kind, nth));
            match hit {
                Some((_, _, Hit::Evict)) => {
                    blobs.clear();
                    Reply::Go
                }
                Some((_, _, hit)) => hit.reply(call),
                None => Reply::Go,
            }
        })
    }

    fn options(&self, digest: Digest) -> UploadOptions {
        let start = u32::from(self.window % 32);
        let requests = u32::from(self.budget.0 % 8) + 1;
        let mut options = UploadOptions {
            client: client_with(&budget(requests, u64::from(self.budget.1) + 1)),
            window: WindowOptions { start, ..WindowOptions::default() },
            ..options()
        };
        options.retry.attempts_max = 3;
        options.digest = self.digest.map(|known| match known {
            Known::Right => digest,
            Known::Wrong => Digest { hash: [7; 32], ..digest },
        });
        options
    }
}

async fn play(input: &Input) {
    let file = bed::File::new(input.bytes());
    let (digest, store) = (file.digest(), input.store());
    for index in &input.present {
        let bytes = random(1_000, (*index).into());
        store.blobs().insert(Digest::of(DigestFunction::Sha256, &bytes), bytes.into());
    }
    let options = input.options(digest);
    // An honest store has all blobs that it reports.
    let lies = |hit: &Hit| matches!(hit, Hit::LacksNothing | Hit::Evict | Hit::LacksOthers);
    let is_honest = !input.faults.iter().any(|(_, _, hit)| lies(hit));
    let outcome = run(&store, &file.path, &options).await;
    assert_eq!(store.in_flight(), 0, "nothing is in flight after the return");
    let budget = options.client.budget();
    assert!(budget.held_bytes_peak() <= budget.limits().bytes);
    if let Ok(report) = outcome {
        // If the store reports that it has the given digest, the upload sends nothing.
        let named = options.digest.unwrap_or(digest);
        assert_eq!(report.digest.unwrap(), named);
        let is_there = named.len == 0 || store.blobs().contains_key(&named);
        assert!(is_there || !is_honest, "what is said to be there is there");
    }
    let honest = FakeStore::new(store.profile.clone());
    let again = UploadOptions { digest: None, ..options };
    let report = run(&honest, &file.path, &again).await;
    let report = report.unwrap_or_else(|error| panic!("{}", error.chain()));
    assert_eq!(report.digest, Some(digest));
    let blobs = honest.blobs();
    assert!(file.bytes.is_empty() || blobs.get(&digest).is_some_and(|it| *it == file.bytes));
}

thread_local! {
    static RUNTIME: RefCell<Runtime> =
        RefCell::new(Builder::new_current_thread().enable_all().build().unwrap());
}

fuzz_target!(|input: Input| {
    RUNTIME.with_borrow_mut(|runtime| runtime.block_on(play(&input)));
});
