//! Azure's list of blobs.
//!
//! Source: the REST reference of "List Blobs". The marker is opaque to clients; here it is the last
//! name of the page before, in base64.

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};

use super::{
    azure::md5_text,
    call::{Call, Outcome, refuse, xml_answer},
    listing::{self, Listed, Question},
    xml::{element, group},
};
use crate::blob::Blob;

/// `GET ?restype=container&comp=list`
pub(crate) fn blobs(call: &Call<'_>) -> Outcome {
    let text = |name: &str| call.parameter(name).unwrap_or_default();
    let container = format!("{}/", call.path().trim_end_matches('/'));
    let marker = URL_SAFE_NO_PAD.decode(text("marker")).ok();
    let after = marker.and_then(|raw| String::from_utf8(raw).ok()).ok_or_else(|| {
        let message =
            "Value for one of the query parameters specified in the request URI is invalid.";
        refuse(400, "InvalidQueryParameterValue", message)
    })?;
    let question = Question {
        bucket: &container,
        prefix: text("prefix"),
        delimiter: text("delimiter"),
        after: &after,
        from: text("startfrom"),
        until: "",
        len: call.page_len("maxresults")?,
    };
    let includes = |what: &str| text("include").split(',').any(|included| included == what);
    let page = match includes("uncommittedblobs") {
        true => listing::page_of(|from| with_uncommitted(call, from), &question),
        false => listing::page(&call.origin.store, &question),
    };
    let entries = page.entries.iter().map(|entry| match entry {
        Listed::Object(name, blob) => described(name, blob, includes("metadata")),
        Listed::Folder(prefix) => group("BlobPrefix", element("Name", prefix)),
    });
    let mut children = String::new();
    for (name, value) in [
        ("Prefix", question.prefix),
        ("Marker", text("marker")),
        ("MaxResults", text("maxresults")),
        ("Delimiter", question.delimiter),
    ] {
        if !value.is_empty() {
            children.push_str(&element(name, value));
        }
    }
    children.push_str(&group("Blobs", entries.collect::<String>()));
    let next = page.next().map(|next| URL_SAFE_NO_PAD.encode(next)).unwrap_or_default();
    children.push_str(&element("NextMarker", next));
    let mut answer = xml_answer("EnumerationResults", &children);
    answer.head.add("x-ms-version", call.field("x-ms-version").unwrap_or("2023-11-03"));
    Ok(answer)
}

/// The next blob. Names that have only uncommitted blocks count as blobs of no bytes.
fn with_uncommitted(call: &Call<'_>, from: &str) -> Option<(String, Blob)> {
    let stored = call.origin.store.next_at(from);
    let begun = call.origin.blocks.next_at(from);
    match (stored, begun) {
        (Some((path, blob)), Some(begun)) if path <= begun => Some((path, blob)),
        (_, Some(begun)) => Some((begun, Blob::new(""))),
        (stored, None) => stored,
    }
}

fn described(name: &str, blob: &Blob, with_metadata: bool) -> String {
    let mut properties = [
        element("Last-Modified", httpdate::fmt_http_date(blob.last_modified())),
        element("Etag", blob.etag()),
        element("Content-Length", blob.len_bytes().to_string()),
        element("Content-Type", &blob.content_type),
        element("BlobType", "BlockBlob"),
    ]
    .concat();
    if let Some(md5) = md5_text(blob) {
        properties.push_str(&element("Content-MD5", md5));
    }
    let mut children = element("Name", name) + &group("Properties", properties);
    if with_metadata {
        let entries = blob.metadata.iter().map(|(name, value)| element(name, value));
        children.push_str(&group("Metadata", entries.collect::<String>()));
    }
    group("Blob", children)
}
