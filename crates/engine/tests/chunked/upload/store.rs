//! A [`MemoryStore`] that follows a script and records every call.

use std::borrow::Cow;
use std::cell::OnceCell;
use std::collections::{HashMap, HashSet};
use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use bytes::{Bytes, BytesMut};
use tidegate::chunked::{
    BatchLimits, BlobStore, ChunkStore, Manifest, PutRequest, PutSource, Registered, SendProgress,
    StoreProfile,
};
use tidegate::remote::Body;
use tidegate::store::MemoryStore;
use tidegate::{Budget, Error, ErrorKind, Operation, Result};
use tidegate_core::chunking::Chunking;
use tidegate_core::digest::{Digest, DigestFunction};
use tidegate_core::retry::RetryClass;
use tokio::sync::Semaphore;

/// A recorded call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Call {
    Missing(Vec<Digest>),
    Put { digest: Digest, upload_id: String, resume: bool },
    PutBatch(Vec<Digest>),
    Register { blob: Digest, chunking: Option<Chunking> },
}

/// How the store responds to a call.
pub(crate) enum Reply {
    /// Does what a store does.
    Go,
    /// Fails as a whole.
    Fail(ErrorKind, RetryClass),
    /// For a batch: fails this number of chunks. For a put: takes this number of pieces and then
    /// breaks.
    Break(usize),
    /// Waits for a permit, then continues.
    Wait(Arc<Semaphore>),
    /// Takes this number of bytes of a put each second, and never all.
    Drip(u64),
    /// For `missing`: lacks only these.
    Lacks(Vec<Digest>),
    /// For `register`: a chunk is missing, even if all are there.
    ChunkMissing,
    /// For a batch: fails the first chunk for now and the last for good.
    Refuse,
    /// For a batch: one response is missing.
    Short,
}

/// All blobs, to read and change. The store takes over the changes when this is dropped.
pub(crate) struct Blobs {
    memory: MemoryStore,
    all: OnceCell<HashMap<Digest, Bytes>>,
    is_changed: bool,
}

impl Blobs {
    fn of(memory: &MemoryStore) -> Self {
        Self { memory: memory.clone(), all: OnceCell::new(), is_changed: false }
    }
}

impl Deref for Blobs {
    type Target = HashMap<Digest, Bytes>;

    fn deref(&self) -> &Self::Target {
        let bytes = |digest: Digest| Some((digest, self.memory.bytes(&digest)?));
        self.all.get_or_init(|| self.memory.digests().into_iter().filter_map(bytes).collect())
    }
}

impl DerefMut for Blobs {
    fn deref_mut(&mut self) -> &mut Self::Target {
        let _ = Deref::deref(self);
        self.is_changed = true;
        self.all.get_mut().unwrap()
    }
}

impl Drop for Blobs {
    fn drop(&mut self) {
        let Some(all) = self.all.take().filter(|_| self.is_changed) else { return };
        let kept: HashSet<Digest> = self.memory.digests().into_iter().collect();
        for lost in kept.iter().filter(|digest| !all.contains_key(digest)) {
            self.memory.remove(lost);
        }
        for (digest, bytes) in all {
            if !kept.contains(&digest) {
                self.memory.insert_unverified(digest, bytes).unwrap();
            }
        }
    }
}

/// The capacity of the store, far above what any test needs.
const HELD_BYTES_MAX: u64 = 1 << 30;

type Script = Box<dyn FnMut(&Call, &mut Blobs) -> Reply + Send>;

pub(crate) struct FakeStore {
    identity: String,
    pub(crate) profile: StoreProfile,
    /// Takes bytes without verifying their digest.
    believes: AtomicBool,
    /// Reports a buffer for a copy of the bytes of a put.
    packs: AtomicBool,
    memory: MemoryStore,
    log: Mutex<Vec<Call>>,
    script: Mutex<Script>,
    in_flight: AtomicUsize,
    putting: AtomicUsize,
    putting_peak: AtomicUsize,
    bytes: AtomicU64,
    bytes_peak: AtomicU64,
}

impl fmt::Debug for FakeStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FakeStore").field("identity", &self.identity).finish_non_exhaustive()
    }
}

/// A cache's profile with batches of 64 KiB, so that test files can be small.
pub(crate) fn profile(chunkings: &[Chunking]) -> StoreProfile {
    let mut profile = StoreProfile::new(DigestFunction::Sha256);
    profile.digest_functions.push(DigestFunction::Blake3);
    profile.chunkings = chunkings.to_vec();
    profile.can_split = true;
    profile.can_splice = true;
    profile.batch = Some(BatchLimits { bytes_max: 64 << 10, count_max: 500, overhead_bytes: 60 });
    profile
}

impl FakeStore {
    pub(crate) fn new(profile: StoreProfile) -> Arc<Self> {
        Self::scripted(profile, |_, _| Reply::Go)
    }

    pub(crate) fn scripted(
        profile: StoreProfile,
        script: impl FnMut(&Call, &mut Blobs) -> Reply + Send + 'static,
    ) -> Arc<Self> {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        Arc::new(Self {
            // Tests in one process must not share chunks in flight.
            identity: format!("fake-{}", COUNT.fetch_add(1, Ordering::SeqCst)),
            profile,
            believes: AtomicBool::new(false),
            packs: AtomicBool::new(false),
            memory: MemoryStore::new(HELD_BYTES_MAX),
            log: Mutex::default(),
            script: Mutex::new(Box::new(script)),
            in_flight: AtomicUsize::new(0),
            putting: AtomicUsize::new(0),
            putting_peak: AtomicUsize::new(0),
            bytes: AtomicU64::new(0),
            bytes_peak: AtomicU64::new(0),
        })
    }

    /// From now on takes bytes without verifying their digest.
    pub(crate) fn believe(&self) {
        self.believes.store(true, Ordering::SeqCst);
    }

    /// From now on reports that it buffers a copy of a put, or not.
    pub(crate) fn pack(&self, packs: bool) {
        self.packs.store(packs, Ordering::SeqCst);
    }

    pub(crate) fn blobs(&self) -> Blobs {
        Blobs::of(&self.memory)
    }

    pub(crate) fn log(&self) -> Vec<Call> {
        self.log.lock().unwrap().clone()
    }

    /// Digests in the order in which they were put, repeats included.
    pub(crate) fn puts(&self) -> Vec<Digest> {
        let log = self.log();
        let puts = log.iter().flat_map(|call| match call {
            Call::Put { digest, .. } => std::slice::from_ref(digest),
            Call::PutBatch(digests) => digests,
            _ => &[],
        });
        puts.copied().collect()
    }

    pub(crate) fn count(&self, test: impl Fn(&Call) -> bool) -> usize {
        self.log().iter().filter(|call| test(call)).count()
    }

    pub(crate) fn registers(&self) -> usize {
        self.count(|call| matches!(call, Call::Register { .. }))
    }

    /// Calls that have not returned.
    pub(crate) fn in_flight(&self) -> usize {
        self.in_flight.load(Ordering::SeqCst)
    }

    /// The peak number of calls with bytes in flight.
    pub(crate) fn putting_peak(&self) -> usize {
        self.putting_peak.load(Ordering::SeqCst)
    }

    /// Bytes of batches in flight.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::SeqCst)
    }

    /// The peak of the bytes of batches in flight.
    pub(crate) fn bytes_peak(&self) -> u64 {
        self.bytes_peak.load(Ordering::SeqCst)
    }

    async fn begin(&self, call: Call) -> Result<(Reply, Under<'_>)> {
        let bytes = match &call {
            Call::PutBatch(digests) => digests.iter().map(|digest| digest.len).sum(),
            _ => 0,
        };
        let is_put = matches!(call, Call::Put { .. } | Call::PutBatch(_));
        let under = Under { store: self, bytes, is_put };
        self.in_flight.fetch_add(1, Ordering::SeqCst);
        let now = self.bytes.fetch_add(bytes, Ordering::SeqCst) + bytes;
        self.bytes_peak.fetch_max(now, Ordering::SeqCst);
        let now = self.putting.fetch_add(usize::from(is_put), Ordering::SeqCst);
        self.putting_peak.fetch_max(now + usize::from(is_put), Ordering::SeqCst);
        self.log.lock().unwrap().push(call.clone());
        let reply = (self.script.lock().unwrap())(&call, &mut self.blobs());
        // Yields, so that calls of one task overlap and are counted.
        tokio::task::yield_now().await;
        match reply {
            Reply::Fail(kind, class) => Err(failure(kind, class)),
            Reply::Wait(gate) => {
                gate.acquire().await.unwrap().forget();
                Ok((Reply::Go, under))
            }
            reply => Ok((reply, under)),
        }
    }

    async fn take(&self, digest: &Digest, bytes: &Bytes) -> Result<()> {
        if self.believes.load(Ordering::SeqCst) {
            // A copy: the bytes of a put are charged to the caller's budget.
            return self.memory.insert_unverified(*digest, Bytes::copy_from_slice(bytes));
        }
        self.memory.put(&PutRequest::new(*digest, Arc::new(bytes.clone()))).await
    }
}

/// A call in flight.
struct Under<'a> {
    store: &'a FakeStore,
    bytes: u64,
    is_put: bool,
}

impl Drop for Under<'_> {
    fn drop(&mut self) {
        self.store.in_flight.fetch_sub(1, Ordering::SeqCst);
        self.store.putting.fetch_sub(usize::from(self.is_put), Ordering::SeqCst);
        self.store.bytes.fetch_sub(self.bytes, Ordering::SeqCst);
    }
}

pub(crate) fn failure(kind: ErrorKind, class: RetryClass) -> Error {
    Error::new(kind, Operation::Upload, "fake", "the script says so").retryable(class)
}

/// A source that delivers a number of pieces and then breaks.
#[derive(Debug)]
struct Breaking {
    source: Arc<dyn PutSource>,
    pieces: Option<usize>,
    given: AtomicUsize,
}

#[async_trait]
impl PutSource for Breaking {
    async fn read(&self, offset: u64, len_max: usize) -> Result<Bytes> {
        if self.pieces == Some(self.given.fetch_add(1, Ordering::SeqCst)) {
            return Err(failure(ErrorKind::Transport, RetryClass::Now));
        }
        self.source.read(offset, len_max.min(50_000)).await
    }
}

#[async_trait]
impl BlobStore for FakeStore {
    fn identity(&self) -> Cow<'_, str> {
        Cow::Borrowed(&self.identity)
    }

    fn put_buffer_bytes(&self, len: u64) -> u64 {
        if self.packs.load(Ordering::SeqCst) { len.min(2 << 20) } else { 0 }
    }

    async fn missing(&self, digests: &[Digest]) -> Result<Vec<Digest>> {
        assert!(digests.iter().all(|digest| digest.len > 0), "the empty blob is never asked for");
        let (reply, _under) = self.begin(Call::Missing(digests.to_vec())).await?;
        if let Reply::Lacks(lacks) = reply {
            return Ok(lacks);
        }
        self.memory.missing(digests).await
    }

    async fn get(&self, _digest: &Digest, _offset: u64, _budget: &Budget) -> Result<Body> {
        unreachable!("an upload gets nothing")
    }

    async fn put(&self, request: &PutRequest) -> Result<()> {
        let digest = request.digest;
        let upload_id = request.session.upload_name(new_upload_id).to_owned();
        let call = Call::Put { digest, upload_id, resume: request.resume };
        let (reply, _under) = self.begin(call).await?;
        if let Reply::Drip(bytes) = reply {
            loop {
                tokio::time::sleep(Duration::from_secs(1)).await;
                request.progress.passed(bytes);
            }
        }
        let pieces = if let Reply::Break(pieces) = reply { Some(pieces) } else { None };
        let source = Breaking { source: Arc::clone(&request.source), pieces, given: 0.into() };
        if self.believes.load(Ordering::SeqCst) {
            let mut bytes = BytesMut::new();
            while let next = source.read(bytes.len() as u64, 50_000).await?
                && !next.is_empty()
            {
                bytes.extend_from_slice(&next);
            }
            return self.memory.insert_unverified(digest, bytes.freeze());
        }
        self.memory.put(&PutRequest { source: Arc::new(source), ..request.clone() }).await
    }
}

/// 32 hexadecimal digits that no other upload has.
fn new_upload_id() -> String {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    format!("{:032x}", COUNT.fetch_add(1, Ordering::SeqCst))
}

#[async_trait]
impl ChunkStore for FakeStore {
    async fn profile(&self) -> Result<Arc<StoreProfile>> {
        Ok(Arc::new(self.profile.clone()))
    }

    async fn get_batch(&self, _: &[Digest], _: &Budget) -> Result<Vec<Result<Option<Bytes>>>> {
        unreachable!("an upload gets nothing")
    }

    fn put_batch_buffer_bytes(&self, len: u64) -> u64 {
        if self.packs.load(Ordering::SeqCst) { len } else { 0 }
    }

    async fn put_batch(
        &self,
        chunks: &[(Digest, Bytes)],
        progress: &SendProgress,
    ) -> Result<Vec<Result<()>>> {
        progress.passed(chunks.iter().map(|(digest, _)| digest.len).sum());
        let digests: Vec<Digest> = chunks.iter().map(|(digest, _)| *digest).collect();
        let limits = self.profile.batch.expect("batches are taken");
        let bytes: u64 = digests.iter().map(|digest| digest.len + limits.overhead_bytes).sum();
        assert!(bytes <= limits.bytes_max && chunks.len() <= limits.count_max, "too large a batch");
        let (reply, _under) = self.begin(Call::PutBatch(digests)).await?;
        let broken = match reply {
            Reply::Break(broken) => broken,
            Reply::Refuse => 1,
            _ => 0,
        };
        let mut answers = Vec::new();
        for (index, (digest, bytes)) in chunks.iter().enumerate() {
            answers.push(if matches!(reply, Reply::Refuse) && index + 1 == chunks.len() {
                Err(failure(ErrorKind::NoAccess, RetryClass::Never))
            } else if index < broken {
                Err(failure(ErrorKind::Remote, RetryClass::Now))
            } else {
                self.take(digest, bytes).await
            });
        }
        if matches!(reply, Reply::Short) {
            answers.pop();
        }
        Ok(answers)
    }

    async fn manifest(
        &self,
        _digest: &Digest,
        _chunking: Option<&Chunking>,
        _budget: &Budget,
    ) -> Result<Option<Manifest>> {
        unreachable!("an upload asks for no manifest")
    }

    async fn register(&self, manifest: &Manifest) -> Result<Registered> {
        let blob = *manifest.blob();
        let call = Call::Register { blob, chunking: manifest.chunking().copied() };
        let (reply, _under) = self.begin(call).await?;
        if matches!(reply, Reply::ChunkMissing) {
            return Ok(Registered::ChunkMissing);
        }
        self.memory.register(manifest).await
    }
}
