//! The configuration file of `tidegate serve`: its flags, as a TOML file.
//!
//! ```toml
//! dir = "/var/cache/tidegate"
//! max-size = "100GiB"
//! listen = "0.0.0.0:8980"
//! credentials = "credentials.toml"
//! quota = ["main=200GiB", "ci=50GiB"]
//! ```
//!
//! Names and values are those of the flags, whose parser checks them. Relative paths start from the
//! file's folder. A flag on the command line has priority, and so has its variable.

use std::ffi::OsString;
use std::path::Path;

use clap::{Arg, ArgAction, ValueHint};
use tidegate::Result;
use toml::de::{DeTable, DeValue};

use super::file::{Flaw, line, path, scalar};
use super::{invalid, read, refusal};
use crate::args::ServeArgs;

/// The flag that names the file; a file names no other.
const OWN: &str = "config";

/// The settings of a file as arguments, without those that `given` says.
pub(crate) fn arguments(path: &Path, given: &[OsString]) -> Result<Vec<OsString>> {
    let (text, _) = read(path).map_err(|error| {
        invalid(&path.display().to_string(), "the configuration file cannot be read")
            .caused_by(error)
    })?;
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let folder = path.parent().unwrap_or(Path::new("/"));
    parsed(&text, folder, given).map_err(|flaw| refusal(&path, flaw))
}

fn parsed(text: &str, folder: &Path, given: &[OsString]) -> Result<Vec<OsString>, Flaw> {
    let refused = |at, message: String| Flaw { line: line(text, at), message, hint: None };
    let table = DeTable::parse(text).map_err(|error| {
        let at = error.span().map_or(0, |span| span.start);
        refused(at, error.message().lines().collect::<Vec<_>>().join(", "))
    })?;
    let flags = ServeArgs::flags();
    let mut arguments = Vec::new();
    for (name, value) in table.get_ref() {
        let (at, name) = (name.span().start, name.get_ref().as_ref());
        let mut known = flags.get_arguments().filter(|arg| arg.get_long() != Some(OWN));
        let flag = known.find(|arg| arg.get_long() == Some(name)).ok_or_else(|| {
            let names = flags.get_arguments().filter_map(Arg::get_long);
            let names: Vec<&str> = names.filter(|name| *name != OWN).collect();
            let hint = Some(format!("the settings are {}", names.join(", ")));
            Flaw { hint, ..refused(at, format!("unknown setting {name}")) }
        })?;
        let mut values = values(flag, value.get_ref())
            .map_err(|expected| refused(at, format!("{name} is {expected}")))?;
        if matches!(flag.get_value_hint(), ValueHint::FilePath | ValueHint::DirPath) {
            values = values.iter().map(|text| path(folder, text)).collect();
        }
        let is_switch = matches!(flag.get_action(), ArgAction::SetTrue);
        if !is_switch {
            ServeArgs::check(name, &values)
                .map_err(|message| refused(at, format!("{name}: {message}")))?;
        }
        if is_given(flag, name, given) {
            continue;
        }
        if is_switch {
            arguments.extend((values == ["true"]).then(|| format!("--{name}").into()));
        } else {
            arguments.extend(values.iter().map(|value| format!("--{name}={value}").into()));
        }
    }
    Ok(arguments)
}

/// The values as the command line would have them; or what is expected.
fn values(flag: &Arg, value: &DeValue<'_>) -> Result<Vec<String>, &'static str> {
    match (flag.get_action(), value) {
        (ArgAction::SetTrue, DeValue::Boolean(is_on)) => Ok(vec![is_on.to_string()]),
        (ArgAction::SetTrue, _) => Err("true or false"),
        (ArgAction::Append, DeValue::Array(items)) => {
            let texts: Option<Vec<String>> =
                items.iter().map(|item| scalar(item.get_ref())).collect();
            texts.ok_or("a string, or an array of strings")
        }
        (_, value) => Ok(vec![scalar(value).ok_or("a string or a whole number")?]),
    }
}

/// Whether the command line or the environment says it.
fn is_given(flag: &Arg, name: &str, given: &[OsString]) -> bool {
    let is_set = flag.get_env().is_some_and(|variable| std::env::var_os(variable).is_some());
    let (alone, with_value) = (format!("--{name}"), format!("--{name}="));
    is_set || {
        let mut given = given.iter().map(|argument| argument.to_string_lossy());
        given.any(|argument| argument == alone || argument.starts_with(&with_value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arguments_of(text: &str, given: &[&str]) -> Result<Vec<String>, Flaw> {
        let given: Vec<OsString> = given.iter().map(OsString::from).collect();
        let parsed = parsed(text, Path::new("/etc/tidegate"), &given)?;
        Ok(parsed.into_iter().map(|argument| argument.into_string().unwrap()).collect())
    }

    #[test]
    fn settings_become_flags() {
        let text = "dir = \"cache\"\nmax-size = \"1GiB\"\nno-auth = true\nisolate-tenants = false\n\
                    quota = [\"a=1G\", \"b=2G\"]\ncredentials = \"/abs\"\n";
        let all = [
            "--credentials=/abs",
            "--dir=/etc/tidegate/cache",
            "--max-size=1GiB",
            "--no-auth",
            "--quota=a=1G",
            "--quota=b=2G",
        ];
        let mut found = arguments_of(text, &[]).unwrap();
        found.sort();
        assert_eq!(found, all);
        let given = ["serve", "--max-size", "2GiB", "--quota=c=1G"];
        let mut found = arguments_of(text, &given).unwrap();
        found.sort();
        assert_eq!(found, ["--credentials=/abs", "--dir=/etc/tidegate/cache", "--no-auth"]);
    }

    #[test]
    fn a_flaw_is_named_with_its_line() {
        for (text, line, part) in [
            ("\nmax-sise = 1", 2, "unknown setting max-sise"),
            ("config = \"x\"", 1, "unknown setting config"),
            ("\n\nmax-size = \"many\"", 3, "max-size: "),
            ("max-size = 1", 1, "64.0 MiB"),
            ("level = \"safe\"", 1, "expected one of process, power"),
            ("no-auth = \"yes\"", 1, "true or false"),
            ("listen = \"here\"", 1, "listen: "),
            ("quota = [1.5]", 1, "an array of strings"),
            ("dir = [\"a\"]", 1, "a string or a whole number"),
            ("dir = \"a\"\ndir = \"b\"", 2, "duplicate"),
        ] {
            let flaw = arguments_of(text, &[]).unwrap_err();
            assert_eq!(flaw.line, line, "{text}");
            assert!(flaw.message.contains(part), "{text}: {}", flaw.message);
        }
    }
}
