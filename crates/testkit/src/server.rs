//! The server: its listener, and the owner of all its tasks.
//!
//! One task accepts connections and owns the set of connection tasks. Dropping the [`Server`]
//! aborts the accepting task and thereby the set. [`Server::shutdown`] also waits until all tasks
//! have ended.

use std::{collections::BTreeMap, io, net::SocketAddr, sync::Arc, time::Duration};

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use tokio::{
    net::TcpListener,
    sync::oneshot,
    task::{JoinHandle, JoinSet},
};
use tokio_rustls::TlsAcceptor;

use crate::{
    blob::Blob,
    connection,
    log::Logged,
    options::ServerOptions,
    origin::{OpenConnection, Origin},
    script::Script,
    store::Selector,
    write::Stored,
};

/// Characters of a path that are not escaped: RFC 3986's unreserved characters and the slash.
const PATH: &AsciiSet =
    &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~').remove(b'/');
/// Pause after a failed accept, as when file descriptors have run out.
const ACCEPT_RETRY: Duration = Duration::from_millis(10);

/// A running server on 127.0.0.1; it ends when this is dropped.
#[derive(Debug)]
pub struct Server {
    origin: Arc<Origin>,
    addr: SocketAddr,
    ca_pem: Option<String>,
    stop: Option<oneshot::Sender<()>>,
    accepting: JoinHandle<()>,
}

impl Server {
    /// Binds and starts to accept on the current runtime, which needs its I/O and time drivers.
    pub async fn start(options: ServerOptions) -> io::Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", options.port)).await?;
        let addr = listener.local_addr()?;
        let (acceptor, ca_pem) = match options.tls {
            Some(tls) => {
                let identity = tls.identity(&[b"http/1.1"], false)?;
                (Some(identity.acceptor), Some(identity.ca_pem))
            }
            None => (None, None),
        };
        let origin = Arc::new(Origin::new(options));
        let (stop, stopped) = oneshot::channel();
        let accepting = tokio::spawn(accept(listener, acceptor, Arc::clone(&origin), stopped));
        Ok(Self { origin, addr, ca_pem, stop: Some(stop), accepting })
    }

    /// Ends all connections at once and waits until their tasks have ended.
    pub async fn shutdown(mut self) {
        if let Some(stop) = self.stop.take() {
            // Sending fails only if the task has already ended.
            let _ = stop.send(());
        }
        let _ = (&mut self.accepting).await;
    }

    /// The address on which it listens.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// The URL of a path as given to [`Server::put`], percent-encoded; `http` or `https`. To name a
    /// version, append a query.
    pub fn url(&self, path: &str) -> String {
        let scheme = if self.ca_pem.is_some() { "https" } else { "http" };
        let slash = if path.starts_with('/') { "" } else { "/" };
        format!("{scheme}://{}{slash}{}", self.addr, utf8_percent_encode(path, PATH))
    }

    /// The scheme, host and port, as endpoint settings want them: no slash at the end.
    pub fn endpoint(&self) -> String {
        self.url("/").trim_end_matches('/').to_owned()
    }

    /// Puts a blob at an absolute path such as `/bucket/key`, not percent-encoded. If the path has
    /// a blob already, the new one gets a higher version.
    pub fn put(&self, path: &str, blob: Blob) {
        self.origin.store.put(path, blob);
    }

    /// The same as [`Server::put`]; the name shows that a test changes a blob.
    pub fn replace(&self, path: &str, blob: Blob) {
        self.put(path, blob);
    }

    /// Removes a blob and all its versions. Responses in flight continue.
    pub fn remove(&self, path: &str) {
        self.origin.store.remove(path);
    }

    /// The current blob at a path, with the version that it got.
    pub fn blob(&self, path: &str) -> Option<Blob> {
        self.origin.store.find(path, &Selector::Latest)
    }

    /// What is at a path now, also if a client wrote it.
    pub fn object(&self, path: &str) -> Option<Stored> {
        self.blob(path).map(|blob| Stored::of(&blob))
    }

    /// The region or the location that a bucket such as `/bucket` was made in, if its maker named one.
    pub fn region_of_bucket(&self, bucket: &str) -> Option<String> {
        self.origin.store.region_of(&format!("{bucket}/"))
    }

    /// Whether there is a bucket such as `/bucket`.
    pub fn has_bucket(&self, bucket: &str) -> bool {
        self.origin.store.has_below(&format!("{bucket}/"))
    }

    /// The paths of all blobs that are there now, in the order of bytes.
    pub fn paths(&self) -> Vec<String> {
        self.origin.store.paths()
    }

    /// Path and id of each upload that is neither complete nor aborted: uploads in parts, and
    /// resumable sessions of GCS. A blob of Azure with uncommitted blocks has no id.
    pub fn unfinished_uploads(&self) -> Vec<(String, String)> {
        let origin = &self.origin;
        let mut names = origin.uploads.names();
        names.extend(origin.sessions.names());
        names.extend(origin.blocks.names().into_iter().map(|path| (path, String::new())));
        names
    }

    /// Forgets all unfinished uploads, as services do after some days.
    pub fn forget_uploads(&self) {
        self.origin.uploads.forget();
        self.origin.sessions.forget();
        self.origin.blocks.forget();
    }

    /// How often a part of each number arrived and was kept, over all uploads.
    pub fn parts_received(&self) -> BTreeMap<u64, u64> {
        self.origin.uploads.received()
    }

    /// How often a block of each id arrived and was kept, over all blobs of Azure.
    pub fn blocks_received(&self) -> BTreeMap<String, u64> {
        self.origin.blocks.received()
    }

    /// Computes the checksums that a blob's responses carry, so that the first response does not
    /// wait for them. Measurements call it before they start the clock.
    pub async fn prepare(&self, path: &str) -> io::Result<()> {
        let Some(blob) = self.blob(path) else { return Err(io::ErrorKind::NotFound.into()) };
        let kinds = self.origin.dialect.kinds(&blob, &self.origin.options);
        blob.sums(&kinds).await.map(|_| ())
    }

    /// The script of faults.
    pub fn script(&self) -> &Script {
        &self.origin.script
    }

    /// The requests so far, in the order of their arrival.
    pub fn log(&self) -> Vec<Logged> {
        self.origin.log.snapshot()
    }

    /// Forgets the log. The counts stay.
    pub fn clear_log(&self) {
        self.origin.log.clear();
    }

    /// Requests that have arrived.
    pub fn requests(&self) -> usize {
        self.origin.counts.borrow().requests
    }

    /// Connections open now.
    pub fn connections_open(&self) -> usize {
        self.origin.connections_open()
    }

    /// Connections accepted so far.
    pub fn connections_accepted(&self) -> u64 {
        self.origin.connections_accepted()
    }

    /// The highest number of requests in service at the same time.
    pub fn peak_concurrent(&self) -> usize {
        self.origin.counts.borrow().in_service_peak
    }

    /// Waits until `count` requests in total have arrived. Cancel-safe.
    pub async fn arrived(&self, count: usize) {
        let mut counts = self.origin.counts.subscribe();
        let _ = counts.wait_for(|counts| counts.requests >= count).await;
    }

    /// Waits until no request is in service, so that the log is complete. Cancel-safe.
    pub async fn idle(&self) {
        let mut counts = self.origin.counts.subscribe();
        let _ = counts.wait_for(|counts| counts.in_service == 0).await;
    }

    /// The CA certificate that a client has to trust, if the server speaks TLS.
    pub fn ca_pem(&self) -> Option<&str> {
        self.ca_pem.as_deref()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

async fn accept(
    listener: TcpListener,
    acceptor: Option<TlsAcceptor>,
    origin: Arc<Origin>,
    mut stopped: oneshot::Receiver<()>,
) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            _ = &mut stopped => break,
            Some(_) = connections.join_next(), if !connections.is_empty() => {}
            accepted = listener.accept() => match accepted {
                Ok((tcp, _)) => {
                    let open = OpenConnection::new(Arc::clone(&origin));
                    let tls = acceptor.clone();
                    connections.spawn(connection::serve(open, Arc::clone(&origin), tcp, tls));
                }
                Err(_) => tokio::time::sleep(ACCEPT_RETRY).await,
            },
        }
    }
    connections.shutdown().await;
}
