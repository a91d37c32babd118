//! Arguments of `tidegate cacheprog`: the build cache of the `go` command.

use clap::{Args, ValueHint};

use crate::size;

#[derive(Debug, Args)]
pub(crate) struct CacheprogArgs {
    /// Where the cache is: a folder of this machine, or the http:// or https:// URL of a cache
    #[arg(value_name = "URL|DIR", value_hint = ValueHint::AnyPath)]
    pub(crate) place: String,
    /// The limit of the store in a folder; the files that Go reads take as much beside it [default:
    /// 64GiB, less where the disk is smaller]
    #[arg(long, value_name = "SIZE", value_parser = size::parse)]
    pub(crate) max_size: Option<u64>,
}
