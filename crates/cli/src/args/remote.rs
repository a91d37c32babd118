//! Options for the connections to remotes, credentials, retries and timeouts.

use std::num::NonZeroU64;
use std::path::PathBuf;
use std::sync::Arc;

use clap::{Args, ValueEnum, ValueHint};
use tidegate::remote::reapi::{Compression, ReapiOptions};
use tidegate::remote::{CustomerKey, RemoteOptions};
use tidegate::transport::{ClientIdentity, RateLimit, TransportOptions};
use tidegate::{Budget, Client, ClientOptions, Error, ErrorKind, Operation, Result};
use tidegate_core::RetryPolicy;

use super::authorities;
use super::config::{ConfigArgs, FileOnlyArgs};
use super::header::{self, HeaderArg};
use super::netrc::NetrcArgs;
use super::proxy::ProxyArgs;
use crate::config::{ByUrl, Settings};
use crate::{duration, size};

#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Remote")]
pub(crate) struct RemoteArgs {
    /// Base URL of the service, in place of the cloud's own
    #[arg(long, value_name = "URL", value_hint = ValueHint::Url, value_parser = endpoint)]
    pub(crate) endpoint: Option<String>,
    /// Send no credentials, and look for none
    #[arg(long)]
    pub(crate) anonymous: bool,
    #[command(flatten)]
    pub(crate) config: ConfigArgs,
    #[command(flatten)]
    pub(crate) proxy: ProxyArgs,
    #[command(flatten)]
    pub(crate) netrc: NetrcArgs,
    /// Trust the certificate authorities in this PEM file besides the system's; may be repeated
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) ca_cert: Vec<PathBuf>,
    /// Show this certificate to servers that ask who we are: a PEM file, the authorities that it is
    /// signed with after it
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, requires = "client_key")]
    pub(crate) client_cert: Option<PathBuf>,
    /// The private key of --client-cert: a PEM file
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, requires = "client_cert")]
    pub(crate) client_key: Option<PathBuf>,
    /// Send this with every request for a blob: NAME: VALUE, or @FILE with one on each line. Not
    /// passed on to another host by a redirect; may be repeated
    #[arg(long, value_name = "HEADER")]
    pub(crate) header: Vec<HeaderArg>,
    /// The project that pays for requests to Google Cloud Storage, where the requester pays
    #[arg(long, value_name = "PROJECT")]
    pub(crate) user_project: Option<String>,
    /// Agree to pay for requests to S3, where the requester pays
    #[arg(long)]
    pub(crate) request_payer: bool,
    /// Trust that this service of S3 keeps conditions (--no-clobber, --if-version) when several
    /// writers race, and do not put it to the proof
    #[arg(long)]
    pub(crate) trust_conditions: bool,
    /// The AES-256 key that the blob is encrypted with in Google Cloud Storage, S3 or Azure: a file
    /// of 32 bytes or their base64
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) customer_key_file: Option<PathBuf>,
    /// Whether blobs travel to and from a grpc:// cache as zstd, where it offers that: auto packs
    /// what a sample says shrinks
    #[arg(long, value_name = "WHEN", default_value = "never")]
    pub(crate) compress: CompressArg,
    /// Names what this run belongs to, such as a build, in the logs of grpc:// caches
    #[arg(long, value_name = "ID")]
    pub(crate) correlation_id: Option<String>,
    /// Give up after this many attempts in a row that brought nothing
    #[arg(long, value_name = "N", default_value_t = 8,
          value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(crate) retries: u32,
    /// Give up on a blob this long after its start, retries included [default: never]
    #[arg(long, value_name = "DURATION", value_parser = duration::parse_ms)]
    pub(crate) deadline: Option<u64>,
    /// Retry when no data arrives for this long
    #[arg(long, value_name = "DURATION", default_value = "30", value_parser = duration::parse_ms)]
    pub(crate) stall: u64,
    /// Fail where a download brings less than this many bytes in each second of waiting; 0 for no
    /// limit
    #[arg(long, value_name = "SIZE", default_value = "1KiB", value_parser = size::parse)]
    pub(crate) min_speed: u64,
    /// The time over which --min-speed is measured; 0 for no limit [default: 60, or --stall where
    /// that is longer]
    #[arg(long, value_name = "DURATION", value_parser = duration::parse_ms_or_none)]
    pub(crate) min_speed_time: Option<u64>,
    /// Receive and send at most this many bytes per second, over all connections together
    #[arg(long, value_name = "SIZE", value_parser = rate)]
    pub(crate) limit_rate: Option<NonZeroU64>,
    /// Time limit for making one connection
    #[arg(long, value_name = "DURATION", default_value = "10", value_parser = duration::parse_ms)]
    pub(crate) connect_timeout: u64,
    /// What the configuration file says and no flag can say.
    #[arg(skip)]
    pub(crate) file_only: FileOnlyArgs,
    /// The settings by URL, if there is a configuration file.
    #[arg(skip)]
    pub(crate) settings: Option<Arc<Settings>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum CompressArg {
    // Doc comments here would make `--help` of the whole command twice as long.
    Auto,
    Never,
    Always,
}

impl RemoteArgs {
    /// The client for these URLs and paths; an option that applies to none of them is an error.
    pub(crate) fn client(&self, names: &[&str], budget: Budget) -> Result<Client> {
        self.check(names)?;
        let rate = self.limit_rate.map(RateLimit::new);
        let remote = self.options(names, rate.clone())?;
        let options = ClientOptions::default().remote(remote).budget(budget).retry(self.retry());
        Ok(Client::new(match &self.settings {
            Some(settings) => options.remote_by_url(ByUrl { settings: Arc::clone(settings), rate }),
            None => options,
        }))
    }

    /// The options for these URLs and paths.
    pub(crate) fn options(&self, names: &[&str], rate: Option<RateLimit>) -> Result<RemoteOptions> {
        let mut options = RemoteOptions::default();
        options.endpoint.clone_from(&self.endpoint);
        options.anonymous = self.anonymous;
        options.region.clone_from(&self.file_only.region);
        options.aws_profile.clone_from(&self.file_only.profile);
        options.credential_process.clone_from(&self.file_only.credential_process);
        options.google_credentials.clone_from(&self.file_only.credentials_file);
        options.ca_certs = authorities::from_environment(names)?;
        options.ca_certs.extend(self.ca_cert.iter().cloned());
        options.netrc = self.netrc.netrc()?;
        let (certificates, key) = (self.client_cert.clone(), self.client_key.clone());
        options.transport = TransportOptions {
            connect_ms_max: self.connect_timeout,
            proxies: self.proxy.proxies(names)?,
            rate,
            client_identity: certificates
                .zip(key)
                .map(|(certificates, key)| ClientIdentity { certificates, key }),
            ..options.transport
        };
        options.reapi = ReapiOptions {
            compression: match self.compress {
                CompressArg::Auto => Compression::Auto,
                CompressArg::Never => Compression::Never,
                CompressArg::Always => Compression::Always,
            },
            correlated_invocations_id: self.correlation_id.clone(),
            ..options.reapi
        };
        options.headers = header::collect(&self.header, &self.file_only.headers)?;
        options.user_project.clone_from(&self.user_project);
        options.request_payer = self.request_payer;
        options.trust_conditions = self.trust_conditions;
        let key = self.customer_key_file.as_deref().map(CustomerKey::from_file);
        options.customer_key = key.transpose()?;
        Ok(options)
    }

    fn check(&self, names: &[&str]) -> Result<()> {
        let (store, cache) = (["gs", "s3", "az"], ["grpc", "grpcs"]);
        let any = ["gs", "s3", "az", "http", "https", "grpc", "grpcs"];
        for (flag, given, schemes) in [
            ("--header", !self.header.is_empty(), &any[..]),
            ("--user-project", self.user_project.is_some(), &["gs"]),
            ("--request-payer", self.request_payer, &["s3"]),
            ("--trust-conditions", self.trust_conditions, &["s3"]),
            ("--customer-key-file", self.customer_key_file.is_some(), &store),
            ("--client-cert", self.client_cert.is_some(), &any),
            ("--compress", self.compress != CompressArg::Never, &cache),
            ("--correlation-id", self.correlation_id.is_some(), &cache),
        ] {
            let applies = || {
                names.iter().filter_map(|name| name.split_once("://")).any(|(scheme, _)| {
                    schemes.iter().any(|known| scheme.eq_ignore_ascii_case(known))
                })
            };
            if given && !applies() {
                let known: Vec<_> = schemes.iter().map(|scheme| format!("{scheme}://")).collect();
                let message = format!("it is for {} and no URL here is one", known.join(", "));
                return Err(Error::new(ErrorKind::Invalid, Operation::Locate, flag, message));
            }
        }
        Ok(())
    }

    /// The retry policy that the flags describe.
    pub(crate) fn retry(&self) -> RetryPolicy {
        let usual = RetryPolicy::default();
        RetryPolicy {
            bytes_per_s_min: self
                .min_speed
                .min(self.limit_rate.map_or(u64::MAX, |rate| rate.get() / 2)),
            // A pause that `--stall` allows must not count as too slow.
            slow_ms_max: self.min_speed_time.unwrap_or(usual.slow_ms_max.max(self.stall)),
            attempts_max: self.retries,
            deadline_ms: self.deadline,
            stall_ms_max: self.stall,
            header_ms_max: self.stall,
            connect_ms_max: self.connect_timeout,
            ..usual
        }
    }
}

/// Parses bytes per second; at least one.
fn rate(text: &str) -> Result<NonZeroU64, String> {
    let bytes = size::parse(text)?;
    NonZeroU64::new(bytes).ok_or_else(|| "expected at least 1 byte per second".to_owned())
}

/// Errors show the endpoint, so it must not contain secrets.
fn endpoint(text: &str) -> Result<String, String> {
    let lower = text.to_ascii_lowercase();
    let rest = lower.strip_prefix("http://").or_else(|| lower.strip_prefix("https://"));
    match rest {
        None => Err("expected http://HOST or https://HOST".to_owned()),
        Some(rest) if rest.is_empty() || rest.starts_with(['/', ':']) => {
            Err("the host is missing".to_owned())
        }
        Some(rest) if rest.contains(['@', '?', '#']) => {
            Err("an endpoint holds no credentials and no query".to_owned())
        }
        Some(_) => Ok(text.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endpoints_are_plain_bases() {
        for text in ["http://127.0.0.1:9000", "HTTPS://minio.example/base"] {
            assert_eq!(endpoint(text), Ok(text.to_owned()));
        }
        for text in ["", "minio:9000", "http://", "http://:80", "https://u:p@h", "http://h?a=1"] {
            assert!(endpoint(text).is_err(), "{text}");
        }
    }
}
