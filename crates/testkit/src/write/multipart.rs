//! Uploads in parts, as S3 and the XML API of GCS have them.
//!
//! Source: the API reference of `CreateMultipartUpload`, `UploadPart`, `CompleteMultipartUpload` and
//! `AbortMultipartUpload`, and Google's "XML API multipart uploads". GCS has no preconditions in any
//! of these requests and answers 400 to them. It verifies `x-goog-hash` of a part and keeps only a
//! CRC32C of the object.

use super::{
    algorithm::Algorithm,
    call::{Call, Outcome, Received, Stop, empty, refuse, xml_answer},
    options::CompleteAgain,
    precondition::{Condition, Moment},
    uploads::{Finished, Intent, Unfinished},
    verify,
    written::{Assembled, Metadata, StoredChecksum},
    xml::{self, element},
};
use crate::{
    flavour::{Flavour, Problem},
    respond::Answer,
};

/// The namespace of S3's documents.
pub(crate) const NAMESPACE: &str = "http://s3.amazonaws.com/doc/2006-03-01/";

/// The root element of a document with S3's namespace, and its children.
pub(crate) fn s3_answer(root: &str, children: &str) -> Answer {
    let mut answer = xml_answer(root, children);
    if let crate::respond::Body::Text(text) = &mut answer.body {
        let opened = format!("<{root}>");
        let named = format!("<{root} xmlns=\"{NAMESPACE}\">");
        let document = String::from_utf8_lossy(text).replacen(&opened, &named, 1);
        *text = document.into();
    }
    answer
}

fn is_s3(call: &Call<'_>) -> bool {
    call.origin.options.flavour == Flavour::S3
}

pub(crate) fn no_such_upload() -> Stop {
    let message = "The specified upload does not exist. The upload ID may be invalid, or the upload \
                   may have been aborted or completed.";
    refuse(404, "NoSuchUpload", message)
}

/// Refuses what the store does not have: uploads in parts, or preconditions of GCS.
pub(crate) fn admit(call: &Call<'_>) -> Result<(), Stop> {
    if !call.options().multipart {
        return Err(if is_s3(call) {
            let message = "A header you provided implies functionality that is not implemented";
            refuse(501, "NotImplemented", message)
        } else {
            refuse(403, "AccessDenied", "Access denied.")
        });
    }
    if !is_s3(call) && Condition::of(call)?.is_any() {
        let message = "Preconditions are not supported for XML multipart uploads.";
        return Err(refuse(400, "InvalidArgument", message));
    }
    Ok(())
}

/// `POST ?uploads`
pub(crate) async fn create(call: &mut Call<'_>) -> Outcome {
    admit(call)?;
    verify::refuse_fields(call)?;
    call.body.drop_rest().await?;
    let intent = intent(call)?;
    let (algorithm, is_named) = (intent.algorithm, intent.is_named);
    let kind = if intent.is_composite { "COMPOSITE" } else { "FULL_OBJECT" };
    let id = call.origin.uploads.start(call.path(), intent);
    let (bucket, key) = split(call.path());
    let children =
        [element("Bucket", bucket), element("Key", key), element("UploadId", id)].concat();
    let mut answer = s3_answer("InitiateMultipartUploadResult", &children);
    if is_named {
        answer.head.add("x-amz-checksum-algorithm", algorithm.name());
        answer.head.add("x-amz-checksum-type", kind);
    }
    Ok(answer)
}

fn intent(call: &Call<'_>) -> Result<Intent, Stop> {
    let metadata = Metadata::of(call.request, call.origin.options.flavour);
    let named = call.field("x-amz-checksum-algorithm").filter(|_| is_s3(call));
    let invalid = |message| refuse(400, "InvalidRequest", message);
    let algorithm = match named {
        None => Algorithm::Crc64Nvme,
        Some(name) => Algorithm::of_name(name)
            .ok_or_else(|| invalid("Checksum algorithm provided is unsupported."))?,
    };
    let is_composite = match call.field("x-amz-checksum-type") {
        // Only CRC64NVME has the whole object as its default.
        None => named.is_some() && algorithm != Algorithm::Crc64Nvme,
        Some("FULL_OBJECT") if algorithm.combines() => false,
        Some("COMPOSITE") if algorithm != Algorithm::Crc64Nvme => true,
        Some(_) => {
            return Err(invalid("The checksum type cannot be used with this checksum algorithm."));
        }
    };
    Ok(Intent { metadata, algorithm, is_named: named.is_some(), is_composite })
}

/// The number of a part in the query.
pub(crate) fn part_number(call: &Call<'_>) -> Result<u64, Stop> {
    let number = call.parameter("partNumber").and_then(|text| text.parse().ok());
    number.filter(|number| (1..=call.options().parts_max).contains(number)).ok_or_else(|| {
        let message = "Part number must be an integer between 1 and 10000, inclusive";
        refuse(400, "InvalidArgument", message)
    })
}

/// `PUT ?partNumber=&uploadId=`
pub(crate) async fn put_part(call: &mut Call<'_>) -> Outcome {
    admit(call)?;
    let number = part_number(call)?;
    let id = call.parameter("uploadId").unwrap_or_default();
    let intent = call.origin.uploads.intent(call.path(), id).ok_or_else(no_such_upload)?;
    if let Some((algorithm, _)) = verify::given(call)
        && intent.is_named
        && algorithm != intent.algorithm
    {
        let message = "Checksum Type mismatch occurred: the upload has another checksum type.";
        return Err(refuse(400, "InvalidRequest", message));
    }
    let mut part = call.receive().await?;
    if part.digests.value(intent.algorithm).is_empty() {
        // The part of a composite of hashes has to come with its hash.
        let message = "The upload was created using a checksum. The part must include it.";
        return Err(refuse(400, "InvalidRequest", message));
    }
    part.time = std::time::SystemTime::now();
    let answer = part_answer(call, &intent, &part);
    if !call.origin.uploads.keep(call.path(), id, number, part) {
        return Err(no_such_upload());
    }
    Ok(answer)
}

fn part_answer(call: &Call<'_>, intent: &Intent, part: &Received) -> Answer {
    let mut answer = empty(200, vec![("ETag", format!("\"{}\"", part.etag()))]);
    if is_s3(call) {
        let algorithm = intent.algorithm;
        answer.head.add(algorithm.header(), call.sum(&part.digests.value(algorithm)));
    } else {
        let sum = call.sum(&part.digests.value(Algorithm::Crc32c));
        answer.head.add("x-goog-hash", format!("crc32c={sum}"));
    }
    answer
}

/// `DELETE ?uploadId=`
pub(crate) async fn abort(call: &mut Call<'_>) -> Outcome {
    admit(call)?;
    call.body.drop_rest().await?;
    let id = call.parameter("uploadId").unwrap_or_default();
    if call.origin.uploads.abort(call.path(), id) {
        Ok(empty(204, Vec::new()))
    } else {
        Err(no_such_upload())
    }
}

/// A part as a Complete names it.
#[derive(Debug)]
struct Named {
    number: u64,
    etag: String,
    checksum: Option<(Algorithm, String)>,
}

/// `POST ?uploadId=`
pub(crate) async fn complete(call: &mut Call<'_>) -> Outcome {
    admit(call)?;
    verify::refuse_fields(call)?;
    let id = call.parameter("uploadId").unwrap_or_default();
    let path = call.path();
    let condition = Condition::of(call)?.settle(call, path, Moment::Complete).await?;
    let document = call.text().await?;
    let Some(upload) = call.origin.uploads.find(path, id) else {
        let finished = call.origin.uploads.finished(path, id);
        let again = call.options().complete_again == CompleteAgain::Succeeds;
        let finished = finished.filter(|_| again).ok_or_else(no_such_upload)?;
        // A condition is evaluated again, and the object of the first Complete does not keep it.
        let there = call.origin.store.find(path, &crate::store::Selector::Latest);
        condition.check(call.origin.options.flavour, there.as_ref())?;
        return Ok(complete_answer(call, &finished));
    };
    let named = named_parts(&document)?;
    let parts = chosen(call, &upload, &named)?;
    let assembled = Assembled::of_parts(&parts);
    let checksum = check_whole(call, &upload.intent, &parts, &assembled)?;
    let etag = assembled.etag.clone();
    let stored = is_s3(call).then_some(checksum);
    let blob = assembled.into_blob(call, upload.intent.metadata, stored.clone());
    let flavour = call.origin.options.flavour;
    let written = call.origin.store.put_if(path, blob, |there| condition.check(flavour, there))?;
    let version_id = written.version_id();
    let finished = Finished { path: path.to_owned(), etag, checksum: stored, version_id };
    call.origin.uploads.finish(id, finished.clone());
    Ok(complete_answer(call, &finished))
}

fn named_parts(document: &str) -> Result<Vec<Named>, Stop> {
    let malformed = || {
        let message = "The XML you provided was not well-formed or did not validate.";
        refuse(400, "MalformedXML", message)
    };
    let parts = xml::elements(document, "Part").filter(|parts| !parts.is_empty());
    let parts = parts.ok_or_else(malformed)?.into_iter().map(|fields| {
        let text = |name: &str| fields.iter().find(|(n, _)| n == name).map(|(_, text)| text.trim());
        let checksum = super::algorithm::ALGORITHMS
            .into_iter()
            .find_map(|algorithm| Some((algorithm, text(algorithm.element())?.to_owned())));
        let number = text("PartNumber")?.parse().ok()?;
        Some(Named { number, etag: text("ETag")?.trim_matches('"').to_owned(), checksum })
    });
    let parts = parts.collect::<Option<Vec<_>>>().ok_or_else(malformed)?;
    if parts.windows(2).all(|pair| pair[0].number < pair[1].number) {
        return Ok(parts);
    }
    let message =
        "The list of parts was not in ascending order. Parts must be ordered by part number.";
    Err(refuse(400, "InvalidPartOrder", message))
}

/// The parts that a Complete names, if they are there and long enough.
fn chosen(call: &Call<'_>, upload: &Unfinished, named: &[Named]) -> Result<Vec<Received>, Stop> {
    let invalid = || {
        let message = "One or more of the specified parts could not be found. The part may not have \
                       been uploaded, or the specified entity tag may not match the part's entity tag.";
        refuse(400, "InvalidPart", message)
    };
    let mut parts = Vec::with_capacity(named.len());
    for name in named {
        let part = upload.parts.get(&name.number).ok_or_else(invalid)?;
        let right = name
            .checksum
            .as_ref()
            .is_none_or(|(algorithm, text)| part.digests.base64(*algorithm) == *text);
        if part.etag() != name.etag || !right {
            return Err(invalid());
        }
        parts.push(part.clone());
    }
    let (last, before) = parts.split_last().ok_or_else(invalid)?;
    if before.iter().any(|part| part.len_bytes < call.options().part_bytes_min) {
        let message = "Your proposed upload is smaller than the minimum allowed size";
        return Err(refuse(400, "EntityTooSmall", message));
    }
    if let (true, Some(first)) = (call.options().parts_equal, before.first())
        && (before.iter().any(|part| part.len_bytes != first.len_bytes)
            || last.len_bytes > first.len_bytes)
    {
        let message = "All non-trailing parts must have the same length.";
        return Err(refuse(400, "InvalidPart", message));
    }
    Ok(parts)
}

/// Compares what the request says of the whole object; returns its checksum.
fn check_whole(
    call: &Call<'_>,
    intent: &Intent,
    parts: &[Received],
    whole: &Assembled,
) -> Result<StoredChecksum, Stop> {
    let algorithm = intent.algorithm;
    let checksum = if intent.is_composite {
        let values: Vec<u8> = parts.iter().flat_map(|part| part.digests.value(algorithm)).collect();
        StoredChecksum { algorithm, raw: algorithm.over(&values), parts: Some(parts.len()) }
    } else {
        StoredChecksum::whole(algorithm, &whole.digests)
    };
    if !is_s3(call) || call.options().checksums == super::options::WriteChecksums::Ignored {
        return Ok(checksum);
    }
    let size = call.field("x-amz-mp-object-size").map(str::parse::<u64>);
    if size.is_some_and(|size| size != Ok(whole.len_bytes)) {
        let message =
            "The provided 'x-amz-mp-object-size' header does not match what was computed.";
        return Err(refuse(400, "InvalidRequest", message));
    }
    if call.field("x-amz-checksum-type").is_some_and(|kind| kind != checksum.kind()) {
        let message = "The upload was created with another checksum type.";
        return Err(refuse(400, "InvalidRequest", message));
    }
    let Some((given, text)) = verify::given(call) else { return Ok(checksum) };
    let expected = if given == algorithm {
        checksum.raw.clone()
    } else if given.combines() && !intent.is_named {
        whole.digests.value(given)
    } else {
        return Err(refuse(400, "InvalidRequest", "The upload has another checksum algorithm."));
    };
    let text = text.split('-').next().unwrap_or_default();
    let right = base64::Engine::decode(&base64::engine::general_purpose::STANDARD, text);
    if right.is_ok_and(|value| value == expected) {
        Ok(checksum)
    } else {
        Err(verify::mismatch(call))
    }
}

fn complete_answer(call: &Call<'_>, finished: &Finished) -> Answer {
    let (bucket, key) = split(&finished.path);
    let mut children = [
        element("Location", format!("http://testkit{}", finished.path)),
        element("Bucket", bucket),
        element("Key", key),
        element("ETag", format!("\"{}\"", finished.etag)),
    ]
    .concat();
    if let Some(checksum) = &finished.checksum {
        let text = checksum.text(&call.sum(&checksum.raw));
        children.push_str(&element(checksum.algorithm.element(), text));
        children.push_str(&element("ChecksumType", checksum.kind()));
    }
    let mut answer = s3_answer("CompleteMultipartUploadResult", &children);
    if is_s3(call) && call.origin.options.versioning {
        answer.head.add("x-amz-version-id", finished.version_id.clone());
    }
    answer
}

/// The bucket and the key of a path.
pub(crate) fn split(path: &str) -> (&str, &str) {
    let path = path.strip_prefix('/').unwrap_or(path);
    path.split_once('/').unwrap_or((path, ""))
}

/// The error for a copy whose source is not there.
pub(crate) fn no_source() -> Stop {
    Problem::NoSuchKey.into()
}
