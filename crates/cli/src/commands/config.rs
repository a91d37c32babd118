//! `tidegate config show URL`: the settings that apply to a URL, and where each comes from. It reads
//! the command line, the environment and the configuration file, and sends no request.

use std::fmt::Write as _;

use serde::Serialize;
use tidegate::Result;
use tidegate_core::printable::escaped;

use super::cp::invalid;
use crate::args::ShowArgs;
use crate::config::{Config, Given, Origin, Prefix, Row, Settings};
use crate::exit::Exit;
use crate::redact;
use crate::session::Session;

/// What is shown in place of a secret.
const SECRET: &str = "(set)";

/// The JSON.
#[derive(Debug, Serialize)]
struct Shown {
    url: String,
    /// The configuration file; null if there is none.
    file: Option<String>,
    settings: Vec<ShownSetting>,
}

#[derive(Debug, Serialize)]
struct ShownSetting {
    name: String,
    value: String,
    /// `flag`, `variable`, `file` or `built_in`.
    origin: &'static str,
    /// The flag, the variable, or the file and the line.
    source: Option<String>,
    /// The prefix in the file; null for its defaults and for what is not in the file.
    prefix: Option<String>,
}

pub(crate) fn show(session: &Session, args: &ShowArgs, given: Given) -> Exit {
    match shown(session, args, given) {
        Err(error) => session.fail(&error),
        Ok(shown) if session.output.json => session.json(&shown),
        Ok(shown) => session.print(&shown.text()),
    }
}

fn shown(session: &Session, args: &ShowArgs, given: Given) -> Result<Shown> {
    let shown = redact::url(&args.url);
    let url = Prefix::of_url(&args.url).ok_or_else(|| {
        invalid(&shown, "it is not the URL of a server or a bucket")
            .with_hint("write a URL such as s3://BUCKET/KEY or https://HOST/PATH")
    })?;
    let config = Config::load(&args.remote.config)?;
    if let Some(warning) = config.warning() {
        session.say(&warning);
    }
    let file = config.path.as_ref().map(|path| path.display().to_string());
    let settings = Settings::new(given, config);
    // Values that do not fit together are an error here as in every other command.
    settings.args(&args.url)?;
    let rows = settings.rows(&url).into_iter().chain(settings.header_rows(&url));
    Ok(Shown { url: shown, file, settings: rows.map(ShownSetting::new).collect() })
}

impl ShownSetting {
    fn new(row: Row) -> Self {
        let values: Vec<String> =
            row.values.iter().map(|value| value.to_string_lossy().into_owned()).collect();
        let value = match row.name.as_str() {
            _ if row.is_secret => SECRET.to_owned(),
            // A proxy's URL may hold a password.
            "proxy" | "endpoint" => redact::url(&values.join(", ")),
            _ => values.join(", "),
        };
        let (origin, source, prefix) = match row.origin {
            Origin::Flag(name) => ("flag", Some(format!("--{name}")), None),
            Origin::Variable(name) => ("variable", Some(name.to_owned()), None),
            Origin::File { place, prefix } => ("file", Some(place), prefix),
            Origin::BuiltIn => ("built_in", None, None),
        };
        Self { name: row.name, value, origin, source, prefix }
    }

    /// `--stall`, `variable AWS_REGION`, `/etc/config.toml:3 [url."s3://b"]`, `built in`.
    fn origin(&self) -> String {
        let source = self.source.as_deref().unwrap_or_default();
        match (self.origin, &self.prefix) {
            ("variable", _) => format!("variable {source}"),
            ("file", Some(prefix)) => format!("{source} [url.\"{prefix}\"]"),
            ("file", None) => format!("{source} [defaults]"),
            ("built_in", _) => "built in".to_owned(),
            _ => source.to_owned(),
        }
    }
}

impl Shown {
    /// One setting a line: name, value, origin.
    fn text(&self) -> String {
        let file = self.file.as_deref().unwrap_or("no configuration file");
        let width = |of: fn(&ShownSetting) -> &str| {
            self.settings.iter().map(|setting| of(setting).chars().count()).max().unwrap_or(0)
        };
        let (names, values) = (width(|setting| &setting.name), width(|setting| &setting.value));
        let mut text = format!("{}\n{}\n\n", escaped(&self.url), escaped(file));
        for setting in &self.settings {
            // Writing to a String cannot fail.
            let _ = writeln!(
                text,
                "{:names$}  {:values$}  {}",
                escaped(&setting.name),
                escaped(&setting.value),
                escaped(&setting.origin()),
            );
        }
        text
    }
}
