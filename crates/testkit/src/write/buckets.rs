//! Buckets: made, removed, and those of a project.
//!
//! Sources: `CreateBucket` and `DeleteBucket` of S3, "Buckets" of GCS's JSON API, "Create Container"
//! and "Delete Container" of Azure.

use serde_json::{Value, json};

use super::{
    call::{Call, Outcome, empty, refuse},
    gcs_resource::json_answer,
};
use crate::{flavour::Problem, respond::Answer};

/// Whether a request makes or removes a bucket, so that it must not make one by itself.
pub(crate) fn is_of_bucket(call: &Call<'_>) -> bool {
    let path = call.path().trim_end_matches('/');
    let is_bucket = super::multipart::split(path).1.is_empty();
    is_bucket || super::is_json(path) || call.parameter("restype") == Some("container")
}

fn path_of(call: &Call<'_>) -> String {
    format!("{}/", call.path().trim_end_matches('/'))
}

/// `PUT /bucket`. As in the region us-east-1 of Amazon, a request that names no region succeeds for
/// a bucket that is there.
pub(crate) async fn make_s3(call: &mut Call<'_>) -> Outcome {
    let document = call.text().await?;
    let region = document.split_once("<LocationConstraint>").map(|(_, rest)| rest);
    let region = region.and_then(|rest| rest.split_once('<')).map(|(region, _)| region.to_owned());
    let is_named = region.is_some();
    if !call.origin.store.make_bucket_in(&path_of(call), region) && is_named {
        let message = "Your previous request to create the named bucket succeeded and you already \
                       own it.";
        return Err(refuse(409, "BucketAlreadyOwnedByYou", message));
    }
    Ok(empty(200, Vec::new()))
}

/// `DELETE /bucket`
pub(crate) async fn remove_s3(call: &mut Call<'_>) -> Outcome {
    call.body.drop_rest().await?;
    match call.origin.store.remove_bucket(&path_of(call)) {
        Some(true) => Ok(empty(204, Vec::new())),
        Some(false) => {
            let message = "The bucket you tried to delete is not empty.";
            Err(refuse(409, "BucketNotEmpty", message))
        }
        None => Err(Problem::NoSuchBucket.into()),
    }
}

/// `PUT ?restype=container`
pub(crate) async fn make_azure(call: &mut Call<'_>) -> Outcome {
    call.body.drop_rest().await?;
    if call.origin.store.make_bucket_in(&path_of(call), None) {
        return Ok(empty(201, Vec::new()));
    }
    Err(refuse(409, "ContainerAlreadyExists", "The specified container already exists."))
}

/// `DELETE ?restype=container`: with everything in it.
pub(crate) async fn remove_azure(call: &mut Call<'_>) -> Outcome {
    call.body.drop_rest().await?;
    let path = path_of(call);
    let store = &call.origin.store;
    if !store.has_below(&path) {
        return Err(Problem::NoSuchBucket.into());
    }
    while let Some((blob, _)) = store.next_at(&path).filter(|(blob, _)| blob.starts_with(&path)) {
        store.remove(&blob);
    }
    store.remove_bucket(&path);
    Ok(empty(202, Vec::new()))
}

/// `POST /storage/v1/b?project=`
pub(crate) async fn make_gcs(call: &mut Call<'_>) -> Outcome {
    let document = call.text().await?;
    if call.parameter("project").is_none_or(str::is_empty) {
        return Err(refuse(400, "required", "Required parameter: project"));
    }
    let description: Value = serde_json::from_str(&document).unwrap_or_default();
    let text = |name: &str| description.get(name).and_then(Value::as_str).map(str::to_owned);
    let name = text("name").ok_or_else(|| refuse(400, "required", "Required parameter: name"))?;
    if call.origin.store.make_bucket_in(&format!("/{name}/"), text("location")) {
        return Ok(json_answer(200, &json!({ "kind": "storage#bucket", "name": name })));
    }
    let message = "The requested bucket name is not available.";
    Err(refuse(409, "conflict", message))
}

/// `GET /storage/v1/b?project=`: the buckets that were made here. One that only has blobs belongs to
/// another project.
pub(crate) fn list_gcs(call: &Call<'_>) -> Answer {
    let prefix = call.parameter("prefix").unwrap_or_default();
    let made = call.origin.store.made_buckets();
    let names =
        made.iter().map(|path| path.trim_matches('/')).filter(|name| name.starts_with(prefix));
    let items: Vec<Value> = names.map(|name| json!({ "name": name })).collect();
    json_answer(200, &json!({ "kind": "storage#buckets", "items": items }))
}

/// `DELETE /storage/v1/b/BUCKET`
pub(crate) async fn remove_gcs(call: &mut Call<'_>, name: &str) -> Outcome {
    call.body.drop_rest().await?;
    match call.origin.store.remove_bucket(&format!("/{name}/")) {
        Some(true) => Ok(empty(204, Vec::new())),
        Some(false) => Err(refuse(409, "conflict", "The bucket you tried to delete is not empty.")),
        None => Err(Problem::NoSuchBucket.into()),
    }
}
