//! A request for a range of one version, in the types of `object_store`.

use std::time::SystemTime;

use object_store::{GetOptions, GetRange, RetryConfig};
use tidegate_core::range::ByteRange;

use super::Version;

fn get_range(range: &ByteRange) -> Option<GetRange> {
    match range {
        ByteRange::From(start) => Some(GetRange::Offset(*start)),
        ByteRange::Bounded(range) => Some(GetRange::Bounded(range.clone())),
        ByteRange::Last(n) => Some(GetRange::Suffix(*n)),
        _ => None,
    }
}

/// The options of a request for a range of a version.
pub(super) fn get_options(range: &ByteRange, version: Option<&Version>) -> GetOptions {
    let mut options = GetOptions { range: get_range(range), ..GetOptions::default() };
    match version {
        Some(Version::Generation(generation)) => options.version = Some(generation.clone()),
        Some(Version::VersionId(id)) => options.version = Some(id.clone()),
        Some(Version::ETag(tag)) => options.if_match = Some(tag.clone()),
        Some(Version::LastModified(date)) => {
            // If this is not a date, the version in the response is compared all the same.
            let date = httpdate::parse_http_date(date).ok();
            options.if_unmodified_since = date.map(SystemTime::into);
        }
        _ => {}
    }
    options
}

/// Switches the retries of `object_store` off: the reader restarts, because it knows which bytes
/// were delivered.
pub(super) fn no_retries() -> RetryConfig {
    RetryConfig { max_retries: 0, ..RetryConfig::default() }
}
