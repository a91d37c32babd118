//! The description of a blob, in the words of `object_store`.

use chrono::{DateTime, Utc};
use object_store::path::Path;
use object_store::{Attribute, Attributes, ObjectMeta, PutResult};
use tidegate::remote::{BlobInfo, Version};

/// The entity tag and the version that name the content. They are the same text where a remote has
/// only one of the two: a caller may keep either.
pub(crate) fn names(version: Option<&Version>) -> (Option<String>, Option<String>) {
    match version {
        Some(Version::Generation(text) | Version::VersionId(text)) => {
            (Some(text.clone()), Some(text.clone()))
        }
        Some(Version::ETag(text) | Version::FileStamp(text) | Version::Digest(text)) => {
            (Some(text.clone()), None)
        }
        _ => (None, None),
    }
}

/// The description of a blob of `size` bytes.
pub(crate) fn of(location: &Path, info: &BlobInfo, size: u64) -> ObjectMeta {
    let (e_tag, version) = names(info.version.as_ref());
    ObjectMeta {
        location: location.clone(),
        last_modified: last_modified(info).unwrap_or_default(),
        size,
        e_tag,
        version,
    }
}

/// The result of a write.
pub(crate) fn of_written(version: Option<&Version>) -> PutResult {
    let (e_tag, version) = names(version);
    PutResult { e_tag, version, extensions: object_store::Extensions::default() }
}

/// The time of the last change. Responses have it as HTTP writes dates, lists as RFC 3339 does, and
/// the stamp of a local file has it, too.
fn last_modified(info: &BlobInfo) -> Option<DateTime<Utc>> {
    if let Some(text) = info.last_modified.as_deref().map(str::trim) {
        return match httpdate::parse_http_date(text) {
            Ok(time) => Some(time.into()),
            Err(_) => DateTime::parse_from_rfc3339(text).ok().map(|date| date.to_utc()),
        };
    }
    info.version.as_ref().and_then(Version::modified).map(DateTime::from)
}

/// What a response says of the blob beyond its bytes.
pub(crate) fn attributes(info: &BlobInfo) -> Attributes {
    let described = info.description.as_deref().cloned().unwrap_or_default();
    let own = [
        (Attribute::ContentType, &info.content_type),
        (Attribute::ContentEncoding, &info.content_encoding),
        (Attribute::CacheControl, &described.cache_control),
        (Attribute::ContentDisposition, &described.content_disposition),
        (Attribute::ContentLanguage, &described.content_language),
    ];
    let own = own.into_iter().filter_map(|(name, value)| Some((name, value.clone()?)));
    own.chain(
        described
            .metadata
            .into_iter()
            .map(|(name, value)| (Attribute::Metadata(name.into()), value)),
    )
    .collect()
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, UNIX_EPOCH};

    use super::*;

    #[test]
    fn times_of_responses_and_of_lists_are_the_same() {
        let expected = DateTime::<Utc>::from(UNIX_EPOCH + Duration::from_secs(784_903_526));
        for text in [
            "Tue, 15 Nov 1994 12:45:26 GMT",
            "Tuesday, 15-Nov-94 12:45:26 GMT",
            "1994-11-15T12:45:26.000Z",
            "1994-11-15T12:45:26Z",
        ] {
            let mut info = BlobInfo::default();
            info.last_modified = Some(text.to_owned());
            assert_eq!(last_modified(&info), Some(expected), "{text}");
        }
        assert_eq!(last_modified(&BlobInfo::default()), None);
    }
}
