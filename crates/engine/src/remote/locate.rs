//! From what the user typed to a remote and a blob: schemes, endpoints, and names that are safe
//! to print.

use std::collections::HashMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use url::Url;

use super::Remote;
use super::file::FileRemote;
use crate::error::{Error, ErrorKind, Operation, Result};
#[cfg(feature = "_transport")]
use crate::transport::{Transport, TransportOptions};

/// How remotes are reached; what is not given here is taken from the environment, by the rules of
/// each remote's own ecosystem.
#[derive(Clone, Debug, Default)]
pub struct RemoteOptions {
    /// Base URL of the service, in place of the cloud's own.
    pub endpoint: Option<String>,
    /// Send no credentials and look for none.
    pub anonymous: bool,
    /// PEM files with certificate authorities to trust besides the system's.
    pub ca_certs: Vec<PathBuf>,
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
    display: String,
    file_name: Option<String>,
}

impl Location {
    /// A blob of any remote; `display` is shown to people and must hold no secrets.
    pub fn new(
        remote: Arc<dyn Remote>,
        blob: impl Into<String>,
        display: impl Into<String>,
    ) -> Self {
        let blob = blob.into();
        let file_name = last_segment(&blob);
        Self { remote, blob, display: display.into(), file_name }
    }

    /// The blob's URL without user info and query, where secrets hide.
    pub fn display(&self) -> &str {
        &self.display
    }

    /// The last segment of the blob's name: what a copy in a folder is called. `None` where the
    /// name ends in a slash or is no plain file name.
    pub fn file_name(&self) -> Option<&str> {
        self.file_name.as_deref()
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
    options: RemoteOptions,
    made: Mutex<HashMap<String, Arc<dyn Remote>>>,
    #[cfg(feature = "_transport")]
    transport: Mutex<Option<Transport>>,
}

impl Remotes {
    /// A maker of remotes with these options.
    pub fn new(options: RemoteOptions) -> Self {
        Self {
            options,
            made: Mutex::default(),
            #[cfg(feature = "_transport")]
            transport: Mutex::default(),
        }
    }

    /// Finds the blob that `text` names: `gs://bucket/key`, `s3://bucket/key`,
    /// `az://container/key`, `http(s)://…`, `file:///path`, or a path. No request is sent.
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
        self.network(&scheme, text)
    }

    fn file(path: &str) -> Location {
        let file_name = Path::new(path).file_name().map(|name| name.to_string_lossy().into_owned());
        Location {
            remote: Arc::new(FileRemote),
            blob: path.to_owned(),
            display: path.to_owned(),
            file_name,
        }
    }

    #[cfg(feature = "_transport")]
    fn network(&self, scheme: &str, text: &str) -> Result<Location> {
        let (key, blob, display) = match scheme {
            #[cfg(feature = "http")]
            "http" | "https" => {
                let url = parse(text)?;
                let display = display(&url);
                if url.host_str().is_none_or(str::is_empty) {
                    return Err(invalid(&display, "the URL has no host"));
                }
                ("http".to_owned(), url.to_string(), display)
            }
            #[cfg(feature = "gcs")]
            "gs" => bucket_and_key(text)?,
            #[cfg(feature = "s3")]
            "s3" => bucket_and_key(text)?,
            #[cfg(feature = "azure")]
            "az" => bucket_and_key(text)?,
            _ => return Err(unsupported(scheme)),
        };
        let file_name = if scheme.starts_with("http") {
            let name = last_segment(display.trim_start_matches("http"));
            name.map(|name| {
                percent_encoding::percent_decode_str(&name).decode_utf8_lossy().into_owned()
            })
            .filter(|name| is_plain(name))
        } else {
            last_segment(&blob)
        };
        let remote = self.remote(scheme, &key)?;
        Ok(Location { remote, blob, display, file_name })
    }

    #[cfg(not(feature = "_transport"))]
    #[expect(clippy::unused_self, reason = "the twin with network remotes needs it")]
    fn network(&self, scheme: &str, _text: &str) -> Result<Location> {
        Err(unsupported(scheme))
    }

    #[cfg(feature = "_transport")]
    fn remote(&self, scheme: &str, key: &str) -> Result<Arc<dyn Remote>> {
        let lock = || self.made.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(remote) = lock().get(key) {
            return Ok(Arc::clone(remote));
        }
        let transport = self.transport()?;
        let remote: Arc<dyn Remote> = match scheme {
            #[cfg(feature = "http")]
            "http" | "https" => Arc::new(super::http::HttpRemote::new(transport)),
            #[cfg(feature = "gcs")]
            "gs" => Arc::new(super::gcs::connect(key, &self.options, &transport)?),
            #[cfg(feature = "s3")]
            "s3" => Arc::new(super::s3::connect(key, &self.options, &transport)?),
            #[cfg(feature = "azure")]
            "az" => Arc::new(super::azure::connect(key, &self.options, &transport)?),
            _ => return Err(unsupported(scheme)),
        };
        lock().insert(key.to_owned(), Arc::clone(&remote));
        Ok(remote)
    }

    #[cfg(feature = "_transport")]
    fn transport(&self) -> Result<Transport> {
        let mut made = self.transport.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(transport) = made.as_ref() {
            return Ok(transport.clone());
        }
        let mut options = self.options.transport.clone();
        options.ca_certs.extend(self.options.ca_certs.iter().cloned());
        let transport = Transport::new(&options)?;
        *made = Some(transport.clone());
        Ok(transport)
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

fn parse(text: &str) -> Result<Url> {
    Url::parse(text).map_err(|error| {
        // The text may hold a password; what precedes an `@` is not shown.
        let shown = text.rsplit('@').next().unwrap_or_default();
        let shown = shown.split('?').next().unwrap_or_default();
        invalid(shown, "it is not a valid URL").caused_by(error)
    })
}

/// The URL without user info, query and fragment.
pub(crate) fn display(url: &Url) -> String {
    let mut shown = url.clone();
    // Both fail only for URLs that cannot have user info, which then have none to hide.
    let _ = shown.set_username("");
    let _ = shown.set_password(None);
    shown.set_query(None);
    shown.set_fragment(None);
    shown.to_string()
}

pub(super) fn invalid(target: &str, message: &str) -> Error {
    Error::new(ErrorKind::Invalid, Operation::Locate, target, message)
}

fn unsupported(scheme: &str) -> Error {
    Error::new(
        ErrorKind::Unsupported,
        Operation::Locate,
        format!("{scheme}://"),
        "the scheme is not known here",
    )
    .with_hint("use gs://, s3://, az://, http://, https://, file:// or a path")
}

/// Splits `scheme://BUCKET/KEY` into what names the remote, the key, and what may be shown. The
/// key is taken as it stands, as the clouds' own tools do: nothing in it is percent-decoded.
#[cfg(any(feature = "gcs", feature = "s3", feature = "azure"))]
fn bucket_and_key(text: &str) -> Result<(String, String, String)> {
    let (scheme, rest) = text.split_once("://").unwrap_or_default();
    let scheme = scheme.to_ascii_lowercase();
    let (bucket, key) = rest.split_once('/').unwrap_or((rest, ""));
    // What is written like credentials in front of the bucket must not be printed.
    let shown_bucket = bucket.rsplit('@').next().unwrap_or_default();
    let shown = format!("{scheme}://{shown_bucket}/{key}");
    if bucket.is_empty() {
        return Err(invalid(&shown, "the bucket is missing")
            .with_hint(format!("write {scheme}://BUCKET/KEY")));
    }
    if bucket.contains(['@', ':', '?', '#', '%', ' ']) {
        return Err(invalid(&shown, "the bucket's name has characters that no bucket can have")
            .with_hint("credentials do not belong in the URL; give them by environment"));
    }
    if key.is_empty() {
        return Err(invalid(&shown, "the key is missing")
            .with_hint("name one blob; whole buckets are not copied yet"));
    }
    Ok((format!("{scheme}://{bucket}"), key.to_owned(), shown))
}

fn last_segment(name: &str) -> Option<String> {
    let last = name.rsplit('/').next().unwrap_or_default();
    is_plain(last).then(|| last.to_owned())
}

/// A name that cannot leave the folder it is put into.
fn is_plain(name: &str) -> bool {
    !matches!(name, "" | "." | "..") && !name.contains(['/', '\0'])
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
        assert_eq!(locate("s3://bucket/a/..").unwrap().file_name(), None);
        let error = locate("s3://id:secret@bucket/key").unwrap_err();
        assert!(!error.chain().contains("secret"), "{}", error.chain());
    }
}
