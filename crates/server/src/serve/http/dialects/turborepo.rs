//! Turborepo: `/v8/artifacts`, after its `OpenAPI` description.
//!
//! | request | response |
//! |---|---|
//! | `GET status` | 200 `{"status":"enabled"}` |
//! | `PUT HASH` | 202 `{"urls":[]}` |
//! | `GET HASH`, `HEAD HASH` | 200 with the headers of the upload, or 404 |
//! | `POST events` | 200; the events are dropped |
//! | `POST` with `{"hashes":[...]}` | 200 with size and duration, or `null`, for each |
//!
//! Teams are apart: the parameters `teamId` and `slug` belong to the key.

use http::{Method, Response, StatusCode};
use percent_encoding::percent_decode_str;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

use super::artifact::{Artifact, ArtifactHeaders};
use crate::serve::body::ResponseBody;
use crate::serve::error::ServeError;
use crate::serve::http::upload::Upload;
use crate::serve::http::values::value_name;
use crate::serve::http::{Call, HttpCache, Reply, reply};

/// The dialect in keys.
const DIALECT: &str = "turborepo";
/// A list of 1,000 hashes of 64 digits is 70 KB.
const QUERY_BYTES_MAX: u64 = 1 << 20;
const QUERY_HASHES_MAX: usize = 1000;

#[derive(Deserialize)]
struct Query {
    hashes: Vec<String>,
}

/// What a query says of an artifact.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Found {
    size: u64,
    task_duration_ms: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    tag: Option<String>,
}

pub(super) fn status() -> Response<ResponseBody> {
    reply::json(StatusCode::OK, "{\"status\":\"enabled\"}")
}

pub(super) fn events() -> Response<ResponseBody> {
    reply::empty(StatusCode::OK)
}

impl HttpCache {
    pub(super) async fn turborepo(
        &self,
        call: &Call<'_>,
        hash: &str,
        upload: &mut Upload,
    ) -> Reply {
        let name = artifact_name(call, hash);
        if call.parts.method == Method::PUT {
            let headers = ArtifactHeaders::of_upload(&call.parts.headers);
            let headers =
                headers.ok_or(ServeError::Invalid("a header of the artifact is too long"))?;
            let writer = self.receive_value(call, &name, &headers.encode(), upload).await?;
            writer.finish().await?;
            return Ok(reply::json(StatusCode::ACCEPTED, "{\"urls\":[]}"));
        }
        let Some(artifact) = self.artifact(&name).await? else { return Ok(reply::not_found()) };
        let mut response = self.send_value(call, artifact.len, artifact.body).await?;
        artifact.headers.apply(response.headers_mut());
        Ok(response)
    }

    pub(super) async fn turborepo_query(&self, call: &Call<'_>, upload: &mut Upload) -> Reply {
        let body = upload.all(QUERY_BYTES_MAX).await?;
        let query = serde_json::from_slice::<Query>(&body).ok();
        let query = query.filter(|query| query.hashes.len() <= QUERY_HASHES_MAX);
        let query =
            query.ok_or(ServeError::Invalid("expected {\"hashes\":[...]}, at most 1000"))?;
        let mut all = BTreeMap::new();
        for hash in query.hashes {
            let artifact = self.artifact(&artifact_name(call, &hash)).await?;
            let found = artifact.map(|artifact| Found {
                size: artifact.len,
                task_duration_ms: duration_ms(&artifact.headers),
                tag: artifact.headers.text("x-artifact-tag").map(str::to_owned),
            });
            all.insert(hash, found);
        }
        let failed = || ServeError::Invalid("the response has no JSON form");
        let text = serde_json::to_vec(&all).ok().ok_or_else(failed)?;
        Ok(reply::json(StatusCode::OK, text))
    }

    async fn artifact(&self, name: &[u8]) -> Result<Option<Artifact>, ServeError> {
        match self.store.value(name).await? {
            Some((len, body)) => Ok(Artifact::open(len, body).await?),
            None => Ok(None),
        }
    }
}

fn duration_ms(headers: &ArtifactHeaders) -> u64 {
    headers.text("x-artifact-duration").and_then(|text| text.parse().ok()).unwrap_or_default()
}

/// The name of an artifact of the team that the request names.
fn artifact_name(call: &Call<'_>, hash: &str) -> Vec<u8> {
    let query = call.parts.uri.query().unwrap_or_default();
    let parameter = |wanted: &str| {
        let pairs = query.split('&').filter_map(|pair| pair.split_once('='));
        let value = pairs.into_iter().find(|(name, _)| *name == wanted).map_or("", |pair| pair.1);
        // A zero byte separates the parts of a key.
        percent_decode_str(value).decode_utf8_lossy().replace('\0', "\u{fffd}")
    };
    let (id, slug) = (parameter("teamId"), parameter("slug"));
    value_name(call.tenant(), DIALECT, &[&id, &slug, &hash.replace('\0', "\u{fffd}")])
}
