//! The format of the configuration file.
//!
//! ```toml
//! [defaults]
//! stall = "1m"
//!
//! [url."s3://models"]
//! endpoint = "https://minio.example:9000"
//!
//! [url."https://files.example/private".headers]
//! Authorization = { env = "FILES_TOKEN", prefix = "Bearer " }
//! ```
//!
//! Everything is checked when the file is read, and an error names the line. Names and values are
//! those of flags, so the parser of the command line checks the values.

use std::path::{Path, PathBuf};

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::header::{self, ConfigHeader};
use super::prefix::Prefix;
use super::setting::{HEADERS, SETTINGS, Scope, Setting};
use crate::args::UrlArgs;

/// The settings under one prefix, or the defaults.
#[derive(Debug)]
pub(crate) struct Layer {
    /// `None` for the defaults.
    pub(crate) prefix: Option<Prefix>,
    pub(crate) entries: Vec<Entry>,
    pub(crate) headers: Vec<ConfigHeader>,
}

/// One setting in the file.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) setting: &'static Setting,
    /// The values as on the command line; `true` or `false` for a flag without a value.
    pub(crate) values: Vec<String>,
    pub(crate) line: usize,
}

/// What is wrong with a file, and where.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Flaw {
    pub(crate) line: usize,
    pub(crate) message: String,
    pub(crate) hint: Option<String>,
}

/// A file that is being read.
pub(super) struct Reader<'a> {
    text: &'a str,
    /// The folder that relative paths start from.
    folder: &'a Path,
}

type Value<'a> = Spanned<DeValue<'a>>;

impl<'a> Reader<'a> {
    pub(super) fn new(text: &'a str, folder: &'a Path) -> Self {
        Self { text, folder }
    }

    /// All settings of the file.
    pub(super) fn layers(&self) -> Result<Vec<Layer>, Flaw> {
        let table = DeTable::parse(self.text).map_err(|error| {
            let at = error.span().map_or(0, |span| span.start);
            self.flaw(at, error.message().lines().collect::<Vec<_>>().join(", "))
        })?;
        let mut layers: Vec<Layer> = Vec::new();
        for (name, value) in table.get_ref() {
            match (name.get_ref().as_ref(), value.get_ref()) {
                ("defaults", DeValue::Table(table)) => layers.push(self.layer(None, table)?),
                ("url", DeValue::Table(prefixes)) => {
                    for (text, value) in prefixes {
                        let layer = self.under_prefix(text, value)?;
                        if layers.iter().any(|other| other.prefix == layer.prefix) {
                            let at = text.span().start;
                            return Err(self.flaw(at, "another table is for the same prefix"));
                        }
                        layers.push(layer);
                    }
                }
                ("defaults" | "url", _) => {
                    let message = format!("{} is a table", name.get_ref());
                    return Err(self.flaw(name.span().start, message));
                }
                (other, _) => {
                    let flaw = self.flaw(name.span().start, format!("unknown name {other}"));
                    let hint = "the file has the tables [defaults] and [url.\"PREFIX\"]";
                    return Err(Flaw { hint: Some(hint.to_owned()), ..flaw });
                }
            }
        }
        Ok(layers)
    }

    fn under_prefix(
        &self,
        text: &Spanned<std::borrow::Cow<'_, str>>,
        value: &Value<'_>,
    ) -> Result<Layer, Flaw> {
        let prefix = Prefix::parse(text.get_ref());
        let prefix = prefix.map_err(|message| self.flaw(text.span().start, message))?;
        let table = value
            .get_ref()
            .as_table()
            .ok_or_else(|| self.flaw(text.span().start, "a prefix has a table of settings"))?;
        self.layer(Some(prefix), table)
    }

    fn layer(&self, prefix: Option<Prefix>, table: &DeTable<'_>) -> Result<Layer, Flaw> {
        let mut layer = Layer { prefix, entries: Vec::new(), headers: Vec::new() };
        for (name, value) in table {
            let (at, text) = (name.span().start, name.get_ref().as_ref());
            if text == HEADERS {
                layer.headers = self.headers(layer.prefix.as_ref(), at, value)?;
                continue;
            }
            let setting = Setting::named(text).ok_or_else(|| self.unknown(at, text))?;
            self.check_scope(setting, layer.prefix.as_ref(), at)?;
            let values = self.values(setting, at, value)?;
            let line = self.line(at);
            layer.entries.push(Entry { setting, values, line });
        }
        check_groups(&layer)?;
        Ok(layer)
    }

    fn check_scope(
        &self,
        setting: &Setting,
        prefix: Option<&Prefix>,
        at: usize,
    ) -> Result<(), Flaw> {
        let name = setting.name;
        match (setting.scope, prefix) {
            (Scope::Process, Some(_)) => {
                let message = format!("{name} is for the whole command: all URLs share it");
                Err(Flaw {
                    hint: Some(format!("move {name} to [defaults]")),
                    ..self.flaw(at, message)
                })
            }
            (Scope::Prefix, None) => {
                let message = format!("{name} is not for all URLs");
                let hint = format!("move {name} under a prefix, such as [url.\"s3://bucket\"]");
                Err(Flaw { hint: Some(hint), ..self.flaw(at, message) })
            }
            (_, Some(prefix)) if !setting.is_for(prefix.scheme()) => {
                let message = format!("{name} has no effect on {}:// URLs", prefix.scheme());
                Err(self.flaw(at, message))
            }
            _ => Ok(()),
        }
    }

    /// The values as the command line would have them, checked by its parser.
    fn values(&self, setting: &Setting, at: usize, value: &Value<'_>) -> Result<Vec<String>, Flaw> {
        let name = setting.name;
        let kind = UrlArgs::kind(setting);
        let expected = |what: &str| self.flaw(at, format!("{name} is {what}"));
        let mut values = match (kind.is_switch, value.get_ref()) {
            (true, DeValue::Boolean(is_on)) => return Ok(vec![is_on.to_string()]),
            (true, _) => return Err(expected("true or false")),
            (false, DeValue::Array(items)) if kind.is_list => {
                let text = |item: &Value<'_>| scalar(item.get_ref());
                let texts: Option<Vec<String>> = items.iter().map(text).collect();
                texts.ok_or_else(|| expected("a string, or an array of strings"))?
            }
            (false, value) => {
                vec![scalar(value).ok_or_else(|| expected("a string or a whole number"))?]
            }
        };
        if kind.is_path {
            values = values.iter().map(|text| self.path(text)).collect();
        }
        UrlArgs::check(setting, &values)
            .map_err(|message| self.flaw(at, format!("{name}: {message}")))?;
        Ok(values)
    }

    fn path(&self, text: &str) -> String {
        path(self.folder, text)
    }

    fn headers(
        &self,
        prefix: Option<&Prefix>,
        at: usize,
        value: &Value<'_>,
    ) -> Result<Vec<ConfigHeader>, Flaw> {
        if prefix.is_none() {
            let flaw = self.flaw(at, "headers would be sent to every server");
            let hint = "move them under a prefix: [url.\"https://HOST\".headers]".to_owned();
            return Err(Flaw { hint: Some(hint), ..flaw });
        }
        let table = value.get_ref().as_table();
        let table = table.ok_or_else(|| self.flaw(at, "headers is a table of names and values"))?;
        let read = |(name, value): (&Spanned<_>, &Value<'_>)| {
            let at = Spanned::<std::borrow::Cow<'_, str>>::span(name).start;
            let path = |text: &str| PathBuf::from(self.path(text));
            header::read(name.get_ref(), value.get_ref(), path, self.line(at))
                .map_err(|message| self.flaw(at, message))
        };
        table.iter().map(read).collect()
    }

    fn unknown(&self, at: usize, name: &str) -> Flaw {
        let names: Vec<&str> = SETTINGS.iter().map(|setting| setting.name).collect();
        let flaw = self.flaw(at, format!("unknown setting {name}"));
        Flaw { hint: Some(format!("the settings are {}, {HEADERS}", names.join(", "))), ..flaw }
    }

    fn flaw(&self, at: usize, message: impl Into<String>) -> Flaw {
        Flaw { line: self.line(at), message: message.into(), hint: None }
    }

    fn line(&self, at: usize) -> usize {
        line(self.text, at)
    }
}

/// A path in a file of this folder: `~/` is the home folder, and relative paths start from the folder.
pub(super) fn path(folder: &Path, text: &str) -> String {
    let home = std::env::var_os("HOME").map(PathBuf::from);
    let path = match (text.strip_prefix("~/"), home) {
        (Some(rest), Some(home)) => home.join(rest),
        _ => folder.join(text),
    };
    path.display().to_string()
}

/// The line of a byte of a text, from 1.
pub(super) fn line(text: &str, at: usize) -> usize {
    1 + text.bytes().take(at).filter(|byte| *byte == b'\n').count()
}

/// Refuses two settings of one table that exclude each other.
fn check_groups(layer: &Layer) -> Result<(), Flaw> {
    let is_on = |entry: &&Entry| entry.values != ["false"];
    for (index, entry) in layer.entries.iter().enumerate().filter(|(_, entry)| is_on(entry)) {
        let mut others = layer.entries[..index].iter().filter(is_on);
        let clash = |other: &&Entry| {
            let (one, two) = (entry.setting, other.setting);
            let together = ["s3", "gs", "az", "http", "grpc"]
                .into_iter()
                .any(|scheme| one.is_for(scheme) && two.is_for(scheme));
            one.group == two.group && together
        };
        if let Some(other) = others.find(clash) {
            let (one, two) = (entry.setting.name, other.setting.name);
            let message = format!("{one} and {two} exclude each other");
            return Err(Flaw { line: entry.line, message, hint: None });
        }
    }
    Ok(())
}

/// A string, or a whole number in decimal, as text.
pub(super) fn scalar(value: &DeValue<'_>) -> Option<String> {
    match value {
        DeValue::String(text) => Some(text.to_string()),
        DeValue::Integer(number) if number.radix() == 10 => Some(number.as_str().to_owned()),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
