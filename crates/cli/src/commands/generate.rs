//! `tidegate completions` and `tidegate man`: generated from the definition of the command line, so
//! that they always match it.

use std::path::Path;

use clap_complete::Shell;
use serde::Serialize;
use tidegate::{Error, ErrorKind, Operation, Result};
use tidegate_core::printable::escaped;

use super::manual;
use crate::args::definition;
use crate::exit::Exit;
use crate::session::Session;

pub(crate) fn completions(session: &Session, shell: Shell) -> Exit {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut definition(), "tidegate", &mut script);
    session.print(&String::from_utf8_lossy(&script))
}

/// The JSON of `man --dir`.
#[derive(Debug, Serialize)]
struct Written {
    written: Vec<String>,
}

pub(crate) fn man(session: &Session, folder: Option<&Path>) -> Exit {
    let Some(folder) = folder else {
        let all = pages().map(|pages| pages.into_iter().map(|(_, page)| page).collect::<String>());
        return session.end(all.map(|text| session.print(&text)));
    };
    match write(folder) {
        Ok(written) if session.output.json => session.json(&Written { written }),
        Ok(written) => {
            let folder = folder.display().to_string();
            session.say(&format!("wrote {} to {}", written.join(", "), escaped(&folder)));
            Exit::Success
        }
        Err(error) => session.fail(&error),
    }
}

fn write(folder: &Path) -> Result<Vec<String>> {
    std::fs::create_dir_all(folder).map_err(|error| unwritable(folder, error))?;
    let mut written = Vec::new();
    for (name, page) in pages()? {
        let path = folder.join(&name);
        std::fs::write(&path, page).map_err(|error| unwritable(&path, error))?;
        written.push(name);
    }
    Ok(written)
}

fn unwritable(path: &Path, error: std::io::Error) -> Error {
    let shown = path.display().to_string();
    Error::new(ErrorKind::Storage, Operation::Write, shown, "it cannot be written").caused_by(error)
}

/// File name and text of each page, that of the whole command first.
fn pages() -> Result<Vec<(String, String)>> {
    let mut command = definition();
    command.build();
    let mut pages = Vec::new();
    add_pages(&command, &mut pages)?;
    Ok(pages)
}

/// Adds the page of a command, then those of its subcommands.
fn add_pages(command: &clap::Command, pages: &mut Vec<(String, String)>) -> Result<()> {
    pages.push(page(command)?);
    for sub in command.get_subcommands().filter(|sub| sub.get_name() != "help") {
        add_pages(sub, pages)?;
    }
    Ok(())
}

fn page(command: &clap::Command) -> Result<(String, String)> {
    let name = command.get_display_name().unwrap_or_else(|| command.get_name()).to_owned();
    let text = manual::page(command).map_err(|error| unwritable(Path::new(&name), error))?;
    Ok((format!("{name}.1"), text))
}
