//! The client's part of a seed: the way, and the range, version and checksum that the client asks
//! for.

use tidegate::remote::Version;
use tidegate_core::checksum::{Checksum, ChecksumAlgorithm};
use tidegate_core::range::ByteRange;
use tidegate_core::retry::RetryPolicy;
use tidegate_testkit::SplitMix64;
use tidegate_testkit::hostile::{Name, Scenario, Sum, Wanted};

/// How the blob is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    File,
    Memory,
    Output,
    Channel,
    /// Into a file, by more than one run.
    Resume,
    /// Through a channel, by more than one process.
    Restore,
}

impl Way {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::File => "file",
            Self::Memory => "memory",
            Self::Output => "output",
            Self::Channel => "channel",
            Self::Resume => "resume",
            Self::Restore => "restore",
        }
    }
}

const WAYS: [Way; 6] =
    [Way::File, Way::Memory, Way::Output, Way::Channel, Way::Resume, Way::Restore];

/// See the module docs.
#[derive(Clone, Debug)]
pub(crate) struct Choice {
    pub(crate) seed: u64,
    pub(crate) way: Way,
    pub(crate) wanted: Wanted,
    pub(crate) pinned: Option<Name>,
    pub(crate) given: Option<(Sum, Vec<u8>)>,
    pub(crate) window: u32,
    pub(crate) shard_bytes: u64,
    /// The target's name exists before.
    pub(crate) had_target: bool,
    /// Varies equal choices: how a run is killed, how a channel is read.
    pub(crate) variant: u64,
    /// A channel is captured after this many bytes.
    pub(crate) carried_after: u64,
}

impl Choice {
    pub(crate) fn new(seed: u64, scenario: &Scenario) -> Self {
        // Random numbers that differ from the scenario's.
        let dice = &mut SplitMix64::new(seed ^ 0x5eed_0000_c1e4);
        let way = one_of(dice, &WAYS);
        let len = scenario.contents()[0].bytes().len() as u64;
        let wanted = match way {
            Way::Resume => Wanted::All,
            _ => wanted(dice, len),
        };
        let pinned = (dice.below(10) == 0).then(|| {
            let pins = scenario.pins();
            let at = usize::try_from(dice.below(pins.len() as u64)).unwrap();
            pins[at].clone()
        });
        let given = (dice.below(12) == 0 && wanted == Wanted::All).then(|| {
            let content = &scenario.contents()[usize::from(dice.below(4) == 0)];
            (Sum::Sha256, Sum::Sha256.of(content.bytes()))
        });
        Self {
            seed,
            way,
            wanted,
            pinned,
            given,
            window: one_of(dice, &[1, 2, 3, 4]),
            shard_bytes: one_of(dice, &[300, 1000, 2500, 100_000]),
            had_target: dice.below(2) == 0,
            variant: dice.below(1 << 16),
            carried_after: dice.below(len + 1),
        }
    }

    pub(crate) fn range(&self) -> ByteRange {
        match &self.wanted {
            Wanted::All => ByteRange::All,
            Wanted::From(start) => ByteRange::From(*start),
            Wanted::Bounded(range) => ByteRange::Bounded(range.clone()),
            Wanted::Last(count) => ByteRange::Last(*count),
        }
    }

    pub(crate) fn version(&self) -> Option<Version> {
        Some(match self.pinned.clone()? {
            Name::Tag(text) => Version::ETag(text),
            Name::Generation(text) => Version::Generation(text),
            Name::VersionId(text) => Version::VersionId(text),
            Name::Date(text) => Version::LastModified(text),
        })
    }

    pub(crate) fn expected(&self) -> Option<Checksum> {
        let (_, value) = self.given.as_ref()?;
        Some(Checksum::new(ChecksumAlgorithm::Sha256, value).unwrap())
    }

    pub(crate) fn retry(&self) -> RetryPolicy {
        RetryPolicy {
            attempts_max: 5,
            delay_ms_min: 1,
            delay_ms_max: 5,
            progress_bytes_min: 500,
            seed: Some(self.seed),
            ..RetryPolicy::default()
        }
    }

    /// Whether the client's options give no reason to fail.
    pub(crate) fn must_succeed(&self, scenario: &Scenario) -> bool {
        let plain = self.wanted == Wanted::All && self.pinned.is_none() && self.given.is_none();
        // A download to memory needs a length. A read without a version cannot be restored.
        let able = match self.way {
            Way::File | Way::Output | Way::Channel | Way::Resume => true,
            Way::Memory => scenario.tells_length(),
            Way::Restore => false,
        };
        plain && able && scenario.is_sound()
    }
}

fn wanted(dice: &mut SplitMix64, len: u64) -> Wanted {
    let at = |dice: &mut SplitMix64| dice.below(len + 1);
    match dice.below(12) {
        0 => Wanted::From(at(dice)),
        1 => Wanted::Last(1 + at(dice)),
        2 => {
            let start = at(dice);
            Wanted::Bounded(start..start + 1 + at(dice))
        }
        _ => Wanted::All,
    }
}

fn one_of<T: Copy>(dice: &mut SplitMix64, choices: &[T]) -> T {
    choices[usize::try_from(dice.below(choices.len() as u64)).unwrap()]
}

/// The name of a version in responses.
pub(crate) fn named(version: Option<&Version>) -> Option<Name> {
    Some(match version?.clone() {
        Version::ETag(text) => Name::Tag(text),
        Version::Generation(text) => Name::Generation(text),
        Version::VersionId(text) => Name::VersionId(text),
        Version::LastModified(text) => Name::Date(text),
        other => Name::Tag(other.to_string()),
    })
}
