//! [`Chunking`]: a chunking function with its parameters, checked once.

/// Which function cuts a blob, with its parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Chunking {
    /// `FastCDC` in its version of 2020.
    FastCdc2020(FastCdc2020Params),
    /// `RepMaxCDC`.
    RepMaxCdc(RepMaxCdcParams),
}

impl Chunking {
    /// No chunk is longer than this, in bytes.
    pub fn chunk_bytes_max(&self) -> u64 {
        match self {
            Self::FastCdc2020(params) => params.max_bytes(),
            Self::RepMaxCdc(params) => 2 * params.min_bytes() - 1,
        }
    }
}

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
        const RANGE: std::ops::RangeInclusive<u64> = 1 << 10..=1 << 20;
        if !RANGE.contains(&avg_bytes) || !avg_bytes.is_power_of_two() {
            return Err(ParamsError {
                name: "average",
                value: avg_bytes,
                expected: "a power of two from 1024 to 1048576",
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

    /// The shortest chunk but for a blob's last, in bytes.
    pub fn min_bytes(&self) -> u64 {
        self.min_bytes
    }

    /// The length that chunks gather around, in bytes.
    pub fn avg_bytes(&self) -> u64 {
        self.avg_bytes
    }

    /// The longest chunk, in bytes.
    pub fn max_bytes(&self) -> u64 {
        self.max_bytes
    }

    /// How strongly chunks gather around the average: the masks' bits more before it, and less
    /// after it.
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
    /// Chunks of at least `min_bytes` and less than twice as many, cut at the strongest place
    /// within `horizon_bytes` ahead; a horizon of 0 makes uniform chunks.
    pub fn new(min_bytes: u64, horizon_bytes: u64) -> Result<Self, ParamsError> {
        if !(64..=1 << 40).contains(&min_bytes) {
            return Err(ParamsError {
                name: "minimum",
                value: min_bytes,
                expected: "64 to 1099511627776",
            });
        }
        if horizon_bytes > 1 << 40 {
            return Err(ParamsError {
                name: "horizon",
                value: horizon_bytes,
                expected: "0 to 1099511627776",
            });
        }
        Ok(Self { min_bytes, horizon_bytes })
    }

    /// The shortest chunk but for a blob that is shorter, in bytes.
    pub fn min_bytes(&self) -> u64 {
        self.min_bytes
    }

    /// How far ahead of the shortest two chunks the best cut is sought, in bytes.
    pub fn horizon_bytes(&self) -> u64 {
        self.horizon_bytes
    }
}

/// A parameter is not one of those allowed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected the {name} to be {expected}, got {value}")]
pub struct ParamsError {
    /// Which parameter.
    pub name: &'static str,
    /// Its value.
    pub value: u64,
    /// What it may be.
    pub expected: &'static str,
}
