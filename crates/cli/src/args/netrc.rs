//! Options for credentials by host.

use std::path::PathBuf;

use clap::{Args, ValueHint};
use tidegate::Result;
use tidegate::remote::Netrc;

#[derive(Clone, Debug, Args)]
pub(crate) struct NetrcArgs {
    /// Read user names and passwords for http://, https:// and grpc:// hosts from the file that
    /// NETRC names, or from ~/.netrc
    #[arg(long)]
    netrc: bool,
    /// Read user names and passwords from this file
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, conflicts_with = "netrc")]
    netrc_file: Option<PathBuf>,
}

impl NetrcArgs {
    /// The credentials, if any are asked for.
    pub(crate) fn netrc(&self) -> Result<Option<Netrc>> {
        match &self.netrc_file {
            Some(path) => Netrc::from_file(path).map(Some),
            None if self.netrc => Netrc::from_home().map(Some),
            None => Ok(None),
        }
    }
}
