//! Options of the chunking function.

use std::path::PathBuf;

use clap::{Args, ValueEnum, ValueHint};
use tidegate_core::DigestFunction;
use tidegate_core::chunking::{Chunking, FastCdc2020Params, RepMaxCdcParams};

use crate::size;

/// The default that the Remote Execution API recommends.
const AVG_BYTES: u64 = 512 << 10;
const MIN_BYTES: u64 = 256 << 10;
const HORIZON_MINIMA: u64 = 8;

#[derive(Debug, Args)]
pub(crate) struct ChunkArgs {
    /// The files to cut
    #[arg(value_name = "FILE", required = true, value_hint = ValueHint::FilePath)]
    pub(crate) files: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) chunking: ChunkingArgs,
    /// The hash that names the chunks
    #[arg(long, value_name = "HASH", default_value = "sha256")]
    pub(crate) digest: DigestArg,
}

/// A chunking function and its parameters. The defaults are those of the Remote Execution API.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Chunking")]
pub(crate) struct ChunkingArgs {
    /// The function that decides where chunks end
    #[arg(long, value_name = "NAME", default_value = "fastcdc2020")]
    pub(crate) function: FunctionArg,
    /// fastcdc2020: the length that chunks gather around, a power of two from 1KiB to 1MiB
    /// [default: 512KiB]
    #[arg(long, value_name = "SIZE", value_parser = size::parse)]
    avg: Option<u64>,
    /// The shortest chunk [default: fastcdc2020 a quarter of the average, repmaxcdc 256KiB]
    #[arg(long, value_name = "SIZE", value_parser = size::parse)]
    min: Option<u64>,
    /// fastcdc2020: the longest chunk [default: four times the average]
    #[arg(long, value_name = "SIZE", value_parser = size::parse)]
    max: Option<u64>,
    /// fastcdc2020: how strongly lengths gather around the average, 0 to 3 [default: 2]
    #[arg(long, value_name = "N")]
    normalization: Option<u32>,
    /// fastcdc2020: another seed cuts elsewhere [default: 0]
    #[arg(long, value_name = "N")]
    seed: Option<u32>,
    /// repmaxcdc: how far ahead the best end is sought; 0 makes uniform chunks [default: eight
    /// times the shortest chunk]
    #[arg(long, value_name = "SIZE", value_parser = size::parse)]
    horizon: Option<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum FunctionArg {
    // Doc comments here would make `--help` of the whole command twice as long.
    Fastcdc2020,
    Repmaxcdc,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum DigestArg {
    Sha256,
    Blake3,
}

impl ChunkingArgs {
    /// The function with its parameters, or why they are invalid.
    pub(crate) fn chunking(&self) -> Result<Chunking, String> {
        match self.function {
            FunctionArg::Fastcdc2020 => self.fast_cdc().map(Chunking::FastCdc2020),
            FunctionArg::Repmaxcdc => self.rep_max_cdc().map(Chunking::RepMaxCdc),
        }
    }

    fn fast_cdc(&self) -> Result<FastCdc2020Params, String> {
        refuse(&[("--horizon", self.horizon.is_some())], "fastcdc2020")?;
        let params =
            FastCdc2020Params::new(self.avg.unwrap_or(AVG_BYTES), self.seed.unwrap_or_default());
        params
            .and_then(|params| {
                let min = self.min.unwrap_or(params.min_bytes());
                let max = self.max.unwrap_or(params.max_bytes());
                params.with_chunk_bytes(min..=max)
            })
            .and_then(|params| {
                let normalization = self.normalization.unwrap_or(params.normalization());
                params.with_normalization(normalization)
            })
            .map_err(|error| error.to_string())
    }

    fn rep_max_cdc(&self) -> Result<RepMaxCdcParams, String> {
        let foreign = [
            ("--avg", self.avg.is_some()),
            ("--max", self.max.is_some()),
            ("--normalization", self.normalization.is_some()),
            ("--seed", self.seed.is_some()),
        ];
        refuse(&foreign, "repmaxcdc")?;
        let min = self.min.unwrap_or(MIN_BYTES);
        let horizon = self.horizon.unwrap_or(min.saturating_mul(HORIZON_MINIMA));
        RepMaxCdcParams::new(min, horizon).map_err(|error| error.to_string())
    }
}

impl DigestArg {
    pub(crate) fn function(self) -> DigestFunction {
        match self {
            Self::Sha256 => DigestFunction::Sha256,
            Self::Blake3 => DigestFunction::Blake3,
        }
    }
}

/// Refuses options of the other function.
fn refuse(options: &[(&str, bool)], function: &str) -> Result<(), String> {
    match options.iter().find(|(_, is_given)| *is_given) {
        Some((option, _)) => Err(format!("{option} is not for --function {function}")),
        None => Ok(()),
    }
}
