//! The server: its listener, and the owner of all its tasks.

use std::{
    io,
    net::SocketAddr,
    sync::{Arc, PoisonError, atomic::Ordering},
    time::Duration,
};

use bytes::Bytes;
use tokio::{
    net::{TcpListener, TcpStream},
    task::{JoinHandle, JoinSet},
};
use tokio_rustls::TlsAcceptor;

use super::{
    blob_name::{BlobName, HashFunction},
    cas::{Chunks, chunks_of, joined},
    chunk_function::ChunkFunction,
    connection,
    counts::{ReapiCall, ReapiCounts},
    hostile::{Acknowledged, HostileCall},
    options::ReapiOptions,
    script::ReapiScript,
    shared::Shared,
};
use crate::tls::Tls;

/// Pause after a failed accept, as when file descriptors have run out.
const ACCEPT_RETRY: Duration = Duration::from_millis(10);

/// A running cache on 127.0.0.1 with the Remote Execution API; it ends when this is dropped.
#[derive(Debug)]
pub struct ReapiServer {
    shared: Arc<Shared>,
    addr: SocketAddr,
    tls: Option<TlsMaterial>,
    accepting: JoinHandle<()>,
}

/// The TLS settings of clients, as PEM.
#[derive(Debug, Clone)]
struct TlsMaterial {
    ca_pem: String,
    client_pem: Option<(String, String)>,
}

impl ReapiServer {
    /// Binds and starts to accept on the current runtime, which needs its I/O and time drivers.
    pub async fn start(options: ReapiOptions) -> io::Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", options.port)).await?;
        let addr = listener.local_addr()?;
        let identity = options.tls.map(|tls| tls_identity(tls, &options)).transpose()?;
        let (acceptor, tls) = identity.unzip();
        let shared = Arc::new(Shared::new(options));
        let accepting = tokio::spawn(accept(listener, acceptor, Arc::clone(&shared)));
        Ok(Self { shared, addr, tls, accepting })
    }

    /// The address on which it listens.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// `grpc://127.0.0.1:PORT/INSTANCE`, or `grpcs`, without a slash at the end.
    pub fn url(&self) -> String {
        let scheme = if self.tls.is_some() { "grpcs" } else { "grpc" };
        let instance = &self.shared.options.instance;
        let slash = if instance.is_empty() { "" } else { "/" };
        format!("{scheme}://{}{slash}{instance}", self.addr)
    }

    /// The script of faults.
    pub fn script(&self) -> &ReapiScript {
        &self.shared.script
    }

    /// Applies these lies from now on, in addition to the faults scripted already.
    pub fn tell(&self, call: &HostileCall) {
        call.rules().for_each(|rule| self.script().push(rule));
    }

    /// The acknowledgements of responses so far; empty unless
    /// [`ReapiOptions::acknowledgements`] is set.
    pub fn acknowledged(&self) -> Acknowledged {
        self.shared.acknowledged.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Puts a blob, whole, under its SHA-256.
    pub fn put(&self, data: impl Into<Bytes>) -> BlobName {
        self.put_as(HashFunction::Sha256, data)
    }

    /// Puts a blob, whole, under its name by this function.
    pub fn put_as(&self, function: HashFunction, data: impl Into<Bytes>) -> BlobName {
        let data = data.into();
        let name = function.name(&data);
        self.shared.cas.put(name.clone(), vec![data]);
        name
    }

    /// Puts a blob as its chunks, so that it is known only by its manifest. Returns its name and
    /// the names of the chunks, in order.
    pub fn put_chunked(
        &self,
        hash_function: HashFunction,
        chunk_function: ChunkFunction,
        data: impl Into<Bytes>,
    ) -> (BlobName, Vec<BlobName>) {
        let data = data.into();
        let chunks = chunks_of(hash_function, chunk_function, &data);
        let names: Vec<BlobName> = chunks.iter().map(|(name, _)| name.clone()).collect();
        for (name, chunk) in chunks {
            self.shared.cas.put(name, vec![chunk]);
        }
        let name = hash_function.name(&data);
        let manifest = Chunks { names: names.clone(), function: chunk_function.number() };
        self.shared.cas.put_manifest(name.clone(), manifest);
        (name, names)
    }

    /// Whether a blob exists: whole, or by a manifest whose chunks all exist.
    pub fn contains(&self, name: &BlobName) -> bool {
        self.shared.cas.contains(name)
    }

    /// The bytes of a blob, stored whole or by manifest.
    pub fn blob(&self, name: &BlobName) -> Option<Bytes> {
        self.shared.cas.pieces(name).map(joined)
    }

    /// The chunks of a blob that is known only by its manifest.
    pub fn manifest(&self, name: &BlobName) -> Option<Vec<BlobName>> {
        self.shared.cas.manifest(name).map(|chunks| chunks.names)
    }

    /// All stored blobs in no order, including those with missing chunks.
    pub fn blobs(&self) -> Vec<BlobName> {
        self.shared.cas.names()
    }

    /// Evicts the blobs of this hash.
    pub fn evict(&self, hash: &str) {
        self.shared.cas.evict(hash);
    }

    /// Evicts the blobs of this hash. `FindMissingBlobs` reports that they exist until they are put
    /// again.
    pub fn haunt(&self, hash: &str) {
        self.shared.cas.haunt(hash);
    }

    /// All counts so far.
    pub fn counts(&self) -> ReapiCounts {
        self.shared.ledger.snapshot()
    }

    /// The calls so far, in the order of their arrival.
    pub fn calls(&self) -> Vec<ReapiCall> {
        self.shared.ledger.calls()
    }

    /// Clears calls and counts, except calls in flight.
    pub fn clear_counts(&self) {
        self.shared.ledger.clear();
    }

    /// Connections accepted so far.
    pub fn connections(&self) -> u64 {
        self.shared.connections.load(Ordering::Acquire)
    }

    /// Waits until the counts satisfy the condition. Cancel-safe.
    pub async fn counted(&self, holds: impl Fn(&ReapiCounts) -> bool) {
        self.shared.ledger.wait_until(holds).await;
    }

    /// Waits until no call is in flight. Cancel-safe.
    pub async fn idle(&self) {
        self.counted(|counts| counts.total.in_flight == 0).await;
    }

    /// The CA certificate that a client has to trust, if the server speaks TLS.
    pub fn ca_pem(&self) -> Option<&str> {
        self.tls.as_ref().map(|tls| tls.ca_pem.as_str())
    }

    /// A certificate and its key that the server accepts, if it requires one.
    pub fn client_pem(&self) -> Option<(&str, &str)> {
        let (certificate, key) = self.tls.as_ref()?.client_pem.as_ref()?;
        Some((certificate, key))
    }
}

impl Drop for ReapiServer {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

fn tls_identity(tls: Tls, options: &ReapiOptions) -> io::Result<(TlsAcceptor, TlsMaterial)> {
    let identity = tls.identity(&[b"h2"], options.client_certificate)?;
    let material = TlsMaterial { ca_pem: identity.ca_pem, client_pem: identity.client_pem };
    Ok((identity.acceptor, material))
}

async fn accept(listener: TcpListener, acceptor: Option<TlsAcceptor>, shared: Arc<Shared>) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            Some(_) = connections.join_next(), if !connections.is_empty() => {}
            accepted = listener.accept() => match accepted {
                Ok((tcp, _)) => {
                    let number = shared.connections.fetch_add(1, Ordering::AcqRel) + 1;
                    connections.spawn(connect(Arc::clone(&shared), number, tcp, acceptor.clone()));
                }
                Err(_) => tokio::time::sleep(ACCEPT_RETRY).await,
            },
        }
    }
}

async fn connect(shared: Arc<Shared>, number: u64, tcp: TcpStream, acceptor: Option<TlsAcceptor>) {
    // Without it a response could wait for the client's delayed acknowledgement.
    let _ = tcp.set_nodelay(true);
    match acceptor {
        None => connection::serve(shared, number, tcp).await,
        Some(acceptor) => {
            let Ok(stream) = acceptor.accept(tcp).await else { return };
            connection::serve(shared, number, stream).await;
        }
    }
}
