//! Promises of remotes that take uploads in parts, up to the last part. For the ends of uploads see
//! `parts_end`.

use bytes::Bytes;
use futures_util::future::try_join_all;
use tidegate::remote::{
    CompleteRequest, LastPart, PartNumber, PartOrder, PartProfile, Payload, StoredPart, Upload,
    UploadPart, UploadState, WriteOptions,
};
use tidegate::{ErrorKind, Location};

use super::suite::{Outcome, Report, ensure, failed, worked};
use super::write::{clean, expect};
use super::{Place, checksum, content, parts_end};

/// Parts of the suite's blobs: several, and few enough for remotes with a large minimum part.
const PARTS: usize = 4;

/// The part length for remotes that take short parts.
const PART_BYTES: u64 = 100_000;

/// Checks every promise of [`tidegate::remote::Write`] about uploads in parts. If the remote takes
/// no parts, checks that they are `Unsupported`.
pub async fn parts_suite(place: &dyn Place) -> Report {
    let mut report = Report::default();
    let options = WriteOptions::default();
    let at = place.at("none");
    let profile = at.write().map(|writing| writing.write_profile(&options.precondition));
    if !profile.as_ref().is_ok_and(|profile| profile.parts.is_some()) {
        let begun = match at.write() {
            Ok(writing) => writing.begin(&at.blob, &options).await,
            Err(error) => Err(error),
        };
        let outcome = failed("begin", begun, &[ErrorKind::Unsupported]);
        report.add("an upload in parts is Unsupported where the profile has none", outcome);
        return report;
    }
    report.add("parts make the blob, in the order of their numbers", makes_blob(place).await);
    report.add("nothing has the name before the upload is complete", invisible(place).await);
    report.add("parts that are stored are named, with their lengths", names_parts(place).await);
    report.add("another process goes on with an upload", resumes(place).await);
    report.add("a part of the same number replaces the first", replaces(place).await);
    report.add("a part that its checksum refutes is Integrity, not stored", refutes(place).await);
    report.add("the id of an upload is not shown", hides_id(place).await);
    parts_end::add(&mut report, place).await;
    let is_removed = profile.ok().and_then(|profile| profile.parts).is_some_and(|p| p.is_removed);
    let left = if is_removed { clean(place).await } else { Ok(()) };
    report.add("nothing but blobs is left behind by uploads in parts", left);
    report
}

/// An upload in progress, and the blob that it makes.
pub(super) struct Trial {
    pub(super) at: Location,
    pub(super) upload: Upload,
    pub(super) bytes: Bytes,
    pub(super) profile: PartProfile,
}

impl Trial {
    /// Begins an upload whose last part is shorter than the others.
    pub(super) async fn begin(
        place: &dyn Place,
        name: &str,
        options: &WriteOptions,
    ) -> Result<Self, String> {
        let at = place.at(name);
        let writing = worked("write", at.write())?;
        let upload = worked("begin", writing.begin(&at.blob, options).await)?;
        let profile = writing.part_profile(&upload).ok_or("the upload has no profile")?;
        let len = part_len(&profile) * (PARTS - 1) + 17;
        let bytes = content(len, 11);
        Ok(Self { at, upload, bytes, profile })
    }

    /// The parts that make the blob.
    pub(super) fn parts(&self) -> Vec<UploadPart> {
        let (mut parts, mut offset) = (Vec::new(), 0);
        for (number, piece) in (1..).zip(self.bytes.chunks(part_len(&self.profile))) {
            let payload = self.payload(&self.bytes.slice_ref(piece));
            let Some(number) = PartNumber::new(number) else { continue };
            parts.push(UploadPart { number, offset, payload });
            offset += piece.len() as u64;
        }
        parts
    }

    /// Bytes with the checksum that the remote prefers. Some remotes want one with every part.
    fn payload(&self, bytes: &Bytes) -> Payload {
        let payload = Payload::from_bytes(bytes.clone());
        match self.profile.checksums.first() {
            Some(algorithm) => payload.with_checksum(checksum(*algorithm, bytes)),
            None => payload,
        }
    }

    pub(super) async fn part(&self, part: &UploadPart) -> tidegate::Result<StoredPart> {
        self.at.write()?.part(&self.upload, part).await
    }

    /// Stores all parts: in parallel and in reverse order if the remote allows it. Returns the
    /// request that completes the upload.
    pub(super) async fn store(&self) -> Result<CompleteRequest, String> {
        let mut parts = self.parts();
        let mut last = None;
        if self.profile.last == LastPart::WithComplete {
            last = parts.pop();
        }
        let mut stored = if self.profile.order == PartOrder::Any {
            parts.reverse();
            worked("part", try_join_all(parts.iter().map(|part| self.part(part))).await)?
        } else {
            let mut stored = Vec::new();
            for part in &parts {
                stored.push(worked("part", self.part(part).await)?);
            }
            stored
        };
        fill_in(&mut stored, &parts);
        let mut request = CompleteRequest::new(stored);
        request.last = last;
        request.len_bytes = self.bytes.len() as u64;
        if let Some(algorithm) = self.profile.whole_checksums.first() {
            request.checksum = Some(checksum(*algorithm, &self.bytes));
        }
        Ok(request)
    }

    pub(super) async fn complete(
        &self,
        request: &CompleteRequest,
    ) -> tidegate::Result<tidegate::remote::Written> {
        self.at.write()?.complete(&self.upload, request).await
    }

    pub(super) async fn abort(&self) -> tidegate::Result<()> {
        self.at.write()?.abort(&self.upload).await
    }

    pub(super) async fn state(&self) -> tidegate::Result<UploadState> {
        self.at.write()?.parts(&self.upload).await
    }
}

/// Adds the checksums with which the parts were sent. A remote that does not name the checksum of a
/// part may still compare it at the end.
fn fill_in(stored: &mut [StoredPart], sent: &[UploadPart]) {
    for part in stored {
        let sent = sent.iter().find(|sent| sent.number == part.number);
        let sum = sent.and_then(|sent| sent.payload.checksum());
        part.checksum = part.checksum.take().or_else(|| sum.cloned());
    }
}

/// The length of the suite's parts, which the profile allows.
fn part_len(profile: &PartProfile) -> usize {
    let len = profile.bytes_min.max(PART_BYTES).next_multiple_of(profile.bytes_multiple.max(1));
    usize::try_from(len.min(profile.bytes_max)).unwrap_or(usize::MAX)
}

async fn makes_blob(place: &dyn Place) -> Outcome {
    let trial = Trial::begin(place, "parts/deep/whole", &WriteOptions::default()).await?;
    let request = trial.store().await?;
    let written = worked("complete", trial.complete(&request).await)?;
    expect(place, "parts/deep/whole", Some(&trial.bytes)).await?;
    let version = worked("stat", trial.at.remote.stat(&trial.at.blob).await)?.version;
    let named = written.version;
    ensure!(named.is_none() || named == version, "complete names {named:?}, stat {version:?}");
    Ok(())
}

async fn invisible(place: &dyn Place) -> Outcome {
    let old = content(50, 3);
    for (name, before) in [("parts/new", None), ("parts/old", Some(old))] {
        if let Some(bytes) = &before {
            place.put(name, bytes.clone()).await;
        }
        let trial = Trial::begin(place, name, &WriteOptions::default()).await?;
        let request = trial.store().await?;
        expect(place, name, before.as_ref()).await?;
        worked("complete", trial.complete(&request).await)?;
        expect(place, name, Some(&trial.bytes)).await?;
    }
    Ok(())
}

/// Checks the remote's list of parts: it has the stored parts, or at least their total length.
fn same_parts(state: &UploadState, stored: &[StoredPart]) -> Outcome {
    match state {
        UploadState::Parts(parts) => {
            let is_same = parts.len() == stored.len()
                && parts.iter().zip(stored).all(|(part, stored)| is_same_part(part, stored));
            ensure!(is_same, "expected {stored:?}, named are {parts:?}");
        }
        UploadState::Prefix(len) => {
            let expected: u64 = stored.iter().map(|part| part.len_bytes).sum();
            ensure!(*len == expected, "expected a prefix of {expected}, got {len}");
        }
        other => return Err(format!("an unfinished upload is {other:?}")),
    }
    Ok(())
}

/// Compares two descriptions of a part. Either may lack the tag or the checksum, and the checksums
/// may be of two algorithms.
fn is_same_part(one: &StoredPart, other: &StoredPart) -> bool {
    let tags = one.tag.as_ref().zip(other.tag.as_ref());
    let sums = one.checksum.as_ref().zip(other.checksum.as_ref());
    let sums = sums.filter(|(one, other)| one.algorithm() == other.algorithm());
    (one.number, one.len_bytes) == (other.number, other.len_bytes)
        && tags.is_none_or(|(one, other)| one == other)
        && sums.is_none_or(|(one, other)| one == other)
}

async fn names_parts(place: &dyn Place) -> Outcome {
    let trial = Trial::begin(place, "parts/named", &WriteOptions::default()).await?;
    same_parts(&worked("parts", trial.state().await)?, &[])?;
    let mut stored = Vec::new();
    for part in trial.parts().iter().take(PARTS - 1) {
        stored.push(worked("part", trial.part(part).await)?);
        same_parts(&worked("parts", trial.state().await)?, &stored)?;
    }
    for (part, bytes) in stored.iter().zip(trial.bytes.chunks(part_len(&trial.profile))) {
        ensure!(part.len_bytes == bytes.len() as u64, "part {} has another length", part.number);
        if let Some(named) = &part.checksum {
            let actual = checksum(named.algorithm(), bytes);
            ensure!(*named == actual, "expected {actual}, the part is named with {named}");
        }
    }
    worked("abort", trial.abort().await)
}

async fn resumes(place: &dyn Place) -> Outcome {
    let trial = Trial::begin(place, "parts/resumed", &WriteOptions::default()).await?;
    let parts = trial.parts();
    for part in &parts[..2] {
        worked("part", trial.part(part).await)?;
    }
    let text = serde_json::to_string(&trial.upload).map_err(|error| error.to_string())?;
    drop(trial.upload);
    // Another process has only this: the upload as text, and a remote of its own.
    let upload = serde_json::from_str(&text).map_err(|error| error.to_string())?;
    let trial = Trial { upload, at: place.at("parts/resumed"), ..trial };
    let state = worked("parts", trial.state().await)?;
    let UploadState::Parts(mut stored) = state else {
        return worked("abort", trial.abort().await);
    };
    ensure!(stored.len() == 2, "{} of 2 parts are left", stored.len());
    for part in &parts[2..] {
        stored.push(worked("part", trial.part(part).await)?);
    }
    fill_in(&mut stored, &parts);
    worked("complete", trial.complete(&CompleteRequest::new(stored)).await)?;
    expect(place, "parts/resumed", Some(&trial.bytes)).await
}

async fn replaces(place: &dyn Place) -> Outcome {
    let trial = Trial::begin(place, "parts/replaced", &WriteOptions::default()).await?;
    if trial.profile.order != PartOrder::Any {
        return worked("abort", trial.abort().await);
    }
    let parts = trial.parts();
    let wrong = trial.payload(&content(part_len(&trial.profile), 77));
    let wrong = UploadPart { payload: wrong, ..parts[1].clone() };
    worked("part", trial.part(&wrong).await)?;
    let request = trial.store().await?;
    let state = worked("parts", trial.state().await)?;
    same_parts(&state, &request.parts)?;
    worked("complete", trial.complete(&request).await)?;
    expect(place, "parts/replaced", Some(&trial.bytes)).await
}

async fn refutes(place: &dyn Place) -> Outcome {
    let trial = Trial::begin(place, "parts/refuted", &WriteOptions::default()).await?;
    let Some(part) = trial.parts().into_iter().next() else { return Ok(()) };
    for algorithm in &trial.profile.checksums {
        let wrong = checksum(*algorithm, b"other bytes");
        let payload = part.payload.clone().with_checksum(wrong);
        let refuted = trial.part(&UploadPart { payload, ..part.clone() }).await;
        failed(&format!("a part with a wrong {algorithm}"), refuted, &[ErrorKind::Integrity])?;
        same_parts(&worked("parts", trial.state().await)?, &[])?;
    }
    worked("abort", trial.abort().await)
}

async fn hides_id(place: &dyn Place) -> Outcome {
    let trial = Trial::begin(place, "parts/hidden", &WriteOptions::default()).await?;
    let shown = format!("{:?}", trial.upload);
    ensure!(!shown.contains(trial.upload.id.as_str()), "its Debug form shows it: {shown}");
    worked("abort", trial.abort().await)
}
