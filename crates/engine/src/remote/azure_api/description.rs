//! The headers that describe a new blob.

use std::time::SystemTime;

use chrono::{DateTime, SecondsFormat, Utc};
use http::{HeaderMap, HeaderName, HeaderValue};
use url::form_urlencoded;

use super::AzureWriter;
use crate::error::{ErrorKind, Result};
use crate::remote::write::{MetadataNames, WriteOptions};

const METADATA: &str = "x-ms-meta-";

/// The metadata that holds [`WriteOptions::mark`].
pub(super) const MARK: &str = "x-ms-meta-tidegateupload";

impl AzureWriter {
    /// The headers that describe a new blob.
    pub(super) fn description(&self, blob: &str, options: &WriteOptions) -> Result<HeaderMap> {
        let mut headers = self.metadata(blob, options)?;
        if let Some(mark) = &options.mark {
            self.add(blob, &mut headers, MARK, mark)?;
        }
        for (name, value) in [
            ("x-ms-blob-content-type", &options.content_type),
            ("x-ms-blob-content-encoding", &options.content_encoding),
            ("x-ms-blob-cache-control", &options.cache_control),
            ("x-ms-access-tier", &options.storage_class),
        ] {
            if let Some(value) = value {
                self.add(blob, &mut headers, name, value)?;
            }
        }
        if !options.tags.is_empty() {
            let mut query = form_urlencoded::Serializer::new(String::new());
            let tags = query.extend_pairs(&options.tags).finish();
            self.add(blob, &mut headers, "x-ms-tags", &tags)?;
        }
        let mut own = HeaderMap::new();
        for (name, value) in &options.headers {
            self.add(blob, &mut own, name, value)?;
        }
        for (name, value) in own.iter().chain(&self.of_blobs) {
            headers.insert(self.of_service(blob, name)?, value.clone());
        }
        Ok(headers)
    }

    /// The service's own name of a header: in a list of blocks the header of HTTP would describe the
    /// list.
    fn of_service(&self, blob: &str, name: &HeaderName) -> Result<HeaderName> {
        Ok(HeaderName::from_static(match name.as_str() {
            "cache-control" => "x-ms-blob-cache-control",
            "content-disposition" => "x-ms-blob-content-disposition",
            "content-encoding" => "x-ms-blob-content-encoding",
            "content-language" => "x-ms-blob-content-language",
            "content-type" => "x-ms-blob-content-type",
            "expires" => {
                let message = "the remote keeps no header Expires";
                return Err(self.invalid(blob, message).into_kind(ErrorKind::Unsupported));
            }
            _ => return Ok(name.clone()),
        }))
    }

    /// The caller's metadata, and the source's modification time under rclone's name and format.
    pub(super) fn metadata(&self, blob: &str, options: &WriteOptions) -> Result<HeaderMap> {
        let mut headers = HeaderMap::new();
        for (name, value) in &options.metadata {
            if !MetadataNames::Identifiers.accept(name) {
                let message = format!("metadata {name:?} cannot be stored");
                let hint = "its name must be letters, digits and `_`, and not begin with a digit";
                return Err(self.invalid(blob, message).with_hint(hint));
            }
            self.add(blob, &mut headers, &format!("{METADATA}{name}"), value)?;
        }
        if let Some(time) = options.modified {
            self.add(blob, &mut headers, &format!("{METADATA}mtime"), &written(time))?;
        }
        Ok(headers)
    }

    fn add(&self, blob: &str, headers: &mut HeaderMap, name: &str, value: &str) -> Result<()> {
        let malformed = |what: &str| self.invalid(blob, format!("{name:?} is no {what}"));
        let key = HeaderName::try_from(name)
            .map_err(|error| malformed("name of a header").caused_by(error))?;
        let value = HeaderValue::from_str(value)
            .map_err(|error| malformed("header with a valid value").caused_by(error))?;
        headers.insert(key, value);
        Ok(())
    }
}

/// `2026-11-23T12:00:00.000000000Z`.
fn written(time: SystemTime) -> String {
    DateTime::<Utc>::from(time).to_rfc3339_opts(SecondsFormat::Nanos, true)
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, UNIX_EPOCH};

    use super::*;

    #[test]
    fn the_modification_time_is_written_as_rclone_writes_it() {
        let time = UNIX_EPOCH + Duration::new(1_700_000_000, 5);
        assert_eq!(written(time), "2023-11-14T22:13:20.000000005Z");
    }
}
