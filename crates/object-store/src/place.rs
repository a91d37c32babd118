//! [`Place`]: the remote, and which blob a path names.
//!
//! A path of `object_store` is the text of a key, below the prefix of the store. It is never decoded:
//! the path `a%2Fb` is the key `a%2Fb`, and the file of that name.

use std::sync::Arc;

use object_store::UpdateVersion;
use object_store::path::Path;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use tidegate::remote::{Remote, Version};
use tidegate::{Budget, Client, Error, ErrorKind, Location, Operation, Result};

use crate::attempts::Attempts;

/// The name by which the remote of a prefix is found: a prefix alone is no blob.
const PROBE: &str = "x";

/// Characters that the path of a URL has as they are.
const IN_URL: &AsciiSet =
    &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~').remove(b'/');

/// What kind of version the blobs of a remote have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Versions {
    /// Entity tags, and ids of versions that a bucket keeps.
    ETags,
    Generations,
    FileStamps,
}

/// See the module docs.
#[derive(Debug)]
pub(crate) struct Place {
    client: Client,
    remote: Arc<dyn Remote>,
    /// What the names of all blobs begin with: empty, or with a slash at its end.
    prefix: String,
    display: String,
    versions: Versions,
    /// Blobs are named by URLs, and a path is encoded.
    is_web: bool,
}

impl Place {
    pub(crate) fn new(client: &Client, url: &str) -> Result<Self> {
        let refused =
            |kind, message: &str| Error::new(kind, Operation::Locate, hidden(url), message);
        let scheme = url.split_once("://").map(|(scheme, _)| scheme.to_ascii_lowercase());
        let is_web = matches!(scheme.as_deref(), Some("http" | "https"));
        if matches!(scheme.as_deref(), Some("grpc" | "grpcs")) {
            let message = "blobs of a cache have no names, so it is no object store";
            return Err(refused(ErrorKind::Unsupported, message));
        }
        if is_web && url.contains(['?', '#']) {
            let message = "the URL of a folder has no query and no fragment";
            return Err(refused(ErrorKind::Invalid, message));
        }
        let found = client.locate(&format!("{}/{PROBE}", url.trim_end_matches('/')))?;
        let before = |text: &str| text.strip_suffix(PROBE).unwrap_or(text).to_owned();
        let versions = match found.remote.scheme() {
            "gs" => Versions::Generations,
            "file" => Versions::FileStamps,
            _ => Versions::ETags,
        };
        Ok(Self {
            client: client.clone(),
            prefix: before(&found.blob),
            display: before(found.display()),
            remote: found.remote,
            versions,
            is_web,
        })
    }

    pub(crate) fn client(&self) -> &Client {
        &self.client
    }

    /// Without secrets.
    pub(crate) fn display(&self) -> &str {
        &self.display
    }

    /// A handle for one blob or one listing.
    pub(crate) fn budget(&self) -> Budget {
        self.client.budget().share()
    }

    /// Attempts at requests, which take their permits from `budget`.
    pub(crate) fn attempts(&self, budget: Budget) -> Attempts {
        Attempts::new(budget, self.client.retry().clone())
    }

    /// The name of the blob at a path.
    pub(crate) fn key(&self, path: &Path) -> String {
        let path = path.as_ref();
        if self.is_web {
            return format!("{}{}", self.prefix, utf8_percent_encode(path, IN_URL));
        }
        format!("{}{path}", self.prefix)
    }

    /// The blob at a path.
    pub(crate) fn locate(&self, path: &Path) -> Location {
        let display = format!("{}{path}", self.display);
        Location::new(Arc::clone(&self.remote), self.key(path), display)
    }

    /// All blobs below a path: their names begin with this.
    pub(crate) fn key_prefix(&self, path: Option<&Path>) -> String {
        match path {
            Some(path) if !path.is_root() => format!("{}/", self.key(path)),
            _ => self.prefix.clone(),
        }
    }

    /// The path of a blob that was listed.
    ///
    /// Fails if no path names the blob, such as for the key `a//b`.
    pub(crate) fn path(&self, key: &str) -> object_store::Result<Path> {
        let relative = key.strip_prefix(&self.prefix).unwrap_or(key);
        let path = Path::parse(relative)?;
        if path.as_ref() != relative {
            let message = "the blob's name begins or ends with a slash, so no path names it";
            let display = format!("{}{relative}", self.display);
            let error = Error::new(ErrorKind::Unsupported, Operation::List, display, message);
            return Err(object_store::Error::NotSupported { source: Box::new(error) });
        }
        Ok(path)
    }

    pub(crate) fn is_local(&self) -> bool {
        self.versions == Versions::FileStamps
    }

    /// The version that a read asks for.
    pub(crate) fn version(&self, text: &str) -> Version {
        match self.versions {
            Versions::ETags => Version::VersionId(text.to_owned()),
            Versions::Generations => Version::Generation(text.to_owned()),
            Versions::FileStamps => Version::FileStamp(text.to_owned()),
        }
    }

    /// The version that an update replaces; `None` if no blob can have it.
    pub(crate) fn replaced(&self, update: &UpdateVersion) -> Option<Version> {
        let text = update.e_tag.as_ref().or(update.version.as_ref())?;
        let version = match self.versions {
            Versions::ETags => Version::from_etag(text)?,
            Versions::Generations | Versions::FileStamps => self.version(text),
        };
        self.remote.check_version(&version).is_ok().then_some(version)
    }
}

/// The text before everything that may be a secret.
fn hidden(url: &str) -> &str {
    let shown = url.rsplit('@').next().unwrap_or_default();
    shown.split('?').next().unwrap_or_default()
}
