//! Arguments of `tidegate serve`: the cache server.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::error::ErrorKind;
use clap::{Args, Command, ValueEnum, ValueHint};
use tidegate_server::serve::{Origin, Quota};

use super::config::reason;
use crate::{duration, size};

#[derive(Debug, Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of the command line")]
pub(crate) struct ServeArgs {
    /// The folder that holds everything; it is made where it is missing
    #[arg(
        long,
        value_name = "DIR",
        value_hint = ValueHint::DirPath,
        env = "TIDEGATE_SERVE_DIR",
        hide_env = true,
        required_unless_present = "config"
    )]
    pub(crate) dir: Option<PathBuf>,
    /// Read flags from this TOML file, as in `max-size = "100GiB"`; the command line and the
    /// environment (`TIDEGATE_SERVE_MAX_SIZE`) have priority
    #[arg(
        long,
        value_name = "FILE",
        value_hint = ValueHint::FilePath,
        env = "TIDEGATE_SERVE_CONFIG",
        hide_env = true
    )]
    pub(crate) config: Option<PathBuf>,
    /// The limit of the folder on the disk [default: the last one; for a new folder 64GiB, or four
    /// fifths of a smaller disk]
    #[arg(
        long,
        value_name = "SIZE",
        value_parser = store_size,
        env = "TIDEGATE_SERVE_MAX_SIZE",
        hide_env = true
    )]
    pub(crate) max_size: Option<u64>,
    /// The address to listen on; port 0 takes a free port and prints it
    #[arg(
        long,
        value_name = "ADDRESS",
        default_value = "127.0.0.1:8980",
        env = "TIDEGATE_SERVE_LISTEN",
        hide_env = true
    )]
    pub(crate) listen: SocketAddr,
    /// What an acknowledged blob survives: the end of the process, or a loss of power as well
    #[arg(
        long,
        value_name = "LEVEL",
        default_value = "process",
        env = "TIDEGATE_SERVE_LEVEL",
        hide_env = true
    )]
    pub(crate) level: LevelArg,
    /// Blobs that were used within this time are not evicted; new ones are then refused. 0 turns
    /// this off
    #[arg(
        long,
        value_name = "DURATION",
        default_value = "1h",
        value_parser = duration::parse_ms_or_none,
        env = "TIDEGATE_SERVE_MIN_AGE",
        hide_env = true
    )]
    pub(crate) min_age: u64,
    /// Memory for messages and for pieces of blobs
    #[arg(
        long,
        value_name = "SIZE",
        default_value = "512MiB",
        value_parser = memory,
        env = "TIDEGATE_SERVE_MAX_MEMORY",
        hide_env = true
    )]
    pub(crate) max_memory: u64,
    /// Connections at a time of one client, which is an address; more are closed. 0 is no limit, for
    /// a server behind a proxy
    #[arg(
        long,
        value_name = "NUMBER",
        default_value_t = 512,
        env = "TIDEGATE_SERVE_CONNECTIONS_PER_CLIENT",
        hide_env = true
    )]
    pub(crate) connections_per_client: usize,
    /// Requests in flight of one client; more are refused, and may be sent again. 0 is no limit
    #[arg(
        long,
        value_name = "NUMBER",
        default_value_t = 4096,
        env = "TIDEGATE_SERVE_REQUESTS_PER_CLIENT",
        hide_env = true
    )]
    pub(crate) requests_per_client: usize,
    /// Serve the blobs under this URL at /origin/NAME/, from the folder or from there: http, https,
    /// gs, s3, az or file; may be repeated
    #[arg(
        long,
        value_name = "NAME=URL",
        value_parser = origin,
        env = "TIDEGATE_SERVE_ORIGIN",
        hide_env = true
    )]
    pub(crate) origin: Vec<Origin>,
    /// Ask the origin for the version of a blob again after this time; 0 asks each time
    #[arg(
        long,
        value_name = "DURATION",
        default_value = "1m",
        value_parser = duration::parse_ms_or_none,
        env = "TIDEGATE_SERVE_FRESH_FOR",
        hide_env = true
    )]
    pub(crate) fresh_for: u64,
    /// Serve a range of a blob that is being fetched before the whole blob was verified
    #[arg(long, env = "TIDEGATE_SERVE_SERVE_UNVERIFIED", hide_env = true)]
    pub(crate) serve_unverified: bool,
    /// Let Remote Asset calls fetch any http:// and https:// URL, not only those of an --origin: for
    /// clients that may reach all that this server reaches
    #[arg(long, env = "TIDEGATE_SERVE_FETCH_ANY", hide_env = true)]
    pub(crate) fetch_any: bool,
    /// Fill what is missing from this cache of the Remote Execution API: grpc:// or grpcs://
    #[arg(
        long,
        value_name = "URL",
        value_hint = ValueHint::Url,
        env = "TIDEGATE_SERVE_UPSTREAM",
        hide_env = true
    )]
    pub(crate) upstream: Option<String>,
    /// Record every request for a blob or a result in this new file, for `store replay`; it holds no
    /// names and no content
    #[arg(
        long,
        value_name = "FILE",
        value_hint = ValueHint::FilePath,
        env = "TIDEGATE_SERVE_RECORD_TRACE",
        hide_env = true
    )]
    pub(crate) record_trace: Option<PathBuf>,
    /// Ask for the tokens and certificates in this TOML file; it says what each may do, and is read
    /// again when it changes
    #[arg(
        long,
        value_name = "FILE",
        value_hint = ValueHint::FilePath,
        env = "TIDEGATE_SERVE_CREDENTIALS",
        hide_env = true
    )]
    pub(crate) credentials: Option<PathBuf>,
    /// Listen on an address that other machines reach, and let all of them read and write
    #[arg(long, conflicts_with = "credentials", env = "TIDEGATE_SERVE_NO_AUTH", hide_env = true)]
    pub(crate) no_auth: bool,
    /// Count a blob only for the tenants that sent all of its bytes, so that no tenant learns what
    /// another one has
    #[arg(
        long,
        requires = "credentials",
        conflicts_with_all = ["origin", "upstream", "fetch_any"],
        env = "TIDEGATE_SERVE_ISOLATE_TENANTS",
        hide_env = true
    )]
    pub(crate) isolate_tenants: bool,
    /// Let an instance write at most this in 24 hours; repeat it for more instances. The empty name
    /// is for clients that name none
    #[arg(
        long,
        value_name = "INSTANCE=SIZE",
        value_parser = quota,
        value_delimiter = ',',
        env = "TIDEGATE_SERVE_QUOTA",
        hide_env = true
    )]
    pub(crate) quota: Vec<Quota>,
    /// Serve TLS with this certificate (PEM, with those between it and its authority); it is read
    /// again when it changes
    #[arg(
        long,
        value_name = "FILE",
        value_hint = ValueHint::FilePath,
        requires = "tls_key",
        env = "TIDEGATE_SERVE_TLS_CERT",
        hide_env = true
    )]
    pub(crate) tls_cert: Option<PathBuf>,
    /// The key of the certificate (PEM)
    #[arg(
        long,
        value_name = "FILE",
        value_hint = ValueHint::FilePath,
        requires = "tls_cert",
        env = "TIDEGATE_SERVE_TLS_KEY",
        hide_env = true
    )]
    pub(crate) tls_key: Option<PathBuf>,
    /// Accept certificates of clients that these authorities (PEM) signed
    #[arg(
        long,
        value_name = "FILE",
        value_hint = ValueHint::FilePath,
        requires = "tls_cert",
        env = "TIDEGATE_SERVE_TLS_CLIENT_CA",
        hide_env = true
    )]
    pub(crate) tls_client_ca: Option<PathBuf>,
}

impl ServeArgs {
    /// The flags, for a file that sets them.
    pub(crate) fn flags() -> Command {
        Self::augment_args(Command::new("serve")).no_binary_name(true).disable_help_flag(true)
    }

    /// Checks the values of one flag. The error is about the value, and does not quote it.
    pub(crate) fn check(name: &str, values: &[String]) -> Result<(), String> {
        let arguments = values.iter().map(|value| format!("--{name}={value}"));
        match Self::flags().try_get_matches_from(arguments) {
            // A flag that requires another is checked together with it.
            Err(error) if error.kind() != ErrorKind::MissingRequiredArgument => Err(reason(&error)),
            _ => Ok(()),
        }
    }
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

/// `INSTANCE=SIZE`. A name may contain `=`.
fn quota(text: &str) -> Result<Quota, String> {
    let (instance, bytes) = text.rsplit_once('=').ok_or("expected INSTANCE=SIZE")?;
    Ok(Quota { instance: instance.to_owned(), bytes_per_day: size::parse(bytes)? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_flag_has_its_variable() {
        let flags = ServeArgs::flags();
        for flag in flags.get_arguments() {
            let name = flag.get_long().unwrap_or_default().to_uppercase().replace('-', "_");
            let variable = flag.get_env().and_then(|variable| variable.to_str());
            assert_eq!(variable, Some(format!("TIDEGATE_SERVE_{name}").as_str()));
        }
    }
}
