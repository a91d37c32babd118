//! `tidegate stat`: the facts that a remote provides about a blob.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde::Serialize;
use tidegate::remote::BlobInfo;
use tidegate::{Budget, Location};
use tidegate_core::printable::escaped;
use tidegate_core::{ChecksumAlgorithm, Coverage, StoredChecksum};

use crate::args::StatArgs;
use crate::exit::Exit;
use crate::report;
use crate::session::Session;
use crate::size;
use crate::store_url::Stores;

pub(crate) async fn run(session: Session, args: &StatArgs) -> Exit {
    let asked = async {
        let client = args.remote.client(&[&args.source], Budget::default())?;
        let location = args.version.of(Stores::default().source(&client, &args.source)?)?;
        let mut stat = client.stat(&location).cancel(session.cancel.clone());
        if let Some(settings) = &args.remote.settings
            && let Some(args) = settings.args(location.display())?
        {
            stat = stat.retry(args.remote.retry());
        }
        let info = stat.await;
        let info = info.map_err(|error| report::without_resume(error, report::ASK_AGAIN))?;
        Ok((info, location))
    };
    match asked.await {
        Err(error) => session.fail(&error),
        Ok((info, location)) if session.output.json => session.json(&Facts::new(&location, &info)),
        Ok((info, location)) => session.print(&table(&location, &info)),
    }
}

/// The JSON; absent facts are null.
#[derive(Debug, Serialize)]
struct Facts<'a> {
    source: &'a str,
    bytes: Option<u64>,
    version: Option<String>,
    /// Checksums of the whole blob.
    checksums: BTreeMap<&'static str, String>,
    /// Checksums of the checksums of the parts in which the blob was uploaded.
    composite_checksums: Vec<Composite>,
    content_encoding: Option<&'a str>,
    content_type: Option<&'a str>,
    last_modified: Option<&'a str>,
    /// The storage class or the access tier.
    storage_class: Option<&'a str>,
    /// The number of tags, at remotes that say it.
    tags: Option<u32>,
    /// Whether a blob in an archive is being restored, in the remote's words.
    restore: Option<&'a str>,
}

#[derive(Debug, Serialize)]
struct Composite {
    algorithm: &'static str,
    value: String,
    parts: Option<u32>,
}

impl<'a> Facts<'a> {
    fn new(location: &'a Location, info: &'a BlobInfo) -> Self {
        let mut checksums = BTreeMap::new();
        let mut composite_checksums = Vec::new();
        for stored in &info.checksums {
            let (algorithm, value) = named(stored);
            if let Coverage::Composite { parts } = stored.coverage {
                composite_checksums.push(Composite { algorithm, value, parts });
            } else {
                checksums.insert(algorithm, value);
            }
        }
        let kept = info.description.as_deref();
        Self {
            source: location.display(),
            bytes: info.len_bytes,
            version: info.version.as_ref().map(ToString::to_string),
            checksums,
            composite_checksums,
            content_encoding: info.content_encoding.as_deref(),
            content_type: info.content_type.as_deref(),
            last_modified: info.last_modified.as_deref(),
            storage_class: kept.and_then(|kept| kept.storage_class.as_deref()),
            tags: tags(info),
            restore: kept.and_then(|kept| kept.restore.as_deref()),
        }
    }
}

fn named(stored: &StoredChecksum) -> (&'static str, String) {
    let algorithm: ChecksumAlgorithm = stored.checksum.algorithm();
    (algorithm.name(), stored.checksum.hex())
}

/// The number of tags, if there are any.
fn tags(info: &BlobInfo) -> Option<u32> {
    info.description.as_deref().map(|kept| kept.tag_count).filter(|count| *count > 0)
}

/// What a remote says of a restore. S3 says `ongoing-request="true"`, or until when the copy is there;
/// Azure says such as `rehydrate-pending-to-hot`.
fn restore(text: &str) -> String {
    if text.contains("ongoing-request=\"true\"") {
        return "in progress".to_owned();
    }
    match text.split_once("expiry-date=\"").and_then(|(_, rest)| rest.split_once('"')) {
        Some((date, _)) => format!("restored until {date}"),
        None => text.to_owned(),
    }
}

/// For people: one fact a line. A missing fact is left out if it is usually missing.
fn table(location: &Location, info: &BlobInfo) -> String {
    let size = info.len_bytes.map_or("unknown".to_owned(), |bytes| {
        let human = if bytes < 1024 { String::new() } else { format!(" ({})", size::human(bytes)) };
        format!("{bytes} bytes{human}")
    });
    let version = info.version.as_ref().map_or("none provided".to_owned(), ToString::to_string);
    let mut rows =
        vec![("source", location.display().to_owned()), ("size", size), ("version", version)];
    if info.checksums.is_empty() {
        rows.push(("checksum", "none provided".to_owned()));
    }
    for stored in &info.checksums {
        let (algorithm, value) = named(stored);
        let coverage = match stored.coverage {
            Coverage::Composite { parts: Some(parts) } => {
                format!(" (of {}' checksums)", report::count(parts.into(), "part"))
            }
            Coverage::Composite { parts: None } => " (of parts' checksums)".to_owned(),
            _ => " (of the whole blob)".to_owned(),
        };
        rows.push(("checksum", format!("{algorithm} {value}{coverage}")));
    }
    let kept = info.description.as_deref();
    let optional = [
        ("encoding", info.content_encoding.clone()),
        ("type", info.content_type.clone()),
        ("modified", info.last_modified.clone()),
        ("class", kept.and_then(|kept| kept.storage_class.clone())),
        ("tags", tags(info).map(|count| count.to_string())),
        ("restore", kept.and_then(|kept| kept.restore.as_deref()).map(restore)),
    ];
    rows.extend(optional.into_iter().filter_map(|(name, value)| Some((name, value?))));
    rows.iter().fold(String::new(), |mut text, (name, value)| {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{name:<10}{}", escaped(value));
        text
    })
}
