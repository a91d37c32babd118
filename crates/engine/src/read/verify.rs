//! The running checksum of a read, and the result of its verification.
//!
//! It covers stored bytes and begins with the first byte of the blob. It continues while each piece
//! begins where the last one ended, through restarts and captures. It is compared only after the
//! blob's last byte; until then nothing is verified. Reading the first byte again starts it again,
//! so a caller can read a header and rewind without losing verification.

use tidegate_core::checksum::{
    Checksum, ChecksumAlgorithm, Checksummer, CompositeChecksummer, Crc, StoredChecksum,
};

use crate::error::{Error, ErrorKind, Operation, Result};
use crate::verified::{PartsChecksum, Unverified};

use super::PartsCheck;

/// The checksum for the comparison when a blob is read as a whole.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Verify {
    /// The checksum that the remote stores; the cheapest to compute if it stores several.
    #[default]
    Stored,
    /// This checksum of the stored bytes.
    Against(Checksum),
    /// None; no checksum is computed.
    Off,
}

/// The result of verification for the delivered bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Verification {
    /// Every byte so far came in order, and the end has not been reached: nothing is verified yet.
    Pending,
    /// The whole blob was read in order and has this checksum.
    Verified(Checksum),
    /// The whole blob was read in order, and its uploaded parts have this composite checksum.
    VerifiedByParts(PartsChecksum),
    /// The whole blob was read in order and is damaged; every further read fails.
    Mismatch {
        /// The expected checksum.
        expected: Checksum,
        /// The checksum of the bytes that were read.
        actual: Checksum,
    },
    /// The bytes were not, or will not be, verified.
    Unverified(Unverified),
}

impl Verification {
    /// Whether the whole blob was read and its checksum matched.
    pub fn is_verified(&self) -> bool {
        matches!(self, Self::Verified(_) | Self::VerifiedByParts(_))
    }
}

/// A sum over the first bytes of a blob.
#[derive(Clone, Debug)]
enum Sum {
    Crc(Crc),
    Other(Checksummer, u64),
    /// Over the parts of the upload.
    Parts(Box<CompositeChecksummer>),
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
            Self::Parts(summer) => summer.position(),
        }
    }

    fn update(&mut self, bytes: &[u8]) {
        match self {
            Self::Crc(crc) => crc.update(bytes),
            Self::Other(summer, len) => {
                summer.update(bytes);
                *len += bytes.len() as u64;
            }
            Self::Parts(summer) => summer.update(bytes),
        }
    }

    /// The sum as text, for another process; `None` if the algorithm's state cannot be exported.
    fn to_text(&self) -> Option<String> {
        match self {
            Self::Crc(crc) => Some(crc.to_checksum().hex()),
            Self::Other(summer, _) => summer.to_midstate(),
            Self::Parts(_) => None,
        }
    }

    /// Restores a sum from text; it covers the first `len` bytes.
    fn from_text(algorithm: ChecksumAlgorithm, text: &str, len: u64) -> Option<Self> {
        if algorithm.crc().is_some() {
            let sum = Checksum::from_hex(algorithm, text).ok()?;
            return Crc::from_checksum(&sum, len).map(Self::Crc);
        }
        let summer = Checksummer::from_midstate(algorithm, text).ok()?;
        Some(Self::Other(summer, len))
    }

    /// `None` if the bytes are not exactly those of the parts.
    fn value(&self) -> Option<Checksum> {
        match self {
            Self::Crc(crc) => Some(crc.to_checksum()),
            Self::Other(summer, _) => Some(summer.clone().finish()),
            Self::Parts(summer) => (**summer).clone().finish(),
        }
    }
}

/// A running sum for another process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Carried {
    pub(super) expected: Checksum,
    /// The sum of the bytes before the position, as text; `None` if the algorithm's state cannot be
    /// exported.
    pub(super) sum: Option<String>,
}

impl Carried {
    /// Whether the text is a valid sum.
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

/// Computes the checksum of the delivered bytes.
#[derive(Debug)]
pub(super) struct Check {
    verify: Verify,
    stored: Vec<StoredChecksum>,
    // Why the stored checksums are unknown although the remote should have them.
    lookup: Option<Unverified>,
    // A composite checksum whose parts are known, for a blob without another checksum.
    parts: Option<PartsCheck>,
    // The delivered body contradicts its head.
    spoiled: bool,
    state: State,
}

impl Check {
    pub(super) fn new(verify: Verify) -> Self {
        Self {
            verify,
            stored: Vec::new(),
            lookup: None,
            parts: None,
            spoiled: false,
            state: State::Fresh,
        }
    }

    /// Continues with a sum over the first `len` bytes.
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

    /// Stores the remote's checksums; `lookup` is the reason if they are missing.
    pub(super) fn learn(&mut self, stored: &[StoredChecksum], lookup: Option<Unverified>) {
        if self.stored.is_empty() {
            self.stored = stored.to_vec();
        }
        if lookup.is_some() {
            self.lookup = lookup;
        }
    }

    /// Stores the composite checksum to compare.
    pub(super) fn learn_parts(&mut self, parts: Option<PartsCheck>) {
        self.parts = parts;
    }

    /// Adds the stored bytes that are delivered from `offset` on.
    pub(super) fn update(&mut self, offset: u64, bytes: &[u8]) {
        if bytes.is_empty() || self.verify == Verify::Off {
            return;
        }
        if offset == 0 {
            self.begin();
        }
        match &mut self.state {
            State::Running { sum, .. } if sum.len() == offset => sum.update(bytes),
            State::Running { .. } => self.settle(Unverified::Seek),
            State::Settled(verification) if verification.is_verified() => {
                self.settle(Unverified::Seek);
            }
            State::Fresh => self.settle(Unverified::Partial),
            State::Settled(_) => {}
        }
    }

    fn settle(&mut self, reason: Unverified) {
        self.state = State::Settled(Verification::Unverified(reason));
    }

    /// At the first byte: chooses the checksum.
    fn begin(&mut self) {
        if let Some(running) = self.begin_parts() {
            self.state = running;
            return;
        }
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

    fn begin_parts(&self) -> Option<State> {
        let parts = self.parts.as_ref().filter(|_| self.verify == Verify::Stored)?;
        let expected = parts.expected.clone();
        let summer = CompositeChecksummer::new(expected.algorithm(), parts.layout.clone()).ok()?;
        Some(State::Running { sum: Sum::Parts(Box::new(summer)), expected })
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

    /// Another stored value of the same algorithm.
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
            self.state = State::Settled(self.compared(sum, expected));
        }
        self.sound(target)
    }

    fn compared(&self, sum: &Sum, expected: &Checksum) -> Verification {
        let algorithm = expected.algorithm();
        let unproved = |reason: &str| {
            let reason = reason.to_owned();
            Verification::Unverified(Unverified::PartSizes { algorithm, reason })
        };
        let Some(actual) = sum.value() else {
            return unproved("they do not add up to the bytes that were read");
        };
        // If the remote stores two different values, at least one differs from the actual checksum.
        let expected = self.another(&actual).unwrap_or_else(|| expected.clone());
        match (sum, &self.parts) {
            (Sum::Parts(_), Some(parts)) if actual == expected => {
                let parts = parts.layout.count();
                Verification::VerifiedByParts(PartsChecksum { checksum: actual, parts })
            }
            (Sum::Parts(_), Some(parts)) if parts.is_inferred => {
                unproved("with the size of the first one for all of them, the checksum differs")
            }
            _ if actual == expected => Verification::Verified(actual),
            _ => Verification::Mismatch { expected, actual },
        }
    }

    /// Records that the delivered body contradicts its head.
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

    /// Whether the next delivered bytes, at `position`, follow the last delivered ones.
    pub(super) fn goes_on_at(&self, position: u64) -> bool {
        match &self.state {
            State::Fresh => position == 0,
            State::Running { sum, .. } => position == sum.len(),
            State::Settled(_) => false,
        }
    }

    /// The result of verification. `cut`: the end of the read is not the blob's end. `position`:
    /// the first byte that has not gone through the checksum, if it is known. `delivered`: some
    /// such bytes have been delivered.
    pub(super) fn verification(
        &self,
        cut: bool,
        position: Option<u64>,
        delivered: bool,
    ) -> Verification {
        let begun = !matches!(self.state, State::Fresh);
        match &self.state {
            _ if self.verify == Verify::Off => Verification::Unverified(Unverified::Off),
            State::Settled(done) if done.is_verified() && delivered => match position {
                Some(0) => Verification::Pending,
                _ => Verification::Unverified(Unverified::Seek),
            },
            State::Settled(verification) => verification.clone(),
            _ if cut => Verification::Unverified(Unverified::Partial),
            // If the first byte comes next, the sum starts again.
            _ if position.is_none_or(|at| at == 0 || self.goes_on_at(at)) => Verification::Pending,
            _ if begun => Verification::Unverified(Unverified::Seek),
            _ => Verification::Unverified(Unverified::Partial),
        }
    }

    /// The sum for another process that continues at `position` of a blob of `len` bytes; `None` if
    /// there is no sum up to there.
    pub(super) fn carry(&self, position: u64, len: Option<u64>) -> Option<Carried> {
        match &self.state {
            State::Running { sum, expected } if sum.len() == position => {
                Some(Carried { expected: expected.clone(), sum: sum.to_text() })
            }
            // It is compared again when the end is reached again.
            State::Settled(Verification::Verified(sum)) if len == Some(position) => Some(Carried {
                expected: sum.clone(),
                sum: sum.algorithm().crc().is_some().then(|| sum.hex()),
            }),
            State::Settled(Verification::VerifiedByParts(parts)) if len == Some(position) => {
                Some(Carried { expected: parts.checksum.clone(), sum: None })
            }
            State::Running { .. } | State::Settled(_) | State::Fresh => None,
        }
    }
}
