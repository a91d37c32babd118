//! `cargo xtask tidy`: checks the tidy rules, as the test does.
//!
//! `tidy --list [FOLDER]` prints every finding, allowed ones included. `tidy --update` lowers the
//! checked-in counts to the actual ones. `tidy --reset` rewrites them, higher ones included, for a
//! merge of branches that each added findings.

use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

use xtask::tidy::{self, Ratchet, Tree};

const USAGE: &str = "usage: cargo xtask tidy [--list [FOLDER] | --update | --reset]";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let root = tidy::root();
    let result = match arguments.as_slice() {
        ["tidy"] => check(&root),
        ["tidy", "--list"] => list(&root, ""),
        ["tidy", "--list", folder] => list(&root, folder),
        ["tidy", "--update"] => write(&root, Ratchet::lower),
        ["tidy", "--reset"] => write(&root, |_, actual| actual.clone()),
        _ => Err(std::io::Error::other(USAGE)),
    };
    match result {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            // If standard error fails, no other channel for the error is left.
            let _ = writeln!(std::io::stderr(), "{error}");
            ExitCode::from(2)
        }
    }
}

/// Prints the violations of rules. `true`: there are none.
fn check(root: &Path) -> std::io::Result<bool> {
    let tree = Tree::read(root)?;
    let mut clean = true;
    for rule in tidy::RULES {
        if let Some(failure) = rule.failure(root, &tree)? {
            writeln!(std::io::stdout(), "{failure}\n")?;
            clean = false;
        }
    }
    Ok(clean)
}

/// Prints every finding below a folder.
fn list(root: &Path, folder: &str) -> std::io::Result<bool> {
    let tree = Tree::read(root)?;
    for rule in tidy::RULES {
        for finding in (rule.find)(&tree) {
            if finding.place.starts_with(folder) {
                writeln!(std::io::stdout(), "{finding}")?;
            }
        }
    }
    Ok(true)
}

/// Writes the counts of each rule with a ratchet. `choose` computes them from the allowed and the
/// actual ones.
fn write(root: &Path, choose: impl Fn(&Ratchet, &Ratchet) -> Ratchet) -> std::io::Result<bool> {
    let tree = Tree::read(root)?;
    for rule in tidy::RULES.iter().filter(|rule| rule.ratchet) {
        let actual = Ratchet::of(&(rule.find)(&tree));
        choose(&rule.allowed(root)?, &actual).write(root, rule.name)?;
    }
    check(root)
}
