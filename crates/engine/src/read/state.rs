//! [`ReadState`]: a captured read that another process can continue.
//!
//! It is one line of text, so that any medium can carry it: the format's name and number, a CRC32C,
//! and JSON that this CRC covers. `docs/formats.md` describes it. It holds the blob's name and the
//! position. It holds nothing that grants access: the name is the one without secrets that is
//! displayed.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use tidegate_core::checksum::{Checksum, ChecksumAlgorithm, Crc, CrcAlgorithm};
use tidegate_core::retry::RetryPolicy;

use super::verify::Carried;
use super::{ReadOptions, Verify};
use crate::budget::Budget;
use crate::error::{Error, ErrorKind, Operation, Result};
use crate::remote::Version;

/// The start of the text; the number is that of the format.
const NAME: &str = "tidegate-read-";
const FORMAT: u32 = 1;

/// The state of a read, for another process to continue: see
/// [`ReadChannel::capture`](super::ReadChannel::capture).
///
/// `Display` and `FromStr` use its text form, of one line; serde uses that text as a string.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct ReadState {
    pub(super) content: Content,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Content {
    /// The blob's name as it is displayed.
    pub(super) source: String,
    pub(super) version: Option<Version>,
    pub(super) len_bytes: Option<u64>,
    /// The coding of the received bytes, `identity` for none; absent if it is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) coding: Option<String>,
    pub(super) position: At,
    /// Bytes before this offset were delivered; the position, if an older version left it out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) delivered_end: Option<u64>,
    /// The end of the read, exclusive.
    pub(super) limit: Option<u64>,
    /// The position counts decoded bytes.
    pub(super) decoded: bool,
    pub(super) options: Options,
    pub(super) checksum: Option<Sum>,
}

/// Position of the first byte that has not been delivered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum At {
    /// This many bytes from the start of the blob.
    Start(u64),
    /// This many bytes before its end, which is not known yet.
    End(u64),
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Options {
    pub(super) verify: Compare,
    pub(super) decode: bool,
    pub(super) buffer_bytes: u64,
    pub(super) drain_bytes_max: u64,
    pub(super) hedge_ms: Option<u64>,
    pub(super) retry: RetryNumbers,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Compare {
    Stored,
    Off,
    Against(String),
}

/// [`RetryPolicy`] without its seed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct RetryNumbers {
    attempts_max: u32,
    delay_ms_min: u64,
    delay_ms_max: u64,
    deadline_ms: Option<u64>,
    stall_ms_max: u64,
    connect_ms_max: u64,
    header_ms_max: u64,
    progress_bytes_min: u64,
    retry_after_ms_max: u64,
    // States of earlier versions do not have it.
    #[serde(default)]
    speed: Option<SpeedNumbers>,
}

/// The minimum speed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct SpeedNumbers {
    bytes_per_s_min: u64,
    slow_ms_max: u64,
}

/// A running checksum: the expected value, and the sum of the bytes before the position.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Sum {
    expected: String,
    so_far: Option<String>,
}

impl ReadState {
    /// The options that the read was opened with, as far as a state contains them. Range and
    /// version are in the state itself; budget and counters are new.
    pub(crate) fn options(&self, budget: Budget) -> ReadOptions {
        let options = &self.content.options;
        ReadOptions {
            verify: self.verify(),
            decode: options.decode,
            retry: options.retry.policy(),
            buffer_bytes: usize::try_from(options.buffer_bytes).unwrap_or(usize::MAX),
            drain_bytes_max: options.drain_bytes_max,
            hedge_ms: options.hedge_ms,
            ..ReadOptions::within(budget)
        }
    }

    /// The blob's name as it is displayed.
    pub fn source(&self) -> &str {
        &self.content.source
    }

    /// The version that was read, if a response had named one.
    pub fn version(&self) -> Option<&Version> {
        self.content.version.as_ref()
    }

    /// Offset of the first byte that had not been delivered; `None` if only its distance from an
    /// unknown end was known.
    pub fn position(&self) -> Option<u64> {
        match self.content.position {
            At::Start(position) => Some(position),
            At::End(_) => None,
        }
    }

    pub(super) fn verify(&self) -> Verify {
        match &self.content.options.verify {
            Compare::Stored => Verify::Stored,
            Compare::Off => Verify::Off,
            // It was checked when the text was read.
            Compare::Against(text) => parse_sum(text).map_or(Verify::Stored, Verify::Against),
        }
    }

    pub(super) fn carried(&self) -> Option<Carried> {
        let sum = self.content.checksum.as_ref()?;
        Some(Carried { expected: parse_sum(&sum.expected)?, sum: sum.so_far.clone() })
    }

    /// Whether the fields are consistent.
    fn sound(&self) -> bool {
        let Content { options, checksum, .. } = &self.content;
        let against = match &options.verify {
            Compare::Against(text) => parse_sum(text).is_some(),
            _ => true,
        };
        let carried = checksum.as_ref().map(|_| self.carried());
        let sum = carried.is_none_or(|carried| carried.is_some_and(|carried| carried.is_sound()));
        against && sum
    }
}

impl Content {
    /// Why a read cannot continue from here. Only the version ties the bytes before the position to
    /// those after it, and a position beyond the end has no bytes.
    pub(super) fn flaw(&self) -> Option<String> {
        let At::Start(position) = self.position else { return None };
        if position > 0 && self.version.is_none() {
            return Some(format!("it stands at byte {position} of a blob without a version"));
        }
        let stored_end = position.max(self.delivered_end.unwrap_or(0));
        let len = self.len_bytes.filter(|len| !self.decoded && stored_end > *len)?;
        Some(format!("it stands at byte {stored_end} of a blob of {len} bytes"))
    }
}

impl Options {
    pub(super) fn of(options: &ReadOptions) -> Self {
        Self {
            verify: match &options.verify {
                Verify::Stored => Compare::Stored,
                Verify::Off => Compare::Off,
                Verify::Against(checksum) => Compare::Against(checksum.to_string()),
            },
            decode: options.decode,
            buffer_bytes: options.buffer_bytes as u64,
            drain_bytes_max: options.drain_bytes_max,
            hedge_ms: options.hedge_ms,
            retry: RetryNumbers::of(&options.retry),
        }
    }
}

impl RetryNumbers {
    fn of(policy: &RetryPolicy) -> Self {
        Self {
            attempts_max: policy.attempts_max,
            delay_ms_min: policy.delay_ms_min,
            delay_ms_max: policy.delay_ms_max,
            deadline_ms: policy.deadline_ms,
            stall_ms_max: policy.stall_ms_max,
            connect_ms_max: policy.connect_ms_max,
            header_ms_max: policy.header_ms_max,
            progress_bytes_min: policy.progress_bytes_min,
            retry_after_ms_max: policy.retry_after_ms_max,
            speed: Some(SpeedNumbers {
                bytes_per_s_min: policy.bytes_per_s_min,
                slow_ms_max: policy.slow_ms_max,
            }),
        }
    }

    fn policy(&self) -> RetryPolicy {
        let usual = RetryPolicy::default();
        let usual =
            SpeedNumbers { bytes_per_s_min: usual.bytes_per_s_min, slow_ms_max: usual.slow_ms_max };
        let speed = self.speed.unwrap_or(usual);
        RetryPolicy {
            bytes_per_s_min: speed.bytes_per_s_min,
            slow_ms_max: speed.slow_ms_max,
            attempts_max: self.attempts_max,
            delay_ms_min: self.delay_ms_min,
            delay_ms_max: self.delay_ms_max,
            deadline_ms: self.deadline_ms,
            stall_ms_max: self.stall_ms_max,
            connect_ms_max: self.connect_ms_max,
            header_ms_max: self.header_ms_max,
            progress_bytes_min: self.progress_bytes_min,
            retry_after_ms_max: self.retry_after_ms_max,
            ..RetryPolicy::default()
        }
    }
}

impl Sum {
    pub(super) fn of(carried: Carried) -> Self {
        Self { expected: carried.expected.to_string(), so_far: carried.sum }
    }
}

/// `crc32c:e3069283`, as a checksum is displayed.
fn parse_sum(text: &str) -> Option<Checksum> {
    let (name, hex) = text.split_once(':')?;
    Checksum::from_hex(name.parse::<ChecksumAlgorithm>().ok()?, hex).ok()
}

fn seal(json: &str) -> String {
    Crc::of(CrcAlgorithm::Crc32c, json.as_bytes()).to_checksum().hex()
}

impl fmt::Display for ReadState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Numbers, texts and options always serialise to JSON.
        let json = serde_json::to_string(&self.content).ok().ok_or(fmt::Error)?;
        write!(f, "{NAME}{FORMAT} {} {json}", seal(&json))
    }
}

fn refused(kind: ErrorKind, message: impl Into<String>) -> Error {
    Error::new(kind, Operation::Restore, "read state", message)
}

/// Fails with `Invalid` for text that is no state, `Unsupported` for a newer format, and
/// `Integrity` for a damaged state.
impl FromStr for ReadState {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let text = text.trim();
        let rest = text
            .strip_prefix(NAME)
            .ok_or_else(|| refused(ErrorKind::Invalid, "it is not the state of a read"))?;
        let damaged = || refused(ErrorKind::Integrity, "it is damaged").with_hint("begin again");
        let (format, rest) = rest.split_once(' ').ok_or_else(damaged)?;
        let format: u32 = format.parse().map_err(|error| damaged().caused_by(error))?;
        if format != FORMAT {
            let message = format!("expected format {FORMAT}, got {format}");
            return Err(refused(ErrorKind::Unsupported, message)
                .with_hint("use the version that captured it, or a newer one, or begin again"));
        }
        let (crc, json) = rest.split_once(' ').ok_or_else(damaged)?;
        if crc != seal(json) {
            return Err(damaged());
        }
        let content = serde_json::from_str(json).map_err(|error| damaged().caused_by(error))?;
        let state = Self { content };
        if state.sound() { Ok(state) } else { Err(damaged()) }
    }
}

impl From<ReadState> for String {
    fn from(state: ReadState) -> Self {
        state.to_string()
    }
}

impl TryFrom<String> for ReadState {
    type Error = Error;

    fn try_from(text: String) -> Result<Self> {
        text.parse()
    }
}
