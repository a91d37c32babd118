//! Targets that need no transfer: `--skip-existing` and `--if-changed`.

use std::path::Path;

use tidegate::{CancellationToken, Client, Location, Result, Unchanged, file_matches};
use tidegate_core::Checksum;

use crate::args::FileArgs;

/// Why a target is left as it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Present {
    /// It exists, and that is enough.
    Exists,
    /// It is the version that the remote has.
    Version,
    /// It has these checksums.
    Checksums(Vec<&'static str>),
}

impl Present {
    /// The value of `skipped` in the JSON report.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Exists => "exists",
            Self::Version | Self::Checksums(_) => "unchanged",
        }
    }

    /// For people.
    pub(crate) fn text(&self) -> String {
        match self {
            Self::Exists => "skipped: the target exists".to_owned(),
            Self::Version => "unchanged: same version".to_owned(),
            Self::Checksums(names) => format!("unchanged: verified {}", names.join(", ")),
        }
    }
}

/// Why the target at `path` needs no transfer; `None` if it needs one.
///
/// A checksum on the command line decides alone, without a request: the caller knows the content.
pub(crate) async fn find(
    client: &Client,
    args: &FileArgs,
    expected: &[Checksum],
    source: &Location,
    path: &Path,
    cancel: &CancellationToken,
) -> Result<Option<Present>> {
    if args.skip_existing {
        return Ok(path.symlink_metadata().is_ok().then_some(Present::Exists));
    }
    if !args.if_changed || !path.is_file() {
        return Ok(None);
    }
    if !expected.is_empty() {
        let names = expected.iter().map(|checksum| checksum.algorithm().name()).collect();
        let matches = file_matches(path, expected, cancel).await?;
        return Ok(matches.then_some(Present::Checksums(names)));
    }
    Ok(client.unchanged(source, path, cancel).await?.map(|unchanged| match unchanged {
        Unchanged::Checksum(algorithm) => Present::Checksums(vec![algorithm.name()]),
        _ => Present::Version,
    }))
}
