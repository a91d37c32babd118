//! Arguments of `tidegate store`: work on the store of a cache server.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueHint};

use super::examples;
use crate::{duration, size};

#[derive(Debug, Args)]
pub(crate) struct StoreArgs {
    #[command(subcommand)]
    pub(crate) command: StoreCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum StoreCommand {
    /// Read every value of a store that is not in use, and compare its checksums
    #[command(after_help = examples::STORE_CHECK)]
    Check(CheckArgs),
    /// Replay a trace of requests against simulated stores, and show their hit rates
    #[command(after_help = examples::STORE_REPLAY)]
    Replay(ReplayArgs),
}

#[derive(Debug, Args)]
pub(crate) struct CheckArgs {
    /// The folder of the store
    #[arg(value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) folder: PathBuf,
}

#[derive(Debug, Args)]
pub(crate) struct ReplayArgs {
    /// The trace: a file, or - for standard input
    #[arg(value_name = "TRACE", value_hint = ValueHint::FilePath)]
    pub(crate) trace: String,
    /// The size of a store; may be repeated [default: the power of two that holds all blobs, and
    /// four smaller ones]
    #[arg(long = "size", value_name = "SIZE", value_parser = size::parse)]
    pub(crate) sizes: Vec<u64>,
    /// Blobs that were used within this time are not evicted; new ones are then refused. 0 turns
    /// this off
    #[arg(long, value_name = "DURATION", default_value = "1h", value_parser = duration::parse_ms_or_none)]
    pub(crate) min_age: u64,
}
