//! The definition of the command line: what the derived types give, and what applies to all flags
//! at once.
//!
//! - The help of a command explains the sizes and the durations that its flags take.
//! - The short help (`-h`) fits on a terminal: it shows a few flags, `--help` shows all.

use clap::{Arg, Command, CommandFactory};

use super::Cli;

/// The value names of flags that take a duration or a size.
const DURATION: &str = "DURATION";
const SIZE: &str = "SIZE";

const SIZES: &str = "\
A SIZE is a number of bytes, or has a unit: K, M, G, T or KiB, MiB, GiB, TiB
(powers of 1024), KB, MB, GB, TB (powers of 1000).";

const DURATIONS: &str = "\
A DURATION has a unit, as in 500ms, 30s, 5m or 2h; a number without a unit is
in seconds.";

/// Commands with more flags than a terminal has lines.
const LONG: [&str; 3] = ["cp", "cat", "stat"];

/// The flags of these commands in the short help.
const SHORT: [&str; 9] =
    ["names", "source", "range", "sha256", "endpoint", "anonymous", "quiet", "json", "verbose"];

/// The whole definition, with the long help.
pub(crate) fn definition() -> Command {
    Cli::command().mut_subcommands(explained)
}

/// The same with the short help for `-h`. It is a definition of its own because the parser's long
/// help takes twice the lines as soon as there is a short one.
pub(super) fn short_definition() -> Command {
    definition().mut_subcommands(|command| {
        if !LONG.contains(&command.get_name()) {
            return command;
        }
        let name = command.get_name().to_owned();
        let is_short = |arg: &Arg| SHORT.contains(&arg.get_id().as_str());
        command
            .mut_args(|arg| {
                let is_hidden = !is_short(&arg);
                arg.hide_short_help(is_hidden)
            })
            .after_help(format!(
                "All options, such as --header and --retries, with examples: tidegate {name} --help"
            ))
    })
}

/// The command with the explanation of its values before its examples.
fn explained(command: Command) -> Command {
    let command = command.mut_subcommands(explained);
    let takes = |name| command.get_arguments().any(|arg| has_value(arg, name));
    let texts = [(SIZE, SIZES), (DURATION, DURATIONS)];
    let mut parts: Vec<String> =
        texts.into_iter().filter(|(name, _)| takes(name)).map(|(_, text)| text.into()).collect();
    if parts.is_empty() {
        return command;
    }
    let values = parts.join("\n");
    parts = command.get_after_help().map(ToString::to_string).into_iter().collect();
    parts.insert(0, values);
    command.after_help(parts.join("\n\n"))
}

fn has_value(arg: &Arg, name: &str) -> bool {
    arg.get_value_names().is_some_and(|names| names.iter().any(|known| known.as_str() == name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_flag_for_a_time_takes_a_unit() {
        let args = ["tidegate", "stat", "x", "--stall", "500ms", "--min-speed-time", "0"];
        assert!(definition().try_get_matches_from(args).is_ok());
        for text in ["0", "soon"] {
            let args = ["tidegate", "stat", "x", "--stall", text];
            assert!(definition().try_get_matches_from(args).is_err(), "{text}");
        }
    }

    #[test]
    fn the_flags_of_the_short_help_exist() {
        let definition = short_definition();
        let ids = |command: &Command| {
            command.get_arguments().map(|arg| arg.get_id().to_string()).collect::<Vec<_>>()
        };
        let all: Vec<String> =
            definition.get_subcommands().flat_map(ids).chain(ids(&definition)).collect();
        for flag in SHORT {
            assert!(all.iter().any(|id| id == flag), "{flag}");
        }
    }
}
