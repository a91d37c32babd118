//! Parses the user's text into a remote and a blob: schemes, endpoints, and names that are safe to
//! print.

use std::path::PathBuf;
#[cfg(feature = "_transport")]
use std::sync::Arc;

use tidegate_core::printable::is_control;
use url::Url;

#[cfg(any(feature = "gcs", feature = "s3", feature = "azure"))]
use super::CustomerKey;
#[cfg(feature = "_transport")]
use super::ExtraHeaders;
use super::Location;
#[cfg(any(feature = "http", feature = "reapi"))]
use super::Netrc;
#[cfg(feature = "_transport")]
use super::OptionsByUrl;
#[cfg(feature = "_transport")]
use super::by_url::Groups;
#[cfg(feature = "_transport")]
use super::network::Network;
#[cfg(feature = "reapi")]
use super::reapi::{ReapiCache, ReapiOptions};
use crate::error::{Error, ErrorKind, Operation, Result};
#[cfg(feature = "_transport")]
use crate::transport::TransportOptions;

/// How to reach remotes. Settings that are missing here come from the environment, by the rules of
/// each remote's own ecosystem.
///
/// A setting that only one kind of remote knows applies to that kind alone: one set of options
/// serves URLs of every scheme.
#[derive(Clone, Debug, Default)]
pub struct RemoteOptions {
    /// Base URL of the service, in place of the cloud's own.
    pub endpoint: Option<String>,
    /// The region of S3, in place of the one in the environment or the profile.
    pub region: Option<String>,
    /// Send no credentials and look for none.
    pub anonymous: bool,
    /// The profile of AWS whose credentials S3 gets, in place of those in the environment.
    pub aws_profile: Option<String>,
    /// A program that prints credentials for S3, as `credential_process` in a profile of AWS.
    pub credential_process: Option<String>,
    /// The file with credentials for Google Cloud Storage, in place of the one in the environment.
    pub google_credentials: Option<PathBuf>,
    /// PEM files with certificate authorities to trust in addition to the system's.
    pub ca_certs: Vec<PathBuf>,
    /// Sent with every request for a blob at a network remote.
    #[cfg(feature = "_transport")]
    pub headers: ExtraHeaders,
    /// Credentials by host, for `http://`, `https://`, `grpc://` and `grpcs://`.
    #[cfg(any(feature = "http", feature = "reapi"))]
    pub netrc: Option<Netrc>,
    /// The project that pays for requests to Google Cloud Storage, for buckets with requester pays.
    pub user_project: Option<String>,
    /// The requester agrees to pay for requests to S3.
    pub request_payer: bool,
    /// Trusts that a service of S3 keeps conditions when writers race. By default Amazon's is
    /// trusted, and any other is put to the proof before the first write with a condition:
    /// [`Write::prove`](super::Write::prove).
    pub trust_conditions: bool,
    /// The key that the blobs in Google Cloud Storage, S3 or Azure are encrypted with.
    #[cfg(any(feature = "gcs", feature = "s3", feature = "azure"))]
    pub customer_key: Option<CustomerKey>,
    /// Options for caches of the Remote Execution API.
    #[cfg(feature = "reapi")]
    pub reapi: ReapiOptions,
    /// Settings of the HTTP client.
    #[cfg(feature = "_transport")]
    pub transport: TransportOptions,
}

/// Creates remotes from URLs, and keeps one for each bucket, so that their blobs share connections
/// and credentials.
#[derive(Debug)]
pub(crate) struct Remotes {
    #[cfg(feature = "_transport")]
    network: Network,
    #[cfg(feature = "_transport")]
    groups: Option<Groups>,
}

impl Remotes {
    /// Creates remotes with these options.
    #[cfg_attr(
        not(feature = "_transport"),
        expect(unused_variables, clippy::needless_pass_by_value, reason = "local files have none")
    )]
    pub(crate) fn new(options: RemoteOptions) -> Self {
        Self {
            #[cfg(feature = "_transport")]
            network: Network::new(options),
            #[cfg(feature = "_transport")]
            groups: None,
        }
    }

    /// The same with other options for some URLs.
    #[cfg(feature = "_transport")]
    pub(crate) fn with_groups(self, choice: Arc<dyn OptionsByUrl>) -> Self {
        Self { groups: Some(Groups::new(choice)), ..self }
    }

    #[cfg(feature = "_transport")]
    fn in_network<T>(&self, text: &str, find: impl FnOnce(&Network) -> Result<T>) -> Result<T> {
        let group = self.groups.as_ref().map(|groups| groups.network(text)).transpose()?.flatten();
        find(group.as_deref().unwrap_or(&self.network))
    }

    /// See [`Client::locate`](crate::Client::locate).
    #[cfg_attr(
        not(feature = "_transport"),
        expect(clippy::unused_self, reason = "local files need no network")
    )]
    pub(crate) fn locate(&self, text: &str) -> Result<Location> {
        let Some(scheme) = scheme(text) else {
            return Ok(Location::of_file(text));
        };
        if scheme == "file" {
            let url = parse(text)?;
            let path = url.to_file_path().map_err(|()| {
                invalid(text, "the URL names no local file")
                    .with_hint("write file:///absolute/path")
            })?;
            return Ok(Location::of_file(&path.display().to_string()));
        }
        #[cfg(feature = "_transport")]
        return self.in_network(text, |network| network.locate(&scheme, text));
        #[cfg(not(feature = "_transport"))]
        Err(unsupported(&scheme))
    }

    /// See [`Client::locate_prefix`](crate::Client::locate_prefix).
    pub(crate) fn locate_prefix(&self, text: &str) -> Result<Location> {
        match scheme(text).as_deref() {
            #[cfg(any(feature = "gcs", feature = "s3", feature = "azure"))]
            Some(scheme @ ("gs" | "s3" | "az")) => {
                self.in_network(text, |network| network.locate_prefix(scheme, text))
            }
            _ => self.locate(text),
        }
    }

    /// The cache that `text` names.
    #[cfg(feature = "reapi")]
    pub(crate) fn cache(&self, text: &str) -> Result<ReapiCache> {
        self.in_network(text, |network| network.cache_of(text))
    }

    /// As [`Self::locate`]; `text` may also name a cache without a blob.
    pub(crate) fn locate_target(&self, text: &str) -> Result<Location> {
        match scheme(text).as_deref() {
            #[cfg(feature = "reapi")]
            Some("grpc" | "grpcs") => {
                self.in_network(text, |network| network.locate_in_cache(text))
            }
            _ => self.locate(text),
        }
    }
}

/// The scheme of `text`, in lower case; `None` for a path. A scheme must be followed by `://`, so
/// that `a:b` is a file name.
fn scheme(text: &str) -> Option<String> {
    let (scheme, _) = text.split_once("://")?;
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.');
    let starts = scheme.starts_with(|c: char| c.is_ascii_alphabetic());
    (starts && scheme.chars().all(plain)).then(|| scheme.to_ascii_lowercase())
}

pub(super) fn parse(text: &str) -> Result<Url> {
    Url::parse(text).map_err(|error| {
        // The text may hold a password; what precedes an `@` is not shown.
        let shown = text.rsplit('@').next().unwrap_or_default();
        let shown = shown.split('?').next().unwrap_or_default();
        invalid(shown, "it is not a valid URL").caused_by(error)
    })
}

pub(super) fn invalid(target: &str, message: &str) -> Error {
    Error::new(ErrorKind::Invalid, Operation::Locate, target, message)
}

/// Schemes, and the feature of this crate that each scheme needs.
const FEATURES: [(&str, &str); 7] = [
    ("http", "http"),
    ("https", "http"),
    ("gs", "gcs"),
    ("s3", "s3"),
    ("az", "azure"),
    ("grpc", "reapi"),
    ("grpcs", "reapi"),
];

/// The error for a scheme that no remote of this build has.
pub(super) fn unsupported(scheme: &str) -> Error {
    let unsupported = |message: &str| {
        let target = format!("{scheme}://");
        Error::new(ErrorKind::Unsupported, Operation::Locate, target, message)
    };
    match FEATURES.iter().find(|(known, _)| *known == scheme) {
        Some((_, feature)) => unsupported("this build does not support the scheme")
            .with_hint(format!("enable the feature `{feature}` of the crate `tidegate`")),
        None => unsupported("unsupported scheme").with_hint(
            "use gs://, s3://, az://, http://, https://, grpc://, grpcs://, file:// or a path",
        ),
    }
}

pub(super) fn last_segment(name: &str) -> Option<String> {
    let last = name.rsplit('/').next().unwrap_or_default();
    is_plain(last).then(|| last.to_owned())
}

/// Whether the name stays within its folder and is safe to print on a terminal.
pub(super) fn is_plain(name: &str) -> bool {
    !matches!(name, "" | "." | "..") && !name.contains('/') && !name.contains(is_control)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn locate(text: &str) -> Result<Location> {
        Remotes::new(RemoteOptions { anonymous: true, ..RemoteOptions::default() }).locate(text)
    }

    #[test]
    fn a_path_and_a_file_url_are_files() {
        for text in ["/a/b.bin", "file:///a/b.bin"] {
            let location = locate(text).unwrap();
            assert_eq!((location.display(), location.file_name()), ("/a/b.bin", Some("b.bin")));
        }
        assert_eq!(locate("a:b").unwrap().display(), "a:b");
        assert_eq!(locate("/a/.b.tidegate-part").unwrap().file_name(), None);
    }

    #[test]
    fn an_unknown_scheme_says_which_are_known() {
        let error = locate("ftp://host/x").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        assert!(error.hint().unwrap().contains("gs://"));
    }

    #[cfg(feature = "http")]
    #[test]
    fn secrets_are_not_shown() {
        let location = locate("https://me:secret@host/a/b.bin?X-Amz-Signature=secret#f").unwrap();
        assert_eq!(location.display(), "https://host/a/b.bin");
        assert_eq!(location.file_name(), Some("b.bin"));
        assert!(location.blob.contains("X-Amz-Signature=secret"));
        assert!(!format!("{location:?}").contains("secret"));
        let broken = locate("https://me:secret@ho st/x?sig=secret").unwrap_err();
        assert!(!broken.chain().contains("secret"), "{}", broken.chain());
    }

    #[cfg(feature = "s3")]
    #[test]
    fn a_bucket_and_a_key_are_needed() {
        assert!(locate("s3:///key").unwrap_err().to_string().contains("bucket is missing"));
        assert!(locate("s3://bucket").unwrap_err().to_string().contains("key is missing"));
        assert!(locate("s3://bucket/").is_err());
        assert_eq!(locate("s3://bucket/a%20b?c#d").unwrap().blob, "a%20b?c#d");
        assert_eq!(locate("s3://bucket/a/..").unwrap_err().kind(), ErrorKind::Unsupported);
        let evil = locate("s3://bucket/a\u{202e}").unwrap();
        assert_eq!(evil.display(), r"s3://bucket/a\u{202e}");
        assert_eq!((evil.blob.as_str(), evil.file_name()), ("a\u{202e}", None));
        let error = locate("s3://id:secret@bucket/key").unwrap_err();
        assert!(!error.chain().contains("secret"), "{}", error.chain());
    }
}
