//! [`MultipartUpload`] over the parts of a remote.
//!
//! The upload begins with its first complete part. So an upload of less than one part is one request,
//! and nothing stays at the remote if it is dropped before.
//!
//! A part takes its bytes from the budget when all of them are there, and gives them back when the
//! remote has stored them. So an upload never holds bytes of the budget while it waits for more bytes
//! of the caller: a caller may write to more files at once than the budget has room for.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::FutureExt;
use futures_util::future::try_join_all;
use object_store::path::Path;
use object_store::{MultipartUpload, PutMultipartOptions, PutPayload, PutResult, UploadPart};
use tidegate::remote::{
    self, CompleteRequest, PartOrder, PartProfile, Payload, Precondition, StoredPart, Upload,
    UploadState, Write, WriteOptions, Written,
};
use tidegate::{
    ChecksumAlgorithm, Checksummer, Crc, CrcAlgorithm, Error, ErrorKind, Location, Operation,
    Result,
};
use tokio::sync::OnceCell;

use crate::attempts::Attempts;
use crate::gather::{Cut, Gather};
use crate::place::Place;
use crate::{failure, meta, put};

/// The longest that a remote may take to make a blob of its parts: Amazon and Google speak of some
/// minutes.
const COMPLETE_MS_MAX: u64 = 600_000;

/// The CRC that is computed for a remote that verifies none.
const DEFAULT_CRC: CrcAlgorithm = CrcAlgorithm::Crc64Nvme;

/// Opens an upload. No request is sent.
pub(crate) fn open(
    place: &Arc<Place>,
    path: &Path,
    options: &PutMultipartOptions,
) -> object_store::Result<Box<dyn MultipartUpload>> {
    let at = place.locate(path);
    let mut write = put::description(&at, path, &options.attributes, &options.tags)?;
    let failed = |error| failure::of(path, error);
    let profile = at.write().map_err(failed)?.write_profile(&Precondition::None).parts;
    let Some(profile) = profile else {
        return Err(failed(unsupported(&at, "the remote takes no uploads in parts")));
    };
    write.mark = Some(format!("{:032x}", fastrand::u128(..)));
    let parts = Parts {
        attempts: place.attempts(place.budget()),
        place: Arc::clone(place),
        at,
        path: path.clone(),
        options: write,
        begun: OnceCell::new(),
        stored: Mutex::default(),
    };
    let gather = Gather::new(&profile);
    Ok(Box::new(Parted { gather, count_max: profile.count_max, parts: Arc::new(parts) }))
}

fn unsupported(at: &Location, message: &str) -> Error {
    Error::new(ErrorKind::Unsupported, Operation::Upload, at.display(), message)
}

/// An upload, as its caller has it.
struct Parted {
    gather: Gather,
    count_max: u32,
    parts: Arc<Parts>,
}

/// What the parts in flight share.
struct Parts {
    attempts: Attempts,
    place: Arc<Place>,
    at: Location,
    path: Path,
    options: WriteOptions,
    begun: OnceCell<Upload>,
    stored: Mutex<BTreeMap<u32, (StoredPart, Crc)>>,
}

impl fmt::Debug for Parted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Parted").field("at", &self.parts.at).finish_non_exhaustive()
    }
}

#[async_trait]
impl MultipartUpload for Parted {
    fn put_part(&mut self, data: PutPayload) -> UploadPart {
        data.into_iter().for_each(|bytes| self.gather.push(bytes));
        let cuts: Vec<Cut> = std::iter::from_fn(|| self.gather.cut()).collect();
        let parts = Arc::clone(&self.parts);
        let is_too_many = self.gather.count() > self.count_max;
        async move {
            if is_too_many {
                let message = "it has more parts than the remote takes";
                return Err(failure::of(&parts.path, unsupported(&parts.at, message)));
            }
            let sent = cuts.into_iter().map(|cut| parts.send(cut));
            try_join_all(sent).await.map(drop).map_err(|error| failure::of(&parts.path, error))
        }
        .boxed()
    }

    async fn complete(&mut self) -> object_store::Result<PutResult> {
        let parts = &self.parts;
        let last = self.gather.cut_rest();
        let count = self.gather.count();
        if count == 0 || (count == 1 && last.is_some()) {
            let frames = last.map(|cut| cut.frames).unwrap_or_default();
            let bytes = Bytes::from(frames.into_iter().collect::<PutPayload>());
            let options = parts.options.clone();
            return put::upload(&parts.place, &parts.path, bytes, options).await;
        }
        let failed = |error| failure::of(&parts.path, error);
        if let Some(last) = last {
            parts.send(last).await.map_err(failed)?;
        }
        let written = parts.complete(count).await.map_err(failed)?;
        Ok(meta::of_written(written.version.as_ref()))
    }

    async fn abort(&mut self) -> object_store::Result<()> {
        let parts = &self.parts;
        let Some(upload) = parts.begun.get() else { return Ok(()) };
        let what = parts.attempts.of(Operation::Upload, parts.at.display(), 0);
        let call = || async { parts.write()?.abort(upload).await };
        parts.attempts.make(what, call).await.map_err(|error| failure::of(&parts.path, error))
    }
}

impl Parts {
    fn write(&self) -> Result<&dyn Write> {
        self.at.write()
    }

    /// The upload, begun by the first part.
    async fn begun(&self) -> Result<&Upload> {
        let begin = || async {
            let what = self.attempts.of(Operation::Upload, self.at.display(), 0);
            let call = || async { self.write()?.begin(&self.at.blob, &self.options).await };
            self.attempts.make(what, call).await
        };
        self.begun.get_or_try_init(begin).await
    }

    fn profile(&self, upload: &Upload) -> Result<PartProfile> {
        let profile = self.write()?.part_profile(upload);
        // Google's storage forbids parallel parts to some accounts.
        profile.filter(|profile| profile.order == PartOrder::Any).ok_or_else(|| {
            unsupported(&self.at, "the remote takes the parts of this upload only in order")
        })
    }

    /// Stores one part.
    async fn send(&self, cut: Cut) -> Result<()> {
        let upload = self.begun().await?;
        let _held = self.attempts.budget().bytes(cut.len_bytes).await;
        loop {
            let algorithm = self.profile(upload)?.checksums.first().copied();
            let crc_algorithm = algorithm.and_then(ChecksumAlgorithm::crc);
            let mut crc = Crc::empty(crc_algorithm.unwrap_or(DEFAULT_CRC));
            let mut other = algorithm
                .filter(|_| crc_algorithm.is_none())
                .and_then(|algorithm| Checksummer::new(algorithm).ok());
            for frame in &cut.frames {
                crc.update(frame);
                if let Some(other) = &mut other {
                    other.update(frame);
                }
            }
            let payload = Payload::from_frames(cut.frames.clone());
            let payload = match (crc_algorithm, other) {
                (Some(_), _) => payload.with_checksum(crc.to_checksum()),
                (None, Some(other)) => payload.with_checksum(other.finish()),
                (None, None) => payload,
            };
            let part = remote::UploadPart { number: cut.number, offset: cut.offset, payload };
            let what = self.attempts.of(Operation::Upload, self.at.display(), cut.len_bytes);
            let call = || async { self.write()?.part(upload, &part).await };
            match self.attempts.make(what, call).await {
                Ok(mut stored) => {
                    stored.checksum = crc_algorithm.map(|_| crc.to_checksum());
                    let mut all = self.stored.lock().unwrap_or_else(PoisonError::into_inner);
                    all.insert(cut.number.get(), (stored, crc));
                    return Ok(());
                }
                // The remote refuses this checksum, and is now asked with another one.
                Err(error)
                    if error.kind() == ErrorKind::Unsupported
                        && self.profile(upload)?.checksums.first().copied() != algorithm => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Makes the blob of its `count` parts.
    async fn complete(&self, count: u32) -> Result<Written> {
        let upload = self.begun().await?;
        let request = self.request(count, &self.profile(upload)?)?;
        let mut what = self.attempts.of(Operation::Upload, self.at.display(), 0);
        what.response_ms_max = what.response_ms_max.max(COMPLETE_MS_MAX);
        let is_again = AtomicBool::new(false);
        let call = || async {
            let write = self.write()?;
            // The request before may have made the blob, although its response was lost.
            if is_again.swap(true, Ordering::Relaxed)
                && let UploadState::Completed(written) = write.parts(upload).await?
            {
                return Ok(written);
            }
            write.complete(upload, &request).await
        };
        self.attempts.make(what, call).await
    }

    fn request(&self, count: u32, profile: &PartProfile) -> Result<CompleteRequest> {
        let all = self.stored.lock().unwrap_or_else(PoisonError::into_inner);
        if all.len() != usize::try_from(count).unwrap_or(usize::MAX) {
            let message = format!("{} of {count} parts are stored: await them first", all.len());
            return Err(Error::new(
                ErrorKind::Invalid,
                Operation::Upload,
                self.at.display(),
                message,
            ));
        }
        let mut sums = all.values().map(|(_, crc)| *crc);
        let whole = sums
            .next()
            .and_then(|first| sums.try_fold(first, |whole, part| whole.combine(&part)).ok());
        let verifies = |crc: &Crc| {
            profile.whole_checksums.iter().any(|whole| whole.crc() == Some(crc.algorithm()))
        };
        let mut request =
            CompleteRequest::new(all.values().map(|(part, _)| part.clone()).collect());
        request.checksum = whole.filter(verifies).map(|crc| crc.to_checksum());
        Ok(request)
    }
}
