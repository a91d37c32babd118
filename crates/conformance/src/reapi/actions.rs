//! Action results.

use tidegate_reapi::v2;
use tonic::{Code, Status};

use super::bed::{Bed, Blob, fails, worked};
use super::{Case, Outcome, ensure};

pub(super) fn cases(bed: &Bed) -> Vec<Case<'_>> {
    vec![
        ("a result is there after its update", Box::pin(round_trip(bed))),
        ("an action without a result is NOT_FOUND", Box::pin(unknown(bed))),
        ("the later of two results is returned", Box::pin(replaced(bed))),
        ("a result whose output is missing is not returned", Box::pin(incomplete(bed))),
        ("a result may ask to inline its output", Box::pin(inlined(bed))),
        ("an action digest that is malformed is INVALID_ARGUMENT", Box::pin(malformed(bed))),
        ("the length of an action is part of its name", Box::pin(other_length(bed))),
    ]
}

fn result(output: &Blob, exit_code: i32) -> v2::ActionResult {
    v2::ActionResult {
        output_files: vec![v2::OutputFile {
            path: "out/file".to_owned(),
            digest: Some(output.digest.clone()),
            is_executable: true,
            ..v2::OutputFile::default()
        }],
        exit_code,
        stdout_raw: b"standard output"[..].into(),
        ..v2::ActionResult::default()
    }
}

/// The action is stored, as the definitions demand of clients.
async fn action(bed: &Bed) -> Result<v2::Digest, String> {
    let command = bed.stored(100).await?;
    let root = super::bed::blob_of(tidegate::DigestFunction::Sha256, Vec::new());
    let action = v2::Action {
        command_digest: Some(command.digest),
        input_root_digest: Some(root.digest),
        ..v2::Action::default()
    };
    let bytes = prost::Message::encode_to_vec(&action);
    let blob = super::bed::blob_of(tidegate::DigestFunction::Sha256, bytes);
    bed.put(&[&blob]).await?;
    Ok(blob.digest)
}

async fn update(
    bed: &Bed,
    action: &v2::Digest,
    result: v2::ActionResult,
) -> Result<v2::ActionResult, Status> {
    let request = v2::UpdateActionResultRequest {
        instance_name: bed.instance.clone(),
        action_digest: Some(action.clone()),
        action_result: Some(result),
        ..v2::UpdateActionResultRequest::default()
    };
    Ok(bed.actions().update_action_result(request).await?.into_inner())
}

fn question(bed: &Bed, action: &v2::Digest) -> v2::GetActionResultRequest {
    v2::GetActionResultRequest {
        instance_name: bed.instance.clone(),
        action_digest: Some(action.clone()),
        ..v2::GetActionResultRequest::default()
    }
}

async fn get(bed: &Bed, action: &v2::Digest) -> Result<v2::ActionResult, Status> {
    let found = bed.actions().get_action_result(question(bed, action)).await?;
    Ok(found.into_inner())
}

/// A server may return an equivalent result, such as with metadata.
fn same(found: &v2::ActionResult, expected: &v2::ActionResult) -> Outcome {
    let is_same = found.output_files == expected.output_files
        && found.exit_code == expected.exit_code
        && found.stdout_raw == expected.stdout_raw;
    ensure(is_same, || format!("expected {expected:?}, got {found:?}"))
}

async fn round_trip(bed: &Bed) -> Outcome {
    let action = action(bed).await?;
    let expected = result(&bed.stored(1000).await?, 0);
    same(&worked("UpdateActionResult", update(bed, &action, expected.clone()).await)?, &expected)?;
    same(&worked("GetActionResult", get(bed, &action).await)?, &expected)
}

async fn unknown(bed: &Bed) -> Outcome {
    fails("GetActionResult", get(bed, &bed.blob(100).digest).await, &[Code::NotFound])
}

async fn replaced(bed: &Bed) -> Outcome {
    let action = action(bed).await?;
    for _ in 0..3 {
        let expected = result(&bed.stored(1000).await?, 0);
        worked("UpdateActionResult", update(bed, &action, expected.clone()).await)?;
        same(&worked("GetActionResult", get(bed, &action).await)?, &expected)?;
    }
    Ok(())
}

/// The update is refused, or the result is no hit.
async fn incomplete(bed: &Bed) -> Outcome {
    let action = action(bed).await?;
    if let Err(status) = update(bed, &action, result(&bed.blob(1000), 0)).await {
        fails::<()>("UpdateActionResult", Err(status), &[Code::FailedPrecondition])?;
    }
    fails("GetActionResult", get(bed, &action).await, &[Code::NotFound])
}

/// It is a hint only.
async fn inlined(bed: &Bed) -> Outcome {
    let action = action(bed).await?;
    let output = bed.stored(1000).await?;
    let expected = result(&output, 0);
    worked("UpdateActionResult", update(bed, &action, expected.clone()).await)?;
    let request = v2::GetActionResultRequest {
        inline_stdout: true,
        inline_stderr: true,
        inline_output_files: vec!["out/file".to_owned()],
        ..question(bed, &action)
    };
    let found = worked("GetActionResult", bed.actions().get_action_result(request).await)?;
    let mut found = found.into_inner();
    for file in &mut found.output_files {
        let is_right = file.contents.is_empty() || file.contents == output.bytes;
        ensure(is_right, || "the inlined bytes differ".to_owned())?;
        file.contents.clear();
    }
    same(&found, &expected)
}

async fn malformed(bed: &Bed) -> Outcome {
    let sound = bed.blob(100).digest;
    for digest in [
        v2::Digest { hash: "12".to_owned(), ..sound.clone() },
        v2::Digest { size_bytes: -1, ..sound.clone() },
    ] {
        let found = get(bed, &digest).await;
        fails(&format!("GetActionResult of {digest:?}"), found, &[Code::InvalidArgument])?;
    }
    let request = v2::GetActionResultRequest { action_digest: None, ..question(bed, &sound) };
    let found = bed.actions().get_action_result(request).await;
    fails("GetActionResult of nothing", found, &[Code::InvalidArgument])
}

async fn other_length(bed: &Bed) -> Outcome {
    let mut action = action(bed).await?;
    let expected = result(&bed.stored(1000).await?, 0);
    worked("UpdateActionResult", update(bed, &action, expected).await)?;
    action.size_bytes += 1;
    fails("GetActionResult", get(bed, &action).await, &[Code::NotFound, Code::InvalidArgument])
}
