//! Arguments of `tidegate serve`: the cache server.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, ValueEnum, ValueHint};
use tidegate_server::serve::Origin;

use crate::{duration, size};

#[derive(Debug, Args)]
pub(crate) struct ServeArgs {
    /// The folder that holds everything; it is made where it is missing
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) dir: PathBuf,
    /// The limit of the folder on the disk [default: the last one; for a new folder 64GiB, or four
    /// fifths of a smaller disk]
    #[arg(long, value_name = "SIZE", value_parser = store_size)]
    pub(crate) max_size: Option<u64>,
    /// The address to listen on; port 0 takes a free port and prints it
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8980")]
    pub(crate) listen: SocketAddr,
    /// What an acknowledged blob survives: the end of the process, or a loss of power as well
    #[arg(long, value_name = "LEVEL", default_value = "process")]
    pub(crate) level: LevelArg,
    /// Blobs that were used within this time are not evicted; new ones are then refused. 0 turns
    /// this off
    #[arg(long, value_name = "DURATION", default_value = "1h", value_parser = duration::parse_ms_or_none)]
    pub(crate) min_age: u64,
    /// Memory for messages and for pieces of blobs
    #[arg(long, value_name = "SIZE", default_value = "512MiB", value_parser = memory)]
    pub(crate) max_memory: u64,
    /// Serve the blobs under this URL at /origin/NAME/, from the folder or from there: http, https,
    /// gs, s3, az or file; may be repeated
    #[arg(long, value_name = "NAME=URL", value_parser = origin)]
    pub(crate) origin: Vec<Origin>,
    /// Ask the origin for the version of a blob again after this time; 0 asks each time
    #[arg(long, value_name = "DURATION", default_value = "1m", value_parser = duration::parse_ms_or_none)]
    pub(crate) fresh_for: u64,
    /// Serve a range of a blob that is being fetched before the whole blob was verified
    #[arg(long)]
    pub(crate) serve_unverified: bool,
    /// Let Remote Asset calls fetch any http:// and https:// URL, not only those of an --origin: for
    /// clients that may reach all that this server reaches
    #[arg(long)]
    pub(crate) fetch_any: bool,
    /// Fill what is missing from this cache of the Remote Execution API: grpc:// or grpcs://
    #[arg(long, value_name = "URL", value_hint = ValueHint::Url)]
    pub(crate) upstream: Option<String>,
    /// Record every request for a blob or a result in this new file, for `store replay`; it holds no
    /// names and no content
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) record_trace: Option<PathBuf>,
    /// Listen on an address that other machines reach, and let all of them read and write
    #[arg(long)]
    pub(crate) no_auth: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum LevelArg {
    // Doc comments here would make `--help` longer.
    Process,
    Power,
}

fn origin(text: &str) -> Result<Origin, String> {
    Origin::parse(text).map_err(|error| error.to_string())
}

/// A smaller store could not hold its own log.
fn store_size(text: &str) -> Result<u64, String> {
    size::parse_within(text, 64 << 20, 1 << 60)
}

/// The longest message, and some calls beside it.
fn memory(text: &str) -> Result<u64, String> {
    size::parse_within(text, 96 << 20, 1 << 50)
}
