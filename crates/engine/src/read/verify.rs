//! The running checksum of a read, and what it proves.
//!
//! It is of stored bytes, begins with the first byte of the blob, and goes on as long as each
//! piece begins where the last one ended, through restarts and captures. Only when the blob's last
//! byte has gone by is it compared, and only then is anything proven. Reading the first byte again
//! begins it anew, so that a look at a header and a rewind cost nothing.

use tidegate_core::checksum::{Checksum, ChecksumAlgorithm, Checksummer, Crc, StoredChecksum};

use crate::error::{Error, ErrorKind, Operation, Result};
use crate::verified::Unverified;

/// What the bytes of a blob that is read as a whole are compared with.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Verify {
    /// The checksum that the remote keeps; the cheapest to compute where it keeps several.
    #[default]
    Stored,
    /// This checksum of the stored bytes.
    Against(Checksum),
    /// Nothing; no checksum is computed.
    Off,
}

/// What is known of the bytes that were delivered.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Verification {
    /// Every byte so far came in order, and the end has not been reached: nothing is proven yet.
    Pending,
    /// The whole blob was read in order and has this checksum.
    Verified(Checksum),
    /// The whole blob was read in order and is damaged; every read says so.
    Mismatch {
        /// What it should have been.
        expected: Checksum,
        /// What it was.
        actual: Checksum,
    },
    /// Nothing was, or will be, proven.
    Unverified(Unverified),
}

impl Verification {
    /// Whether the whole blob was read and found to be right.
    pub fn is_verified(&self) -> bool {
        matches!(self, Self::Verified(_))
    }
}

/// A sum over the first bytes of a blob.
#[derive(Clone, Debug)]
enum Sum {
    Crc(Crc),
    Other(Checksummer, u64),
}

impl Sum {
    fn new(algorithm: ChecksumAlgorithm) -> Option<Self> {
        match algorithm.crc() {
            Some(crc) => Some(Self::Crc(Crc::empty(crc))),
            None => Checksummer::new(algorithm).ok().map(|summer| Self::Other(summer, 0)),
        }
    }

    fn len(&self) -> u64 {
        match self {
            Self::Crc(crc) => crc.len(),
            Self::Other(_, len) => *len,
        }
    }

    fn update(&mut self, bytes: &[u8]) {
        match self {
            Self::Crc(crc) => crc.update(bytes),
            Self::Other(summer, len) => {
                summer.update(bytes);
                *len += bytes.len() as u64;
            }
        }
    }

    /// As text, to go on with in another process; `None` where that cannot be had.
    fn to_text(&self) -> Option<String> {
        match self {
            Self::Crc(crc) => Some(crc.to_checksum().hex()),
            Self::Other(summer, _) => summer.to_midstate(),
        }
    }

    /// Goes on from text, which is of the first `len` bytes.
    fn from_text(algorithm: ChecksumAlgorithm, text: &str, len: u64) -> Option<Self> {
        if algorithm.crc().is_some() {
            let sum = Checksum::from_hex(algorithm, text).ok()?;
            return Crc::from_checksum(&sum, len).map(Self::Crc);
        }
        let summer = Checksummer::from_midstate(algorithm, text).ok()?;
        Some(Self::Other(summer, len))
    }

    fn value(&self) -> Checksum {
        match self {
            Self::Crc(crc) => crc.to_checksum(),
            Self::Other(summer, _) => summer.clone().finish(),
        }
    }
}

/// A running sum as it is carried to another process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Carried {
    pub(super) expected: Checksum,
    /// Of the bytes before the position, as text; `None` where the algorithm's state cannot be
    /// carried.
    pub(super) sum: Option<String>,
}

impl Carried {
    /// Whether the text is one.
    pub(super) fn is_sound(&self) -> bool {
        let algorithm = self.expected.algorithm();
        self.sum.as_ref().is_none_or(|text| Sum::from_text(algorithm, text, 0).is_some())
    }
}

#[derive(Debug)]
enum State {
    /// No byte has been delivered.
    Fresh,
    Running {
        sum: Sum,
        expected: Checksum,
    },
    Settled(Verification),
}

/// Watches the bytes that are delivered.
#[derive(Debug)]
pub(super) struct Check {
    verify: Verify,
    stored: Vec<StoredChecksum>,
    // Why the stored checksums are not known, where they should be.
    lookup: Option<Unverified>,
    // Bytes were delivered of a body that contradicts its head.
    spoiled: bool,
    state: State,
}

impl Check {
    pub(super) fn new(verify: Verify) -> Self {
        Self { verify, stored: Vec::new(), lookup: None, spoiled: false, state: State::Fresh }
    }

    /// Goes on with a sum over the first `len` bytes.
    pub(super) fn carried_on(verify: Verify, carried: Option<Carried>, len: u64) -> Self {
        let mut check = Self::new(verify);
        check.state = match carried {
            _ if len == 0 => State::Fresh,
            None => State::Settled(Verification::Unverified(Unverified::Partial)),
            Some(Carried { expected, sum }) => {
                let algorithm = expected.algorithm();
                match sum.and_then(|text| Sum::from_text(algorithm, &text, len)) {
                    Some(sum) => State::Running { sum, expected },
                    None => State::Settled(Verification::Unverified(Unverified::NotCarried(
                        expected.algorithm(),
                    ))),
                }
            }
        };
        check
    }

    pub(super) fn verify(&self) -> &Verify {
        &self.verify
    }

    /// What the remote says; `lookup` is why it says nothing, where it should.
    pub(super) fn learn(&mut self, stored: &[StoredChecksum], lookup: Option<Unverified>) {
        if self.stored.is_empty() {
            self.stored = stored.to_vec();
        }
        if lookup.is_some() {
            self.lookup = lookup;
        }
    }

    /// Takes in stored bytes that are delivered from `offset` on.
    pub(super) fn update(&mut self, offset: u64, bytes: &[u8]) {
        if bytes.is_empty() || self.verify == Verify::Off {
            return;
        }
        if offset == 0 {
            self.begin();
        }
        match &mut self.state {
            State::Running { sum, .. } if sum.len() == offset => sum.update(bytes),
            State::Running { .. } | State::Settled(Verification::Verified(_)) => {
                self.settle(Unverified::Seek);
            }
            State::Fresh => self.settle(Unverified::Partial),
            State::Settled(_) => {}
        }
    }

    fn settle(&mut self, reason: Unverified) {
        self.state = State::Settled(Verification::Unverified(reason));
    }

    /// At the first byte: chooses what is computed.
    fn begin(&mut self) {
        let chosen = self.expected().and_then(|expected| {
            let sum = Sum::new(expected.algorithm())
                .ok_or_else(|| Unverified::NotComputable(expected.algorithm()))?;
            Ok(State::Running { sum, expected })
        });
        match chosen {
            Ok(running) => self.state = running,
            Err(why) => self.settle(why),
        }
    }

    fn expected(&self) -> std::result::Result<Checksum, Unverified> {
        if let Verify::Against(expected) = &self.verify {
            return Ok(expected.clone());
        }
        self.stored
            .iter()
            .filter(|stored| stored.is_verifiable())
            .min_by_key(|stored| stored.checksum.algorithm().preference())
            .map(|stored| stored.checksum.clone())
            .ok_or_else(|| self.lookup.clone().unwrap_or_else(|| Unverified::of(&self.stored)))
    }

    /// A value of the same algorithm that the remote names besides this one.
    fn another(&self, actual: &Checksum) -> Option<Checksum> {
        let stored = self.stored.iter().filter(|stored| {
            self.verify == Verify::Stored
                && stored.is_verifiable()
                && stored.checksum.algorithm() == actual.algorithm()
                && stored.checksum != *actual
        });
        stored.map(|stored| stored.checksum.clone()).next()
    }

    /// The end of a blob of `len` bytes has been reached: compares.
    pub(super) fn finish(&mut self, len: u64, target: &str) -> Result<()> {
        if matches!(self.state, State::Fresh) && len == 0 && self.verify != Verify::Off {
            self.begin();
        }
        if let State::Running { sum, expected } = &self.state
            && sum.len() == len
        {
            let (actual, expected) = (sum.value(), expected.clone());
            // Where the remote names two values, one of them is another.
            let expected = self.another(&actual).unwrap_or(expected);
            self.state = State::Settled(if actual == expected {
                Verification::Verified(actual)
            } else {
                Verification::Mismatch { expected, actual }
            });
        }
        self.sound(target)
    }

    /// The body that was delivered contradicts its head.
    pub(super) fn spoil(&mut self) {
        self.spoiled = true;
    }

    /// Fails once the blob has been found to be damaged.
    pub(super) fn sound(&self, target: &str) -> Result<()> {
        if self.spoiled {
            let message = "bytes were delivered of a body that was longer than its head said";
            let error = Error::new(ErrorKind::Integrity, Operation::Read, target, message);
            return Err(error.with_hint("begin again"));
        }
        let State::Settled(Verification::Mismatch { expected, actual }) = &self.state else {
            return Ok(());
        };
        let message = format!("expected {expected}, got {actual}");
        let error = Error::new(ErrorKind::Integrity, Operation::Verify, target, message);
        Err(match self.verify {
            Verify::Against(_) => {
                error.with_hint("check the checksum that was given, and the blob's name")
            }
            _ => error,
        })
    }

    /// Whether what is delivered next, at `position`, goes on with what was delivered last.
    pub(super) fn goes_on_at(&self, position: u64) -> bool {
        match &self.state {
            State::Fresh => position == 0,
            State::Running { sum, .. } => position == sum.len(),
            State::Settled(_) => false,
        }
    }

    /// What is known. `cut` says that the end of what is read is not the blob's; `position` is
    /// where bytes go on that have not gone through the checksum, where that is known, and
    /// `delivered` that some have been delivered.
    pub(super) fn verification(
        &self,
        cut: bool,
        position: Option<u64>,
        delivered: bool,
    ) -> Verification {
        let begun = !matches!(self.state, State::Fresh);
        match &self.state {
            _ if self.verify == Verify::Off => Verification::Unverified(Unverified::Off),
            State::Settled(Verification::Verified(_)) if delivered && position == Some(0) => {
                Verification::Pending
            }
            State::Settled(Verification::Verified(_)) if delivered => {
                Verification::Unverified(Unverified::Seek)
            }
            State::Settled(verification) => verification.clone(),
            _ if cut => Verification::Unverified(Unverified::Partial),
            // Where the first byte comes next, everything begins anew.
            _ if position.is_none_or(|at| at == 0 || self.goes_on_at(at)) => Verification::Pending,
            _ if begun => Verification::Unverified(Unverified::Seek),
            _ => Verification::Unverified(Unverified::Partial),
        }
    }

    /// What another process needs in order to go on at `position` of a blob of `len` bytes; `None`
    /// where there is nothing to go on with.
    pub(super) fn carry(&self, position: u64, len: Option<u64>) -> Option<Carried> {
        match &self.state {
            State::Running { sum, expected } if sum.len() == position => {
                Some(Carried { expected: expected.clone(), sum: sum.to_text() })
            }
            // Compared again when the end is reached again.
            State::Settled(Verification::Verified(sum)) if len == Some(position) => Some(Carried {
                expected: sum.clone(),
                sum: sum.algorithm().crc().is_some().then(|| sum.hex()),
            }),
            State::Running { .. } | State::Settled(_) | State::Fresh => None,
        }
    }
}
