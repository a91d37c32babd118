//! From what the user typed to a remote and a blob: schemes, endpoints, and names that are safe
//! to print.

use std::ffi::OsStr;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tidegate_core::printable::{escaped, is_control};
use url::Url;

#[cfg(any(feature = "gcs", feature = "s3", feature = "azure"))]
use super::CustomerKey;
#[cfg(feature = "_transport")]
use super::ExtraHeaders;
use super::file::FileRemote;
use super::pinned::Pinned;
#[cfg(feature = "reapi")]
use super::reapi::{CacheUrl, ReapiCache, ReapiOptions};
use super::{Remote, Selection, Version};
use crate::error::{Error, ErrorKind, Operation, Result};
use crate::names::is_reserved;
#[cfg(feature = "_transport")]
use crate::transport::TransportOptions;

/// How remotes are reached; what is not given here is taken from the environment, by the rules of
/// each remote's own ecosystem.
///
/// What one kind of remote knows and another does not is for the former alone: one set of options
/// serves URLs of every scheme.
#[derive(Clone, Debug, Default)]
pub struct RemoteOptions {
    /// Base URL of the service, in place of the cloud's own.
    pub endpoint: Option<String>,
    /// Send no credentials and look for none.
    pub anonymous: bool,
    /// PEM files with certificate authorities to trust besides the system's.
    pub ca_certs: Vec<PathBuf>,
    /// Sent with every request for a blob behind a network.
    #[cfg(feature = "_transport")]
    pub headers: ExtraHeaders,
    /// The project that pays for requests to Google Cloud Storage, where the requester pays.
    pub user_project: Option<String>,
    /// The requester pays for requests to S3, and agrees to.
    pub request_payer: bool,
    /// The key that the blobs in Google Cloud Storage, S3 or Azure are encrypted with.
    #[cfg(any(feature = "gcs", feature = "s3", feature = "azure"))]
    pub customer_key: Option<CustomerKey>,
    /// How caches of the Remote Execution API are spoken to.
    #[cfg(feature = "reapi")]
    pub reapi: ReapiOptions,
    /// Settings of the HTTP client.
    #[cfg(feature = "_transport")]
    pub transport: TransportOptions,
}

/// One blob: the remote that holds it and the name it has there.
#[derive(Clone)]
pub struct Location {
    /// The remote.
    pub remote: Arc<dyn Remote>,
    /// The blob's name at the remote.
    pub blob: String,
    pub(super) display: String,
    pub(super) file_name: Option<String>,
}

impl Location {
    /// A blob of any remote; `display` is shown to people and must hold no secrets. Control
    /// characters in it are escaped.
    pub fn new(
        remote: Arc<dyn Remote>,
        blob: impl Into<String>,
        display: impl Into<String>,
    ) -> Self {
        let blob = blob.into();
        let file_name = last_segment(&blob);
        let display = escaped(&display.into()).into_owned();
        Self { remote, blob, display, file_name }
    }

    /// The same blob in one version: an answer that brings another is `Changed`.
    ///
    /// Which kinds there are depends on the remote: a generation in Google Cloud Storage, a version
    /// id in S3 and Azure, and for both and HTTP an entity tag or a modification date. Fails with
    /// `Invalid` for a version of another kind, or one that cannot be.
    pub fn at(&self, version: Version) -> Result<Self> {
        self.remote.check_version(&version)?;
        let remote = Arc::new(Pinned::new(Arc::clone(&self.remote), version, &self.display));
        Ok(Self { remote, ..self.clone() })
    }

    /// Everything that decides which object this is.
    pub(crate) fn selection(&self) -> Option<Selection> {
        self.remote.selection(&self.blob)
    }

    /// The blob's URL without user info and query, where secrets hide, and with control characters
    /// escaped.
    pub fn display(&self) -> &str {
        &self.display
    }

    /// The last segment of the blob's name: what a copy in a folder is called. `None` where the
    /// name ends in a slash, is no plain file name (as one with control characters), or is one that
    /// part files and indexes have (`.NAME.tidegate-part`): who names a blob must not choose what a
    /// later download resumes.
    pub fn file_name(&self) -> Option<&str> {
        let is_ours = |name: &&str| is_reserved(OsStr::new(name));
        self.file_name.as_deref().filter(|name| !is_ours(name))
    }
}

impl fmt::Debug for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Location").field(&self.display).finish()
    }
}

/// Makes remotes from URLs, and keeps one for each bucket, so that their blobs share connections
/// and credentials.
#[derive(Debug)]
pub struct Remotes {
    #[cfg(feature = "_transport")]
    network: super::network::Network,
}

impl Remotes {
    /// A maker of remotes with these options.
    #[cfg_attr(
        not(feature = "_transport"),
        expect(unused_variables, clippy::needless_pass_by_value, reason = "local files have none")
    )]
    pub fn new(options: RemoteOptions) -> Self {
        Self {
            #[cfg(feature = "_transport")]
            network: super::network::Network::new(options),
        }
    }

    /// Finds the blob that `text` names: `gs://bucket/key`, `s3://bucket/key`,
    /// `az://container/key`, `http(s)://…`, `grpc(s)://host/instance/sha256/HASH/SIZE`,
    /// `file:///path`, or a path. No request is sent.
    ///
    /// Fails with `Invalid` for text that names no blob, `Unsupported` for a scheme that this
    /// build does not speak, and `NoAccess` or `Invalid` for credentials that cannot be used.
    pub fn locate(&self, text: &str) -> Result<Location> {
        let Some(scheme) = scheme(text) else {
            return Ok(Self::file(text));
        };
        if scheme == "file" {
            let url = parse(text)?;
            let path = url.to_file_path().map_err(|()| {
                invalid(text, "the URL names no local file")
                    .with_hint("write file:///absolute/path")
            })?;
            return Ok(Self::file(&path.display().to_string()));
        }
        #[cfg(feature = "_transport")]
        return self.network.locate(&scheme, text);
        #[cfg(not(feature = "_transport"))]
        Err(unsupported(&scheme))
    }

    /// Finds the cache that `text` names, with or without a blob in it: `grpc(s)://host/instance`.
    /// No request is sent.
    #[cfg(feature = "reapi")]
    pub fn cache(&self, text: &str) -> Result<(ReapiCache, CacheUrl)> {
        let url = CacheUrl::parse(text)?;
        Ok((self.network.cache(&url)?, url))
    }

    fn file(path: &str) -> Location {
        let file_name = Path::new(path).file_name().map(|name| name.to_string_lossy().into_owned());
        Location {
            remote: Arc::new(FileRemote::default()),
            blob: path.to_owned(),
            display: escaped(path).into_owned(),
            file_name,
        }
    }
}

/// The scheme of `text`, in lower case; `None` for a path. A scheme must be followed by `://`, so
/// that a file called `a:b` stays one.
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

pub(super) fn unsupported(scheme: &str) -> Error {
    Error::new(
        ErrorKind::Unsupported,
        Operation::Locate,
        format!("{scheme}://"),
        "the scheme is not known here",
    )
    .with_hint("use gs://, s3://, az://, http://, https://, grpc://, grpcs://, file:// or a path")
}

pub(super) fn last_segment(name: &str) -> Option<String> {
    let last = name.rsplit('/').next().unwrap_or_default();
    is_plain(last).then(|| last.to_owned())
}

/// A name that cannot leave the folder it is put into, and is harmless on a terminal that lists it.
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
