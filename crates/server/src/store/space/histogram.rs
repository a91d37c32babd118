//! [`AgeHistogram`]: bytes by last use, and the last use before which entries go.
//!
//! It is made from the whole index when something must go: 8 million entries take some 100 ms in
//! the background. So a look-up has nothing to count.

const BUCKETS: u64 = 4096;

/// Bytes by last use.
#[derive(Debug)]
pub(crate) struct AgeHistogram {
    oldest: u32,
    /// Ticks of one bucket.
    width: u64,
    buckets: Vec<u64>,
}

impl AgeHistogram {
    /// For uses from `oldest` to `newest`.
    pub(crate) fn new(oldest: u32, newest: u32) -> Self {
        let width = (u64::from(newest.saturating_sub(oldest)) + 1).div_ceil(BUCKETS);
        Self { oldest, width, buckets: vec![0; usize::try_from(BUCKETS).unwrap_or_default()] }
    }

    pub(crate) fn add(&mut self, last_use: u32, bytes: u64) {
        let at = u64::from(last_use.saturating_sub(self.oldest)) / self.width;
        let at = usize::try_from(at.min(BUCKETS - 1)).unwrap_or_default();
        self.buckets[at] += bytes;
    }

    /// The last use before which entries have at least `bytes`, but at most `limit`.
    pub(crate) fn cutoff(&self, bytes: u64, limit: u32) -> u32 {
        let mut sum = 0;
        for (at, more) in (1_u64..).zip(&self.buckets) {
            sum += more;
            if sum >= bytes {
                let cutoff = u64::from(self.oldest).saturating_add(at * self.width);
                return u32::try_from(cutoff).unwrap_or(u32::MAX).min(limit);
            }
        }
        limit
    }
}

#[cfg(test)]
mod tests {
    use super::AgeHistogram;

    #[test]
    fn cutoff_is_behind_the_bytes_wanted() {
        let mut histogram = AgeHistogram::new(1000, 1999);
        for last_use in 1000..2000 {
            histogram.add(last_use, 10);
        }
        assert_eq!(histogram.cutoff(10, 5000), 1001);
        assert_eq!(histogram.cutoff(95, 5000), 1010);
        assert_eq!(histogram.cutoff(95, 1005), 1005, "the limit protects what is young");
        assert_eq!(histogram.cutoff(20_000, 1500), 1500);
    }
}
