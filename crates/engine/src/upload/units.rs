//! [`PartUnits`]: the parts of one upload in flight, by window and budget.

use std::collections::{BTreeMap, VecDeque};
use std::future::pending;
use std::ops::Range;
use std::sync::Arc;

use tidegate_core::checksum::{ChecksumAlgorithm, Crc};
use tokio_util::sync::CancellationToken;

use super::journal::UploadJournal;
use super::source::PositionalSource;
use super::stream::{HeldPart, SourceStream};
use super::sums::PartSums;
use super::{Transfer, landed, piece, plan, stream};
use crate::budget::BytesPermit;
use crate::error::{Error, ErrorKind, Operation, Result};
use crate::remote::{PartNumber, PartProfile, Payload, StoredPart, Upload, UploadPart};
use crate::store::SendProgress;
use crate::transfer::driver::{Flight, UnitFuture, Units};

/// What the parts of one upload share.
#[derive(Debug)]
pub(super) struct Job {
    pub(super) transfer: Arc<Transfer>,
    pub(super) upload: Upload,
    pub(super) profile: PartProfile,
    pub(super) journal: Option<UploadJournal>,
}

impl Job {
    pub(super) fn algorithm(&self) -> Option<ChecksumAlgorithm> {
        self.profile.checksums.first().copied()
    }
}

/// A part that the remote has.
#[derive(Clone, Debug)]
pub(super) struct Done {
    pub(super) stored: StoredPart,
    pub(super) crc: Crc,
}

/// Where the parts come from.
#[derive(Debug)]
pub(super) enum Feed {
    /// Ranges of a source that is read by position.
    Ranges {
        source: Arc<PositionalSource>,
        left: VecDeque<(PartNumber, Range<u64>)>,
    },
    Stream(StreamFeed),
}

/// The parts of a stream, each read when there is room for it.
#[derive(Debug)]
pub(super) struct StreamFeed {
    // None while a part is being read, and after the last one.
    stream: Option<SourceStream>,
    // Read before the upload began.
    first: Option<(HeldPart, BytesPermit)>,
    first_bytes: u64,
    next: u32,
    offset: u64,
}

impl StreamFeed {
    pub(super) fn new(
        stream: SourceStream,
        first_bytes: u64,
        part: HeldPart,
        permit: BytesPermit,
    ) -> Self {
        let (stream, first) = (Some(stream), Some((part, permit)));
        Self { stream, first, first_bytes, next: 1, offset: 0 }
    }

    /// Everything, if no part was taken yet.
    pub(super) fn into_whole(self) -> (Option<SourceStream>, Option<(HeldPart, BytesPermit)>) {
        (self.stream, self.first)
    }
}

/// See the module docs.
#[derive(Debug)]
pub(super) struct PartUnits {
    job: Arc<Job>,
    feed: Feed,
    pub(super) done: BTreeMap<u32, Done>,
    /// Ends every part in flight.
    stop: CancellationToken,
}

/// A part with its grant.
pub(super) enum Granted {
    Range {
        source: Arc<PositionalSource>,
        number: PartNumber,
        range: Range<u64>,
        permit: BytesPermit,
    },
    Held {
        part: HeldPart,
        permit: BytesPermit,
        stream: Option<SourceStream>,
    },
    Failed(Error),
}

impl PartUnits {
    pub(super) fn new(
        job: Arc<Job>,
        feed: Feed,
        done: BTreeMap<u32, Done>,
        stop: CancellationToken,
    ) -> Self {
        Self { job, feed, done, stop }
    }

    fn room(&self, in_flight: usize) -> bool {
        let transfer = &self.job.transfer;
        let requests = usize::try_from(transfer.budget.limits().requests).unwrap_or(usize::MAX);
        in_flight < transfer.window.limit().min(requests)
    }
}

impl Units for PartUnits {
    type Granted = Granted;
    type Ended = Result<Done>;
    type Event = ();
    type Error = Error;

    fn next(&mut self, flight: &mut Flight<Self::Ended>) -> Option<UnitFuture<Granted>> {
        if !self.room(flight.len()) {
            return None;
        }
        let transfer = Arc::clone(&self.job.transfer);
        match &mut self.feed {
            Feed::Ranges { source, left } => {
                let (number, range) = left.pop_front()?;
                let source = Arc::clone(source);
                Some(Box::pin(async move {
                    let held = piece::held_bytes(range.end - range.start);
                    let permit = transfer.budget.bytes(held).await;
                    Granted::Range { source, number, range, permit }
                }))
            }
            Feed::Stream(feed) => {
                if let Some((part, permit)) = feed.first.take() {
                    return Some(Box::pin(
                        async move { Granted::Held { part, permit, stream: None } },
                    ));
                }
                let stream = feed.stream.take()?;
                let len =
                    plan::part_bytes_of_stream(feed.next, feed.first_bytes, &self.job.profile);
                let algorithm = self.job.algorithm();
                Some(Box::pin(async move {
                    match stream::read(&transfer, stream, len, algorithm).await {
                        Ok((permit, part, stream)) => {
                            Granted::Held { part, permit, stream: Some(stream) }
                        }
                        Err(error) => Granted::Failed(error),
                    }
                }))
            }
        }
    }

    fn start(&mut self, granted: Granted, flight: &mut Flight<Self::Ended>) {
        let (job, stop) = (Arc::clone(&self.job), self.stop.clone());
        let lost_task = {
            let transfer = Arc::clone(&self.job.transfer);
            move |error: tokio::task::JoinError| {
                let message = "the task of a part ended early";
                Err(transfer.error(ErrorKind::Cancelled, message).caused_by(error))
            }
        };
        match granted {
            Granted::Failed(error) => flight.push(async move { Err(error) }),
            Granted::Range { source, number, range, permit } => {
                let unit = async move {
                    let _permit = permit;
                    let sums = source.sums(range.clone(), job.algorithm()).await?;
                    let payload = |sending: &_| source.payload(range.clone(), &sums, sending);
                    job.store(number, range.start, &sums, payload).await
                };
                flight.spawn(until(stop, unit), lost_task);
            }
            Granted::Held { part, permit, stream } => {
                let Feed::Stream(feed) = &mut self.feed else { return };
                if stream.is_some() {
                    feed.stream = stream.filter(|_| !part.is_last);
                }
                // An empty last part adds nothing.
                if part.len() == 0 {
                    return;
                }
                let max = self.job.profile.count_max;
                let Some(number) = PartNumber::new(feed.next).filter(|_| feed.next <= max) else {
                    let message = format!("the stream has more than {max} parts");
                    let error = self.job.transfer.error(ErrorKind::Unsupported, message);
                    feed.stream = None;
                    flight.push(async move { Err(error) });
                    return;
                };
                let offset = feed.offset;
                feed.next += 1;
                feed.offset += part.len();
                let unit = async move {
                    let _permit = permit;
                    let payload =
                        |sending: &_| with_sum(piece::of_frames(&part.frames, sending), &part.sums);
                    job.store(number, offset, &part.sums, payload).await
                };
                flight.spawn(until(stop, unit), lost_task);
            }
        }
    }

    fn ended(&mut self, ended: Self::Ended) -> Result<()> {
        let done = ended?;
        self.done.insert(done.stored.number.get(), done);
        Ok(())
    }

    async fn event(&mut self, _in_flight: usize) {
        pending::<()>().await;
    }

    fn on_event(&mut self, (): (), _flight: &mut Flight<Self::Ended>) -> Result<()> {
        Ok(())
    }

    fn is_over(&self, in_flight: usize) -> bool {
        let is_empty = match &self.feed {
            Feed::Ranges { left, .. } => left.is_empty(),
            Feed::Stream(feed) => feed.stream.is_none() && feed.first.is_none(),
        };
        is_empty && in_flight == 0
    }

    fn cancelled(&self) -> Error {
        self.job.transfer.calls.cancelled()
    }
}

/// The part, unless `stop` ends it first: then its request is dropped, and its connection closed.
async fn until(stop: CancellationToken, part: impl Future<Output = Result<Done>>) -> Result<Done> {
    tokio::select! {
        biased;
        () = stop.cancelled() => {
            let message = "another part failed";
            Err(Error::new(ErrorKind::Cancelled, Operation::Upload, "the part", message))
        }
        done = part => done,
    }
}

fn with_sum(payload: Payload, sums: &PartSums) -> Payload {
    match sums.sent() {
        Some(checksum) => payload.with_checksum(checksum.clone()),
        None => payload,
    }
}

impl Job {
    /// Stores one part, with its attempts.
    async fn store(
        &self,
        number: PartNumber,
        offset: u64,
        sums: &PartSums,
        payload: impl Fn(&SendProgress) -> Payload,
    ) -> Result<Done> {
        let _unit = self.transfer.progress.begin_unit();
        let (write, len) = (self.transfer.write()?, sums.crc.len());
        let stored = self.transfer.send(len, |sending| {
            let part = UploadPart { number, offset, payload: payload(&sending) };
            async move { write.part(&self.upload, &part).await }
        });
        let stored = stored.await.map_err(|error| match error.kind() {
            ErrorKind::NotFound => landed::lost(&self.transfer, error),
            _ => error.at(offset..offset + len),
        })?;
        self.transfer.progress.done(len);
        self.transfer.confirmed(sums.sent(), stored.checksum.as_ref());
        let done = Done { stored, crc: sums.crc };
        if let Some(journal) = &self.journal {
            journal.record(&done).await;
        }
        Ok(done)
    }
}
