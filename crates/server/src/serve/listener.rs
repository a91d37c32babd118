//! Accepts connections up to a limit, and drains them when the server stops.

use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::clients::Clients;
use super::connection;
use super::observe::Observer;
use super::options::ServeLimits;
use super::route::Routes;
use super::window::ReceiveWindows;

/// The pause after a failed accept. It fails when the process has no file descriptors left, which
/// only the end of another connection changes.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Serves until `stop` is cancelled and all connections have ended, or their time is over.
pub(super) async fn serve(
    listener: TcpListener,
    windows: ReceiveWindows,
    routes: Arc<Routes>,
    observer: Arc<Observer>,
    limits: ServeLimits,
    stop: CancellationToken,
) {
    let slots = Arc::new(Semaphore::new(limits.connections_max));
    let clients = Clients::new(&limits);
    let mut connections = JoinSet::new();
    loop {
        let accept = async {
            // The semaphore is never closed.
            let slot = Arc::clone(&slots).acquire_owned().await.ok();
            (listener.accept().await, slot)
        };
        tokio::select! {
            () = stop.cancelled() => break,
            Some(_) = connections.join_next(), if !connections.is_empty() => {}
            (accepted, slot) = accept => match accepted {
                Ok((socket, peer)) => {
                    let client = match clients.connect(peer.ip()) {
                        Ok(client) => client,
                        Err(error) => {
                            observer.refuse_connection();
                            tracing::debug!(%peer, %error, "a connection was refused");
                            continue;
                        }
                    };
                    // Small responses must not wait for the acknowledgement of earlier ones.
                    let _ = socket.set_nodelay(true);
                    let (windows, routes) = (windows.clone(), Arc::clone(&routes));
                    let stop = stop.clone();
                    let exchanges = observer.connect();
                    connections.spawn(async move {
                        connection::serve(socket, client, windows, routes, exchanges, limits, stop).await;
                        tracing::debug!(%peer, "a connection ended");
                        drop(slot);
                    });
                }
                Err(error) => {
                    tracing::warn!(%error, "a connection cannot be accepted");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            },
        }
    }
    drop(listener);
    let drain = async { while connections.join_next().await.is_some() {} };
    if tokio::time::timeout(limits.drain_time_max, drain).await.is_err() {
        tracing::warn!(count = connections.len(), "requests were cut at the end of the drain time");
        connections.shutdown().await;
    }
}
