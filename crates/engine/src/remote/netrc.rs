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
use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::{HeaderMap, HeaderValue, header};

use crate::error::{Error, ErrorKind, Operation, Result};

/// Longer files are not read.
const BYTES_MAX: u64 = 1 << 20;

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
        let text = read(path)
            .map_err(|error| invalid("the file of credentials cannot be read").caused_by(error))?;
        let entries = entries(&text).ok_or_else(|| {
            invalid("the file is not in the format of .netrc")
                .with_hint("write lines such as: machine HOST login USER password PASSWORD")
        })?;
        let mut hosts = HashMap::new();
        for Entry { host, login, password } in entries {
            let basic = format!("Basic {}", STANDARD.encode(format!("{login}:{password}")));
            let mut value = HeaderValue::try_from(basic)
                .map_err(|error| invalid("an entry makes no header").caused_by(error))?;
            value.set_sensitive(true);
            // Of several entries for one host, the first counts.
            hosts.entry(host.to_ascii_lowercase()).or_insert(value);
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

fn read(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    let read = File::open(path)?.take(BYTES_MAX + 1).read_to_string(&mut text)?;
    if read as u64 > BYTES_MAX { Err(io::ErrorKind::FileTooLarge.into()) } else { Ok(text) }
}

/// The credentials for one host.
#[derive(Default)]
struct Entry {
    host: String,
    login: String,
    password: String,
}

/// The entries of a file; `None` if it is not in the format.
fn entries(text: &str) -> Option<Vec<Entry>> {
    let mut entries: Vec<Entry> = Vec::new();
    let mut words = words(text)?.into_iter();
    while let Some(word) = words.next() {
        match word.as_str() {
            "machine" => entries.push(Entry { host: words.next()?, ..Entry::default() }),
            DEFAULT => entries.push(Entry { host: word, ..Entry::default() }),
            "login" => entries.last_mut()?.login = words.next()?,
            "password" => entries.last_mut()?.password = words.next()?,
            "account" => drop(words.next()?),
            _ => return None,
        }
    }
    Some(entries)
}

/// The words of a file, without comments and macros. A word in double quotes may hold spaces and
/// escapes, as in curl. `None` if a quote is not closed.
fn words(text: &str) -> Option<Vec<String>> {
    let (mut words, mut is_macro) = (Vec::new(), false);
    for line in text.lines() {
        let mut rest = line.trim();
        // A macro ends with an empty line.
        is_macro = (is_macro || rest.starts_with("macdef")) && !rest.is_empty();
        while !is_macro && !rest.is_empty() && !rest.starts_with('#') {
            let (word, after) = if let Some(quoted) = rest.strip_prefix('"') {
                unquoted(quoted)?
            } else {
                let (word, after) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
                (word.to_owned(), after)
            };
            words.push(word);
            rest = after.trim_start();
        }
    }
    Some(words)
}

/// The word up to the closing quote, and the text after it.
fn unquoted(quoted: &str) -> Option<(String, &str)> {
    let (mut word, mut chars) = (String::new(), quoted.chars());
    loop {
        match chars.next()? {
            '"' => return Some((word, chars.as_str())),
            '\\' => word.push(match chars.next()? {
                'n' => '\n',
                'r' => '\r',
                't' => '\t',
                other => other,
            }),
            other => word.push(other),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Option<Vec<(String, String, String)>> {
        let found = entries(text)?;
        Some(
            found
                .into_iter()
                .map(|Entry { host, login, password }| (host, login, password))
                .collect(),
        )
    }

    fn entry(host: &str, login: &str, password: &str) -> (String, String, String) {
        (host.to_owned(), login.to_owned(), password.to_owned())
    }

    #[test]
    fn entries_span_lines_and_may_be_quoted() {
        let text = "# comment\nmachine a.example login me password p#1\n\
                    machine b.example\n\tlogin \"a b\"\n\tpassword \"q\\\"\\\\ x\"\n\
                    macdef init\nmachine no login no\n\n\
                    default login any account x password all\n";
        let expected = vec![
            entry("a.example", "me", "p#1"),
            entry("b.example", "a b", "q\"\\ x"),
            entry("default", "any", "all"),
        ];
        assert_eq!(parsed(text), Some(expected));
        assert_eq!(parsed(""), Some(Vec::new()));
    }

    #[test]
    fn other_texts_are_refused() {
        for wrong in [
            "machine",
            "login me",
            "machine a passwd x",
            "machine a login \"open",
            "machine a login \"open\\",
            "{\"json\": 1}",
        ] {
            assert_eq!(parsed(wrong), None, "{wrong}");
        }
    }
}
