//! [`Server`]: a store and a port.

use std::net::SocketAddr;
use std::sync::Arc;

use tidegate::{Budget, BudgetOptions, Error, ErrorKind, Operation, Result};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use super::grpc::Api;
use super::http::{HttpCache, HttpLimits};
use super::listener;
use super::fill;
use super::options::ServeOptions;
use super::origin::Origins;
use super::route::Routes;
use crate::store::LocalStore;

/// Requests have no limit in the budget: streams and connections limit them.
const REQUESTS_MAX: u32 = u32::MAX >> 4;

/// A server that is bound and does not accept connections yet.
#[derive(Debug)]
pub struct Server {
    listener: TcpListener,
    address: SocketAddr,
    store: LocalStore,
    budget: Budget,
    options: ServeOptions,
}

impl Server {
    /// Opens the store and binds the address.
    ///
    /// Fails with `Invalid` for an address that other machines reach, unless the options say that
    /// the server is open.
    pub async fn bind(options: ServeOptions) -> Result<Self> {
        let shown = options.listen.to_string();
        if !options.listen.ip().is_loopback() && !options.is_open {
            let message =
                "other machines reach this address, and the server asks for no credentials";
            return Err(Error::new(ErrorKind::Invalid, Operation::Locate, shown, message));
        }
        let failed = |error: std::io::Error| {
            let message = "the server cannot listen on this address";
            Error::new(ErrorKind::Transport, Operation::Locate, &shown, message).caused_by(error)
        };
        let listener = TcpListener::bind(options.listen).await.map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let store = LocalStore::open(&options.folder, options.store.clone()).await?;
        let mut bytes = options.memory_bytes_max;
        if !options.origins.is_unused() {
            bytes -= bytes / fill::MEMORY_SHARE;
        }
        let budget = Budget::new(BudgetOptions { requests: REQUESTS_MAX, bytes });
        Ok(Self { listener, address, store, budget, options })
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
        let http = HttpCache::new(self.store.clone(), self.budget.share(), HttpLimits::default());
        let origins = self.origins();
        let api = Api::new(self.store.clone(), self.budget, self.options.limits);
        let expiring = api.expire_uploads();
        let routes = Arc::new(Routes::new(api, http, origins.clone(), stop.clone()));
        tokio::select! {
            () = listener::serve(self.listener, routes, self.options.limits, stop) => {}
            // It never ends before the listener.
            () = expiring => {}
        }
        origins.stop().await;
        drop(origins);
        self.store.close().await;
        Ok(())
    }

    /// The origins. Their fills have a part of the memory to themselves.
    fn origins(&self) -> Origins {
        let bytes = self.options.memory_bytes_max / fill::MEMORY_SHARE;
        let fills = Budget::new(BudgetOptions { bytes, ..BudgetOptions::default() });
        let (store, budget) = (self.store.clone(), self.budget.share());
        Origins::new(self.options.origins.clone(), store, budget, fills)
    }
}
