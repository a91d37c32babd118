//! Arguments of `tidegate store`: work on the store of a cache server.

use std::path::PathBuf;

use clap::{ArgGroup, Args, Subcommand, ValueHint};

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
    Check(StoreCheckArgs),
    /// Remove values by key, instance or invocation; without --remove, show which ones
    #[command(after_help = examples::STORE_PURGE)]
    Purge(StorePurgeArgs),
    /// Import the folder of a bazel-remote that does not run
    #[command(after_help = examples::STORE_IMPORT)]
    Import(StoreImportArgs),
    /// Replay a trace of requests against simulated stores, and show their hit rates
    #[command(after_help = examples::STORE_REPLAY)]
    Replay(ReplayArgs),
}

#[derive(Debug, Args)]
#[command(group(ArgGroup::new("which").args(["key", "instance", "invocation"]).required(true).multiple(true)))]
pub(crate) struct StorePurgeArgs {
    /// The http:// or https:// URL of a server that runs, or the folder of one that does not
    #[arg(value_name = "URL|DIR", value_hint = ValueHint::AnyPath)]
    pub(crate) place: String,
    /// The hash of a blob or of an action, or the key of a value
    #[arg(long, value_name = "KEY")]
    pub(crate) key: Option<String>,
    /// The instance of action results and of values under /ac/
    #[arg(long, value_name = "NAME")]
    pub(crate) instance: Option<String>,
    /// The invocation that stored an action result, as Bazel prints it
    #[arg(long, value_name = "ID")]
    pub(crate) invocation: Option<String>,
    /// Only values of this tenant
    #[arg(long, value_name = "NAME")]
    pub(crate) tenant: Option<String>,
    /// Remove the values; they do not come back
    #[arg(long)]
    pub(crate) remove: bool,
}

#[derive(Debug, Args)]
pub(crate) struct StoreImportArgs {
    /// The folder that was the --dir of bazel-remote 2
    #[arg(value_name = "SOURCE", value_hint = ValueHint::DirPath)]
    pub(crate) source: PathBuf,
    /// The folder of the store; it is made where it is missing
    #[arg(value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) folder: PathBuf,
    /// The instance that action results get; bazel-remote has none
    #[arg(long, value_name = "NAME", default_value = "")]
    pub(crate) instance: String,
    /// The limit of the store [default: the last one; for a new folder 64GiB, or four fifths of a
    /// smaller disk]
    #[arg(long, value_name = "SIZE", value_parser = size::parse)]
    pub(crate) max_size: Option<u64>,
}

impl StoreArgs {
    /// Whether the command uses the network or the store as a server does.
    pub(crate) const fn needs_runtime(&self) -> bool {
        matches!(self.command, StoreCommand::Purge(_) | StoreCommand::Import(_))
    }
}

#[derive(Debug, Args)]
pub(crate) struct StoreCheckArgs {
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
