//! [`Hashers`]: the checksums that a sink computes of a blob's bytes in order.

use tidegate_core::checksum::{Checksum, Checksummer, CompositeChecksummer};

/// Checksums in progress: of the whole blob, and of the parts in which it was uploaded.
#[derive(Clone, Debug, Default)]
pub(crate) struct Hashers {
    whole: Vec<Checksummer>,
    parts: Option<Box<CompositeChecksummer>>,
}

/// The results.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sums {
    /// Checksums of the whole blob.
    pub(crate) whole: Vec<Checksum>,
    /// The composite checksum of its parts.
    pub(crate) parts: Option<Checksum>,
}

impl Hashers {
    pub(crate) fn new(whole: Vec<Checksummer>, parts: Option<CompositeChecksummer>) -> Self {
        Self { whole, parts: parts.map(Box::new) }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.whole.is_empty() && self.parts.is_none()
    }

    /// Appends bytes.
    pub(crate) fn update(&mut self, bytes: &[u8]) {
        self.whole.iter_mut().for_each(|hasher| hasher.update(bytes));
        if let Some(parts) = &mut self.parts {
            parts.update(bytes);
        }
    }

    pub(crate) fn finish(self) -> Sums {
        Sums {
            whole: self.whole.into_iter().map(Checksummer::finish).collect(),
            parts: self.parts.and_then(|parts| parts.finish()),
        }
    }
}

impl Sums {
    /// The sums of both.
    pub(crate) fn and(mut self, other: Self) -> Self {
        self.whole.extend(other.whole);
        Self { whole: self.whole, parts: self.parts.or(other.parts) }
    }
}
