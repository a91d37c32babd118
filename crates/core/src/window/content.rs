//! [`Content`]: the mean request size of one round. It distinguishes a change of content from
//! chance.
//!
//! A blob may go from batches of megabytes to single small chunks. The window that was right before
//! may then be a tenth of the right one. A round before the change and a round after it cannot be
//! compared, even after weighing by size cost.

use super::round::Sample;

/// Means that differ by less than this factor count as similar: steps of the window find the rest.
const LIKE: f64 = 2.0;

/// A difference of more standard errors than this is not chance. Four, because the first rounds
/// have eight samples and sizes are skewed: for chunks from 16 KiB to 4 MiB, three were too few.
const CHANCE_ERRORS: f64 = 4.0;

/// The mean size of a round's requests.
#[derive(Clone, Copy, Debug)]
pub(super) struct Content {
    mean_mib: f64,
    /// Standard error of the mean.
    error_mib: f64,
}

impl Content {
    pub(super) fn of(samples: &[Sample]) -> Self {
        let (total_mib, count) = sum(samples.iter().map(|sample| sample.size_mib));
        let mean_mib = total_mib / count.max(1.0);
        if count < 2.0 {
            // One sample says nothing about the spread.
            return Self { mean_mib, error_mib: mean_mib };
        }
        let (squares, _) = sum(samples.iter().map(|sample| (sample.size_mib - mean_mib).powi(2)));
        Self { mean_mib, error_mib: (squares / (count - 1.0) / count).sqrt() }
    }

    /// Whether two rounds with these contents can be compared.
    pub(super) fn is_like(&self, other: &Self) -> bool {
        let (one, two) = (self.mean_mib, other.mean_mib);
        let is_near = one.max(two) <= LIKE * one.min(two);
        is_near || (one - two).abs() <= CHANCE_ERRORS * self.error_mib.hypot(other.error_mib)
    }
}

/// The sum and the count of `values`.
fn sum(values: impl Iterator<Item = f64>) -> (f64, f64) {
    values.fold((0.0, 0.0), |(sum, count), value| (sum + value, count + 1.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn content(sizes_mib: &[f64]) -> Content {
        let sample = |size_mib: &f64| Sample { latency_s: 0.1, size_mib: *size_mib };
        Content::of(&sizes_mib.iter().map(sample).collect::<Vec<_>>())
    }

    #[test]
    fn other_content_is_distinguished_from_chance() {
        let (large, small) = (content(&[4.0; 8]), content(&[0.25; 8]));
        assert!(!large.is_like(&small) && !small.is_like(&large));
        assert!(large.is_like(&content(&[2.5; 8])));
        // Half of the round's requests are of the new content.
        assert!(!large.is_like(&content(&[4.0, 0.25, 0.25, 4.0, 0.25, 0.25, 0.25, 0.25])));
        // Two draws of the same content.
        let mixed = [0.02, 0.02, 0.1, 0.05, 0.5, 0.03, 3.0, 0.02];
        let others = [4.0, 0.1, 2.0, 0.02, 1.5, 0.5, 3.0, 0.02];
        assert!(content(&mixed).is_like(&content(&others)));
    }

    #[test]
    fn what_is_too_little_to_tell_is_like_anything() {
        assert!(content(&[4.0]).is_like(&content(&[0.1, 0.1])));
        assert!(content(&[]).is_like(&content(&[])));
        assert!(content(&[0.0; 4]).is_like(&content(&[0.0; 4])));
    }
}
