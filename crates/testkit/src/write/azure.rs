//! Azure Blob, write side: one blob a request, copies, deletes. Blocks are in `azure_blocks`.
//!
//! Source: the REST reference of "Put Blob", "Copy Blob" and "Delete Blob".

use base64::{Engine as _, engine::general_purpose::STANDARD};
use percent_encoding::percent_decode_str;

use super::{
    algorithm::Digests,
    azure_blocks, azure_lists, buckets,
    call::{Call, Outcome, Stop, empty, refuse},
    precondition::{Condition, Moment},
    stored, tags,
    written::{Assembled, Metadata},
};
use crate::{
    blob::Blob,
    flavour::{Flavour, Problem},
    respond::{Answer, Refusal, archived},
    store::Selector,
};

/// Answers a request to Azure that is not a read of a blob.
pub(crate) async fn answer(call: &mut Call<'_>) -> Outcome {
    let is_container = call.parameter("restype") == Some("container");
    let comp = call.parameter("comp");
    match (call.request.method.as_str(), comp) {
        ("GET", Some("list")) if is_container => azure_lists::blobs(call),
        ("GET", Some("tags")) => tags::answer(call),
        ("GET" | "HEAD", Some("blocklist")) => azure_blocks::list(call),
        ("PUT", None) if is_container => buckets::make_azure(call).await,
        ("DELETE", None) if is_container => buckets::remove_azure(call).await,
        ("PUT", Some("block")) => azure_blocks::put_block(call).await,
        ("PUT", Some("blocklist")) => azure_blocks::put_list(call).await,
        ("PUT", None) if call.field("x-ms-copy-source").is_some() => copy(call).await,
        ("PUT", None) => put(call).await,
        ("DELETE", None) => delete(call).await,
        ("GET" | "HEAD" | "PUT" | "DELETE", Some(_)) => {
            let message =
                "Value for one of the query parameters specified in the request URI is invalid.";
            Err(refuse(400, "InvalidQueryParameterValue", message))
        }
        _ => {
            let allowed = "GET, HEAD, PUT, DELETE";
            Err(Refusal::from(Problem::Status(405)).with("Allow", allowed).into())
        }
    }
}

pub(crate) fn invalid_header() -> Stop {
    refuse(
        400,
        "InvalidHeaderValue",
        "The value for one of the HTTP headers is not in the correct format.",
    )
}

/// `PUT`
async fn put(call: &mut Call<'_>) -> Outcome {
    match call.field("x-ms-blob-type") {
        Some("BlockBlob") => {}
        Some(_) => return Err(invalid_header()),
        None => {
            let message = "An HTTP header that's mandatory for this request is not specified.";
            return Err(refuse(400, "MissingRequiredHeader", message));
        }
    }
    let path = call.path();
    let condition = Condition::of(call)?.settle(call, path, Moment::Put).await?;
    let mut body = call.receive().await?;
    let digests = body.digests.clone();
    if let Some(md5) = azure_blocks::md5_field(call)? {
        // A put of the whole compares the stated MD5, a list of blocks does not.
        if body.digests.md5.as_ref().is_some_and(|computed| *computed != md5) {
            let message =
                "The MD5 value specified in the request did not match what was calculated.";
            return Err(refuse(400, "Md5Mismatch", message));
        }
        body.digests.md5 = Some(md5);
    }
    let metadata = Metadata::of(call.request, Flavour::Azure);
    let blob = Assembled::from(body).into_blob(call, metadata, None);
    let check = |there: Option<&Blob>| condition.check(Flavour::Azure, there);
    let written = call.origin.store.put_if(path, blob, check)?;
    call.origin.blocks.commit(path, written.version(), Vec::new());
    Ok(created(call, &digests, Some(&written)))
}

/// 201 with the checksums of what arrived, and the identity of the blob that it made.
pub(crate) fn created(call: &Call<'_>, digests: &Digests, blob: Option<&Blob>) -> Answer {
    let mut answer = empty(201, Vec::new());
    let head = &mut answer.head;
    if let Some(blob) = blob {
        head.add("ETag", format!("\"{}\"", blob.etag()));
        head.add("Last-Modified", httpdate::fmt_http_date(blob.last_modified()));
        if call.origin.options.versioning {
            head.add("x-ms-version-id", blob.version_id());
        }
    }
    // The server answers with the kind of checksum that it got, and else with an MD5.
    if call.field("x-ms-content-crc64").is_some() {
        head.add("x-ms-content-crc64", call.sum(&digests.crc64_nvme.to_le_bytes()));
    } else if let Some(md5) = &digests.md5 {
        head.add("Content-MD5", call.sum(md5));
    }
    head.add("x-ms-request-server-encrypted", "true");
    head.add("x-ms-version", call.field("x-ms-version").unwrap_or("2023-11-03"));
    answer
}

/// `DELETE`
async fn delete(call: &mut Call<'_>) -> Outcome {
    call.body.drop_rest().await?;
    let path = call.path();
    if let Some(id) = call.parameter("versionid") {
        let removed = call.origin.store.remove_version(path, id);
        return if removed { Ok(empty(202, Vec::new())) } else { Err(Problem::NoSuchKey.into()) };
    }
    let condition = Condition::of(call)?.settle(call, path, Moment::Put).await?;
    let removed = call.origin.store.remove_if(path, |there| {
        if there.is_none() {
            Err(Problem::NoSuchKey)
        } else {
            condition.check(Flavour::Azure, there)
        }
    })?;
    if removed { Ok(empty(202, Vec::new())) } else { Err(Problem::NoSuchKey.into()) }
}

/// `PUT` with `x-ms-copy-source`. The copy is complete when it is answered.
async fn copy(call: &mut Call<'_>) -> Outcome {
    call.body.drop_rest().await?;
    let path = call.path();
    let condition = Condition::of(call)?.settle(call, path, Moment::Put).await?;
    let blob = source(call)?;
    let mut copy = blob.clone();
    copy.version = call.origin.store.next_version();
    let etag = format!("0x8{:015X}", crate::random::mix(copy.version) >> 4);
    let mut copy = copy.with_etag(etag).with_last_modified(std::time::SystemTime::now());
    let replaced = Metadata::of(call.request, Flavour::Azure);
    if !replaced.user.is_empty() {
        copy.fields.retain(|(name, _)| !name.starts_with("x-ms-meta-"));
        for (name, value) in &replaced.user {
            copy.fields.push((format!("x-ms-meta-{name}").into(), value.clone()));
        }
        copy.metadata = replaced.user;
    }
    // A copy has no tags of its source.
    copy.tags = replaced.tags;
    let check = |there: Option<&Blob>| condition.check(Flavour::Azure, there);
    let written = call.origin.store.put_if(path, copy, check)?;
    call.origin.blocks.commit(path, written.version(), Vec::new());
    let digests = Digests { md5: None, ..stored::digests(&written) };
    let mut answer = created(call, &digests, Some(&written));
    // A copy within a server is complete at once: 202, as for copies that take longer, or 201 where
    // the client waits for the copy.
    let waits = call.field("x-ms-requires-sync").is_some_and(|value| value == "true");
    answer.head.status = if waits { 201 } else { 202 };
    answer.head.add(
        "x-ms-copy-id",
        super::uploads::upload_id(call.origin.options.seed, written.version()),
    );
    answer.head.add("x-ms-copy-status", "success");
    Ok(answer)
}

fn source(call: &Call<'_>) -> Result<Blob, Stop> {
    let url = call.field("x-ms-copy-source").unwrap_or_default();
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let path = rest.find('/').and_then(|slash| rest.get(slash..)).ok_or_else(invalid_header)?;
    let path = path.split('?').next().unwrap_or_default();
    let path = percent_decode_str(path).decode_utf8_lossy();
    let missing = || refuse(404, "CannotVerifyCopySource", "The specified blob does not exist.");
    let blob = call.origin.store.find(&path, &Selector::Latest).ok_or_else(missing)?;
    let tag = |name: &str| {
        let tags = call.field(name)?;
        Some(tags == "*" || tags.split(',').any(|tag| tag.trim().trim_matches('"') == blob.etag()))
    };
    if tag("x-ms-source-if-match") == Some(false) || tag("x-ms-source-if-none-match") == Some(true)
    {
        let message = "The source condition specified using HTTP conditional header(s) is not met.";
        return Err(refuse(412, "SourceConditionNotMet", message));
    }
    archived(call.origin, &blob)?;
    Ok(blob)
}

/// The field of a blob's MD5 in lists.
pub(crate) fn md5_text(blob: &Blob) -> Option<String> {
    blob.known(crate::checksums::Kind::Md5).filter(|_| blob.md5).map(|raw| STANDARD.encode(raw))
}
