//! The command line of `tidegate check`.

use std::path::Path;

use clap::{Args, ValueHint};

use super::{RemoteArgs, VersionArgs};

/// Extensions of files that list checksums.
const LIST_EXTENSIONS: [&str; 9] =
    ["sha256", "sha256sum", "sha256sums", "sha1", "sha1sum", "md5", "md5sum", "b3", "sums"];

/// Names of such files, in lower case.
const LIST_NAMES: [&str; 7] =
    ["sha256sums", "sha1sums", "md5sums", "b3sums", "sha256sums.txt", "checksums.txt", "checksums"];

#[derive(Debug, Args)]
pub(crate) struct CheckArgs {
    /// The blobs: URLs or paths. Last, what they are compared with: a URL, a file, a folder with
    /// files of the same names, or a list such as SHA256SUMS
    #[arg(value_name = "SOURCE... TARGET", required = true, value_hint = ValueHint::AnyPath)]
    names: Vec<String>,
    /// Compare with this list of checksums, whatever its name is: a file or a URL. All names are
    /// sources then
    #[arg(long, value_name = "LIST", value_hint = ValueHint::AnyPath)]
    checksums: Option<String>,
    #[command(flatten)]
    pub(crate) remote: RemoteArgs,
    #[command(flatten)]
    pub(crate) version: VersionArgs,
}

/// What the sources are compared with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reference<'a> {
    /// A blob, or a folder with files.
    Target(&'a str),
    /// A list of checksums.
    List(&'a str),
}

impl CheckArgs {
    /// The sources, and what they are compared with; `None` if the latter is missing.
    pub(crate) fn compared(&self) -> Option<(Vec<&str>, Reference<'_>)> {
        let names: Vec<&str> = self.names.iter().map(String::as_str).collect();
        if let Some(list) = &self.checksums {
            return Some((names, Reference::List(list)));
        }
        let (target, sources) = names.split_last().filter(|(_, sources)| !sources.is_empty())?;
        // A list that is compared with its own copy is a blob like any other.
        let is_list = is_list_name(target) && !sources.iter().any(|source| is_list_name(source));
        let reference = if is_list { Reference::List(target) } else { Reference::Target(target) };
        Some((sources.to_vec(), reference))
    }

    /// Every name on the command line that may be a URL.
    pub(crate) fn names(&self) -> Vec<&str> {
        self.names.iter().chain(&self.checksums).map(String::as_str).collect()
    }
}

/// Whether the name of a file says that it lists checksums.
fn is_list_name(text: &str) -> bool {
    let path = text.split(['?', '#']).next().unwrap_or(text);
    let name = path.rsplit('/').next().unwrap_or(path).to_ascii_lowercase();
    let extension = Path::new(&name).extension().and_then(|extension| extension.to_str());
    LIST_NAMES.contains(&name.as_str())
        || extension.is_some_and(|extension| LIST_EXTENSIONS.contains(&extension))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_known_by_their_names() {
        for name in ["SHA256SUMS", "dist/tool.tar.gz.sha256", "https://h/v1/MD5SUMS?x=1", "a.sums"]
        {
            assert!(is_list_name(name), "{name}");
        }
        for name in ["tool.tar.gz", "SHA256SUMS/", "sha256", "s3://b/sha256sums/x", ""] {
            assert!(!is_list_name(name), "{name}");
        }
    }
}
