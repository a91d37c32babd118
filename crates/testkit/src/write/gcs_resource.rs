//! Objects as GCS's JSON API writes them.
//!
//! Source: <https://cloud.google.com/storage/docs/json_api/v1/objects>. Numbers of 64 bits are
//! strings, and a CRC32C is the base64 of its big-endian bytes.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use bytes::Bytes;
use serde_json::{Map, Value, json};

use super::{call::Call, multipart::split, stored, timestamp::rfc3339, written::Metadata};
use crate::{
    blob::Blob,
    checksums::Kind,
    flavour::Flavour,
    head::Head,
    respond::{Answer, Body},
};

/// The fields of the JSON, and the fields of responses that they become.
const FIELDS: [(&str, &str); 3] = [
    ("cacheControl", "Cache-Control"),
    ("contentDisposition", "Content-Disposition"),
    ("contentLanguage", "Content-Language"),
];

/// The resource of an object at `/bucket/name`.
pub(crate) fn resource(call: &Call<'_>, path: &str, blob: &Blob) -> Value {
    let (bucket, name) = split(path);
    let time = rfc3339(blob.last_modified());
    let crc32c = u32::try_from(stored::digests(blob).crc32c).unwrap_or(0).to_be_bytes();
    let mut resource = json!({
        "kind": "storage#object",
        "id": format!("{bucket}/{name}/{}", blob.version()),
        "name": name,
        "bucket": bucket,
        "generation": blob.version().to_string(),
        "metageneration": "1",
        "contentType": blob.content_type,
        "storageClass": "STANDARD",
        "size": blob.len_bytes().to_string(),
        "crc32c": call.sum(&crc32c),
        "etag": STANDARD.encode(blob.version().to_be_bytes()),
        "timeCreated": time,
        "updated": time,
    });
    let Some(fields) = resource.as_object_mut() else { return resource };
    if let Some(md5) = blob.known(Kind::Md5).filter(|_| blob.md5) {
        fields.insert("md5Hash".to_owned(), call.sum(&md5).into());
    }
    if let Some(encoding) = &blob.content_encoding {
        fields.insert("contentEncoding".to_owned(), encoding.clone().into());
    }
    for (key, field) in FIELDS {
        if let Some((_, value)) = blob.fields.iter().find(|(name, _)| name == field) {
            fields.insert(key.to_owned(), value.clone().into());
        }
    }
    if !blob.metadata.is_empty() {
        let entries =
            blob.metadata.iter().map(|(name, value)| (name.clone(), Value::from(value.clone())));
        fields.insert("metadata".to_owned(), entries.collect::<Map<_, _>>().into());
    }
    resource
}

/// The metadata that a resource in a request names.
pub(crate) fn metadata_of(resource: &Value) -> Metadata {
    let text = |key: &str| resource.get(key).and_then(Value::as_str).map(str::to_owned);
    let mut metadata = Metadata {
        content_type: text("contentType"),
        content_encoding: text("contentEncoding"),
        ..Metadata::default()
    };
    for (key, field) in FIELDS {
        metadata.fields.extend(text(key).map(|value| (field.to_owned(), value)));
    }
    let entries = resource.get("metadata").and_then(Value::as_object);
    for (name, value) in entries.into_iter().flatten() {
        metadata.push(Flavour::Gcs, name, value.as_str().unwrap_or_default());
    }
    metadata
}

/// A response with a JSON document.
pub(crate) fn json_answer(status: u16, document: &Value) -> Answer {
    let mut head = Head::new(status);
    head.add("Content-Type", "application/json; charset=UTF-8");
    Answer { head, body: Body::Text(Bytes::from(document.to_string())) }
}
