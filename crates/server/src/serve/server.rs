//! [`Server`]: a store and a port.

use std::net::SocketAddr;
use std::sync::Arc;

use tidegate::{Budget, BudgetOptions, Error, ErrorKind, Operation, Result};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use super::access::{Door, Quotas, Tls};
use super::fill;
use super::grpc::Api;
use super::http::{HttpCache, HttpLimits};
use super::listener;
use super::observe::{Observer, OperatorRoutes};
use super::options::ServeOptions;
use super::origin::Origins;
use super::purge::PurgeRoute;
use super::route::Routes;
use super::upstream::Upstream;
use super::window::{self, ReceiveWindows};
use crate::store::LocalStore;

/// Requests have no limit in the budget: streams and connections limit them.
const REQUESTS_MAX: u32 = u32::MAX >> 4;

/// A server that is bound and does not accept connections yet.
#[derive(Debug)]
pub struct Server {
    listener: TcpListener,
    address: SocketAddr,
    store: LocalStore,
    door: Arc<Door>,
    budget: Budget,
    windows: ReceiveWindows,
    filling: Filling,
    options: ServeOptions,
}

impl Server {
    /// Opens the store and binds the address.
    ///
    /// Fails with `Invalid` for an address that other machines reach, unless there are credentials or
    /// the options say that the server is open; and for a file of credentials or certificates that
    /// cannot be used.
    pub async fn bind(options: ServeOptions) -> Result<Self> {
        let shown = options.listen.to_string();
        if !options.listen.ip().is_loopback() && !options.is_open && options.credentials.is_none() {
            let message =
                "other machines reach this address, and the server asks for no credentials";
            return Err(Error::new(ErrorKind::Invalid, Operation::Locate, shown, message));
        }
        if options.isolates_tenants && fills(&options) {
            // What one tenant has fetched would be there for all.
            let message = "tenants with blobs of their own can use no origin and no upstream";
            return Err(Error::new(ErrorKind::Invalid, Operation::Locate, shown, message));
        }
        let failed = |error: std::io::Error| {
            let message = "the server cannot listen on this address";
            Error::new(ErrorKind::Transport, Operation::Locate, &shown, message).caused_by(error)
        };
        let listener = TcpListener::bind(options.listen).await.map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let store = LocalStore::open(&options.folder, options.store.clone()).await?;
        let door = open_door(&options, &store).await?;
        let windows = options.memory_bytes_max / window::MEMORY_SHARE;
        let mut bytes = options.memory_bytes_max - windows;
        if fills(&options) {
            bytes -= options.memory_bytes_max / fill::MEMORY_SHARE;
        }
        let budget = Budget::new(BudgetOptions { requests: REQUESTS_MAX, bytes });
        let filling = Filling::new(&options, &store, &budget)?;
        let windows = ReceiveWindows::new(windows);
        let door = Arc::new(door);
        Ok(Self { listener, address, store, door, budget, windows, filling, options })
    }

    /// The address, with the port that was chosen.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The store.
    pub fn store(&self) -> &LocalStore {
        &self.store
    }

    /// The memory that the server's messages and pieces are charged to.
    pub fn budget(&self) -> &Budget {
        &self.budget
    }

    /// Serves until `stop` is cancelled, then drains: requests in flight may end within
    /// `drain_time_max`. Afterwards the store is closed.
    pub async fn run(self, stop: CancellationToken) -> Result<()> {
        let limits = self.options.limits;
        let Filling { origins, upstream } = self.filling.clone();
        let observer = Observer::new();
        let quotas = Arc::new(Quotas::new(&self.options.quotas));
        let http = HttpCache::new(self.store.clone(), self.budget.share(), HttpLimits::default());
        let mut http = http.with_quotas(Arc::clone(&quotas)).observed_by(Arc::clone(&observer));
        let operator = OperatorRoutes::new(
            Arc::clone(&observer),
            self.store.clone(),
            vec![self.budget.share(), self.windows.budget()],
            stop.clone(),
        );
        let (store, watched) = (self.store.clone(), Arc::clone(&observer));
        let mut api = Api::new(store, self.budget, quotas, watched, origins.clone());
        if let Some(upstream) = upstream {
            http = http.with_upstream(upstream.clone());
            api = api.with_upstream(upstream);
        }
        let purge = PurgeRoute::new(self.store.clone());
        let expiring = api.expire_uploads();
        let refreshing = Arc::clone(&self.door).keep_fresh();
        let routes = Arc::new(Routes::new(self.door, api, http, operator, origins, purge));
        let watched = Arc::clone(&observer);
        let listening = listener::serve(self.listener, self.windows, routes, watched, limits, stop);
        tokio::select! {
            () = listening => {}
            // These never end before the listener.
            () = expiring => {}
            () = refreshing => {}
            () = observer.keep_series() => {}
        }
        self.filling.stop().await;
        self.store.close().await;
        Ok(())
    }
}

/// Reads the credentials and the certificates.
async fn open_door(options: &ServeOptions, store: &LocalStore) -> Result<Door> {
    let (credentials, tls) = (options.credentials.clone(), options.tls.clone());
    let isolated = options.isolates_tenants.then(|| store.clone());
    let shown = options.listen.to_string();
    let opened = tokio::task::spawn_blocking(move || {
        let tls = tls.map(Tls::open).transpose()?;
        Door::open(credentials, tls, isolated)
    });
    let opened = opened.await.unwrap_or_else(|_| Err("the runtime is stopping".into()));
    opened.map_err(|message| Error::new(ErrorKind::Invalid, Operation::Locate, shown, message))
}

/// Whether blobs are fetched from elsewhere.
fn fills(options: &ServeOptions) -> bool {
    !options.origins.is_unused() || options.upstream.is_some()
}

/// Where blobs come from that the store lacks.
#[derive(Clone, Debug)]
struct Filling {
    origins: Origins,
    upstream: Option<Upstream>,
}

impl Filling {
    /// Fills have a part of the memory to themselves.
    fn new(options: &ServeOptions, store: &LocalStore, budget: &Budget) -> Result<Self> {
        let bytes = options.memory_bytes_max / fill::MEMORY_SHARE;
        let fills = Budget::new(BudgetOptions { bytes, ..BudgetOptions::default() });
        let upstream = options.upstream.as_ref().map(|url| {
            let client = options.origins.client.clone();
            Upstream::new(url, client, store.clone(), budget.share(), fills.clone())
        });
        let origins =
            Origins::new(options.origins.clone(), store.clone(), budget.share(), fills.clone());
        Ok(Self { origins, upstream: upstream.transpose()? })
    }

    /// Ends all fills and waits for their tasks.
    async fn stop(self) {
        self.origins.stop().await;
        if let Some(upstream) = &self.upstream {
            upstream.stop().await;
        }
    }
}
