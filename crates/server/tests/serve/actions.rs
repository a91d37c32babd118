//! Action results.

use tidegate_core::digest::Digest;
use tidegate_reapi::digest::to_proto;
use tidegate_reapi::v2;
use tonic::{Code, Status};

use crate::bed::{Bed, refused, sha256};

pub(crate) fn result(outputs: &[Digest]) -> v2::ActionResult {
    let file = |digest: &Digest| v2::OutputFile {
        path: digest.checksum().hex(),
        digest: Some(to_proto(digest)),
        ..Default::default()
    };
    v2::ActionResult {
        output_files: outputs.iter().map(file).collect(),
        exit_code: 3,
        ..Default::default()
    }
}

pub(crate) async fn update(
    bed: &Bed,
    instance: &str,
    action: &Digest,
    result: v2::ActionResult,
) -> Result<v2::ActionResult, Status> {
    let request = v2::UpdateActionResultRequest {
        instance_name: instance.to_owned(),
        action_digest: Some(to_proto(action)),
        action_result: Some(result),
        ..Default::default()
    };
    bed.actions().await.update_action_result(request).await.map(tonic::Response::into_inner)
}

pub(crate) async fn get(
    bed: &Bed,
    instance: &str,
    action: &Digest,
) -> Result<v2::ActionResult, Status> {
    let request = v2::GetActionResultRequest {
        instance_name: instance.to_owned(),
        action_digest: Some(to_proto(action)),
        ..Default::default()
    };
    bed.actions().await.get_action_result(request).await.map(tonic::Response::into_inner)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_result_is_a_hit_only_with_its_outputs() {
    let bed = Bed::new().await;
    let action = sha256(b"action");
    let outputs = [sha256(b"one"), sha256(b"two")];
    refused(get(&bed, "", &action).await, Code::NotFound);
    bed.put(&[b"one"]).await;
    let status =
        refused(update(&bed, "", &action, result(&outputs)).await, Code::FailedPrecondition);
    assert!(status.message().contains(&outputs[1].checksum().hex()), "{status:?}");
    refused(get(&bed, "", &action).await, Code::NotFound);
    bed.put(&[b"two"]).await;
    assert_eq!(update(&bed, "", &action, result(&outputs)).await.unwrap(), result(&outputs));
    assert_eq!(get(&bed, "", &action).await.unwrap(), result(&outputs));
    // Of this instance only.
    refused(get(&bed, "other", &action).await, Code::NotFound);
    update(&bed, "other/a", &action, result(&[])).await.unwrap();
    assert_eq!(get(&bed, "/other/a", &action).await.unwrap(), result(&[]));
    // A later result replaces it.
    update(&bed, "", &action, result(&outputs[..1])).await.unwrap();
    assert_eq!(get(&bed, "", &action).await.unwrap(), result(&outputs[..1]));
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn results_survive_a_restart() {
    let bed = Bed::new().await;
    let action = sha256(b"action");
    let outputs = bed.put(&[b"one"]).await;
    update(&bed, "main", &action, result(&outputs)).await.unwrap();
    let bed = Bed::within(bed.end().await, |_| {}).await;
    assert_eq!(get(&bed, "main", &action).await.unwrap(), result(&outputs));
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_without_their_parts_are_refused() {
    let bed = Bed::new().await;
    let request = v2::GetActionResultRequest::default();
    refused(bed.actions().await.get_action_result(request).await, Code::InvalidArgument);
    let request = v2::UpdateActionResultRequest {
        action_digest: Some(to_proto(&sha256(b"action"))),
        ..Default::default()
    };
    refused(bed.actions().await.update_action_result(request).await, Code::InvalidArgument);
    let name = "x".repeat(5000);
    let outcome = update(&bed, &name, &sha256(b"action"), result(&[])).await;
    refused(outcome, Code::InvalidArgument);
    bed.end().await;
}
