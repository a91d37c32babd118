//! The ways in which a blob is sent.

use tidegate::remote::{Precondition, WriteOptions};
use tidegate_testkit::Flavour;

use crate::bed::PART;

/// A remote, and how a blob gets there.
#[derive(Debug)]
pub(crate) struct Way {
    pub(crate) name: &'static str,
    pub(crate) flavour: Flavour,
    pub(crate) len: usize,
    pub(crate) part_bytes: usize,
    /// Whether the target must be absent.
    pub(crate) absent: bool,
}

const SHORT: usize = 100_000;

/// A session of Google keeps multiples of this.
pub(crate) const GRANULE: usize = 256 << 10;

pub(crate) const WAYS: &[Way] = &[
    way("S3 put", Flavour::S3, SHORT, PART, false),
    way("S3 put, absent", Flavour::S3, SHORT, PART, true),
    way("S3 parts", Flavour::S3, PART + SHORT, PART, false),
    way("S3 parts, absent", Flavour::S3, PART + SHORT, PART, true),
    way("GCS put", Flavour::Gcs, SHORT, PART, false),
    way("GCS put, absent", Flavour::Gcs, SHORT, PART, true),
    way("GCS parts", Flavour::Gcs, PART + SHORT, PART, false),
    way("GCS session", Flavour::Gcs, 3 * GRANULE + SHORT, GRANULE, true),
    way("Azure put", Flavour::Azure, SHORT, PART, false),
    way("Azure blocks", Flavour::Azure, 2 * SHORT + 1, SHORT, false),
    way("Azure blocks, absent", Flavour::Azure, 2 * SHORT + 1, SHORT, true),
    way("HTTP put", Flavour::Http, SHORT, PART, false),
];

const fn way(
    name: &'static str,
    flavour: Flavour,
    len: usize,
    part_bytes: usize,
    absent: bool,
) -> Way {
    Way { name, flavour, len, part_bytes, absent }
}

impl Way {
    pub(crate) fn options(&self) -> WriteOptions {
        let absent = if self.absent { Precondition::Absent } else { Precondition::None };
        WriteOptions::when(absent)
    }

    /// Whether Google stores it by a session.
    pub(crate) fn is_session(&self) -> bool {
        self.flavour == Flavour::Gcs && self.absent && self.len > self.part_bytes
    }

    /// The number of parts; 0 if it goes in one request or as one stream.
    pub(crate) fn parts(&self) -> usize {
        if self.len <= self.part_bytes || self.is_session() {
            return 0;
        }
        self.len.div_ceil(self.part_bytes)
    }
}
