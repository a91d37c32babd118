//! Which value of a setting applies to a URL, and where it comes from.
//!
//! Priority: a flag, an environment variable, the longest prefix in the file, shorter prefixes, the
//! defaults in the file, the built-in value. Settings that exclude each other, such as `profile` and
//! `anonymous`, are resolved together: a longer prefix replaces them all.
//!
//! The resolved flags are parsed again as a command line ([`UrlArgs`]). So a setting of the file has
//! exactly the effect of the flag.

use std::collections::{BTreeMap, HashMap};
use std::ffi::OsString;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use tidegate::Result;
use tidegate::remote::{OptionsByUrl, RemoteOptions};
use tidegate::transport::RateLimit;

use super::file::{Entry, Layer};
use super::setting::{Effect, SETTINGS, Scope, Setting, Variable};
use super::{Config, Prefix};
use crate::args::{FileOnlyArgs, UrlArgs};

/// The flags of the command line with their values; a switch has none.
#[derive(Clone, Default)]
pub(crate) struct Given(pub(crate) BTreeMap<String, Vec<OsString>>);

impl fmt::Debug for Given {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // A header may be secret.
        f.debug_set().entries(self.0.keys()).finish()
    }
}

/// Where a value comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// The name of the flag, without its dashes.
    Flag(String),
    Variable(&'static str),
    /// The file and the line, and the prefix; without one it is in the defaults.
    File {
        place: String,
        prefix: Option<String>,
    },
    BuiltIn,
}

/// A setting that applies.
#[derive(Clone)]
pub(crate) struct Row {
    pub(crate) name: String,
    pub(crate) values: Vec<OsString>,
    pub(crate) is_secret: bool,
    pub(crate) origin: Origin,
    /// The setting in the table, if it comes from the file.
    setting: Option<&'static Setting>,
}

impl fmt::Debug for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Row").field("name", &self.name).finish_non_exhaustive()
    }
}

/// The command line and the file.
#[derive(Debug)]
pub(crate) struct Settings {
    given: Given,
    pub(crate) config: Config,
    made: Mutex<HashMap<String, Arc<UrlArgs>>>,
}

impl Settings {
    pub(crate) fn new(given: Given, config: Config) -> Self {
        Self { given, config, made: Mutex::default() }
    }

    /// The flags for the whole process: those of the command line, and the defaults that all URLs
    /// share.
    pub(crate) fn process_args(&self) -> Result<UrlArgs> {
        let defaults = self.config.layers.iter().find(|layer| layer.prefix.is_none());
        let rows = self.process_rows(defaults);
        self.parsed(&rows)
    }

    /// The flags that apply to a URL; `None` for a local file.
    pub(crate) fn args(&self, url: &str) -> Result<Option<Arc<UrlArgs>>> {
        let Some(group) = Prefix::of_url(url).map(|url| self.group(&url)) else { return Ok(None) };
        let name = group.to_string();
        let lock = || self.made.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(made) = lock().get(&name) {
            return Ok(Some(Arc::clone(made)));
        }
        let mut args = self.parsed(&self.rows(&group))?;
        args.remote.file_only = self.file_only(&group)?;
        let args = Arc::new(args);
        lock().insert(name, Arc::clone(&args));
        Ok(Some(args))
    }

    /// The longest prefix in the file that covers the URL, or the URL's scheme. All URLs of one
    /// group have the same settings.
    fn group(&self, url: &Prefix) -> Prefix {
        let longest = self.config.layers(url).first().and_then(|layer| layer.prefix.clone());
        longest.unwrap_or_else(|| url.of_scheme())
    }

    /// The settings that apply to a URL, in the order of the table.
    pub(crate) fn rows(&self, url: &Prefix) -> Vec<Row> {
        let layers = self.config.layers(url);
        let mut rows = Vec::new();
        let mut groups: Vec<&str> = Vec::new();
        for setting in SETTINGS.iter().filter(|setting| setting.is_for(url.scheme())) {
            if !groups.contains(&setting.group) {
                groups.push(setting.group);
                rows.extend(self.of_group(setting.group, url.scheme(), &layers));
            }
        }
        rows
    }

    /// The settings of a group that apply: those of the source with priority.
    fn of_group(&self, group: &str, scheme: &str, layers: &[&Layer]) -> Vec<Row> {
        let members: Vec<&'static Setting> = SETTINGS
            .iter()
            .filter(|setting| setting.group == group && setting.is_for(scheme))
            .collect();
        let mut rows = variable_rows(&members, scheme, Effect::Adds);
        let flags = members.iter().filter_map(|setting| self.flag(setting.name));
        let flags: Vec<Row> = flags.collect();
        if !flags.is_empty() {
            rows.extend(flags);
            return rows;
        }
        let of_members = |layer: &&Layer| -> Vec<Row> {
            let entries = layer.entries.iter();
            let own = entries.filter(|e| members.iter().any(|m| std::ptr::eq(*m, e.setting)));
            own.map(|entry| self.in_file(entry, layer)).collect()
        };
        let found = layers.iter().map(of_members).find(|rows| !rows.is_empty());
        let found = found.unwrap_or_default();
        // A variable replaces the setting that it is another source of.
        let sources: Vec<&'static Setting> = if found.is_empty() {
            members.clone()
        } else {
            found.iter().filter_map(|row| row.setting).collect()
        };
        let variables = variable_rows(&sources, scheme, Effect::Replaces);
        if !variables.is_empty() {
            rows.extend(variables.into_iter().take(1));
        } else if found.is_empty() {
            rows.extend(members.iter().filter_map(|setting| built_in(setting)));
        } else {
            rows.extend(found);
        }
        rows
    }

    fn process_rows(&self, defaults: Option<&Layer>) -> Vec<Row> {
        let is_given = |setting: &Setting| self.given.0.contains_key(setting.name);
        let entries =
            defaults.iter().flat_map(|layer| layer.entries.iter().map(move |e| (layer, e)));
        entries
            .filter(|(_, entry)| entry.setting.scope == Scope::Process && !is_given(entry.setting))
            .map(|(layer, entry)| self.in_file(entry, layer))
            .collect()
    }

    fn flag(&self, name: &str) -> Option<Row> {
        let values = self.given.0.get(name)?;
        let values = if values.is_empty() { vec!["true".into()] } else { values.clone() };
        let origin = Origin::Flag(name.to_owned());
        Some(Row { name: name.to_owned(), values, is_secret: false, origin, setting: None })
    }

    fn in_file(&self, entry: &Entry, layer: &Layer) -> Row {
        let prefix = layer.prefix.as_ref().map(ToString::to_string);
        Row {
            name: entry.setting.name.to_owned(),
            values: entry.values.iter().map(OsString::from).collect(),
            is_secret: entry.setting.is_secret,
            origin: Origin::File { place: self.config.place(entry.line), prefix },
            setting: Some(entry.setting),
        }
    }

    /// The header fields that apply to a URL, without their values: those of the command line, then
    /// those of the file that they do not replace.
    pub(crate) fn header_rows(&self, url: &Prefix) -> Vec<Row> {
        let row = |name: &str, origin| Row {
            name: format!("header {name}"),
            values: Vec::new(),
            is_secret: true,
            origin,
            setting: None,
        };
        let mut rows = Vec::new();
        for text in self.given.0.get("header").into_iter().flatten() {
            let text = text.to_string_lossy();
            let name = match text.split_once(':') {
                Some((name, _)) if !text.starts_with('@') => name.trim().to_ascii_lowercase(),
                _ => text.into_owned(),
            };
            rows.push(row(&name, Origin::Flag("header".to_owned())));
        }
        let named = |rows: &[Row], name: &str| {
            rows.iter().any(|row| row.name.strip_prefix("header ") == Some(name))
        };
        for layer in self.config.layers(url) {
            let prefix = layer.prefix.as_ref().map(ToString::to_string);
            for header in &layer.headers {
                let place = self.config.place(header.line);
                let origin = Origin::File { place, prefix: prefix.clone() };
                if !named(&rows, &header.name) {
                    rows.push(row(&header.name, origin));
                }
            }
        }
        rows
    }

    /// What no flag can say.
    fn file_only(&self, url: &Prefix) -> Result<FileOnlyArgs> {
        let rows = self.rows(url);
        let text = |name: &str| {
            let row = rows.iter().find(|row| row.name == name && row.setting.is_some());
            row.and_then(|row| row.values.first()).map(|text| text.to_string_lossy().into_owned())
        };
        let mut headers: Vec<(String, String)> = Vec::new();
        for layer in self.config.layers(url) {
            for header in &layer.headers {
                if !headers.iter().any(|(name, _)| *name == header.name) {
                    let field = header.field(&self.config.place(header.line))?;
                    headers.push((header.name.clone(), field));
                }
            }
        }
        Ok(FileOnlyArgs {
            region: text("region"),
            profile: text("profile"),
            credential_process: text("credential-process"),
            credentials_file: text("credentials-file").map(Into::into),
            headers: headers.into_iter().map(|(_, field)| field).collect(),
        })
    }

    /// The flags of the command line and of the file, read as one command line.
    fn parsed(&self, rows: &[Row]) -> Result<UrlArgs> {
        let mut arguments: Vec<OsString> = Vec::new();
        for (name, values) in &self.given.0 {
            arguments.extend(as_arguments(name, values));
        }
        for row in rows.iter().filter(|row| row.setting.is_some_and(|s| !s.is_in_file_only)) {
            match row.values.as_slice() {
                [value] if value == "false" => {}
                [value] if value == "true" => arguments.extend(as_arguments(&row.name, &[])),
                values => arguments.extend(as_arguments(&row.name, values)),
            }
        }
        UrlArgs::read(arguments).map_err(|message| {
            let path = self.config.path.as_ref();
            let path = path.map_or_else(String::new, |path| path.display().to_string());
            super::invalid(&path, &message)
        })
    }
}

/// `--name`, or `--name=VALUE` for each value.
fn as_arguments(name: &str, values: &[OsString]) -> Vec<OsString> {
    if values.is_empty() {
        return vec![format!("--{name}").into()];
    }
    let argument = |value: &OsString| {
        let mut text = OsString::from(format!("--{name}="));
        text.push(value);
        text
    };
    values.iter().map(argument).collect()
}

/// The variables with this effect that are set for these settings, each once.
fn variable_rows(settings: &[&'static Setting], scheme: &str, effect: Effect) -> Vec<Row> {
    let mut rows: Vec<Row> = Vec::new();
    for setting in settings {
        let is_source = |variable: &&Variable| variable.effect == effect && variable.is_for(scheme);
        for variable in setting.variables.iter().filter(is_source) {
            let origin = Origin::Variable(variable.name);
            let Some(value) = variable.value().filter(|_| rows.iter().all(|r| r.origin != origin))
            else {
                continue;
            };
            rows.push(Row {
                name: setting.name.to_owned(),
                values: vec![value],
                is_secret: variable.is_secret,
                origin,
                setting: None,
            });
        }
    }
    rows
}

/// The value without any source, if there is one.
fn built_in(setting: &'static Setting) -> Option<Row> {
    let value = UrlArgs::kind(setting).built_in?;
    let (name, origin) = (setting.name.to_owned(), Origin::BuiltIn);
    Some(Row { name, values: vec![value.into()], is_secret: false, origin, setting: None })
}

/// The options of the engine for each group of URLs.
#[derive(Debug)]
pub(crate) struct ByUrl {
    pub(crate) settings: Arc<Settings>,
    /// One limit for all groups.
    pub(crate) rate: Option<RateLimit>,
}

impl OptionsByUrl for ByUrl {
    fn group(&self, url: &str) -> Option<String> {
        Prefix::of_url(url).map(|url| self.settings.group(&url).to_string())
    }

    fn options(&self, group: &str) -> Result<RemoteOptions> {
        match self.settings.args(group)? {
            Some(args) => args.remote.options(&[group], self.rate.clone()),
            None => Ok(RemoteOptions::default()),
        }
    }
}

#[cfg(test)]
mod tests;
