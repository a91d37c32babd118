//! The ends of uploads in parts: completed, refused, aborted.

use tidegate::remote::{
    CompleteRequest, Guarantee, PartNumber, PartOrder, Precondition, WriteOptions,
};
use tidegate::{Budget, ErrorKind};

use super::parts::Trial;
use super::suite::{Outcome, Report, ensure, failed, worked};
use super::write::{clean, expect};
use super::{Place, checksum, content};

pub(super) async fn add(report: &mut Report, place: &dyn Place) {
    let missing = "completing without a part fails, stores nothing, and can be done again";
    report.add(missing, misses_part(place).await);
    let refuted = "completing what a checksum refutes is Integrity, and stores nothing";
    report.add(refuted, refutes_whole(place).await);
    let absent = "an upload under Absent is AlreadyExists at its beginning or at its end";
    report.add(absent, keeps_existing(place).await);
    let aborted = "an aborted upload is gone, and leaves nothing";
    report.add(aborted, aborts(place).await);
    report.add("a completed upload is gone", is_over(place).await);
    let named = "an unfinished upload is found by its blob's name, and can be aborted";
    report.add(named, finds(place).await);
}

async fn misses_part(place: &dyn Place) -> Outcome {
    let trial = Trial::begin(place, "end/missing", &WriteOptions::default()).await?;
    let request = trial.store().await?;
    let kinds = [ErrorKind::Invalid, ErrorKind::Integrity];
    // A remote that knows only the length of its prefix has no names for its parts.
    if trial.profile.order == PartOrder::Any {
        let mut fewer = request.clone();
        fewer.parts.remove(1);
        failed("complete without part 2", trial.complete(&fewer).await, &kinds)?;
        let mut unknown = request.clone();
        if let (Some(last), Some(number)) = (unknown.parts.last_mut(), PartNumber::new(77)) {
            last.number = number;
        }
        failed("complete with an unknown part", trial.complete(&unknown).await, &kinds)?;
    }
    let mut longer = request.clone();
    longer.len_bytes += 1;
    failed("complete with another length", trial.complete(&longer).await, &kinds)?;
    expect(place, "end/missing", None).await?;
    worked("complete", trial.complete(&request).await)?;
    expect(place, "end/missing", Some(&trial.bytes)).await
}

async fn refutes_whole(place: &dyn Place) -> Outcome {
    let trial = Trial::begin(place, "end/refuted", &WriteOptions::default()).await?;
    let request = trial.store().await?;
    for algorithm in &trial.profile.whole_checksums {
        let wrong = checksum(*algorithm, b"other bytes");
        let refuted = trial.complete(&request.clone().with_checksum(wrong)).await;
        failed(&format!("complete with a wrong {algorithm}"), refuted, &[ErrorKind::Integrity])?;
    }
    let mut other = request.clone();
    let named = other.parts.first_mut().and_then(|part| part.checksum.as_mut());
    let compared = &trial.profile.whole_checksums;
    if let Some(named) = named.filter(|named| compared.contains(&named.algorithm())) {
        *named = checksum(named.algorithm(), b"other bytes");
        let kinds = [ErrorKind::Integrity, ErrorKind::Invalid];
        failed("complete with a wrong checksum of a part", trial.complete(&other).await, &kinds)?;
    }
    expect(place, "end/refuted", None).await?;
    // Some remotes forget an upload whose bytes a checksum refutes.
    if matches!(trial.state().await, Err(error) if error.kind() == ErrorKind::NotFound) {
        return Ok(());
    }
    worked("complete", trial.complete(&request).await)?;
    expect(place, "end/refuted", Some(&trial.bytes)).await
}

async fn keeps_existing(place: &dyn Place) -> Outcome {
    let options = WriteOptions::when(Precondition::Absent);
    let at = place.at("end/absent");
    let writing = worked("write", at.write())?;
    let profile = writing.write_profile(&options.precondition);
    if profile.parts.is_none() || profile.absent == Guarantee::None {
        let begun = writing.begin(&at.blob, &options).await;
        return failed("begin under Absent", begun, &[ErrorKind::Unsupported]);
    }
    let old = content(10, 1);
    let trial = Trial::begin(place, "end/absent", &options).await?;
    let request = trial.store().await?;
    place.put("end/absent", old.clone()).await;
    failed("complete", trial.complete(&request).await, &[ErrorKind::AlreadyExists])?;
    expect(place, "end/absent", Some(&old)).await?;
    worked("abort", trial.abort().await)?;
    match writing.begin(&at.blob, &options).await {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
        Err(error) => return Err(format!("begin: {}", error.chain())),
        // This remote checks the precondition only at the end.
        Ok(upload) => worked("abort", writing.abort(&upload).await)?,
    }
    let trial = Trial::begin(place, "end/fresh", &options).await?;
    let request = trial.store().await?;
    worked("complete", trial.complete(&request).await)?;
    expect(place, "end/fresh", Some(&trial.bytes)).await
}

async fn aborts(place: &dyn Place) -> Outcome {
    let trial = Trial::begin(place, "end/aborted", &WriteOptions::default()).await?;
    let request = trial.store().await?;
    // The second time there is no upload, which counts as aborted.
    for _ in 0..2 {
        worked("abort", trial.abort().await)?;
        if trial.profile.is_removed {
            clean(place).await?;
        }
    }
    if !trial.profile.is_removed {
        return expect(place, "end/aborted", None).await;
    }
    let gone = [ErrorKind::NotFound];
    failed("parts", trial.state().await, &gone)?;
    failed("complete", trial.complete(&request).await, &gone)?;
    let parts = trial.parts();
    // A server that refuses a request before its body may reset the connection.
    let kinds = [ErrorKind::NotFound, ErrorKind::Transport];
    failed("part", trial.part(&parts[0]).await, &kinds)?;
    expect(place, "end/aborted", None).await?;
    clean(place).await
}

async fn is_over(place: &dyn Place) -> Outcome {
    let trial = Trial::begin(place, "end/over", &WriteOptions::default()).await?;
    let request = trial.store().await?;
    worked("complete", trial.complete(&request).await)?;
    let gone = [ErrorKind::NotFound];
    match trial.state().await {
        Ok(tidegate::remote::UploadState::Completed(_)) => {}
        state => failed("parts", state, &gone)?,
    }
    // Several remotes repeat their response; none stores anything else.
    let empty = CompleteRequest::new(Vec::new());
    let _ = trial.complete(&empty).await;
    expect(place, "end/over", Some(&trial.bytes)).await?;
    worked("abort", trial.abort().await)?;
    expect(place, "end/over", Some(&trial.bytes)).await
}

async fn finds(place: &dyn Place) -> Outcome {
    let trial = Trial::begin(place, "end/found", &WriteOptions::default()).await?;
    let at = &trial.at;
    let writing = worked("write", at.write())?;
    let parts = trial.parts();
    worked("part", trial.part(&parts[0]).await)?;
    if !trial.profile.is_listed {
        return worked("abort", trial.abort().await);
    }
    let budget = Budget::default();
    let page = worked("uploads", writing.uploads(&at.blob, None, &budget).await)?;
    let [found] = page.uploads.as_slice() else {
        return Err(format!("1 upload is unfinished, found are {}", page.uploads.len()));
    };
    ensure!(found.upload.blob == at.blob, "it is found as one of {}", found.upload.blob);
    let parts = worked("parts", writing.parts(&found.upload).await)?;
    let state = worked("parts", trial.state().await)?;
    ensure!(parts == state, "expected {state:?}, got {parts:?}");
    let other = worked("uploads", writing.uploads(&place.at("end/x").blob, None, &budget).await)?;
    ensure!(other.uploads.is_empty(), "under another prefix {} are found", other.uploads.len());
    worked("abort", writing.abort(&found.upload).await)?;
    if !trial.profile.is_removed {
        return Ok(());
    }
    failed("parts", trial.state().await, &[ErrorKind::NotFound])?;
    let page = worked("uploads", writing.uploads(&at.blob, None, &budget).await)?;
    ensure!(page.uploads.is_empty(), "an aborted upload is found");
    Ok(())
}
