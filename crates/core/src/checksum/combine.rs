//! The arithmetic of appending one CRC to another: polynomials over GF(2), modulo the CRC's.
//!
//! The CRC of `first ++ next` is that of `first` multiplied by `x^(8 * len(next))`, plus that of
//! `next`. The powers `x^(8 * 2^k)` are tables built at compile time. So an append is one
//! multiplication for every bit set in the length: the method of Mark Adler's zlib since 1.2.12
//! (`crc32_combine_gen`, `multmodp`). It is right for reflected CRCs whose initial value equals
//! their final inversion, which holds for all of ours.
//!
//! `crc-fast` has a combination too: zlib's older one with matrices. Measured on one core of a
//! Xeon, it takes 70 to 160 µs for CRC32C and 250 to 770 µs for CRC-64/NVME, as long as
//! checksumming 5 to 50 MB. This one takes 0.1 to 0.2 µs for every bit set in the length, so even
//! small pieces can be combined. The test compares it with that of `crc-fast`.

/// The generator of a reflected CRC, and the powers of x that shift it.
pub(super) struct Generator {
    /// The polynomial without its highest term, bits reflected.
    polynomial: u64,
    /// The bit of `x^0`: the register's highest.
    one: u64,
    /// `x^(8 * 2^k)` modulo the polynomial.
    byte_powers: [u64; 64],
}

impl Generator {
    /// From the reflected polynomial and the width in bits, at least 9.
    pub(super) const fn new(polynomial: u64, width: u32) -> Self {
        let one = 1 << (width - 1);
        let mut generator = Self { polynomial, one, byte_powers: [0; 64] };
        let mut power = one >> 8;
        let mut k = 0;
        while k < 64 {
            generator.byte_powers[k] = power;
            power = generator.multiply(power, power);
            k += 1;
        }
        generator
    }

    /// The CRC of the first piece followed by `next_len` bytes whose CRC is `next`.
    pub(super) fn append(&self, first: u64, next: u64, next_len: u64) -> u64 {
        let mut moved = first;
        for (k, power) in self.byte_powers.iter().enumerate() {
            if (next_len >> k) & 1 == 1 {
                moved = self.multiply(*power, moved);
            }
        }
        moved ^ next
    }

    /// The product modulo the polynomial.
    const fn multiply(&self, a: u64, mut b: u64) -> u64 {
        let mut product = 0;
        let mut term = self.one;
        while term != 0 {
            // All ones if the bit is set, instead of a branch that cannot be predicted.
            let is_set = ((a & term != 0) as u64).wrapping_neg();
            product ^= b & is_set;
            let carry = (b & 1).wrapping_neg();
            b = (b >> 1) ^ (self.polynomial & carry);
            term >>= 1;
        }
        product
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use crate::checksum::{Crc, CrcAlgorithm};

    proptest! {
        /// Any values and lengths, including lengths that are too large to compute byte by byte.
        #[test]
        fn agrees_with_another_implementation(first in any::<u64>(), next in any::<u64>(), len in any::<u64>()) {
            for (algorithm, judge) in [
                (CrcAlgorithm::Crc32c, crc_fast::CrcAlgorithm::Crc32Iscsi),
                (CrcAlgorithm::Crc64Nvme, crc_fast::CrcAlgorithm::Crc64Nvme),
                (CrcAlgorithm::Crc32, crc_fast::CrcAlgorithm::Crc32IsoHdlc),
            ] {
                let first = Crc::from_value(algorithm, first, 0);
                let next = Crc::from_value(algorithm, next, len);
                let expected = crc_fast::checksum_combine(judge, first.value(), next.value(), len);
                prop_assert_eq!(first.combine(&next).unwrap().value(), expected);
            }
        }
    }
}
