//! The write side of a server: uploads, deletes, copies and lists, as each flavour's service has
//! them.
//!
//! A written object becomes a [`Blob`](crate::Blob) that the read side serves. Bodies are read piece
//! by piece; see `body`. Credentials are never checked.
//!
//! Invariants:
//! * A write has its effect at one moment: when its whole body has arrived and its checksums and
//!   preconditions are right. Otherwise it has none. Resumable sessions keep what they received.
//! * A precondition is compared under the lock of the store, unless the options say otherwise.
//! * Deviations are options or faults.

mod algorithm;
mod azure;
mod azure_blocks;
mod azure_lists;
mod body;
mod buckets;
mod call;
mod gcs_json;
mod gcs_resource;
mod gcs_session;
mod listing;
mod multipart;
mod options;
mod precondition;
mod s3;
mod s3_lists;
mod sessions;
mod stored;
mod tags;
mod timestamp;
mod uploads;
mod verify;
mod webdav;
mod written;
mod xml;

use bytes::Bytes;

pub(crate) use azure_blocks::Blocks;
pub(crate) use body::{Broken, RequestBody};
pub(crate) use call::Call;
pub(crate) use gcs_json::is_json;
pub(crate) use precondition::Races;
pub(crate) use sessions::Sessions;
pub(crate) use uploads::Uploads;
pub(crate) use written::StoredChecksum;

pub use options::{CompleteAgain, Preconditions, WriteChecksums, WriteEtags, WriteOptions};
pub use stored::Stored;

use crate::{
    flavour::{Flavour, Problem},
    head::Head,
    origin::Origin,
    request::Request,
    respond::{Answer, Body, Refusal, refused},
    treatment::Treatment,
};
use call::{Outcome, Stop};

/// Whether the write side answers a request: every write, and lists.
pub(crate) fn takes(origin: &Origin, request: &Request) -> bool {
    if request.method != "GET" && !request.is_head() {
        return true;
    }
    let has = |name: &str| request.parameter(name).is_some();
    let is_bucket = multipart::split(request.path.trim_end_matches('/')).1.is_empty();
    match origin.options.flavour {
        Flavour::Http => false,
        Flavour::Gcs if is_json(&request.path) => true,
        Flavour::S3 | Flavour::Gcs if is_bucket => {
            let lists = ["list-type", "uploads", "prefix", "delimiter", "marker", "max-keys"];
            request.is_head() || lists.into_iter().any(has)
        }
        Flavour::S3 => has("uploadId") || has("tagging"),
        Flavour::Gcs => has("uploadId"),
        Flavour::Azure => has("comp"),
    }
}

/// Answers a request of the write side with the faults of `treatment`.
pub(crate) async fn answer(call: &mut Call<'_>, treatment: &Treatment) -> Result<Answer, Broken> {
    let (origin, request) = (call.origin, call.request);
    let mut answer = match obey(call, treatment).await {
        Ok(answer) => answer,
        Err(Stop::Refused(refusal)) => refusal.into_answer(origin.dialect, request),
        Err(Stop::Broken(broken)) => return Err(broken),
    };
    answer.date();
    Ok(answer)
}

async fn obey(call: &mut Call<'_>, treatment: &Treatment) -> Outcome {
    let (origin, request, faults) = (call.origin, call.request, call.faults);
    if let Some(instead) = &treatment.instead {
        return Err(refused(origin, request, instead).into());
    }
    if let Some(instead) = &faults.after_body {
        call.body.drop_rest().await?;
        return Err(refused(origin, request, instead).into());
    }
    if let Some((code, has_effect)) = faults.error_in_body {
        if has_effect {
            dispatch(call).await?;
        } else {
            call.body.drop_rest().await?;
        }
        return Ok(error_in_body(code));
    }
    let answer = dispatch(call).await?;
    match &faults.after_effect {
        Some(instead) => Err(refused(origin, request, instead).into()),
        None => Ok(answer),
    }
}

async fn dispatch(call: &mut Call<'_>) -> Outcome {
    let is_read = matches!(call.request.method.as_str(), "GET" | "HEAD");
    if call.options().read_only && !is_read {
        return Err(Refusal::from(Problem::Status(405)).with("Allow", "GET, HEAD").into());
    }
    if !is_read && !buckets::is_of_bucket(call) {
        // A bucket is there from the first write to it, also when its last object is deleted.
        let path = format!("{}/", call.request.path.trim_end_matches('/'));
        call.origin.store.make_bucket(call.origin.bucket(&path));
    }
    match call.origin.options.flavour {
        Flavour::Http => Box::pin(webdav::answer(call)).await,
        Flavour::Gcs if is_json(&call.request.path) => Box::pin(gcs_json::answer(call)).await,
        Flavour::S3 | Flavour::Gcs => Box::pin(s3::answer(call)).await,
        Flavour::Azure => Box::pin(azure::answer(call)).await,
    }
}

/// 200, then white space that keeps the connection alive, then the error.
fn error_in_body(code: &str) -> Answer {
    let error = xml::document(
        "Error",
        &(xml::element("Code", code) + &xml::element("Message", "We encountered an error.")),
    );
    let (declaration, rest) = error.split_once('\n').unwrap_or(("", &error));
    let mut head = Head::new(200);
    head.add("Content-Type", "application/xml");
    let text = format!("{declaration}\n{}\n{rest}", " ".repeat(64));
    Answer { head, body: Body::Text(Bytes::from(text)) }
}
