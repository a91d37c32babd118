//! A scan of the libraries' sources: neither their texts nor the docs of public items may name a
//! flag of the command. Hints name a [`Setting`](super::Setting) instead.

use std::fs;
use std::path::{Path, PathBuf};

/// The libraries, relative to the folder of the crates.
const LIBRARIES: [&str; 3] = ["core", "engine", "reapi"];

/// In lines with a command of another program, whose flags these are: the clouds' own.
const FOREIGN: [&str; 4] = ["export-credentials", "aws s3", "gcloud storage", "az storage"];

/// The flag that a line of Rust names. Comments for developers are skipped, because they name flags
/// of `cargo`.
fn flag(line: &str) -> Option<&str> {
    let line = line.trim_start();
    if line.starts_with("//!") || (line.starts_with("//") && !line.starts_with("///")) {
        return None;
    }
    if FOREIGN.iter().any(|command| line.contains(command)) {
        return None;
    }
    let starts_flag = |at: usize| {
        let after = line[at + 2..].starts_with(|c: char| c.is_ascii_lowercase());
        after && !line[..at].ends_with(|c: char| c == '-' || c.is_ascii_alphanumeric())
    };
    let (at, _) = line.match_indices("--").find(|(at, _)| starts_flag(*at))?;
    line[at..].split(|c: char| c != '-' && !c.is_ascii_alphanumeric()).next()
}

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

#[test]
fn flags_are_seen() {
    let dashes = "--";
    let named = format!("    .with_hint(\"allow more ({dashes}memory)\")");
    assert_eq!(flag(&named), Some(format!("{dashes}memory").as_str()));
    assert_eq!(flag(&format!("/// as {dashes}min-speed does")).map(str::len), Some(11));
    for none in ["//! cargo test --release", "// --release", "a - -b", "\"----x\"", "a--b"] {
        assert_eq!(flag(none), None, "{none}");
    }
}

#[test]
fn no_text_of_the_libraries_names_a_flag() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let mut files = Vec::new();
    for library in LIBRARIES {
        sources(&crates.join(library).join("src"), &mut files);
    }
    assert!(files.len() > 100, "the sources are elsewhere: {}", files.len());
    let mut named = Vec::new();
    // The first file has examples of flags, the second one commands of several lines.
    let exempt = ["error/flags.rs", "remote/archive.rs"];
    for file in files.iter().filter(|file| !exempt.iter().any(|name| file.ends_with(name))) {
        let text = fs::read_to_string(file).unwrap();
        for (index, line) in text.lines().enumerate() {
            if let Some(flag) = flag(line) {
                named.push(format!("{}:{}: {flag}", file.display(), index + 1));
            }
        }
    }
    assert!(named.is_empty(), "name a `Setting` instead:\n{}", named.join("\n"));
}
