//! How remotes are reached, and for how long they are tried.

use std::path::PathBuf;

use clap::{Args, ValueHint};
use tidegate::core::RetryPolicy;
use tidegate::remote::{RemoteOptions, Remotes};
use tidegate::transport::TransportOptions;

/// The longest time that an option takes: a year, so that no arithmetic on it overflows.
const SECONDS_MAX: f64 = 366.0 * 24.0 * 3600.0;

#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Remote")]
pub(crate) struct RemoteArgs {
    /// Base URL of the service, in place of the cloud's own
    #[arg(long, value_name = "URL", value_hint = ValueHint::Url, value_parser = endpoint)]
    pub(crate) endpoint: Option<String>,
    /// Send no credentials, and look for none
    #[arg(long)]
    pub(crate) anonymous: bool,
    /// Trust the certificate authorities in this PEM file besides the system's; may be repeated
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) ca_cert: Vec<PathBuf>,
    /// Give up after this many attempts in a row that brought nothing
    #[arg(long, value_name = "N", default_value_t = 8,
          value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(crate) retries: u32,
    /// Give up on a blob this long after its start, retries included [default: never]
    #[arg(long, value_name = "SECONDS", value_parser = milliseconds)]
    pub(crate) deadline: Option<u64>,
    /// Ask again where no byte, or no answer, came for this long
    #[arg(long, value_name = "SECONDS", default_value = "30", value_parser = milliseconds)]
    pub(crate) stall: u64,
    /// The longest that one connection may take to be made
    #[arg(long, value_name = "SECONDS", default_value = "10", value_parser = milliseconds)]
    pub(crate) connect_timeout: u64,
}

impl RemoteArgs {
    pub(crate) fn remotes(&self) -> Remotes {
        let mut options = RemoteOptions::default();
        options.endpoint.clone_from(&self.endpoint);
        options.anonymous = self.anonymous;
        options.ca_certs.clone_from(&self.ca_cert);
        options.transport =
            TransportOptions { connect_ms_max: self.connect_timeout, ..options.transport };
        Remotes::new(options)
    }

    pub(crate) fn retry(&self) -> RetryPolicy {
        RetryPolicy {
            attempts_max: self.retries,
            deadline_ms: self.deadline,
            stall_ms_max: self.stall,
            header_ms_max: self.stall,
            connect_ms_max: self.connect_timeout,
            ..RetryPolicy::default()
        }
    }
}

/// Seconds, also in decimals, as milliseconds; at least one.
fn milliseconds(text: &str) -> Result<u64, String> {
    let seconds: f64 = text.parse().ok().ok_or("expected seconds such as 30 or 0.5")?;
    if !(0.001..=SECONDS_MAX).contains(&seconds) {
        return Err("expected 0.001 seconds to a year".to_owned());
    }
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "it was just checked to lie between a millisecond and a year"
    )]
    let whole = (seconds * 1000.0).round() as u64;
    Ok(whole)
}

/// An endpoint is shown in errors, so nothing secret may be in it.
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
    fn times_are_bounded() {
        assert_eq!(milliseconds("0.5"), Ok(500));
        assert_eq!(milliseconds("30"), Ok(30_000));
        for text in ["0", "-1", "nan", "inf", "1e300", "", "5s"] {
            assert!(milliseconds(text).is_err(), "{text}");
        }
    }

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
