//! The command `presign`.

use clap::{Args, ValueEnum, ValueHint};
use tidegate::remote::PresignMethod;

use super::remote::RemoteArgs;
use crate::duration;

#[derive(Debug, Args)]
pub(crate) struct PresignArgs {
    // A comment could not have these URLs without brackets, which the help would show.
    #[arg(value_name = "URL", value_hint = ValueHint::Url,
          help = "The blob: s3://BUCKET/KEY, gs://BUCKET/KEY or az://CONTAINER/KEY")]
    pub(crate) blob: String,
    /// What the URL allows: to read the blob, to store it, to delete it, or to ask for its facts
    #[arg(long, value_name = "METHOD", default_value = "get")]
    pub(crate) method: MethodArg,
    /// How long it allows that; at most 7 days, except with an account key of Azure
    #[arg(long = "expires", value_name = "DURATION", default_value = "1h",
          value_parser = duration::parse_ms)]
    pub(crate) expires_ms: u64,
    #[command(flatten)]
    pub(crate) remote: RemoteArgs,
}

/// A method of HTTP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum MethodArg {
    // Doc comments here would make `--help` longer.
    Get,
    Put,
    Delete,
    Head,
}

impl From<MethodArg> for PresignMethod {
    fn from(method: MethodArg) -> Self {
        match method {
            MethodArg::Get => Self::Get,
            MethodArg::Put => Self::Put,
            MethodArg::Delete => Self::Delete,
            MethodArg::Head => Self::Head,
        }
    }
}
