//! Header fields in the configuration file: a value in the file, or a reference to a variable or a
//! file that holds it.
//!
//! Invariant: a value is in no error and in no `Debug` output.

use std::fmt;
use std::fs::File;
use std::io::Read as _;
use std::path::PathBuf;

use tidegate::remote::ExtraHeaders;
use tidegate::{Error, ErrorKind, Operation, Result};
use toml::de::DeValue;

/// Servers refuse longer heads.
const FILE_BYTES_MAX: u64 = 64 << 10;

/// One header field.
#[derive(Debug)]
pub(crate) struct ConfigHeader {
    /// In lower case.
    pub(crate) name: String,
    value: HeaderValue,
    pub(crate) line: usize,
}

enum HeaderValue {
    Literal(String),
    Variable { variable: String, prefix: String },
    File { path: PathBuf, prefix: String },
}

impl fmt::Debug for HeaderValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("HeaderValue(..)")
    }
}

/// Reads a field of the file. The error says what is wrong with it.
pub(super) fn read(
    name: &str,
    value: &DeValue<'_>,
    path: impl Fn(&str) -> PathBuf,
    line: usize,
) -> std::result::Result<ConfigHeader, String> {
    // The engine knows which names it refuses.
    ExtraHeaders::new().add(name, "").map_err(|error| error.to_string())?;
    let value = match value {
        DeValue::String(text) => {
            ExtraHeaders::new().add(name, text).map_err(|error| error.to_string())?;
            HeaderValue::Literal(text.to_string())
        }
        DeValue::Table(table) => {
            let (mut variable, mut file, mut prefix) = (None, None, String::new());
            for (key, value) in table {
                let text = value.get_ref().as_str().ok_or("a reference has strings")?.to_owned();
                match key.get_ref().as_ref() {
                    "env" => variable = Some(text),
                    "file" => file = Some(path(&text)),
                    "prefix" => prefix = text,
                    other => return Err(format!("unknown name {other} in a header's value")),
                }
            }
            match (variable, file) {
                (Some(variable), None) => HeaderValue::Variable { variable, prefix },
                (None, Some(path)) => HeaderValue::File { path, prefix },
                _ => return Err("a reference names one of env and file".to_owned()),
            }
        }
        _ => {
            return Err(
                "a header is a string, or { env = \"NAME\" }, or { file = \"PATH\" }".into()
            );
        }
    };
    Ok(ConfigHeader { name: name.to_ascii_lowercase(), value, line })
}

impl ConfigHeader {
    /// Whether the file itself holds a value that may be a secret.
    pub(crate) fn is_literal_secret(&self) -> bool {
        const WORDS: [&str; 6] = ["auth", "cookie", "key", "password", "secret", "token"];
        let is_literal = matches!(self.value, HeaderValue::Literal(_));
        is_literal && WORDS.iter().any(|word| self.name.contains(word))
    }

    /// `NAME: VALUE`. `place` names the file and the line in errors.
    pub(crate) fn field(&self, place: &str) -> Result<String> {
        let invalid =
            |message: &str| Error::new(ErrorKind::Invalid, Operation::Locate, place, message);
        let (prefix, value) = match &self.value {
            HeaderValue::Literal(value) => ("", value.clone()),
            HeaderValue::Variable { variable, prefix } => {
                let value = std::env::var(variable).ok().filter(|value| !value.is_empty());
                let missing = || {
                    let name = &self.name;
                    invalid(&format!("header {name}: the variable {variable} is not set"))
                };
                (prefix.as_str(), value.ok_or_else(missing)?)
            }
            HeaderValue::File { path, prefix } => {
                let mut text = String::new();
                let read = File::open(path)
                    .and_then(|file| file.take(FILE_BYTES_MAX).read_to_string(&mut text));
                read.map_err(|error| {
                    let (name, path) = (&self.name, path.display());
                    invalid(&format!("header {name}: {path} cannot be read")).caused_by(error)
                })?;
                (prefix.as_str(), text.trim().to_owned())
            }
        };
        Ok(format!("{}: {prefix}{value}", self.name))
    }
}
