//! Local files on a command line: standard input as a source, and a source that is its own target.

use std::fs::{self, Metadata};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use tidegate::{Client, Error, ErrorKind, Location, Operation, Result};

use crate::fetch::{Fetch, Place};
use crate::redact;
use crate::standard;

/// Schemes of URLs that are written with one slash or none by mistake.
const SCHEMES: [&str; 7] = ["gs", "s3", "az", "http", "https", "grpc", "grpcs"];

/// The system's path of standard input; the engine reads the stream through it.
pub(crate) const INPUT_PATH: &str = "/dev/stdin";

/// The name of standard input in messages.
pub(crate) const INPUT_NAME: &str = "standard input";

/// Whether a source is standard input.
pub(crate) fn is_input(text: &str) -> bool {
    matches!(text, "-" | INPUT_PATH | "/dev/fd/0" | "/proc/self/fd/0")
}

/// Locates a blob; `-` is standard input.
pub(crate) fn source(client: &Client, text: &str) -> Result<Location> {
    if !is_input(text) {
        check_spelling(text)?;
        return client.locate(text);
    }
    standard::check_input()?;
    let input = client.locate(INPUT_PATH)?;
    Ok(Location::new(input.remote, input.blob, INPUT_NAME))
}

/// Refuses a name that is no file and looks like a URL with a mistake: it would be taken as a path.
pub(crate) fn check_spelling(text: &str) -> Result<()> {
    let Some(meant) = intended_url(text).filter(|_| !Path::new(text).exists()) else {
        return Ok(());
    };
    let name = redact::url(text);
    let message = "it is not a URL, and there is no such file";
    Err(Error::new(ErrorKind::Invalid, Operation::Locate, name, message)
        .with_hint(format!("did you mean {}? write ./NAME for a file", redact::url(&meant))))
}

/// The URL that was probably meant: by `s3:/b/k` and `s3:b/k` it is `s3://b/k`, and by `host:80/k`
/// it is `http://host:80/k`.
fn intended_url(text: &str) -> Option<String> {
    if text.contains("://") {
        return None;
    }
    let (before, after) = text.split_once(':')?;
    if SCHEMES.iter().any(|scheme| before.eq_ignore_ascii_case(scheme)) {
        let rest = after.trim_start_matches('/');
        return Some(format!("{}://{rest}", before.to_ascii_lowercase()));
    }
    let is_host = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-');
    let (port, _) = after.split_once('/')?;
    let is_address =
        !before.is_empty() && before.chars().all(is_host) && port.parse::<u16>().is_ok();
    is_address.then(|| format!("http://{text}"))
}

/// Refuses to read standard input twice: the second reader would find nothing.
pub(crate) fn check_inputs(names: &[&str]) -> Result<()> {
    if names.iter().filter(|name| is_input(name)).count() > 1 {
        let message = "it can be read once, and is named more often";
        return Err(Error::new(ErrorKind::Invalid, Operation::Locate, INPUT_NAME, message));
    }
    Ok(())
}

/// Refuses to copy a file to itself, also through links.
pub(crate) fn check_targets(client: &Client, names: &[&str], fetches: &[Fetch]) -> Result<()> {
    for (name, fetch) in names.iter().zip(fetches) {
        let source = path(client, name).and_then(|path| fs::metadata(path).ok());
        let target = match &fetch.place {
            Place::File(path) => fs::metadata(path).ok(),
            Place::Stdout => standard::output_metadata(),
        };
        if source.zip(target).is_some_and(|(source, target)| is_same_file(&source, &target)) {
            let name = fetch.source.display();
            let message = "source and target are the same file";
            return Err(Error::new(ErrorKind::Invalid, Operation::Locate, name, message));
        }
    }
    Ok(())
}

/// The path of a source; `None` if it is no local file.
fn path(client: &Client, text: &str) -> Option<PathBuf> {
    match text.split_once("://") {
        _ if is_input(text) => Some(INPUT_PATH.into()),
        None => Some(text.into()),
        Some((scheme, _)) if scheme.eq_ignore_ascii_case("file") => {
            client.locate(text).ok().map(|location| location.blob.into())
        }
        // A path may look like a URL, too.
        Some(_) => Some(text.into()).filter(|path: &PathBuf| Path::exists(path)),
    }
}

fn is_same_file(one: &Metadata, other: &Metadata) -> bool {
    one.is_file() && (one.dev(), one.ino()) == (other.dev(), other.ino())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_with_a_mistake_are_recognised() {
        for (text, meant) in [
            ("s3:/bucket", Some("s3://bucket")),
            ("gs:bucket/key", Some("gs://bucket/key")),
            ("HTTPS:///host/x", None),
            ("https:/host/x", Some("https://host/x")),
            ("localhost:8080/x", Some("http://localhost:8080/x")),
            ("10.0.0.1:80/", Some("http://10.0.0.1:80/")),
            ("a:b", None),
            ("c:80", None),
            ("my file:80/x", None),
            ("host:99999/x", None),
            ("/srv/s3:/x", None),
            ("s3://bucket/key", None),
        ] {
            assert_eq!(intended_url(text).as_deref(), meant, "{text}");
        }
    }
}
