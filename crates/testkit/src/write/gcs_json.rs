//! GCS's JSON API: objects, lists, rewrites, and where uploads begin.
//!
//! Source: <https://cloud.google.com/storage/docs/json_api/v1>. Parts of names are percent-encoded in
//! paths; the server decodes a path as a whole, so a bucket has no slash and a name may.

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use serde_json::{Value, json};

use super::{
    buckets,
    call::{Call, Outcome, Stop, empty, refuse},
    gcs_resource::{json_answer, metadata_of, resource},
    gcs_session,
    listing::{self, Question},
    precondition::{Condition, Moment},
    written::{Assembled, Metadata},
};
use crate::{
    blob::Blob,
    flavour::{Flavour, Problem},
    head::Head,
    respond::{Answer, Body},
    store::Selector,
};

const BUCKETS: &str = "/storage/v1/b";
const OBJECTS: &str = "/storage/v1/b/";
const UPLOADS: &str = "/upload/storage/v1/b/";
const DOWNLOADS: &str = "/download/storage/v1/b/";

/// Whether a path is of the JSON API.
pub(crate) fn is_json(path: &str) -> bool {
    path == BUCKETS
        || [OBJECTS, UPLOADS, DOWNLOADS].into_iter().any(|prefix| path.starts_with(prefix))
}

/// Answers a request of the JSON API.
pub(crate) async fn answer(call: &mut Call<'_>) -> Outcome {
    let path = call.path();
    let method = call.request.method.as_str();
    match method {
        "GET" if path == BUCKETS => return Ok(buckets::list_gcs(call)),
        "POST" if path == BUCKETS => return buckets::make_gcs(call).await,
        "DELETE" => {
            if let Some(name) = path.strip_prefix(OBJECTS).filter(|name| !name.contains('/')) {
                return buckets::remove_gcs(call, name).await;
            }
        }
        _ => {}
    }
    if let Some(rest) = path.strip_prefix(UPLOADS) {
        let bucket = rest.strip_suffix("/o").ok_or(Stop::from(Problem::NoSuchKey))?;
        return upload(call, method, bucket).await;
    }
    let rest = path.strip_prefix(OBJECTS).or_else(|| path.strip_prefix(DOWNLOADS));
    let rest = rest.unwrap_or_default();
    if let Some(bucket) = rest.strip_suffix("/o")
        && method == "GET"
        && !bucket.contains('/')
    {
        return list(call, bucket);
    }
    let Some((bucket, name)) = rest.split_once("/o/") else {
        return Err(Problem::NoSuchKey.into());
    };
    let object = format!("/{bucket}/{name}");
    match method {
        "GET" => get(call, &object),
        "DELETE" => delete(call, &object).await,
        "POST" => match name.split_once("/rewriteTo/b/") {
            Some((source, target)) => rewrite(call, &format!("/{bucket}/{source}"), target).await,
            None => Err(Problem::Status(405).into()),
        },
        _ => Err(Problem::Status(405).into()),
    }
}

async fn upload(call: &mut Call<'_>, method: &str, bucket: &str) -> Outcome {
    let session = call.parameter("upload_id");
    match (method, session, call.parameter("uploadType")) {
        ("PUT" | "POST", Some(id), _) => gcs_session::put(call, id).await,
        ("DELETE", Some(id), _) => gcs_session::cancel(call, id).await,
        ("POST", None, Some("resumable")) => gcs_session::start(call, bucket).await,
        ("POST", None, Some("media")) => simple(call, bucket).await,
        _ => Err(refuse(400, "invalid", "The kind of upload is not supported.")),
    }
}

/// `POST ?uploadType=media`: the body is the object.
async fn simple(call: &mut Call<'_>, bucket: &str) -> Outcome {
    let name = call.parameter("name").filter(|name| !name.is_empty());
    let name = name.ok_or_else(|| refuse(400, "required", "Required parameter: name"))?;
    let path = format!("/{bucket}/{name}");
    let condition = Condition::of(call)?.settle(call, &path, Moment::Put).await?;
    let body = call.receive().await?;
    let metadata = Metadata::of(call.request, Flavour::Gcs);
    let blob = Assembled::from(body).into_blob(call, metadata, None);
    let check = |there: Option<&Blob>| condition.check(Flavour::Gcs, there);
    let written = call.origin.store.put_if(&path, blob, check)?;
    Ok(json_answer(200, &resource(call, &path, &written)))
}

/// The generation that a request names.
fn selector(call: &Call<'_>, parameter: &str) -> Selector {
    match call.parameter(parameter).map(str::parse) {
        None => Selector::Latest,
        Some(Ok(generation)) => Selector::Generation(generation),
        Some(Err(_)) => Selector::Impossible,
    }
}

fn get(call: &Call<'_>, path: &str) -> Outcome {
    let blob = call.origin.store.find(path, &selector(call, "generation"));
    let blob = blob.ok_or(Stop::from(Problem::NoSuchKey))?;
    Condition::of(call)?.check(Flavour::Gcs, Some(&blob))?;
    if call.parameter("alt") != Some("media") {
        return Ok(json_answer(200, &resource(call, path, &blob)));
    }
    if matches!(blob.content, crate::blob::Content::Dropped { .. }) {
        return Err(refuse(500, "backendError", "the written bytes were dropped"));
    }
    let mut head = Head::new(200);
    head.add("Content-Type", blob.content_type.clone());
    head.add("x-goog-generation", blob.version().to_string());
    let len_bytes = blob.len_bytes();
    Ok(Answer { head, body: Body::Blob(blob, 0..len_bytes) })
}

async fn delete(call: &mut Call<'_>, path: &str) -> Outcome {
    call.body.drop_rest().await?;
    let condition = Condition::of(call)?.settle(call, path, Moment::Put).await?;
    let removed = call.origin.store.remove_if(path, |there| {
        if there.is_none() { Err(Problem::NoSuchKey) } else { condition.check(Flavour::Gcs, there) }
    })?;
    if removed { Ok(empty(204, Vec::new())) } else { Err(Problem::NoSuchKey.into()) }
}

fn list(call: &Call<'_>, bucket: &str) -> Outcome {
    let text = |name: &str| call.parameter(name).unwrap_or_default();
    let invalid = || refuse(400, "invalid", "Invalid value for: pageToken");
    let token = URL_SAFE_NO_PAD.decode(text("pageToken")).map_err(|_not_base64| invalid())?;
    let after = String::from_utf8(token).map_err(|_not_utf8| invalid())?;
    let folder = format!("/{bucket}/");
    let question = Question {
        bucket: &folder,
        prefix: text("prefix"),
        delimiter: text("delimiter"),
        after: &after,
        from: text("startOffset"),
        until: text("endOffset"),
        len: call.page_len("maxResults")?,
    };
    let page = listing::page(&call.origin.store, &question);
    let items: Vec<Value> = page
        .objects()
        .map(|(name, blob)| resource(call, &format!("{folder}{name}"), blob))
        .collect();
    let prefixes: Vec<&str> = page.folders().collect();
    let mut document = json!({ "kind": "storage#objects" });
    if let Some(fields) = document.as_object_mut() {
        // Empty lists are left out, as by GCS.
        if !items.is_empty() {
            fields.insert("items".to_owned(), items.into());
        }
        if !prefixes.is_empty() {
            fields.insert("prefixes".to_owned(), prefixes.into());
        }
        if let Some(next) = page.next() {
            fields.insert("nextPageToken".to_owned(), URL_SAFE_NO_PAD.encode(next).into());
        }
    }
    Ok(json_answer(200, &document))
}

/// `POST …/rewriteTo/b/B/o/NAME`: complete at once.
async fn rewrite(call: &mut Call<'_>, source: &str, target: &str) -> Outcome {
    let document = call.text().await?;
    let (bucket, name) = target.split_once("/o/").ok_or(Stop::from(Problem::NoSuchKey))?;
    let path = format!("/{bucket}/{name}");
    let condition = Condition::of(call)?.settle(call, &path, Moment::Put).await?;
    let blob = call.origin.store.find(source, &selector(call, "sourceGeneration"));
    let blob = blob.ok_or(Stop::from(Problem::NoSuchKey))?;
    let wanted = call.parameter("ifSourceGenerationMatch");
    if wanted.is_some_and(|generation| generation != blob.version().to_string()) {
        return Err(Problem::Status(412).into());
    }
    let mut copy = blob.with_last_modified(std::time::SystemTime::now());
    copy.version = call.origin.store.next_version();
    // A body replaces all metadata of the source.
    if let Ok(body) = serde_json::from_str::<Value>(&document)
        && body.as_object().is_some_and(|fields| !fields.is_empty())
    {
        let replaced = metadata_of(&body);
        copy.fields =
            replaced.fields.into_iter().map(|(name, value)| (name.into(), value)).collect();
        copy.metadata = replaced.user;
        copy.content_encoding = replaced.content_encoding;
        if let Some(content_type) = replaced.content_type {
            copy.content_type = content_type;
        }
    }
    let check = |there: Option<&Blob>| condition.check(Flavour::Gcs, there);
    let written = call.origin.store.put_if(&path, copy, check)?;
    let size = written.len_bytes().to_string();
    Ok(json_answer(
        200,
        &json!({
            "kind": "storage#rewriteResponse",
            "totalBytesRewritten": size,
            "objectSize": size,
            "done": true,
            "resource": resource(call, &path, &written),
        }),
    ))
}
