//! The help texts are an interface for people, so a change to one shows up as a change to a file.
//! `TIDEGATE_BLESS=1 cargo test -p tidegate-cli help` rewrites the files.

use std::path::Path;

use crate::bed::{command, finish, run_in};

const COMMANDS: [&str; 24] = [
    "",
    "cp",
    "mv",
    "rm",
    "presign",
    "mb",
    "rb",
    "uploads",
    "cat",
    "stat",
    "check",
    "config",
    "chunk",
    "serve",
    "store",
    "store check",
    "store purge",
    "store import",
    "store replay",
    "cacheprog",
    "demo",
    "demo serve",
    "completions",
    "man",
];

#[tokio::test(flavor = "multi_thread")]
async fn help_is_as_checked_in() {
    let texts = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/help");
    let folder = tempfile::tempdir().unwrap();
    for command in COMMANDS {
        let args: Vec<&str> = command.split_whitespace().chain(["--help"]).collect();
        let ran = run_in(folder.path(), &args).await;
        ran.ends(0);
        let name = if command.is_empty() { "tidegate" } else { command }.replace(' ', "-");
        let path = texts.join(format!("{name}.txt"));
        if std::env::var_os("TIDEGATE_BLESS").is_some() {
            std::fs::write(&path, ran.out()).unwrap();
        }
        let expected = std::fs::read_to_string(&path).unwrap_or_default();
        assert_eq!(ran.out(), expected, "{} is out of date; see this file's head", path.display());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_command_has_examples() {
    let folder = tempfile::tempdir().unwrap();
    for command in &COMMANDS[1..] {
        let args: Vec<&str> = command.split_whitespace().chain(["--help"]).collect();
        let ran = run_in(folder.path(), &args).await;
        let examples = ran.out().split("Examples:").nth(1).unwrap_or_default().to_owned();
        let count = examples.matches(&format!("tidegate {command}")).count();
        assert!(count >= 5, "{command} has {count} examples");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn no_command_is_an_error_that_shows_help() {
    let folder = tempfile::tempdir().unwrap();
    run_in(folder.path(), &[]).await.ends(2).says("Usage: tidegate");
    assert!(run_in(folder.path(), &["--version"]).await.ends(0).out().starts_with("tidegate "));
}

/// With the line of the prompt and of the command itself.
#[tokio::test(flavor = "multi_thread")]
async fn the_short_help_fits_a_terminal() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["cp", "cat", "stat", "check"] {
        let mut command = command(folder.path());
        command.args([name, "-h"]).env("COLUMNS", "80");
        let short = finish(command).await.ends(0).out();
        assert!(short.lines().count() <= 23, "{name}: {} lines\n{short}", short.lines().count());
        assert!(short.lines().all(|line| line.chars().count() <= 80), "{short}");
        assert!(short.contains(&format!("tidegate {name} --help")), "{short}");
    }
}
