//! The command `tidegate`: a thin layer over the library, for people and their scripts.
//!
//! | file | idea |
//! |---|---|
//! | `args` | the command line, validated |
//! | `commands` | the commands, one a file |
//! | `config` | the configuration file: settings by URL |
//! | `cache_url` | the URL of a cache server over HTTP |
//! | `checksums` | lists such as `SHA256SUMS` |
//! | `fetch` | several blobs in parallel, for `cp` and `cat` |
//! | `local` | standard input as a source; sources that are their own targets |
//! | `session`, `console`, `terminal` | the output: messages, JSON, a progress bar |
//! | `standard` | standard input, output and error, as the parent passed them |
//! | `guard` | no binary data on a terminal |
//! | `progress`, `report` | the display while a transfer runs, and the report at its end |
//! | `transfer_events` | the same display for programs, in JSON |
//! | `meter` | the rate that both show |
//! | `exit`, `signals` | exit codes and cancellation |
//! | `threads` | the number of threads, and the runtime that uses them |
//! | `message`, `hint` | the text of an error, and what to do about it |
//! | `redact`, `size`, `duration`, `json` | secrets, sizes and durations in text; text as JSON |
//! | `usage`, `log` | an invalid command line; the output of `-v`, `--debug` and `RUST_LOG` |
//!
//! # Invariants
//!
//! - Standard output carries the result and nothing else; all messages go to standard error.
//! - With `--json` exactly one object is written in every case; if it cannot be written, the
//!   command fails.
//! - No text reaches a terminal with control characters in it; see [`tidegate_core::printable`].
//! - A URL is never shown with its user info or query.

mod args;
mod cache_url;
mod checksums;
mod commands;
mod config;
mod console;
mod duration;
mod exit;
mod fetch;
mod guard;
mod hint;
mod json;
mod local;
mod log;
mod message;
mod meter;
mod outcomes;
mod present;
mod progress;
mod put_url;
mod redact;
mod report;
mod session;
mod signals;
mod size;
mod source;
mod standard;
mod store_url;
mod terminal;
mod threads;
mod transfer_events;
mod usage;

use std::process::ExitCode;

use args::{Cli, Command, ConfigCommand, StoreArgs, StoreCommand};
use exit::Exit;
use session::Session;
use threads::Threads;
use tidegate::{Error, ErrorKind, Operation};

fn main() -> ExitCode {
    signals::survive_file_limit();
    let Cli { output, mut command, given } = match Cli::read() {
        Ok(cli) => cli,
        Err(error) => return usage::report(&error).into(),
    };
    let mut session = Session::new(output);
    session.output.verbose |= session.output.debug;
    session.data_on_stdout = command.writes_blob();
    let is_server = matches!(command, Command::Serve(_));
    let _listening = log::listen(&session.console, &session.output, is_server);
    match command.configure(given.clone()) {
        Ok(warning) => warning.iter().for_each(|warning| session.say(warning)),
        Err(error) => return session.fail(&error).into(),
    }
    match command {
        Command::Config { command: ConfigCommand::Show(args) } => {
            commands::config::show(&session, &args, given)
        }
        Command::Completions { shell } => commands::generate::completions(&session, shell),
        Command::Man { dir } => commands::generate::man(&session, dir.as_deref()),
        Command::Store(args) if !args.needs_runtime() => commands::store::run(&session, &args),
        command => run(session, command),
    }
    .into()
}

/// Runs the commands that need the network. It does not wait for blocked threads, for example in a
/// write to a pipe that has no active reader.
fn run(mut session: Session, command: Command) -> Exit {
    let blobs = match &command {
        Command::Cp(args) | Command::Mv(args) => args.sources().map_or(1, |sources| sources.len()),
        _ => 1,
    };
    let made = Threads::count(blobs).and_then(|threads| {
        session.blobs_at_once = threads.blobs;
        threads.runtime()
    });
    let runtime = match made {
        Ok(runtime) => runtime,
        Err(error) => {
            let failed = "the system gives no threads, or no event queue";
            return session.fail(
                &Error::new(ErrorKind::Storage, Operation::Connect, "the runtime", failed)
                    .caused_by(error)
                    .with_hint(
                        "raise the limits on processes and threads (ulimit -u) and on files \
                         (ulimit -n), or those of the container",
                    ),
            );
        }
    };
    let exit = runtime.block_on(async {
        signals::watch(&session, interrupted(&command));
        match command {
            Command::Cp(args) => Box::pin(commands::cp::run(session, &args)).await,
            Command::Mv(args) => Box::pin(commands::mv::run(session, &args)).await,
            Command::Rm(args) => Box::pin(commands::rm::run(session, &args)).await,
            Command::Presign(args) => Box::pin(commands::presign::run(session, &args)).await,
            Command::Mb(args) => Box::pin(commands::bucket::make(session, &args)).await,
            Command::Rb(args) => Box::pin(commands::bucket::remove(session, &args)).await,
            Command::Uploads { command } => {
                Box::pin(commands::uploads::run(session, &command)).await
            }
            Command::Cat(args) => Box::pin(commands::cat::run(session, &args)).await,
            Command::Stat(args) => Box::pin(commands::stat::run(session, &args)).await,
            Command::Check(args) => Box::pin(commands::check::run(session, &args)).await,
            Command::Cacheprog(args) => Box::pin(commands::cacheprog::run(session, args)).await,
            Command::Chunk(args) => Box::pin(commands::chunk::run(session, &args)).await,
            Command::Demo(args) => Box::pin(commands::demo::run(session, &args)).await,
            Command::Serve(args) => Box::pin(commands::serve::run(session, &args)).await,
            Command::Store(StoreArgs { command: StoreCommand::Purge(args) }) => {
                Box::pin(commands::store::purge(session, &args)).await
            }
            Command::Store(StoreArgs { command: StoreCommand::Import(args) }) => {
                Box::pin(commands::store::import(session, &args)).await
            }
            // These commands need no runtime and have run before this point.
            Command::Completions { .. }
            | Command::Man { .. }
            | Command::Config { .. }
            | Command::Store(_) => Exit::Success,
        }
    });
    runtime.shutdown_background();
    exit
}

/// What the first signal does.
fn interrupted(command: &Command) -> &'static str {
    match command {
        Command::Cp(args) if args.target() != std::path::Path::new("-") => {
            "Interrupted, saving progress."
        }
        Command::Serve(_) => "Stopping: requests in flight may end.",
        _ => "Interrupted.",
    }
}
