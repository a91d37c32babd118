//! [`Race`]: writers with one condition, of which a service must let exactly one succeed.
//!
//! A round has a hidden blob beside the target. Its writers send different bytes under one condition:
//! that nothing has the name, or that the blob has the version that was stored for the round. Their
//! last bytes leave together ([`StartingLine`]), each on a connection of its own. Afterwards the blob
//! is deleted, and unfinished uploads are aborted.
//!
//! | service | what a round shows |
//! |---|---|
//! | keeps the condition | one success; 412 or 409 for the others |
//! | ignores it | a success for each writer |
//! | compares first, writes afterwards | two successes or more, in most rounds |
//!
//! The cost, if all rounds are needed: 24 requests to write and 3 to delete; in parts 72 and 3, and 21
//! to abort. The requests of a step are sent together, so a round takes a few round trips.

use futures_util::future::join_all;
use tidegate_core::checksum::{ChecksumAlgorithm, Checksummer};

use super::{XmlWriter, multipart};
use crate::error::{Error, ErrorKind, Operation, Result};
use crate::remote::object_client::{Refusal, Runner, StartingLine};
use crate::remote::write::{
    CompleteRequest, PartNumber, Payload, Precondition, Upload, UploadPart, Write, WriteOptions,
    WriteWay,
};
use crate::remote::{DeleteRequest, Version};

/// What the name of a probe begins with. A dot hides it from lists of folders.
const NAME: &str = ".tidegate-probe-";

/// Writers of a round: more find a race sooner, and each one needs a connection.
const WRITERS: usize = 8;

/// Rounds that a service must pass. One finds every service that looks before the body is complete.
const ROUNDS: u32 = 3;

/// Rounds without a winner. A service may refuse all writers that disturb one another.
const UNDECIDED_MAX: u32 = 4;

/// What the rounds have shown.
#[derive(Debug)]
pub(super) struct Verdict {
    /// What the service did wrong.
    pub(super) flaw: Option<String>,
    /// What stays behind.
    pub(super) note: Option<String>,
}

/// See the module docs.
#[derive(Debug)]
pub(super) struct Race<'a> {
    writer: &'a XmlWriter,
    /// The folder of the target.
    folder: &'a str,
    options: WriteOptions,
    is_absent: bool,
    way: WriteWay,
    /// What a round made.
    blobs: Vec<String>,
    uploads: Vec<Upload>,
}

/// What became of one writer.
#[derive(Debug)]
enum Outcome {
    Won,
    Lost,
    Failed(Error),
}

impl<'a> Race<'a> {
    pub(super) fn new(
        writer: &'a XmlWriter,
        blob: &'a str,
        options: &WriteOptions,
        way: WriteWay,
    ) -> Self {
        let folder = blob.rfind('/').map_or("", |slash| &blob[..=slash]);
        // A bucket may refuse writes without the headers of encryption.
        let own = WriteOptions { headers: options.headers.clone(), ..WriteOptions::default() };
        Self {
            writer,
            folder,
            options: own,
            is_absent: options.precondition == Precondition::Absent,
            way,
            blobs: Vec::new(),
            uploads: Vec::new(),
        }
    }

    /// Races until the service fails or has passed all rounds.
    pub(super) async fn run(mut self) -> Result<Verdict> {
        let (mut passed, mut undecided, mut note) = (0, 0, None);
        while passed < ROUNDS {
            let outcome = Box::pin(self.round()).await;
            note = self.clean_up().await.or(note);
            let Some(won) = outcome? else { continue };
            match won {
                1 => passed += 1,
                0 if undecided < UNDECIDED_MAX => undecided += 1,
                _ => return Ok(Verdict { flaw: Some(self.flaw(won)), note }),
            }
        }
        Ok(Verdict { flaw: None, note })
    }

    fn flaw(&self, won: usize) -> String {
        let (header, success) = if self.is_absent {
            ("If-None-Match", "created the blob")
        } else {
            ("If-Match", "replaced the same version")
        };
        let what = match self.way {
            WriteWay::Put => "concurrent writers",
            WriteWay::Parts => "concurrent uploads in parts",
        };
        let won = if won == 0 { "none".to_owned() } else { won.to_string() };
        format!("{won} of {WRITERS} {what} with {header} were told that they {success}")
    }

    /// One round: the number of writers that succeeded. `None` if the service refused a checksum,
    /// and the round must begin anew with another one.
    async fn round(&mut self) -> Result<Option<usize>> {
        let algorithm = self.writer.accepted.now();
        match self.try_round().await {
            Ok(outcomes) => {
                let won = outcomes.iter().filter(|outcome| matches!(outcome, Outcome::Won));
                let won = won.count();
                let failed = outcomes.into_iter().find_map(|outcome| match outcome {
                    Outcome::Failed(error) => Some(error),
                    _ => None,
                });
                match failed {
                    Some(_) if self.writer.accepted.now() != algorithm => Ok(None),
                    Some(error) if won <= 1 => Err(error),
                    _ => Ok(Some(won)),
                }
            }
            Err(_) if self.writer.accepted.now() != algorithm => Ok(None),
            Err(error) => Err(error),
        }
    }

    async fn try_round(&mut self) -> Result<Vec<Outcome>> {
        let blob = self.probe()?;
        let precondition = if self.is_absent {
            Precondition::Absent
        } else {
            Precondition::Version(self.first_version(&blob).await?)
        };
        let options = WriteOptions { precondition, ..self.options.clone() };
        match self.way {
            WriteWay::Put => self.race_puts(&blob, &options).await,
            WriteWay::Parts => self.race_parts(&blob, &options).await,
        }
    }

    /// Stores the blob that the writers replace.
    async fn first_version(&self, blob: &str) -> Result<Version> {
        let payload = payload(usize::MAX, self.writer.accepted.now());
        let written = self.writer.put(blob, &payload, &self.options).await?;
        written.version.ok_or_else(|| {
            let message = "the service does not say which entity tag it stored";
            let target = self.writer.client.target(blob);
            Error::new(ErrorKind::Unsupported, Operation::Locate, target, message)
        })
    }

    async fn race_puts(&self, blob: &str, options: &WriteOptions) -> Result<Vec<Outcome>> {
        let line = StartingLine::new(WRITERS);
        let writers = (0..WRITERS).map(|number| self.put(blob, options, number, line.runner()));
        join_all(writers).await.into_iter().collect()
    }

    async fn put(
        &self,
        blob: &str,
        options: &WriteOptions,
        number: usize,
        runner: Runner,
    ) -> Result<Outcome> {
        let payload = payload(number, self.writer.accepted.now());
        Ok(match self.writer.send_put(blob, &payload, options, Some(&runner)).await? {
            Ok(_) => Outcome::Won,
            Err(refusal) if is_lost(&refusal) => Outcome::Lost,
            Err(refusal) => {
                Outcome::Failed(self.writer.refused_payload(blob, options, &payload, refusal))
            }
        })
    }

    async fn race_parts(&mut self, blob: &str, options: &WriteOptions) -> Result<Vec<Outcome>> {
        let begun = join_all((0..WRITERS).map(|_| self.writer.begin(blob, options))).await;
        self.uploads.extend(begun.iter().filter_map(|upload| upload.as_ref().ok().cloned()));
        let begun = begun.into_iter().collect::<Result<Vec<_>>>()?;
        let parts = begun.into_iter().enumerate().map(|(number, upload)| self.part(number, upload));
        let ready = join_all(parts).await.into_iter().collect::<Result<Vec<_>>>()?;
        let line = StartingLine::new(ready.len());
        let complete = |(upload, request)| self.complete(upload, request, line.runner());
        let outcomes = join_all(ready.into_iter().map(complete)).await;
        // Only the uploads of the others are left to abort.
        let mut won = outcomes.iter().map(|outcome| matches!(outcome, Ok(Outcome::Won)));
        self.uploads.retain(|_| !won.next().unwrap_or_default());
        outcomes.into_iter().collect()
    }

    /// Stores the only part of an upload, and makes the request that completes it.
    async fn part(&self, number: usize, upload: Upload) -> Result<(Upload, CompleteRequest)> {
        let payload = payload(number, multipart::algorithm(&upload));
        let checksum = payload.checksum().cloned();
        let part = UploadPart { number: PartNumber::FIRST, offset: 0, payload };
        let mut stored = self.writer.store_part(&upload, &part).await?;
        stored.checksum.clone_from(&checksum);
        let mut request = CompleteRequest::new(vec![stored]);
        request.checksum = checksum;
        Ok((upload, request))
    }

    async fn complete(
        &self,
        upload: Upload,
        request: CompleteRequest,
        runner: Runner,
    ) -> Result<Outcome> {
        Ok(match self.writer.try_complete(&upload, &request, Some(&runner)).await? {
            Ok(_) => Outcome::Won,
            Err(refusal) if is_lost(&refusal) => Outcome::Lost,
            Err(refusal) => {
                Outcome::Failed(self.writer.refused(&upload.blob, &upload.options, refusal))
            }
        })
    }

    /// The name of a blob of the race, which is removed after the round.
    fn probe(&mut self) -> Result<String> {
        let blob = format!("{}{NAME}{}", self.folder, random()?);
        self.blobs.push(blob.clone());
        Ok(blob)
    }

    /// Removes what the round made. Returns what stays.
    async fn clean_up(&mut self) -> Option<String> {
        let uploads = std::mem::take(&mut self.uploads);
        let aborted = join_all(uploads.iter().map(|upload| self.writer.abort_multipart(upload)));
        let failed_upload = aborted.await.into_iter().find_map(Result::err);
        let mut note = failed_upload.map(|error| {
            let reason = error.reason();
            format!("an upload of the proof of conditions stays unfinished: {reason}")
        });
        for blob in std::mem::take(&mut self.blobs) {
            let request = DeleteRequest { blob, version: None };
            let deleted = match self.writer.try_delete(&request).await {
                Ok(Ok(())) => Ok(()),
                Ok(Err(refusal)) => self.writer.not_deleted(&request, refusal).await,
                Err(error) => Err(error),
            };
            if let Err(error) = deleted {
                let (target, reason) = (self.writer.client.target(&request.blob), error.reason());
                note = Some(format!("{target}, a proof of conditions, stays behind: {reason}"));
            }
        }
        note
    }
}

/// Whether the service told a writer that the condition does not hold.
fn is_lost(refusal: &Refusal) -> bool {
    matches!(refusal.status(), Some(409 | 412))
}

/// The bytes of one writer, so that each makes another entity tag.
fn payload(number: usize, algorithm: Option<ChecksumAlgorithm>) -> Payload {
    let text = format!("tidegate proves that of several writers one succeeds: {number}\n");
    let checksum = algorithm.and_then(|algorithm| Checksummer::of(algorithm, text.as_bytes()).ok());
    let payload = Payload::from_bytes(text.into_bytes());
    match checksum {
        Some(checksum) => payload.with_checksum(checksum),
        None => payload,
    }
}

/// Digits that no other probe has.
fn random() -> Result<String> {
    let mut bytes = [0; 8];
    getrandom::fill(&mut bytes).map_err(|error| {
        let message = "the system gives no random bytes";
        Error::new(ErrorKind::Storage, Operation::Write, "the proof of conditions", message)
            .caused_by(std::io::Error::from(error))
    })?;
    Ok(format!("{:016x}", u64::from_be_bytes(bytes)))
}
