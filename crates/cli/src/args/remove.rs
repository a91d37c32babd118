//! The commands that end something: `rm`, `mv` and `uploads`.

use clap::{Args, Subcommand, ValueHint};

use super::remote::RemoteArgs;
use super::version::VersionArgs;
use crate::duration;

#[derive(Debug, Args)]
pub(crate) struct RmArgs {
    /// The blobs: URLs
    #[arg(value_name = "URL", required = true, value_hint = ValueHint::Url)]
    pub(crate) blobs: Vec<String>,
    #[command(flatten)]
    pub(crate) remote: RemoteArgs,
    #[command(flatten)]
    pub(crate) version: VersionArgs,
}

/// What to do with unfinished uploads.
#[derive(Debug, Subcommand)]
pub(crate) enum UploadsCommand {
    /// Show the unfinished uploads below a URL, of any process
    List(Box<UploadsListArgs>),
    /// End unfinished uploads, and remove their parts
    Abort(Box<UploadsAbortArgs>),
}

impl UploadsCommand {
    pub(crate) fn remote(&self) -> &RemoteArgs {
        match self {
            Self::List(args) => &args.remote,
            Self::Abort(args) => &args.remote,
        }
    }

    pub(crate) fn set_remote(&mut self, remote: RemoteArgs) {
        match self {
            Self::List(args) => args.remote = remote,
            Self::Abort(args) => args.remote = remote,
        }
    }
}

#[derive(Debug, Args)]
pub(crate) struct UploadsListArgs {
    /// The URL of a bucket, with or without the beginning of names in it
    #[arg(value_name = "URL", value_hint = ValueHint::Url)]
    pub(crate) prefix: String,
    #[command(flatten)]
    pub(crate) remote: RemoteArgs,
}

#[derive(Debug, Args)]
pub(crate) struct UploadsAbortArgs {
    /// The URL of a bucket, with or without the beginning of names in it
    #[arg(value_name = "URL", value_hint = ValueHint::Url)]
    pub(crate) prefix: String,
    /// Only uploads that began at least this long ago, such as 7d: another process may be writing
    /// the younger ones
    #[arg(long = "older-than", value_name = "TIME", default_value = "1d", value_parser = duration::parse_ms_or_none)]
    pub(crate) older_than_ms: u64,
    #[command(flatten)]
    pub(crate) remote: RemoteArgs,
}
