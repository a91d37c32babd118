//! [`Resource`]: the description of an object in JSON. Pure.

use std::time::UNIX_EPOCH;

use http::HeaderMap;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use tidegate_core::checksum::{Checksum, ChecksumAlgorithm, Coverage, StoredChecksum};

use crate::remote::Version;
use crate::remote::write::{WriteOptions, Written};

/// What the service says of an object that it made.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Resource {
    generation: Option<String>,
    size: Option<String>,
    crc32c: Option<String>,
    md5_hash: Option<String>,
}

impl Resource {
    /// `None` if the text is not a description.
    pub(super) fn read(text: &[u8]) -> Option<Self> {
        serde_json::from_slice(text).ok()
    }

    pub(super) fn len_bytes(&self) -> Option<u64> {
        self.size.as_deref()?.parse().ok()
    }

    pub(super) fn written(&self) -> Written {
        let version = self.generation.clone().map(Version::Generation);
        let sums =
            [(ChecksumAlgorithm::Crc32c, &self.crc32c), (ChecksumAlgorithm::Md5, &self.md5_hash)];
        let checksums = sums.into_iter().filter_map(|(algorithm, text)| {
            let checksum = Checksum::from_base64(algorithm, text.as_deref()?).ok()?;
            Some(StoredChecksum { checksum, coverage: Coverage::FullObject })
        });
        Written { version, checksums: checksums.collect() }
    }
}

/// The description of a new object.
pub(super) fn description(blob: &str, options: &WriteOptions) -> Map<String, Value> {
    let mut metadata: Map<String, Value> = options
        .metadata
        .iter()
        .map(|(name, value)| (name.clone(), Value::from(value.clone())))
        .collect();
    let since = options.modified.and_then(|time| time.duration_since(UNIX_EPOCH).ok());
    if let Some(since) = since {
        metadata.insert("goog-reserved-file-mtime".into(), since.as_secs().to_string().into());
    }
    if let Some(mark) = &options.mark {
        metadata.insert("tidegate-upload".into(), mark.clone().into());
    }
    let mut description = Map::new();
    description.insert("name".to_owned(), blob.into());
    for (name, value) in [
        ("contentType", &options.content_type),
        ("contentEncoding", &options.content_encoding),
        ("cacheControl", &options.cache_control),
        ("storageClass", &options.storage_class),
    ] {
        if let Some(value) = value {
            description.insert(name.to_owned(), value.clone().into());
        }
    }
    if !metadata.is_empty() {
        description.insert("metadata".to_owned(), json!(metadata));
    }
    description
}

/// Adds what these headers say to the description. Returns the parameters of the request that stand
/// for the others; fails with the name of a header that has no counterpart in JSON.
pub(super) fn add_headers(
    description: &mut Map<String, Value>,
    headers: &HeaderMap,
) -> Result<Vec<(&'static str, String)>, String> {
    let (mut parameters, mut metadata) = (Vec::new(), Map::new());
    for (name, value) in headers {
        let text = || value.to_str().map(str::to_owned).map_err(|_not_ascii| name.to_string());
        let property = match name.as_str() {
            "cache-control" => "cacheControl",
            "content-disposition" => "contentDisposition",
            "content-encoding" => "contentEncoding",
            "content-language" => "contentLanguage",
            "content-type" => "contentType",
            "x-goog-storage-class" => "storageClass",
            "x-goog-custom-time" => "customTime",
            "x-goog-acl" => {
                parameters.push(("predefinedAcl", camel_case(&text()?)));
                continue;
            }
            "x-goog-encryption-kms-key-name" => {
                parameters.push(("kmsKeyName", text()?));
                continue;
            }
            other => match other.strip_prefix("x-goog-meta-") {
                Some(own) => {
                    metadata.insert(own.to_owned(), text()?.into());
                    continue;
                }
                None => return Err(other.to_owned()),
            },
        };
        description.insert(property.to_owned(), text()?.into());
    }
    if !metadata.is_empty() {
        let own = description.entry("metadata").or_insert_with(|| json!({}));
        if let Some(own) = own.as_object_mut() {
            own.extend(metadata);
        }
    }
    Ok(parameters)
}

/// `bucket-owner-read` is `bucketOwnerRead` in JSON.
fn camel_case(text: &str) -> String {
    let mut words = text.split('-');
    let first = words.next().unwrap_or_default().to_owned();
    words.fold(first, |mut joined, word| {
        let mut letters = word.chars();
        joined.extend(letters.next().map(|letter| letter.to_ascii_uppercase()));
        joined.push_str(letters.as_str());
        joined
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_description_names_generation_length_and_checksums() {
        let text = r#"{"kind":"storage#object","generation":"7","size":"5","crc32c":"mnG7TA==",
            "md5Hash":"XUFAKrxLKna5cZ2REBfFkg==","timeCreated":"x"}"#;
        let resource = Resource::read(text.as_bytes()).unwrap();
        assert_eq!(resource.len_bytes(), Some(5));
        let written = resource.written();
        assert_eq!(written.version, Some(Version::Generation("7".to_owned())));
        assert_eq!(written.checksums.len(), 2);
        assert!(Resource::read(b"<html>").is_none());
        assert!(Resource::read(b"").is_none());
    }

    #[test]
    fn headers_have_their_names_in_json() {
        let mut headers = HeaderMap::new();
        for (name, value) in [
            ("content-disposition", "inline"),
            ("x-goog-meta-a", "1"),
            ("x-goog-acl", "bucket-owner-read"),
            ("x-goog-encryption-kms-key-name", "projects/p/k"),
        ] {
            headers.insert(name, value.parse().unwrap());
        }
        let options = WriteOptions { mark: Some("m".to_owned()), ..WriteOptions::default() };
        let mut made = description("k", &options);
        let parameters = add_headers(&mut made, &headers).unwrap();
        let expected = json!({
            "name": "k",
            "contentDisposition": "inline",
            "metadata": { "a": "1", "tidegate-upload": "m" },
        });
        assert_eq!(json!(made), expected);
        let expected = [("predefinedAcl", "bucketOwnerRead"), ("kmsKeyName", "projects/p/k")];
        assert_eq!(parameters, expected.map(|(name, value)| (name, value.to_owned())));
        headers.insert("expires", "0".parse().unwrap());
        assert_eq!(add_headers(&mut made, &headers), Err("expires".to_owned()));
    }

    #[test]
    fn what_is_not_given_is_not_described() {
        let mut options = WriteOptions::default();
        assert_eq!(json!(description("a/b", &options)), json!({ "name": "a/b" }));
        options.mark = Some("m".to_owned());
        options.content_type = Some("text/plain".to_owned());
        let expected = json!({
            "name": "k", "contentType": "text/plain", "metadata": { "tidegate-upload": "m" },
        });
        assert_eq!(json!(description("k", &options)), expected);
    }
}
