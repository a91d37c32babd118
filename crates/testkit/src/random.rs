//! `SplitMix64`, the only random generator of this crate.
//!
//! It has a few lines, needs no dependency and can be keyed: [`mix`] of a counter is as random as
//! the sequence. Data and faults can therefore be computed for any position alone. Source: Steele,
//! Lea, Flood, "Fast splittable pseudorandom number generators", 2014. Not for secrets.

/// The increment of the generator: 2^64 divided by the golden ratio, made odd.
pub(crate) const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// The output function: spreads every bit of `state` over the result.
pub(crate) const fn mix(state: u64) -> u64 {
    let z = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// A seeded generator; equal seeds give equal sequences on every machine.
#[derive(Debug, Clone)]
pub struct SplitMix64 {
    state: u64,
}

impl SplitMix64 {
    /// Starts the sequence that belongs to `seed`.
    pub const fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    /// The next 64 random bits.
    pub fn draw(&mut self) -> u64 {
        self.state = self.state.wrapping_add(GOLDEN);
        mix(self.state)
    }

    /// A number in `0..bound`, or 0 if `bound` is 0.
    ///
    /// The bias of the multiplication is below 2^-32 for any bound that a test uses.
    pub fn below(&mut self, bound: u64) -> u64 {
        let wide = u128::from(self.draw()) * u128::from(bound);
        u64::try_from(wide >> 64).unwrap_or(0)
    }

    /// A number in `0.0..1.0`.
    pub fn fraction(&mut self) -> f64 {
        let bits = u32::try_from(self.draw() >> 32).unwrap_or(0);
        f64::from(bits) / (f64::from(u32::MAX) + 1.0)
    }
}

/// Folds bytes into a key for a generator (FNV-1a, then mixed).
pub(crate) fn key(seed: u64, parts: &[&[u8]]) -> u64 {
    let mut hash = 0xcbf2_9ce4_8422_2325 ^ mix(seed);
    for part in parts {
        for byte in *part {
            hash = (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
        hash = mix(hash);
    }
    hash
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn follows_the_published_sequence() {
        let mut random = SplitMix64::new(1_234_567);
        assert_eq!(random.draw(), 6_457_827_717_110_365_317);
        assert_eq!(random.draw(), 3_203_168_211_198_807_973);
    }

    #[test]
    fn stays_in_its_bounds() {
        let mut random = SplitMix64::new(7);
        for _ in 0..1000 {
            assert!(random.below(10) < 10);
            assert!((0.0..1.0).contains(&random.fraction()));
        }
        assert_eq!(random.below(0), 0);
    }
}
