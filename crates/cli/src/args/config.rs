//! Options for the configuration file, and the flags that apply to one URL.

use std::path::PathBuf;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Arg, ArgAction, ArgMatches, Args, CommandFactory, Parser, ValueHint};

use super::{FileArgs, RemoteArgs, TransferArgs};
use crate::config::{Given, Setting};

/// Not a doc comment, where the names of variables would need quotes.
const CONFIG: &str = "\
Read settings from this file [default: TIDEGATE_CONFIG, or tidegate/config.toml in XDG_CONFIG_HOME or \
~/.config]";

#[derive(Clone, Debug, Default, Args)]
pub(crate) struct ConfigArgs {
    #[arg(
        long,
        value_name = "FILE",
        value_hint = ValueHint::FilePath,
        conflicts_with = "no_config",
        help = CONFIG
    )]
    pub(crate) config: Option<PathBuf>,
    /// Read no configuration file
    #[arg(long)]
    pub(crate) no_config: bool,
}

/// The settings that no flag has.
#[derive(Clone, Default)]
pub(crate) struct FileOnlyArgs {
    pub(crate) region: Option<String>,
    pub(crate) profile: Option<String>,
    pub(crate) credential_process: Option<String>,
    pub(crate) credentials_file: Option<PathBuf>,
    /// `NAME: VALUE`.
    pub(crate) headers: Vec<String>,
}

impl std::fmt::Debug for FileOnlyArgs {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Headers and commands may be secret.
        f.write_str("FileOnlyArgs(..)")
    }
}

/// The flags that apply to one URL, from the command line and the configuration file.
#[derive(Clone, Debug, Parser)]
#[command(no_binary_name = true, disable_help_flag = true)]
pub(crate) struct UrlArgs {
    #[command(flatten)]
    pub(crate) transfer: TransferArgs,
    #[command(flatten)]
    pub(crate) file: FileArgs,
    #[command(flatten)]
    pub(crate) remote: RemoteArgs,
}

/// The values that a setting takes.
#[derive(Debug)]
pub(crate) struct Kind {
    /// It is on or off.
    pub(crate) is_switch: bool,
    /// It takes several values.
    pub(crate) is_list: bool,
    pub(crate) is_path: bool,
    pub(crate) built_in: Option<String>,
}

impl UrlArgs {
    /// The parser.
    #[cfg(test)]
    pub(crate) fn definition() -> clap::Command {
        Self::command()
    }

    /// The values of a setting, as its flag takes them.
    pub(crate) fn kind(setting: &Setting) -> Kind {
        let command = Self::command();
        let flag = command.get_arguments().find(|arg| arg.get_long() == Some(setting.name));
        let action = |is: fn(&ArgAction) -> bool| flag.is_some_and(|arg| is(arg.get_action()));
        let hint = flag.map(Arg::get_value_hint);
        let built_in = flag.and_then(|arg| arg.get_default_values().first());
        let is_switch = action(|action| matches!(action, ArgAction::SetTrue));
        Kind {
            is_switch,
            is_list: action(|action| matches!(action, ArgAction::Append)),
            is_path: hint == Some(ValueHint::FilePath) || setting.name == "credentials-file",
            built_in: built_in
                .filter(|_| !is_switch)
                .map(|value| value.to_string_lossy().into_owned()),
        }
    }

    /// Checks values of a setting. The error is about the value, and does not quote it.
    pub(crate) fn check(setting: &Setting, values: &[String]) -> Result<(), String> {
        if setting.is_in_file_only {
            let is_empty = values.iter().any(String::is_empty);
            return if is_empty { Err("it is empty".to_owned()) } else { Ok(()) };
        }
        let arguments = values.iter().map(|value| format!("--{}={value}", setting.name));
        match Self::command().try_get_matches_from(arguments) {
            // A flag that requires another is checked together with it.
            Err(error) if error.kind() != ErrorKind::MissingRequiredArgument => Err(reason(&error)),
            _ => Ok(()),
        }
    }

    /// Reads a command line without positional arguments.
    pub(crate) fn read(
        arguments: impl IntoIterator<Item = std::ffi::OsString>,
    ) -> Result<Self, String> {
        Self::try_parse_from(arguments).map_err(|error| reason(&error))
    }

    /// The flags in `matches` that were given, with their values.
    pub(super) fn given(matches: &ArgMatches) -> Given {
        let mut given = Given::default();
        for arg in Self::command().get_arguments() {
            let (id, Some(name)) = (arg.get_id().as_str(), arg.get_long()) else { continue };
            if !matches.try_contains_id(id).unwrap_or(false)
                || matches.value_source(id) != Some(clap::parser::ValueSource::CommandLine)
            {
                continue;
            }
            let values = match arg.get_action() {
                ArgAction::SetTrue => Vec::new(),
                _ => matches.get_raw(id).into_iter().flatten().map(Into::into).collect(),
            };
            given.0.insert(name.to_owned(), values);
        }
        given
    }
}

/// What the parser has against a value, without the value.
pub(super) fn reason(error: &clap::Error) -> String {
    if let Some(source) = std::error::Error::source(error) {
        return source.to_string();
    }
    if let Some(ContextValue::Strings(values)) = error.get(ContextKind::ValidValue)
        && !values.is_empty()
    {
        return format!("expected one of {}", values.join(", "));
    }
    let text = error.to_string();
    let line = text.split("\n\n").next().unwrap_or_default().trim_start_matches("error: ");
    line.split_whitespace().collect::<Vec<_>>().join(" ")
}
