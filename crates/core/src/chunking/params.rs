//! [`Chunking`]: a chunking function with its parameters.
//!
//! The constructors check every parameter, so a cutter can rely on them and cannot fail.

use std::ops::RangeInclusive;

/// A chunking function with its parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Chunking {
    /// `FastCDC`, version of 2020.
    FastCdc2020(FastCdc2020Params),
    /// `RepMaxCDC`.
    RepMaxCdc(RepMaxCdcParams),
}

impl Chunking {
    /// The maximum length of a chunk, in bytes.
    pub fn chunk_bytes_max(&self) -> u64 {
        match self {
            Self::FastCdc2020(params) => params.max_bytes(),
            Self::RepMaxCdc(params) => 2 * params.min_bytes() - 1,
        }
    }
}

/// The average lengths that the API allows. It has masks for others too, but does not allow them.
const AVG_BYTES: RangeInclusive<u64> = 1 << 10..=1 << 20;

/// A shorter chunk costs more to name than to send. Also, every chunk has at least one byte.
const FAST_CDC_MIN_BYTES: u64 = 64;

/// The maximum that other implementations of `FastCDC` 2020 accept.
const FAST_CDC_MAX_BYTES: u64 = 16 << 20;

/// The parameters of `FastCDC` 2020.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FastCdc2020Params {
    min_bytes: u64,
    avg_bytes: u64,
    max_bytes: u64,
    normalization: u32,
    seed: u32,
}

impl FastCdc2020Params {
    /// The API's form: an average that is a power of two from 1 KiB to 1 MiB, chunks from a
    /// quarter of it to four times it, normalization 2.
    pub fn new(avg_bytes: u64, seed: u32) -> Result<Self, ParamsError> {
        if !AVG_BYTES.contains(&avg_bytes) || !avg_bytes.is_power_of_two() {
            return Err(ParamsError {
                name: "average",
                value: avg_bytes,
                expected: "a power of two from 1024 to 1048576".to_owned(),
            });
        }
        Ok(Self {
            min_bytes: avg_bytes / 4,
            avg_bytes,
            max_bytes: avg_bytes * 4,
            normalization: 2,
            seed,
        })
    }

    /// The same parameters with other bounds on a chunk's length: the minimum from 64 bytes to the
    /// average, the maximum from the average to 16 MiB. The API has no such chunks; other tools do.
    pub fn with_chunk_bytes(mut self, bytes: RangeInclusive<u64>) -> Result<Self, ParamsError> {
        let (min, max) = bytes.into_inner();
        within("minimum", min, &(FAST_CDC_MIN_BYTES..=self.avg_bytes))?;
        within("maximum", max, &(self.avg_bytes..=FAST_CDC_MAX_BYTES))?;
        (self.min_bytes, self.max_bytes) = (min, max);
        Ok(self)
    }

    /// The same parameters with another normalization, 0 to 3. The API uses only 2.
    pub fn with_normalization(mut self, normalization: u32) -> Result<Self, ParamsError> {
        within("normalization", normalization.into(), &(0..=3))?;
        self.normalization = normalization;
        Ok(self)
    }

    /// The shortest chunk, except a blob's last, in bytes; if it is odd, one less.
    pub fn min_bytes(&self) -> u64 {
        self.min_bytes
    }

    /// The length around which chunks concentrate, in bytes.
    pub fn avg_bytes(&self) -> u64 {
        self.avg_bytes
    }

    /// The longest chunk, in bytes.
    pub fn max_bytes(&self) -> u64 {
        self.max_bytes
    }

    /// How closely chunks concentrate around the average: the mask has this many bits more before
    /// the average, and this many fewer after it.
    pub fn normalization(&self) -> u32 {
        self.normalization
    }

    /// Mixed into every entry of the Gear table.
    pub fn seed(&self) -> u32 {
        self.seed
    }
}

/// The parameters of `RepMaxCDC`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RepMaxCdcParams {
    min_bytes: u64,
    horizon_bytes: u64,
}

impl RepMaxCdcParams {
    /// Chunks of at least `min_bytes` and less than twice as many. They are cut at the position
    /// with the largest hash within `horizon_bytes` ahead. A horizon of 0 makes uniform chunks.
    pub fn new(min_bytes: u64, horizon_bytes: u64) -> Result<Self, ParamsError> {
        within("minimum", min_bytes, &(64..=1 << 40))?;
        within("horizon", horizon_bytes, &(0..=1 << 40))?;
        Ok(Self { min_bytes, horizon_bytes })
    }

    /// The shortest chunk, except for a blob that is shorter, in bytes.
    pub fn min_bytes(&self) -> u64 {
        self.min_bytes
    }

    /// How far beyond two minimum chunks the best cut is searched, in bytes.
    pub fn horizon_bytes(&self) -> u64 {
        self.horizon_bytes
    }
}

/// A parameter outside its allowed values.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected the {name} to be {expected}, got {value}")]
pub struct ParamsError {
    /// Which parameter.
    pub name: &'static str,
    /// Its value.
    pub value: u64,
    /// The allowed values.
    pub expected: String,
}

fn within(name: &'static str, value: u64, range: &RangeInclusive<u64>) -> Result<(), ParamsError> {
    if range.contains(&value) {
        return Ok(());
    }
    Err(ParamsError { name, value, expected: format!("{} to {}", range.start(), range.end()) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_name_the_range() {
        let average = |bytes| FastCdc2020Params::new(bytes, 0);
        for bytes in [0, 512, 1025, 1_000_000, 2 << 20] {
            assert_eq!(
                average(bytes).unwrap_err().to_string(),
                format!(
                    "expected the average to be a power of two from 1024 to 1048576, got {bytes}"
                )
            );
        }
        let params = average(1024).unwrap();
        for (bounds, message) in [
            (63..=4096, "expected the minimum to be 64 to 1024, got 63"),
            (1025..=4096, "expected the minimum to be 64 to 1024, got 1025"),
            (256..=1023, "expected the maximum to be 1024 to 16777216, got 1023"),
            (256..=16_777_217, "expected the maximum to be 1024 to 16777216, got 16777217"),
        ] {
            let error = params.with_chunk_bytes(bounds).unwrap_err();
            assert_eq!(error.to_string(), message);
        }
        let error = params.with_normalization(4).unwrap_err();
        assert_eq!(error.to_string(), "expected the normalization to be 0 to 3, got 4");
        let error = RepMaxCdcParams::new(63, 0).unwrap_err();
        assert_eq!(error.to_string(), "expected the minimum to be 64 to 1099511627776, got 63");
        let error = RepMaxCdcParams::new(64, u64::MAX).unwrap_err();
        assert_eq!(
            error.to_string(),
            "expected the horizon to be 0 to 1099511627776, got 18446744073709551615"
        );
    }

    #[test]
    fn what_is_allowed_is_taken() {
        let params = FastCdc2020Params::new(1 << 20, 7).unwrap();
        assert_eq!((params.min_bytes(), params.max_bytes()), (1 << 18, 1 << 22));
        let params = params.with_chunk_bytes(64..=16 << 20).unwrap().with_normalization(3).unwrap();
        assert_eq!(Chunking::FastCdc2020(params).chunk_bytes_max(), 16 << 20);
        let params = RepMaxCdcParams::new(262_144, 2_097_152).unwrap();
        assert_eq!(Chunking::RepMaxCdc(params).chunk_bytes_max(), 524_287);
    }
}
