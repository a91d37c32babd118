//! S3's lists: objects, unfinished uploads, and the parts of an upload.
//!
//! Source: the API reference of `ListObjectsV2`, `ListMultipartUploads` and `ListParts`.

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use super::{
    algorithm::Algorithm,
    call::{Call, Outcome, Received, refuse},
    listing::{self, Listed, Question},
    multipart::{admit, no_such_upload, s3_answer, split},
    timestamp::rfc3339,
    uploads::Intent,
    xml::{element, group},
};
use crate::{
    blob::Blob,
    fault::PartLie,
    flavour::{Flavour, Problem},
};

/// What `encoding-type=url` leaves as it is.
const KEY: &AsciiSet =
    &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~').remove(b'/').remove(b'*');

/// A name as the list writes it.
fn written(call: &Call<'_>, name: &str) -> String {
    if call.parameter("encoding-type") == Some("url") {
        utf8_percent_encode(name, KEY).to_string()
    } else {
        name.to_owned()
    }
}

/// `GET /bucket?list-type=2`, and the older list without a type.
pub(crate) fn objects(call: &Call<'_>) -> Outcome {
    let text = |name: &str| call.parameter(name).unwrap_or_default();
    let bucket = format!("{}/", call.path().trim_end_matches('/'));
    let is_second = call.parameter("list-type") == Some("2");
    let token = call.parameter("continuation-token").map(|token| {
        let decoded =
            URL_SAFE_NO_PAD.decode(token).ok().and_then(|raw| String::from_utf8(raw).ok());
        decoded.ok_or_else(|| {
            refuse(400, "InvalidArgument", "The continuation token provided is incorrect")
        })
    });
    let token = token.transpose()?;
    let start = if is_second { text("start-after") } else { text("marker") };
    let is_included = call.options().start_after_included && token.is_none();
    let question = Question {
        bucket: &bucket,
        prefix: text("prefix"),
        delimiter: text("delimiter"),
        after: token.as_deref().unwrap_or(if is_included { "" } else { start }),
        from: if is_included { start } else { "" },
        until: "",
        len: call.page_len("max-keys")?,
    };
    let page = listing::page(&call.origin.store, &question);
    let max_keys = call.count("max-keys", 1000)?;
    let mut children = [
        element("Name", split(&bucket).0),
        element("Prefix", written(call, question.prefix)),
        element("MaxKeys", max_keys.to_string()),
        element("IsTruncated", page.is_truncated.to_string()),
    ]
    .concat();
    if is_second {
        children.push_str(&element("KeyCount", page.entries.len().to_string()));
        if !start.is_empty() {
            children.push_str(&element("StartAfter", written(call, start)));
        }
        if let Some(token) = call.parameter("continuation-token") {
            children.push_str(&element("ContinuationToken", token));
        }
        if let Some(next) = page.next() {
            children.push_str(&element("NextContinuationToken", URL_SAFE_NO_PAD.encode(next)));
        }
    } else {
        children.push_str(&element("Marker", written(call, start)));
        if let Some(next) = page.next() {
            children.push_str(&element("NextMarker", written(call, next)));
        }
    }
    if !question.delimiter.is_empty() {
        children.push_str(&element("Delimiter", written(call, question.delimiter)));
    }
    if let Some(encoding) = call.parameter("encoding-type") {
        children.push_str(&element("EncodingType", encoding));
    }
    for entry in &page.entries {
        children.push_str(&match entry {
            Listed::Object(key, blob) => contents(call, key, blob),
            Listed::Folder(prefix) => {
                group("CommonPrefixes", element("Prefix", written(call, prefix)))
            }
        });
    }
    Ok(s3_answer("ListBucketResult", &children))
}

fn contents(call: &Call<'_>, key: &str, blob: &Blob) -> String {
    let mut children = [
        element("Key", written(call, key)),
        element("LastModified", rfc3339(blob.last_modified())),
        element("ETag", format!("\"{}\"", blob.etag())),
        element("Size", blob.len_bytes().to_string()),
    ]
    .concat();
    if let Some(stored) = &blob.stored {
        children.push_str(&element("ChecksumAlgorithm", stored.algorithm.name()));
        children.push_str(&element("ChecksumType", stored.kind()));
    }
    if call.origin.options.flavour == Flavour::Gcs {
        children.push_str(&element("Generation", blob.version().to_string()));
        children.push_str(&element("MetaGeneration", "1"));
    }
    let class = blob.fields.iter().find(|(name, _)| name == "x-amz-storage-class");
    children.push_str(&element("StorageClass", class.map_or("STANDARD", |(_, class)| class)));
    group("Contents", children)
}

/// `GET /bucket?uploads`
pub(crate) fn uploads(call: &Call<'_>) -> Outcome {
    admit(call)?;
    let text = |name: &str| call.parameter(name).unwrap_or_default();
    let bucket = format!("{}/", call.path().trim_end_matches('/'));
    let prefix = text("prefix");
    let (key_marker, id_marker) = (text("key-marker"), text("upload-id-marker"));
    // Without a marker of the id, every upload of the marked key has been listed.
    let id_after = if id_marker.is_empty() { char::MAX.to_string() } else { id_marker.to_owned() };
    let after = match key_marker {
        "" => (String::new(), String::new()),
        key => (format!("{bucket}{key}"), id_after),
    };
    let mut found = call.origin.uploads.list(&format!("{bucket}{prefix}"), &after);
    if call.options().uploads_listed_by_whole_key {
        found.retain(|(path, ..)| *path == format!("{bucket}{prefix}"));
    }
    let len = call.page_len("max-uploads")?;
    let is_truncated = found.len() > len;
    found.truncate(len);
    let key_of = |path: &str| written(call, path.strip_prefix(&bucket).unwrap_or_default());
    let mut children = [
        element("Bucket", split(&bucket).0),
        element("KeyMarker", written(call, key_marker)),
        element("UploadIdMarker", id_marker),
        element("Prefix", written(call, prefix)),
        element("MaxUploads", call.count("max-uploads", 1000)?.to_string()),
        element("IsTruncated", is_truncated.to_string()),
    ]
    .concat();
    if let (true, Some((path, id, _))) = (is_truncated, found.last()) {
        children.push_str(&element("NextKeyMarker", key_of(path)));
        children.push_str(&element("NextUploadIdMarker", id));
    }
    for (path, id, upload) in &found {
        let mut fields = [
            element("Key", key_of(path)),
            element("UploadId", id),
            element("StorageClass", "STANDARD"),
            element("Initiated", rfc3339(upload.started)),
        ]
        .concat();
        fields.push_str(&algorithm(&upload.intent));
        children.push_str(&group("Upload", fields));
    }
    Ok(s3_answer("ListMultipartUploadsResult", &children))
}

fn algorithm(intent: &Intent) -> String {
    if !intent.is_named {
        return String::new();
    }
    let kind = if intent.is_composite { "COMPOSITE" } else { "FULL_OBJECT" };
    element("ChecksumAlgorithm", intent.algorithm.name()) + &element("ChecksumType", kind)
}

/// `GET /bucket/key?uploadId=`
pub(crate) fn parts(call: &Call<'_>) -> Outcome {
    admit(call)?;
    let id = call.parameter("uploadId").unwrap_or_default();
    let upload = call.origin.uploads.find(call.path(), id).ok_or_else(no_such_upload)?;
    let after = call.count("part-number-marker", 0)?;
    let after = u64::try_from(after).map_err(|_too_large| Problem::Status(400))?;
    let len = call.page_len("max-parts")?;
    let mut parts: Vec<(u64, Received)> =
        upload.parts.range(after.saturating_add(1)..).map(|(n, part)| (*n, part.clone())).collect();
    let is_truncated = parts.len() > len;
    parts.truncate(len);
    let (bucket, key) = split(call.path());
    let mut children = [
        element("Bucket", bucket),
        element("Key", written(call, key)),
        element("UploadId", id),
        element("StorageClass", "STANDARD"),
        element("PartNumberMarker", after.to_string()),
        element("MaxParts", call.count("max-parts", 1000)?.to_string()),
        element("IsTruncated", is_truncated.to_string()),
    ]
    .concat();
    if let (true, Some((number, _))) = (is_truncated, parts.last()) {
        children.push_str(&element("NextPartNumberMarker", number.to_string()));
    }
    children.push_str(&algorithm(&upload.intent));
    for (number, part) in &parts {
        let lie = call.faults.parts_lie.filter(|(lied, _)| lied == number).map(|(_, lie)| lie);
        if lie != Some(PartLie::Missing) {
            children.push_str(&part_element(call, &upload.intent, *number, part, lie));
        }
    }
    Ok(s3_answer("ListPartsResult", &children))
}

fn part_element(
    call: &Call<'_>,
    intent: &Intent,
    number: u64,
    part: &Received,
    lie: Option<PartLie>,
) -> String {
    let size = part.len_bytes + u64::from(lie == Some(PartLie::Size));
    let mut tag = part.tag.clone();
    let mut sum = part.digests.value(intent.algorithm);
    let lied = match lie {
        Some(PartLie::Etag) => tag.first_mut(),
        Some(PartLie::Checksum) => sum.first_mut(),
        _ => None,
    };
    if let Some(byte) = lied {
        *byte ^= 1;
    }
    let mut fields = [
        element("PartNumber", number.to_string()),
        element("LastModified", rfc3339(part.time)),
        element("ETag", format!("\"{}\"", crate::uploaded::hex(&tag))),
        element("Size", size.to_string()),
    ]
    .concat();
    if call.origin.options.flavour == Flavour::S3 {
        let algorithm: Algorithm = intent.algorithm;
        fields.push_str(&element(algorithm.element(), call.sum(&sum)));
    }
    group("Part", fields)
}
