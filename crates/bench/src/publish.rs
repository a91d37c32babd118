//! Writes a report: tables for people to standard output, every figure as JSON on request.

use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use clap::Args;
use serde::Serialize;

/// Where to put the results.
#[derive(Debug, Args)]
pub(crate) struct PublishOptions {
    /// Write the figures of every run as JSON to this file; without a name, print them in place of
    /// the tables
    #[arg(long, value_name = "PATH", num_args = 0..=1, default_missing_value = "-")]
    json: Option<PathBuf>,
    /// Write the tables as Markdown; they go to standard output too
    #[arg(long, value_name = "PATH")]
    markdown: Option<PathBuf>,
}

impl PublishOptions {
    /// Writes the report in the requested forms.
    pub(crate) fn publish(&self, report: &impl Serialize, markdown: &str) -> Result<()> {
        if let Some(path) = &self.markdown {
            write(path, markdown)?;
        }
        let json = serde_json::to_string_pretty(report)? + "\n";
        match &self.json {
            Some(path) if path == Path::new("-") => return print(&json),
            Some(path) => write(path, &json)?,
            None => {}
        }
        print(markdown)
    }
}

fn write(path: &Path, text: &str) -> Result<()> {
    fs::write(path, text).with_context(|| format!("writing {}", path.display()))
}

fn print(text: &str) -> Result<()> {
    io::stdout().write_all(text.as_bytes()).context("printing the results")
}
