//! A store in memory that does what a script says, verifies what it is given as a cache would, and
//! remembers every call.

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use async_trait::async_trait;
use bytes::{Bytes, BytesMut};
use tidegate::chunked::{
    BatchLimits, ChunkStore, Manifest, PutRequest, Registered, SendProgress, StoreProfile,
};
use tidegate::remote::Body;
use tidegate::{Budget, Error, ErrorKind, Operation, Result};
use tidegate_core::chunking::Chunking;
use tidegate_core::digest::{Digest, DigestFunction};
use tidegate_core::retry::RetryClass;
use tokio::sync::Semaphore;

/// What the store was asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Call {
    Missing(Vec<Digest>),
    Put { digest: Digest, upload_id: String, resume: bool },
    PutBatch(Vec<Digest>),
    Register { blob: Digest, chunking: Option<Chunking> },
}

/// What it does about that.
pub(crate) enum Reply {
    /// What a store does.
    Go,
    /// Fails as a whole.
    Fail(ErrorKind, RetryClass),
    /// Of a batch, fails these; of a put, takes so many pieces and then breaks.
    Break(usize),
    /// Waits for a permit, then goes on.
    Wait(Arc<Semaphore>),
    /// Takes so many bytes of a put each second, and never all.
    Drip(u64),
    /// For `missing`: lacks only these.
    Lacks(Vec<Digest>),
    /// For `register`: a chunk is missing, whatever there is.
    ChunkMissing,
    /// Of a batch, fails the first for now and the last for good.
    Refuse,
    /// For a batch: answers for one chunk less.
    Short,
}

pub(crate) type Blobs = HashMap<Digest, Bytes>;

type Script = Box<dyn FnMut(&Call, &mut Blobs) -> Reply + Send>;

pub(crate) struct FakeStore {
    identity: String,
    pub(crate) profile: StoreProfile,
    /// Takes chunks for what they are called.
    believes: AtomicBool,
    blobs: Mutex<Blobs>,
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

/// What a cache says of itself: 64 KiB a batch, so that tests need not be large.
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
            blobs: Mutex::default(),
            log: Mutex::default(),
            script: Mutex::new(Box::new(script)),
            in_flight: AtomicUsize::new(0),
            putting: AtomicUsize::new(0),
            putting_peak: AtomicUsize::new(0),
            bytes: AtomicU64::new(0),
            bytes_peak: AtomicU64::new(0),
        })
    }

    /// From now on takes chunks for what they are called.
    pub(crate) fn believe(&self) {
        self.believes.store(true, Ordering::SeqCst);
    }

    pub(crate) fn blobs(&self) -> MutexGuard<'_, Blobs> {
        self.blobs.lock().unwrap()
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

    /// The most calls that carried bytes at once.
    pub(crate) fn putting_peak(&self) -> usize {
        self.putting_peak.load(Ordering::SeqCst)
    }

    /// Bytes of batches in flight.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::SeqCst)
    }

    /// The most bytes of batches in flight.
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
        // Whoever sends many at once is seen to.
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

    fn take(&self, digest: &Digest, bytes: &Bytes) -> Result<()> {
        let is_believed = self.believes.load(Ordering::SeqCst);
        if !is_believed && Digest::of(digest.function, bytes) != *digest {
            return Err(failure(ErrorKind::Integrity, RetryClass::Never));
        }
        // A copy: what is put is the budget's.
        self.blobs().insert(*digest, Bytes::copy_from_slice(bytes));
        Ok(())
    }
}

/// A call under way.
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

#[async_trait]
impl ChunkStore for FakeStore {
    fn identity(&self) -> &str {
        &self.identity
    }

    async fn profile(&self) -> Result<Arc<StoreProfile>> {
        Ok(Arc::new(self.profile.clone()))
    }

    async fn missing(&self, digests: &[Digest]) -> Result<Vec<Digest>> {
        assert!(digests.iter().all(|digest| digest.len > 0), "the empty blob is never asked for");
        let (reply, _under) = self.begin(Call::Missing(digests.to_vec())).await?;
        if let Reply::Lacks(lacks) = reply {
            return Ok(lacks);
        }
        let blobs = self.blobs();
        Ok(digests.iter().filter(|digest| !blobs.contains_key(digest)).copied().collect())
    }

    async fn get(&self, _digest: &Digest, _offset: u64, _budget: &Budget) -> Result<Body> {
        unreachable!("an upload gets nothing")
    }

    async fn get_batch(&self, _digests: &[Digest]) -> Result<Vec<Result<Option<Bytes>>>> {
        unreachable!("an upload gets nothing")
    }

    async fn put(&self, request: &PutRequest) -> Result<()> {
        let (digest, upload_id) = (request.digest, request.upload_id.clone());
        let call = Call::Put { digest, upload_id, resume: request.resume };
        let (reply, _under) = self.begin(call).await?;
        if let Reply::Drip(bytes) = reply {
            loop {
                tokio::time::sleep(Duration::from_secs(1)).await;
                request.progress.passed(bytes);
            }
        }
        let mut bytes = BytesMut::new();
        for piece in 0.. {
            if matches!(reply, Reply::Break(pieces) if piece == pieces) {
                return Err(failure(ErrorKind::Transport, RetryClass::Now));
            }
            let next = request.source.read(bytes.len() as u64, 50_000).await?;
            if next.is_empty() {
                break;
            }
            bytes.extend_from_slice(&next);
        }
        self.take(&request.digest, &bytes.freeze())
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
        let mut answers: Vec<Result<()>> = (chunks.iter().enumerate())
            .map(|(index, (digest, bytes))| {
                if matches!(reply, Reply::Refuse) && index + 1 == chunks.len() {
                    return Err(failure(ErrorKind::NoAccess, RetryClass::Never));
                }
                if index < broken {
                    return Err(failure(ErrorKind::Remote, RetryClass::Now));
                }
                self.take(digest, bytes)
            })
            .collect();
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
        let mut whole = BytesMut::new();
        for chunk in manifest.chunks() {
            match self.blobs().get(chunk) {
                Some(bytes) if !matches!(reply, Reply::ChunkMissing) => {
                    whole.extend_from_slice(bytes);
                }
                _ => return Ok(Registered::ChunkMissing),
            }
        }
        self.take(&blob, &whole.freeze())?;
        Ok(Registered::Done)
    }
}
