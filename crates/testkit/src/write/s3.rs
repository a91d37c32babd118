//! S3, write side: one object a request, copies, deletes. Uploads in parts are in `multipart`, lists
//! in `s3_lists`.
//!
//! Source: the API reference of `PutObject`, `CopyObject`, `UploadPartCopy` and `DeleteObject`.

use std::ops::Range;

use percent_encoding::percent_decode_str;

use super::{
    algorithm::{Algorithm, Hasher, Wanted},
    buckets,
    call::{Call, Outcome, Stop, empty, received, refuse},
    multipart::{self, no_source, s3_answer, split},
    precondition::{Condition, Moment},
    s3_lists,
    stored::known_digests,
    tags,
    timestamp::rfc3339,
    verify,
    written::{Assembled, Metadata, StoredChecksum},
    xml::{element, group},
};
use crate::{
    blob::{Blob, Content},
    flavour::{Flavour, Problem},
    respond::{Refusal, archived},
    store::Selector,
    uploaded::hex,
};

/// Answers a request to S3 that is not a read of an object.
pub(crate) async fn answer(call: &mut Call<'_>) -> Outcome {
    let key = split(call.path()).1;
    match (call.request.method.as_str(), key.is_empty()) {
        ("HEAD", true) => head_bucket(call),
        ("GET", true) if call.has("uploads") => s3_lists::uploads(call),
        ("GET", true) => s3_lists::objects(call),
        ("GET", false) if call.has("tagging") => tags::answer(call),
        ("GET" | "HEAD", false) => s3_lists::parts(call),
        ("POST", true) if call.has("delete") => delete_many(call).await,
        ("PUT", true) => buckets::make_s3(call).await,
        ("DELETE", true) => buckets::remove_s3(call).await,
        ("PUT", false) if call.has("uploadId") && source_field(call).is_some() => {
            copy_part(call).await
        }
        ("PUT", false) if call.has("uploadId") => multipart::put_part(call).await,
        ("PUT", false) if source_field(call).is_some() => copy(call).await,
        ("PUT", false) => put(call).await,
        ("POST", false) if call.has("uploads") => multipart::create(call).await,
        ("POST", false) if call.has("uploadId") => multipart::complete(call).await,
        ("DELETE", false) if call.has("uploadId") => multipart::abort(call).await,
        ("DELETE", false) => delete(call).await,
        _ => Err(Refusal::from(Problem::Status(405))
            .with("Allow", "GET, HEAD, PUT, POST, DELETE")
            .into()),
    }
}

/// `HEAD /bucket`
fn head_bucket(call: &Call<'_>) -> Outcome {
    let bucket = format!("{}/", call.path().trim_end_matches('/'));
    if call.origin.store.has_below(&bucket) {
        Ok(empty(200, Vec::new()))
    } else {
        Err(Problem::NoSuchBucket.into())
    }
}

fn source_field<'a>(call: &Call<'a>) -> Option<&'a str> {
    call.field("x-amz-copy-source").or_else(|| call.field("x-goog-copy-source"))
}

/// `PUT`
async fn put(call: &mut Call<'_>) -> Outcome {
    let path = call.path();
    let flavour = call.origin.options.flavour;
    let condition = Condition::of(call)?.settle(call, path, Moment::Put).await?;
    let body = call.receive().await?;
    let metadata = Metadata::of(call.request, flavour);
    // AWS computes a CRC64NVME if the client names no checksum.
    let algorithm = verify::given(call).map_or(Algorithm::Crc64Nvme, |(algorithm, _)| algorithm);
    let stored = StoredChecksum::whole(algorithm, &body.digests);
    let (etag, digests) = (body.etag(), body.digests.clone());
    let stored_here = (flavour == Flavour::S3).then(|| stored.clone());
    let blob = Assembled::from(body).into_blob(call, metadata, stored_here);
    let written = call.origin.store.put_if(path, blob, |there| condition.check(flavour, there))?;
    let mut answer = empty(200, vec![("ETag", format!("\"{etag}\""))]);
    if flavour == Flavour::S3 {
        answer.head.add(algorithm.header(), call.sum(&stored.raw));
        answer.head.add("x-amz-checksum-type", stored.kind());
        if call.origin.options.versioning {
            answer.head.add("x-amz-version-id", written.version_id());
        }
        return Ok(answer);
    }
    answer.head.add("x-goog-generation", written.version().to_string());
    answer.head.add("x-goog-metageneration", "1");
    answer.head.add("x-goog-stored-content-length", written.len_bytes().to_string());
    let crc = call.sum(&digests.value(Algorithm::Crc32c));
    answer.head.add("x-goog-hash", format!("crc32c={crc}"));
    if let Some(md5) = &digests.md5 {
        answer.head.add("x-goog-hash", format!("md5={}", call.sum(md5)));
    }
    Ok(answer)
}

/// `DELETE`
pub(crate) async fn delete(call: &mut Call<'_>) -> Outcome {
    call.body.drop_rest().await?;
    let path = call.path();
    let flavour = call.origin.options.flavour;
    if let (Flavour::S3, Some(id)) = (flavour, call.parameter("versionId")) {
        call.origin.store.remove_version(path, id);
        return Ok(empty(204, Vec::new()));
    }
    let condition = Condition::of(call)?.settle(call, path, Moment::Put).await?;
    let there = call.origin.store.remove_if(path, |there| condition.check(flavour, there))?;
    // S3 does not say whether there was an object, GCS does.
    if flavour == Flavour::Gcs && !there {
        return Err(Problem::NoSuchKey.into());
    }
    Ok(empty(204, Vec::new()))
}

/// `POST ?delete`: up to 1,000 keys.
async fn delete_many(call: &mut Call<'_>) -> Outcome {
    let document = call.text().await?;
    let objects = super::xml::elements(&document, "Object");
    let objects = objects
        .filter(|objects| (1..=1000).contains(&objects.len()))
        .ok_or_else(|| refuse(400, "MalformedXML", "The XML you provided was not well-formed."))?;
    let bucket = call.path().trim_end_matches('/');
    let mut children = String::new();
    for fields in objects {
        let field = |name: &str| fields.iter().find(|(n, _)| n == name).map(|(_, text)| text);
        let key = field("Key").map_or("", String::as_str);
        let etag = field("ETag").map(|tag| tag.trim_matches('"').to_owned());
        let removed = call.origin.store.remove_if(&format!("{bucket}/{key}"), |there| {
            let differs =
                etag.as_ref().is_some_and(|etag| there.is_none_or(|blob| blob.etag() != *etag));
            if differs { Err(Problem::Status(412)) } else { Ok(()) }
        });
        let key = element("Key", key);
        children.push_str(&if removed.is_ok() {
            group("Deleted", key)
        } else {
            let message = element("Message", "A pre-condition did not hold");
            group("Error", key + &element("Code", "PreconditionFailed") + &message)
        });
    }
    Ok(s3_answer("DeleteResult", &children))
}

/// The source of a copy, if it is there and as the request expects it.
pub(crate) fn source(call: &Call<'_>) -> Result<Blob, Stop> {
    let text = source_field(call).unwrap_or_default();
    let (path, query) = text.split_once('?').unwrap_or((text, ""));
    let path = percent_decode_str(path).decode_utf8_lossy();
    let path = format!("/{}", path.trim_start_matches('/'));
    let version = query.strip_prefix("versionId=");
    let selector = version.map_or(Selector::Latest, |id| Selector::VersionId(id.to_owned()));
    let blob = call.origin.store.find(&path, &selector).ok_or_else(no_source)?;
    let prefix = if call.origin.options.flavour == Flavour::S3 { "x-amz" } else { "x-goog" };
    let tag = |name: &str| {
        let value = call.field(&format!("{prefix}-copy-source-{name}"));
        value.map(|tags| tags.split(',').any(|tag| tag.trim().trim_matches('"') == blob.etag()))
    };
    let generation = call.field("x-goog-copy-source-if-generation-match");
    if tag("if-match") == Some(false)
        || tag("if-none-match") == Some(true)
        || generation.is_some_and(|number| number != blob.version().to_string())
    {
        return Err(Problem::Status(412).into());
    }
    archived(call.origin, &blob)?;
    Ok(blob)
}

/// The content of a range of a blob with its checksums, as if a client had sent it.
fn assembled(call: &Call<'_>, blob: &Blob, range: Range<u64>) -> Result<Assembled, Stop> {
    let (bytes, digests) = match &blob.content {
        Content::Dropped { len_bytes } if range == (0..*len_bytes) => (None, known_digests(blob)),
        content => {
            let mut hasher = Hasher::new(Wanted { md5: true, sha1: false, sha256: true });
            let mut bytes = Vec::new();
            let scanned = content.scan(range.start, range.end, |piece| {
                hasher.update(piece);
                bytes.extend_from_slice(piece);
            });
            scanned.map_err(|_unreadable| Problem::Status(500))?;
            let kept = (!call.options().discard).then(|| bytes.into());
            (kept, hasher.finish())
        }
    };
    let len_bytes = range.end - range.start;
    let etag = match &digests.md5 {
        Some(md5) => hex(md5),
        None => blob.etag(),
    };
    Ok(Assembled { bytes, len_bytes, digests, etag, part_lens: Vec::new() })
}

/// `PUT` with `x-amz-copy-source`
async fn copy(call: &mut Call<'_>) -> Outcome {
    call.body.drop_rest().await?;
    let flavour = call.origin.options.flavour;
    let path = call.path();
    let condition = Condition::of(call)?.settle(call, path, Moment::Put).await?;
    let blob = source(call)?;
    if blob.len_bytes() > call.options().put_bytes_max {
        let message = "The specified copy source is larger than the maximum allowable size for a \
                       copy source";
        return Err(refuse(400, "InvalidRequest", message));
    }
    let directive =
        call.field("x-amz-metadata-directive").or_else(|| call.field("x-goog-metadata-directive"));
    let mut metadata = match directive {
        Some("REPLACE") => Metadata::of(call.request, flavour),
        _ => Metadata::of_blob(&blob),
    };
    metadata.tags = match call.field("x-amz-tagging-directive") {
        Some("REPLACE") => tags::of(call.request, flavour),
        _ => blob.tags.clone(),
    };
    let named = call.field("x-amz-checksum-algorithm").and_then(Algorithm::of_name);
    let kept = blob.stored.as_ref().map(|stored| stored.algorithm);
    let algorithm = named.or(kept).unwrap_or(Algorithm::Crc64Nvme);
    let content = assembled(call, &blob, 0..blob.len_bytes())?;
    let stored = StoredChecksum::whole(algorithm, &content.digests);
    let text = call.sum(&stored.raw);
    let stored = (flavour == Flavour::S3).then_some(stored);
    let is_s3 = stored.is_some();
    let copy = content.into_blob(call, metadata, stored);
    let written = call.origin.store.put_if(path, copy, |there| condition.check(flavour, there))?;
    let mut children = copied(&written);
    if is_s3 {
        children.push_str(&element(algorithm.element(), text));
        children.push_str(&element("ChecksumType", "FULL_OBJECT"));
    }
    let mut answer = s3_answer("CopyObjectResult", &children);
    if !is_s3 {
        answer.head.add("x-goog-generation", written.version().to_string());
    }
    Ok(answer)
}

fn copied(blob: &Blob) -> String {
    let modified = element("LastModified", rfc3339(blob.last_modified()));
    modified + &element("ETag", format!("\"{}\"", blob.etag()))
}

/// `PUT ?partNumber=&uploadId=` with `x-amz-copy-source`
async fn copy_part(call: &mut Call<'_>) -> Outcome {
    multipart::admit(call)?;
    if call.origin.options.flavour != Flavour::S3 {
        return Err(refuse(400, "InvalidArgument", "Parts cannot be copied."));
    }
    call.body.drop_rest().await?;
    let number = multipart::part_number(call)?;
    let id = call.parameter("uploadId").unwrap_or_default();
    let intent = call.origin.uploads.intent(call.path(), id);
    let intent = intent.ok_or_else(multipart::no_such_upload)?;
    let blob = source(call)?;
    let range = match call.field("x-amz-copy-source-range") {
        None => 0..blob.len_bytes(),
        Some(text) => range(text, blob.len_bytes()).ok_or_else(|| {
            let message = "Range specified is not valid for source object";
            refuse(400, "InvalidArgument", message)
        })?,
    };
    if range.end - range.start > call.options().put_bytes_max {
        return Err(refuse(400, "EntityTooLarge", "The part exceeds the maximum size."));
    }
    let content = assembled(call, &blob, range)?;
    let part = received(content.bytes, content.len_bytes, content.digests, call.options());
    let mut children = element("LastModified", rfc3339(part.time));
    children.push_str(&element("ETag", format!("\"{}\"", part.etag())));
    let sum = call.sum(&part.digests.value(intent.algorithm));
    children.push_str(&element(intent.algorithm.element(), sum));
    if !call.origin.uploads.keep(call.path(), id, number, part) {
        return Err(multipart::no_such_upload());
    }
    Ok(s3_answer("CopyPartResult", &children))
}

/// `bytes=first-last`, both there and within the source.
fn range(text: &str, len_bytes: u64) -> Option<Range<u64>> {
    let (first, last) = text.strip_prefix("bytes=")?.split_once('-')?;
    let (first, last): (u64, u64) = (first.parse().ok()?, last.parse().ok()?);
    (first <= last && last < len_bytes).then(|| first..last + 1)
}
