//! A [`MemoryStore`] that follows a script and records every call.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::stream;
use tidegate::chunked::{
    BatchLimits, BlobStore, ChunkStore, Manifest, PutRequest, Registered, SendProgress,
    StoreProfile,
};
use tidegate::remote::Body;
use tidegate::store::MemoryStore;
use tidegate::{Budget, Error, ErrorKind, Operation, Result};
use tidegate_core::chunking::Chunking;
use tidegate_core::digest::{Digest, DigestFunction};
use tidegate_core::retry::RetryClass;
use tokio_util::sync::CancellationToken;

/// The capacity of the store, far above what any test needs.
const HELD_BYTES_MAX: u64 = 1 << 30;

/// The frame length of streams.
const FRAME_BYTES: usize = 10_000;

/// A recorded call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Call {
    Profile,
    Manifest,
    Get { digest: Digest, offset: u64 },
    Batch { digests: Vec<Digest> },
}

impl Call {
    /// The chunks of the call.
    pub(crate) fn digests(&self) -> Vec<Digest> {
        match self {
            Self::Get { digest, .. } => vec![*digest],
            Self::Batch { digests } => digests.clone(),
            Self::Profile | Self::Manifest => Vec::new(),
        }
    }
}

/// The fault of one call, or of one chunk of a batch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Fault {
    #[default]
    None,
    /// Fails at once; a retry may succeed.
    Broken,
    /// Fails at once, for good.
    Refused,
    /// There is no such blob.
    Missing,
    /// Fails at once, for good: the blob has changed.
    Changed,
    /// One bit of the response is wrong.
    Flipped,
    /// The stream breaks after this number of bytes.
    CutAfter(usize),
    /// The stream ends after this number of bytes, without an error.
    EndAfter(usize),
    /// The stream continues beyond its end.
    Longer,
    /// A batch without the last of its responses.
    Fewer,
    /// No response ever.
    Hang,
    /// A response without an end, of empty frames, one a second.
    Empty,
    /// A frame of this number of bytes each second.
    Drip(usize),
}

/// How the store responds to one call.
#[derive(Clone, Debug, Default)]
pub(crate) struct Act {
    pub(crate) delay: Duration,
    /// Waits until this is cancelled.
    pub(crate) gate: Option<CancellationToken>,
    pub(crate) fault: Fault,
}

impl Act {
    pub(crate) fn after_ms(ms: u64) -> Self {
        Self { delay: Duration::from_millis(ms), ..Self::default() }
    }

    pub(crate) fn fault(fault: Fault) -> Self {
        Self { fault, ..Self::default() }
    }

    pub(crate) fn behind(gate: &CancellationToken) -> Self {
        Self { gate: Some(gate.clone()), ..Self::default() }
    }

    pub(crate) fn but(self, fault: Fault) -> Self {
        Self { fault, ..self }
    }
}

/// Decides the response to a call that asks for a chunk for the n-th time (from 0).
type Script = Box<dyn Fn(&Call, Option<&Digest>, usize) -> Act + Send + Sync>;

pub(crate) struct FakeStore {
    identity: String,
    profile: StoreProfile,
    memory: MemoryStore,
    manifests: Mutex<HashMap<Digest, Result<Manifest, ErrorKind>>>,
    script: Mutex<Script>,
    asked: Mutex<HashMap<Digest, usize>>,
    log: Mutex<Vec<Call>>,
    finished: Mutex<Vec<Call>>,
    opens: Mutex<Option<(usize, CancellationToken)>>,
    in_flight: Arc<AtomicUsize>,
    in_flight_peak: AtomicUsize,
}

impl fmt::Debug for FakeStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FakeStore").field("identity", &self.identity).finish_non_exhaustive()
    }
}

/// Counts a call as in flight until it is dropped.
struct InFlight(Arc<AtomicUsize>);

impl Drop for InFlight {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

impl FakeStore {
    pub(crate) fn new() -> Self {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let mut profile = StoreProfile::new(DigestFunction::Sha256);
        profile.digest_functions = vec![DigestFunction::Sha256, DigestFunction::Blake3];
        profile.can_split = true;
        profile.batch =
            Some(BatchLimits { bytes_max: 4 << 20, count_max: 4096, overhead_bytes: 100 });
        Self {
            identity: format!("fake-{}", COUNT.fetch_add(1, Ordering::SeqCst)),
            profile,
            memory: MemoryStore::new(HELD_BYTES_MAX),
            manifests: Mutex::default(),
            script: Mutex::new(Box::new(|_, _, _| Act::default())),
            asked: Mutex::default(),
            log: Mutex::default(),
            finished: Mutex::default(),
            opens: Mutex::default(),
            in_flight: Arc::default(),
            in_flight_peak: AtomicUsize::new(0),
        }
    }

    pub(crate) fn with_profile(mut self, change: impl FnOnce(&mut StoreProfile)) -> Self {
        change(&mut self.profile);
        self
    }

    /// Holds a blob as these chunks.
    pub(crate) fn hold(&self, blob: &Digest, chunks: &[Bytes], chunking: Option<Chunking>) {
        let digests: Vec<Digest> =
            chunks.iter().map(|chunk| Digest::of(blob.function, chunk)).collect();
        for (digest, chunk) in digests.iter().zip(chunks) {
            self.hold_bytes(*digest, chunk.clone());
        }
        self.hold_bytes(*blob, chunks.concat());
        let manifest = Manifest::new(*blob, digests, chunking).unwrap();
        self.manifests.lock().unwrap().insert(*blob, Ok(manifest));
    }

    /// Holds bytes under a right or wrong digest, without a manifest.
    pub(crate) fn hold_bytes(&self, digest: Digest, bytes: impl Into<Bytes>) {
        self.memory.insert_unverified(digest, bytes.into()).unwrap();
    }

    /// Responds with another manifest than the right one, or with a failure.
    pub(crate) fn answer_manifest(&self, blob: &Digest, answer: Result<Manifest, ErrorKind>) {
        self.manifests.lock().unwrap().insert(*blob, answer);
    }

    pub(crate) fn evict(&self, digest: &Digest) {
        self.memory.remove(digest);
    }

    pub(crate) fn script(
        &self,
        script: impl Fn(&Call, Option<&Digest>, usize) -> Act + Send + Sync + 'static,
    ) {
        *self.script.lock().unwrap() = Box::new(script);
    }

    /// All calls, in order.
    pub(crate) fn log(&self) -> Vec<Call> {
        self.log.lock().unwrap().clone()
    }

    /// Forgets all calls so far.
    pub(crate) fn forget(&self) {
        self.log.lock().unwrap().clear();
        self.finished.lock().unwrap().clear();
    }

    /// The calls with a complete response, in the order of their ends.
    pub(crate) fn finished(&self) -> Vec<Call> {
        self.finished.lock().unwrap().clone()
    }

    /// How often each chunk was requested.
    pub(crate) fn asked_for(&self) -> HashMap<Digest, usize> {
        let mut counts = HashMap::new();
        for digest in self.log().iter().flat_map(Call::digests) {
            *counts.entry(digest).or_default() += 1;
        }
        counts
    }

    /// Calls that ask for bytes.
    pub(crate) fn fetches(&self) -> Vec<Call> {
        self.log().into_iter().filter(|call| !call.digests().is_empty()).collect()
    }

    /// Opens `gate` after `count` calls for bytes have their response.
    pub(crate) fn open_after(&self, count: usize, gate: &CancellationToken) {
        *self.opens.lock().unwrap() = Some((count, gate.clone()));
    }

    fn finish(&self, call: Call) {
        let mut finished = self.finished.lock().unwrap();
        finished.push(call);
        if let Some((count, gate)) = &*self.opens.lock().unwrap()
            && finished.len() >= *count
        {
            gate.cancel();
        }
    }

    pub(crate) fn in_flight(&self) -> usize {
        self.in_flight.load(Ordering::SeqCst)
    }

    pub(crate) fn in_flight_peak(&self) -> usize {
        self.in_flight_peak.load(Ordering::SeqCst)
    }

    fn begin(&self, call: &Call) -> (InFlight, Act) {
        self.log.lock().unwrap().push(call.clone());
        let now = self.in_flight.fetch_add(1, Ordering::SeqCst) + 1;
        self.in_flight_peak.fetch_max(now, Ordering::SeqCst);
        let digest = match call {
            Call::Get { digest, .. } => Some(*digest),
            _ => None,
        };
        let act = (self.script.lock().unwrap())(call, digest.as_ref(), self.nth(digest.as_ref()));
        (InFlight(Arc::clone(&self.in_flight)), act)
    }

    fn nth(&self, digest: Option<&Digest>) -> usize {
        let Some(digest) = digest else { return 0 };
        let mut asked = self.asked.lock().unwrap();
        let count = asked.entry(*digest).or_default();
        *count += 1;
        *count - 1
    }

    fn bytes(&self, digest: &Digest) -> Option<Bytes> {
        self.memory.bytes(digest)
    }
}

async fn act(act: &Act) -> Result<()> {
    if !act.delay.is_zero() {
        tokio::time::sleep(act.delay).await;
    }
    if let Some(gate) = &act.gate {
        gate.cancelled().await;
    }
    match act.fault {
        Fault::Broken => Err(error(ErrorKind::Transport, RetryClass::Now)),
        Fault::Refused => Err(error(ErrorKind::NoAccess, RetryClass::Never)),
        Fault::Missing => Err(error(ErrorKind::NotFound, RetryClass::Never)),
        Fault::Changed => Err(error(ErrorKind::Changed, RetryClass::Never)),
        Fault::Hang => std::future::pending().await,
        _ => Ok(()),
    }
}

fn error(kind: ErrorKind, class: RetryClass) -> Error {
    Error::new(kind, Operation::Read, "fake", "as the script says").retryable(class)
}

fn flipped(bytes: &Bytes) -> Bytes {
    let mut bytes = bytes.to_vec();
    if let Some(byte) = bytes.last_mut() {
        *byte ^= 1;
    }
    bytes.into()
}

#[async_trait]
impl BlobStore for FakeStore {
    fn identity(&self) -> Cow<'_, str> {
        Cow::Borrowed(&self.identity)
    }

    async fn missing(&self, _: &[Digest]) -> Result<Vec<Digest>> {
        Err(error(ErrorKind::Unsupported, RetryClass::Never))
    }

    async fn get(&self, digest: &Digest, offset: u64, _: &Budget) -> Result<Body> {
        let call = Call::Get { digest: *digest, offset };
        let (in_flight, how) = self.begin(&call);
        act(&how).await?;
        let Some(mut bytes) = self.bytes(digest) else {
            return Err(error(ErrorKind::NotFound, RetryClass::Never));
        };
        if how.fault == Fault::Empty {
            return Ok(Box::pin(stream::unfold(in_flight, |guard| async move {
                tokio::time::sleep(Duration::from_secs(1)).await;
                Some((Ok(Bytes::new()), guard))
            })));
        }
        if how.fault == Fault::Flipped {
            bytes = flipped(&bytes);
        }
        bytes = bytes.slice(usize::try_from(offset).unwrap()..);
        if how.fault == Fault::Longer {
            bytes = [&bytes[..], &[7; 15_000]].concat().into();
        }
        let (end, breaks) = match how.fault {
            Fault::CutAfter(count) => (count, true),
            Fault::EndAfter(count) => (count, false),
            _ => (usize::MAX, false),
        };
        bytes.truncate(end);
        self.finish(call);
        let (frame_bytes, pause) = match how.fault {
            Fault::Drip(bytes) => (bytes, Some(Duration::from_secs(1))),
            _ => (FRAME_BYTES, None),
        };
        let frames = stream::unfold(
            (bytes, breaks, in_flight),
            move |(mut rest, breaks, guard)| async move {
                if rest.is_empty() {
                    let broken = || Err(error(ErrorKind::Transport, RetryClass::Now));
                    return breaks.then(|| (broken(), (rest, false, guard)));
                }
                let frame = rest.split_to(rest.len().min(frame_bytes));
                match pause {
                    Some(pause) => tokio::time::sleep(pause).await,
                    None => tokio::task::yield_now().await,
                }
                Some((Ok(frame), (rest, breaks, guard)))
            },
        );
        Ok(Box::pin(frames))
    }

    async fn put(&self, _: &PutRequest) -> Result<()> {
        Err(error(ErrorKind::Unsupported, RetryClass::Never))
    }
}

#[async_trait]
impl ChunkStore for FakeStore {
    async fn profile(&self) -> Result<Arc<StoreProfile>> {
        let (_in_flight, how) = self.begin(&Call::Profile);
        act(&how).await?;
        Ok(Arc::new(self.profile.clone()))
    }

    async fn get_batch(
        &self,
        digests: &[Digest],
        _: &Budget,
    ) -> Result<Vec<Result<Option<Bytes>>>> {
        let call = Call::Batch { digests: digests.to_vec() };
        let (_in_flight, how) = self.begin(&call);
        let limits = self.profile.batch.unwrap();
        let loads = digests.iter().map(|digest| digest.len + limits.overhead_bytes);
        assert!(loads.sum::<u64>() <= limits.bytes_max && digests.len() <= limits.count_max);
        act(&how).await?;
        let mut answers = Vec::new();
        for digest in digests {
            let nth = self.nth(Some(digest));
            let one = (self.script.lock().unwrap())(&call, Some(digest), nth);
            answers.push(match one.fault {
                Fault::Missing => Ok(None),
                Fault::Broken => Err(error(ErrorKind::Remote, RetryClass::Now)),
                Fault::Refused => Err(error(ErrorKind::NoAccess, RetryClass::Never)),
                Fault::Flipped => Ok(self.bytes(digest).as_ref().map(flipped)),
                _ => Ok(self.bytes(digest)),
            });
        }
        if how.fault == Fault::Fewer {
            answers.pop();
        }
        self.finish(call);
        Ok(answers)
    }

    async fn put_batch(&self, _: &[(Digest, Bytes)], _: &SendProgress) -> Result<Vec<Result<()>>> {
        Err(error(ErrorKind::Unsupported, RetryClass::Never))
    }

    async fn manifest(
        &self,
        digest: &Digest,
        _: Option<&Chunking>,
        _: &Budget,
    ) -> Result<Option<Manifest>> {
        let (_in_flight, how) = self.begin(&Call::Manifest);
        act(&how).await?;
        match self.manifests.lock().unwrap().get(digest) {
            None => Ok(None),
            Some(Ok(manifest)) => Ok(Some(manifest.clone())),
            Some(Err(kind)) => Err(error(*kind, RetryClass::Never)),
        }
    }

    async fn register(&self, _: &Manifest) -> Result<Registered> {
        Err(error(ErrorKind::Unsupported, RetryClass::Never))
    }
}
