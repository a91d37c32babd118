//! The configuration file: settings for all URLs, and for those under a prefix.
//!
//! | file | idea |
//! |---|---|
//! | `file` | the format; every error has a line |
//! | `prefix` | prefixes of URLs |
//! | `setting` | the settings, and the variables that are other sources of them |
//! | `serve_file` | the configuration file of `tidegate serve`: its flags |
//! | `header` | header fields, and where their values are |
//! | `resolve` | the value that applies to a URL, and where it comes from |
//!
//! The engine reads no configuration file. It asks for the options of a URL through
//! [`tidegate::remote::OptionsByUrl`].

mod file;
mod header;
mod prefix;
mod resolve;
mod serve_file;
mod setting;

pub(crate) use prefix::Prefix;
pub(crate) use resolve::{ByUrl, Given, Origin, Row, Settings};
pub(crate) use serve_file::arguments as serve_arguments;
pub(crate) use setting::Setting;

use std::fs::File;
use std::io::{self, Read as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use tidegate::{Error, ErrorKind, Operation, Result};

use self::file::{Flaw, Layer, Reader};
use crate::args::ConfigArgs;

/// No configuration is longer.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// The variable that names the file.
const VARIABLE: &str = "TIDEGATE_CONFIG";

/// The settings of a file; none if there is no file.
#[derive(Debug, Default)]
pub(crate) struct Config {
    pub(crate) path: Option<PathBuf>,
    layers: Vec<Layer>,
    /// Whether other users can read the file.
    is_open: bool,
}

impl Config {
    /// Reads the file that the command line or the environment names, or else the user's own, which
    /// may be missing.
    pub(crate) fn load(args: &ConfigArgs) -> Result<Self> {
        if args.no_config {
            return Ok(Self::default());
        }
        let variable = std::env::var_os(VARIABLE).filter(|path| !path.is_empty());
        let named = args.config.clone().or_else(|| variable.map(PathBuf::from));
        let Some(path) = named.clone().or_else(usual_path) else { return Ok(Self::default()) };
        let (text, is_open) = match read(&path) {
            Ok(read) => read,
            Err(error) if named.is_none() && error.kind() == io::ErrorKind::NotFound => {
                return Ok(Self::default());
            }
            Err(error) => {
                let message = "the configuration file cannot be read";
                return Err(invalid(&path.display().to_string(), message)
                    .caused_by(error)
                    .with_hint(format!(
                        "name another with --config FILE or {VARIABLE}, or pass --no-config"
                    )));
            }
        };
        let path = std::path::absolute(&path).unwrap_or(path);
        let folder = path.parent().unwrap_or(Path::new("/"));
        let layers = Reader::new(&text, folder).layers();
        let layers = layers.map_err(|flaw| refusal(&path, flaw))?;
        Ok(Self { path: Some(path), layers, is_open })
    }

    /// A warning if other users can read a header that may be a secret.
    pub(crate) fn warning(&self) -> Option<String> {
        let path = self.path.as_ref().filter(|_| self.is_open)?;
        let mut headers = self.layers.iter().flat_map(|layer| &layer.headers);
        let header = headers.find(|header| header.is_literal_secret())?;
        let (place, name) = (place(path, header.line), &header.name);
        Some(format!(
            "warning: {place}: other users can read the header {name}; run chmod 600 on the file, \
             or refer to a variable: {{ env = \"NAME\" }}"
        ))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.layers.is_empty()
    }

    /// The layers for a URL, the one with priority first.
    fn layers(&self, url: &Prefix) -> Vec<&Layer> {
        let applies =
            |layer: &&Layer| layer.prefix.as_ref().is_none_or(|prefix| prefix.covers(url));
        let mut layers: Vec<&Layer> = self.layers.iter().filter(applies).collect();
        layers.sort_by_key(|layer| {
            std::cmp::Reverse(layer.prefix.as_ref().map(|prefix| (1, prefix.len())))
        });
        layers
    }

    /// The file and a line of it, in messages.
    fn place(&self, line: usize) -> String {
        self.path.as_ref().map_or_else(String::new, |path| place(path, line))
    }
}

/// `$XDG_CONFIG_HOME/tidegate/config.toml`, or the same in `~/.config`.
fn usual_path() -> Option<PathBuf> {
    let absolute = |path: &PathBuf| path.is_absolute();
    let xdg = std::env::var_os("XDG_CONFIG_HOME").map(PathBuf::from).filter(absolute);
    let home = || std::env::var_os("HOME").map(|home| Path::new(&home).join(".config"));
    Some(xdg.or_else(home)?.join("tidegate/config.toml"))
}

/// The file's text, and whether other users can read it.
fn read(path: &Path) -> io::Result<(String, bool)> {
    let file = File::open(path)?;
    let found = file.metadata()?;
    if found.is_dir() {
        return Err(io::ErrorKind::IsADirectory.into());
    }
    let is_open = found.permissions().mode() & 0o044 != 0;
    let mut text = String::new();
    let read = file.take(FILE_BYTES_MAX + 1).read_to_string(&mut text)?;
    if read as u64 > FILE_BYTES_MAX {
        return Err(io::ErrorKind::FileTooLarge.into());
    }
    Ok((text, is_open))
}

fn place(path: &Path, line: usize) -> String {
    format!("{}:{line}", path.display())
}

fn refusal(path: &Path, flaw: Flaw) -> Error {
    let error = invalid(&place(path, flaw.line), &flaw.message);
    match flaw.hint {
        Some(hint) => error.with_hint(hint),
        None => error,
    }
}

fn invalid(target: &str, message: &str) -> Error {
    Error::new(ErrorKind::Invalid, Operation::Locate, target, message)
}
