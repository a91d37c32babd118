//! The facts in the headers of a response: length, version, checksums, coding.
//!
//! A header with two different values is ignored, because it is unknown which one is right.

use std::time::{Duration, SystemTime};

use http::StatusCode;
use tidegate_core::checksum::{ChecksumError, StoredChecksum, headers};
use tidegate_core::range::ContentRange;

use super::Dialect;
use crate::remote::{BlobDescription, BlobInfo, Version};
use crate::transport::ResponseHead;

/// Minimum age of a modification date at the time of the response, so that the blob cannot change
/// again under the same date (RFC 9110 section 8.8.2.2).
const DATE_RESOLUTION: Duration = Duration::from_secs(1);

/// The facts in a response's headers, with the blob's length as the response gives it. The version
/// has the kind of `asked`. Without it, the version has the kind that pins best.
pub(in crate::remote) fn info(
    head: &ResponseHead,
    dialect: Dialect,
    asked: Option<&Version>,
) -> BlobInfo {
    BlobInfo {
        len_bytes: total_len(head, dialect),
        version: match asked {
            Some(asked) => version_like(head, asked).or_else(|| version(head, dialect)),
            None => version(head, dialect),
        },
        checksums: checksums(head, dialect),
        // The coding of the body has priority over the stored coding: a metadata response has no
        // body.
        content_encoding: ["content-encoding", "x-goog-stored-content-encoding"]
            .into_iter()
            .find(|name| is_coded(head, name))
            .and_then(|name| head.text(name))
            .map(str::to_owned),
        content_type: head.text("content-type").map(str::to_owned),
        description: description(head),
        last_modified: head.text("last-modified").map(str::to_owned),
        revision: revision(head),
    }
}

/// What names of metadata begin with, at each service.
const METADATA: [&str; 3] = ["x-amz-meta-", "x-goog-meta-", "x-ms-meta-"];

/// Where each service says how it stores a blob.
const STORAGE_CLASS: [&str; 3] =
    ["x-amz-storage-class", "x-goog-storage-class", "x-ms-access-tier"];

/// Where the services say how many tags a blob has.
const TAG_COUNT: [&str; 2] = ["x-amz-tagging-count", "x-ms-tag-count"];

/// Where the services say whether a blob comes back from an archive.
const RESTORE: [&str; 2] = ["x-amz-restore", "x-ms-archive-status"];

/// The metadata by which a writer recognises its own blob: not the caller's.
const MARKS: [&str; 2] = ["tidegate-upload", "tidegateupload"];

fn description(head: &ResponseHead) -> Option<Box<BlobDescription>> {
    let text = |name| head.text(name).map(str::to_owned);
    let found = BlobDescription {
        cache_control: text("cache-control"),
        content_disposition: text("content-disposition"),
        content_language: text("content-language"),
        metadata: metadata(head),
        storage_class: STORAGE_CLASS.into_iter().find_map(text),
        tag_count: TAG_COUNT
            .into_iter()
            .find_map(|name| head.text(name)?.parse().ok())
            .unwrap_or(0),
        restore: RESTORE.into_iter().find_map(text),
    };
    (found != BlobDescription::default()).then(|| Box::new(found))
}

/// The metadata of the blob, without that of this library.
fn metadata(head: &ResponseHead) -> Vec<(String, String)> {
    let own = head.headers.iter().filter_map(|(name, value)| {
        let name = METADATA.iter().find_map(|prefix| name.as_str().strip_prefix(prefix))?;
        Some((name.to_owned(), value.to_str().ok()?.to_owned()))
    });
    let mut own: Vec<_> = own.filter(|(name, _)| !MARKS.contains(&name.as_str())).collect();
    own.sort_unstable();
    own
}

/// A permanent name of this content. It does not depend on the server's name, because blobs of the
/// clouds are also read by signed URLs.
fn revision(head: &ResponseHead) -> Option<String> {
    if let Some(generation) = only(head, "x-goog-generation") {
        return Some(format!("generation {generation}"));
    }
    let etag = only(head, "etag").filter(|etag| Version::from_etag(etag).is_some())?;
    let id = only(head, "x-amz-version-id").or_else(|| only(head, "x-ms-version-id"))?;
    // A bucket without versions, or with suspended versions, may send this id for every blob.
    (id != "null").then(|| format!("version id {id}, etag {etag}"))
}

fn total_len(head: &ResponseHead, dialect: Dialect) -> Option<u64> {
    if head.status == StatusCode::PARTIAL_CONTENT {
        return match content_range(head)? {
            ContentRange::Bytes { total, .. } => total,
            ContentRange::Unsatisfied { .. } => None,
        };
    }
    let len = head.text("content-length").and_then(|text| text.trim().parse().ok());
    #[cfg(feature = "gcs")]
    if dialect == Dialect::Gcs && len.is_none() {
        // A hint that the body must not exceed: it does not say where the body ends.
        return head.text("x-goog-stored-content-length").and_then(|text| text.parse().ok());
    }
    let _ = dialect;
    len
}

/// `Content-Range`, if it is valid.
pub(super) fn content_range(head: &ResponseHead) -> Option<ContentRange> {
    ContentRange::parse(only(head, "content-range")?).ok()
}

/// The range of the blob that a partial response describes.
#[cfg(feature = "s3")]
pub(in crate::remote) fn range_of(head: &ResponseHead) -> Option<std::ops::Range<u64>> {
    match content_range(head)? {
        ContentRange::Bytes { range, .. } => Some(range),
        ContentRange::Unsatisfied { .. } => None,
    }
}

/// A header's value as text; `None` if it has two different values.
fn only<'a>(head: &'a ResponseHead, name: &str) -> Option<&'a str> {
    let first = head.headers.get(name)?;
    let alone = head.headers.get_all(name).iter().all(|value| value == first);
    first.to_str().ok().filter(|_| alone)
}

/// The version that a response names, in the kind of `asked`.
fn version_like(head: &ResponseHead, asked: &Version) -> Option<Version> {
    let text = |name| only(head, name).map(str::to_owned);
    match asked {
        Version::Generation(_) => text("x-goog-generation").map(Version::Generation),
        Version::ETag(_) => only(head, "etag").and_then(Version::from_etag),
        Version::VersionId(_) => {
            text("x-amz-version-id").or_else(|| text("x-ms-version-id")).map(Version::VersionId)
        }
        Version::LastModified(_) => date(head),
        Version::FileStamp(_) | Version::Digest(_) => None,
    }
}

fn version(head: &ResponseHead, dialect: Dialect) -> Option<Version> {
    #[cfg(feature = "gcs")]
    if dialect == Dialect::Gcs
        && let Some(generation) = only(head, "x-goog-generation")
    {
        return Some(Version::Generation(generation.to_owned()));
    }
    if let Some(version) = only(head, "etag").and_then(Version::from_etag) {
        return Some(version);
    }
    #[cfg(feature = "s3")]
    if dialect == Dialect::S3 {
        let id = only(head, "x-amz-version-id").filter(|id| *id != "null");
        return id.map(|id| Version::VersionId(id.to_owned()));
    }
    // A weak entity tag next to a date says that equal dates may have different bytes.
    if head.headers.contains_key("etag") {
        return None;
    }
    let _ = dialect;
    date(head)
}

/// The modification date, if it pins. Bytes modified in the second of the response may change again
/// within that second. Without the server's own `Date` the age is unknown.
fn date(head: &ResponseHead) -> Option<Version> {
    let time = |name| only(head, name).and_then(|text| httpdate::parse_http_date(text.trim()).ok());
    let modified: SystemTime = time("last-modified")?;
    let age = time("date")?.duration_since(modified).ok()?;
    let text = head.text("last-modified")?;
    (age >= DATE_RESOLUTION).then(|| Version::LastModified(text.to_owned()))
}

/// Checksums that cover the stored bytes, with all values of a repeated header. A malformed one is
/// ignored here, with a warning: it can only prevent the verification, which then reports that
/// there was none.
fn checksums(head: &ResponseHead, dialect: Dialect) -> Vec<StoredChecksum> {
    let mut found = Vec::new();
    let mut note = |header: &str, parsed: Result<StoredChecksum, ChecksumError>| match parsed {
        Ok(checksum) if found.contains(&checksum) => {}
        Ok(checksum) => found.push(checksum),
        Err(error) => tracing::warn!(header, %error, "checksum header passed over"),
    };
    let all =
        |name: &str| head.headers.get_all(name).iter().filter_map(|value| value.to_str().ok());
    for value in all("x-goog-hash") {
        for member in headers::parse_goog_hash(value) {
            note("x-goog-hash", member);
        }
    }
    let amz_type = head.text("x-amz-checksum-type");
    for (name, value) in &head.headers {
        if let (Some(algorithm), Ok(value)) =
            (name.as_str().strip_prefix("x-amz-checksum-"), value.to_str())
            && algorithm != "type"
            && algorithm != "mode"
            && algorithm != "algorithm"
            && head.status != StatusCode::PARTIAL_CONTENT
        {
            note(name.as_str(), headers::parse_amz_checksum(algorithm, value, amz_type));
        }
    }
    for value in all("repr-digest") {
        match headers::parse_repr_digest(value) {
            Ok(all) => all.into_iter().for_each(|checksum| note("repr-digest", Ok(checksum))),
            Err(error) => note("repr-digest", Err(error)),
        }
    }
    for value in all("x-ms-blob-content-md5") {
        note("x-ms-blob-content-md5", headers::parse_content_md5(value));
    }
    // In a partial response, Content-MD5 covers only the part.
    for value in all("content-md5").filter(|_| head.status != StatusCode::PARTIAL_CONTENT) {
        note("content-md5", headers::parse_content_md5(value));
    }
    #[cfg(feature = "http")]
    if dialect == Dialect::Http && !is_encoded(head) {
        for value in all("digest").filter(|_| head.status != StatusCode::PARTIAL_CONTENT) {
            for member in headers::parse_digest(value) {
                note("digest", member);
            }
        }
        // Repositories of artifacts send these of the file, also with a part of it.
        for algorithm in ["sha256", "sha1", "md5"] {
            for value in all(&format!("x-checksum-{algorithm}")) {
                note("x-checksum", headers::parse_x_checksum(algorithm, value));
            }
        }
    }
    let _ = dialect;
    found
}

fn is_coded(head: &ResponseHead, name: &str) -> bool {
    let coding = head.text(name).unwrap_or_default();
    !coding.is_empty() && !coding.eq_ignore_ascii_case("identity")
}

/// Whether the bytes differ from the stored ones. Google's storage decompresses for clients that do
/// not accept `gzip`, and then length, ranges and checksums do not match.
///
/// Source: <https://cloud.google.com/storage/docs/transcoding>.
pub(in crate::remote) fn is_decoded(head: &ResponseHead) -> bool {
    head.status.is_success()
        && is_coded(head, "x-goog-stored-content-encoding")
        && !is_coded(head, "content-encoding")
}

/// Whether the body has a coding that is not known to be the stored one. If the request asked for
/// `identity`, the server may have compressed the body in transit.
pub(in crate::remote) fn is_encoded(head: &ResponseHead) -> bool {
    is_coded(head, "content-encoding") && !is_coded(head, "x-goog-stored-content-encoding")
}
