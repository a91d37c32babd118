//! Options that select the version of a blob, instead of the newest.

use clap::Args;
use tidegate::remote::Version;
use tidegate::{Location, Result};

#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Version")]
#[group(multiple = false)]
pub(crate) struct VersionArgs {
    /// The generation meant, in Google Cloud Storage
    #[arg(long, value_name = "N")]
    generation: Option<u64>,
    /// The version meant, by its id, in S3 or Azure
    #[arg(long, value_name = "ID")]
    version_id: Option<String>,
    /// Fail unless the blob has this entity tag, with or without its quotes
    #[arg(long, value_name = "ETAG", value_parser = etag)]
    if_match: Option<Version>,
    /// Fail unless the blob was last changed on this date, written as `stat` shows it
    #[arg(long, value_name = "DATE", value_parser = date)]
    last_modified: Option<Version>,
}

impl VersionArgs {
    /// Whether a version is given.
    pub(crate) fn is_given(&self) -> bool {
        self.name().is_some()
    }

    /// The option that is given.
    pub(crate) fn name(&self) -> Option<&'static str> {
        let options = [
            ("--generation", self.generation.is_some()),
            ("--version-id", self.version_id.is_some()),
            ("--if-match", self.if_match.is_some()),
            ("--last-modified", self.last_modified.is_some()),
        ];
        options.into_iter().find_map(|(name, is_given)| is_given.then_some(name))
    }

    /// The blob in the selected version.
    pub(crate) fn of(&self, location: Location) -> Result<Location> {
        match self.version() {
            Some(version) => location.at(version),
            None => Ok(location),
        }
    }

    /// The selected version.
    pub(crate) fn version(&self) -> Option<Version> {
        let generation = self.generation.map(|number| Version::Generation(number.to_string()));
        generation
            .or_else(|| self.version_id.clone().map(Version::VersionId))
            .or_else(|| self.if_match.clone())
            .or_else(|| self.last_modified.clone())
    }
}

/// Adds missing quotes: shells remove quotes, and web consoles show tags without them, but a tag
/// always has them.
fn etag(text: &str) -> Result<Version, String> {
    let quoted = if text.contains('"') { text.to_owned() } else { format!("\"{text}\"") };
    Version::from_etag(&quoted)
        .filter(|_| !text.is_empty())
        .ok_or_else(|| "expected a strong entity tag such as \"5d41402a\"".to_owned())
}

fn date(text: &str) -> Result<Version, String> {
    Version::from_http_date(text)
        .ok_or_else(|| "expected a date such as Tue, 14 Nov 2023 22:13:20 GMT".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tag_gets_its_quotes_back_and_keeps_its_case() {
        let tag = Version::ETag("\"aBc-2\"".to_owned());
        assert_eq!((etag("aBc-2"), etag("\"aBc-2\"")), (Ok(tag.clone()), Ok(tag)));
        for text in ["", "W/\"abc\"", "a b", "\"abc", "*\""] {
            assert!(etag(text).is_err(), "{text}");
        }
    }
}
