//! The blob: two contents that follow each other under one name.

use bytes::Bytes;

use super::manners::{ORIGIN, SECURE};
use crate::data::pseudo_random;

/// The time of every response, in seconds since 1970: noon on 1 May 2024. A fixed time keeps
/// scenarios pure. Clients compare a modification date with the `Date` of the response, not with a
/// clock.
pub(crate) const NOW: u64 = 1_714_564_800;

/// One version of the blob.
#[derive(Debug, Clone)]
pub struct Content {
    label: char,
    bytes: Bytes,
}

impl Content {
    pub(crate) fn new(label: char, len_bytes: usize, seed: u64) -> Self {
        Self { label, bytes: pseudo_random(len_bytes, seed) }
    }

    /// `A` or `B`.
    pub fn label(&self) -> char {
        self.label
    }

    /// All its bytes.
    pub fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    pub(crate) fn len(&self) -> u64 {
        self.bytes.len() as u64
    }

    /// The bytes of a range, cut to the content.
    pub(crate) fn slice(&self, start: u64, end: u64) -> Vec<u8> {
        let at = |offset: u64| usize::try_from(offset.min(self.len())).unwrap_or(usize::MAX);
        self.bytes.get(at(start)..at(end)).unwrap_or_default().to_vec()
    }

    /// The text between the quotes of its entity tag. A mirror has its own tag for each content.
    pub(crate) fn tag(&self, port: u16) -> String {
        let port = port % SECURE;
        let place = if port == ORIGIN { String::new() } else { format!("{port}-") };
        format!("{place}{}", self.label.to_ascii_lowercase())
    }

    pub(crate) fn generation(&self) -> String {
        (1_700_000_000_000 + u64::from(u32::from(self.label))).to_string()
    }

    pub(crate) fn version_id(&self) -> String {
        format!("version-{}", self.label)
    }

    /// The time at which it was written: days before the responses.
    pub(crate) fn modified(&self) -> u64 {
        NOW - if self.label == 'A' { 200_000 } else { 100_000 }
    }
}

/// A time as HTTP writes it.
pub(crate) fn http_date(seconds: u64) -> String {
    let time = std::time::SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(seconds);
    httpdate::fmt_http_date(time)
}
