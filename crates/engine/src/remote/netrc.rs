//! [`Netrc`]: user names and passwords for hosts, from a file in the format of `ftp` and curl.
//!
//! Source: the manual page of curl, option `--netrc`
//! (<https://everything.curl.dev/usingcurl/netrc.html>). The file is read once.
//!
//! Invariants:
//! - A password is in no `Debug` output and in no error.
//! - A request that has an `Authorization` field keeps it.
//! - The entry `default` is for the host of a URL, not for hosts that it redirects to: a signed URL
//!   of a bucket fails if it also has credentials.

use std::collections::HashMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::{HeaderMap, HeaderValue, header};

use crate::error::{Error, ErrorKind, Operation, Result};

/// The name of the entry for all other hosts.
const DEFAULT: &str = "default";

/// Credentials by host. Clones share them.
#[derive(Clone, Default)]
pub struct Netrc(Arc<HashMap<String, HeaderValue>>);

impl Netrc {
    /// Reads a file.
    ///
    /// Fails with `Invalid` if it cannot be read, or is not in the format.
    pub fn from_file(path: &Path) -> Result<Self> {
        let invalid = |message: &str| {
            let target = path.display().to_string();
            Error::new(ErrorKind::Invalid, Operation::Locate, target, message)
        };
        let text = std::fs::read_to_string(path)
            .map_err(|error| invalid("the file of credentials cannot be read").caused_by(error))?;
        // The cause may quote the file, so it is not shown.
        let parsed = text.parse::<netrc::Netrc>().ok().ok_or_else(|| {
            invalid("the file is not in the format of .netrc")
                .with_hint("write lines such as: machine HOST login USER password PASSWORD")
        })?;
        let mut hosts = HashMap::new();
        for (host, entry) in parsed.hosts {
            let basic =
                format!("Basic {}", STANDARD.encode(format!("{}:{}", entry.login, entry.password)));
            let mut value = HeaderValue::try_from(basic)
                .map_err(|error| invalid("an entry makes no header").caused_by(error))?;
            value.set_sensitive(true);
            hosts.insert(host.to_ascii_lowercase(), value);
        }
        Ok(Self(Arc::new(hosts)))
    }

    /// Reads the file that `NETRC` names, else `.netrc` in the home folder.
    ///
    /// Fails as [`Self::from_file`] does.
    pub fn from_home() -> Result<Self> {
        let named = std::env::var_os("NETRC").filter(|path| !path.is_empty()).map(PathBuf::from);
        let home = || std::env::var_os("HOME").map(|home| Path::new(&home).join(".netrc"));
        let Some(path) = named.or_else(home) else {
            let message = "no home folder is known";
            return Err(Error::new(ErrorKind::Invalid, Operation::Locate, ".netrc", message)
                .with_hint("set HOME, or name the file in NETRC"));
        };
        Self::from_file(&path)
    }

    /// Adds the credentials for `host` to a request's header, unless it has some.
    pub(super) fn authorize(&self, host: Option<&str>, is_first: bool, headers: &mut HeaderMap) {
        if headers.contains_key(header::AUTHORIZATION) {
            return;
        }
        let host = host.unwrap_or_default().to_ascii_lowercase();
        let other = || if is_first { self.0.get(DEFAULT) } else { None };
        if let Some(value) = self.0.get(&host).or_else(other) {
            headers.insert(header::AUTHORIZATION, value.clone());
        }
    }
}

impl fmt::Debug for Netrc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}
