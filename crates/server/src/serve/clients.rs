//! [`Clients`]: the connections and the requests in flight of each client, and their limits.
//!
//! A client is an address: one of IPv4, also if it comes as `::ffff:a.b.c.d`, or a network of IPv6 with a
//! prefix of 64 bits, because a host can choose the rest. The limits keep one client that leaks
//! connections from taking those of all others. They are no fair shares, so they are far above what a
//! build uses. Behind a proxy all clients are one.
//!
//! The table has an entry for each client with a connection, so the limit of connections bounds it. A
//! request takes no lock.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::options::ServeLimits;

/// The part of an IPv6 address that names a network.
const NETWORK_BITS: u128 = !0 << 64;

/// A client has the most connections that it may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the client has {count_max} connections, the limit for one address")]
pub(super) struct TooManyConnections {
    count_max: usize,
}

/// A client has the most requests in flight that it may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the client has {count_max} requests in flight, the limit for one address; retry later")]
pub struct TooManyRequests {
    /// The limit.
    pub count_max: usize,
}

/// The clients that are connected.
#[derive(Debug)]
pub(super) struct Clients {
    connections_max: usize,
    requests_max: usize,
    table: Mutex<HashMap<IpAddr, ConnectedClient>>,
}

#[derive(Debug)]
struct ConnectedClient {
    connections: usize,
    requests: Arc<AtomicUsize>,
}

/// A connection of a client. Dropping it ends it.
#[derive(Debug)]
pub(super) struct ClientConnection {
    clients: Arc<Clients>,
    address: IpAddr,
    requests: Arc<AtomicUsize>,
}

impl Clients {
    pub(super) fn new(limits: &ServeLimits) -> Arc<Self> {
        Arc::new(Self {
            connections_max: limits.connections_per_client_max,
            requests_max: limits.requests_per_client_max,
            table: Mutex::default(),
        })
    }

    /// A connection begins.
    pub(super) fn connect(
        self: &Arc<Self>,
        address: IpAddr,
    ) -> Result<ClientConnection, TooManyConnections> {
        let address = client_of(address);
        let mut table = self.table();
        let requests = match table.entry(address) {
            Entry::Occupied(mut entry) => {
                let client = entry.get_mut();
                if client.connections >= self.connections_max {
                    return Err(TooManyConnections { count_max: self.connections_max });
                }
                client.connections += 1;
                Arc::clone(&client.requests)
            }
            Entry::Vacant(entry) => {
                let requests = Arc::default();
                entry.insert(ConnectedClient { connections: 1, requests: Arc::clone(&requests) });
                requests
            }
        };
        drop(table);
        Ok(ClientConnection { clients: Arc::clone(self), address, requests })
    }

    fn table(&self) -> MutexGuard<'_, HashMap<IpAddr, ConnectedClient>> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ClientConnection {
    /// A request begins, whether or not it is within the limit. [`Self::end_request`] ends it.
    pub(super) fn begin_request(&self) -> Result<(), TooManyRequests> {
        let count_max = self.clients.requests_max;
        if self.requests.fetch_add(1, Ordering::Relaxed) < count_max {
            Ok(())
        } else {
            Err(TooManyRequests { count_max })
        }
    }

    pub(super) fn end_request(&self) {
        self.requests.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Drop for ClientConnection {
    fn drop(&mut self) {
        let mut table = self.clients.table();
        if let Entry::Occupied(mut entry) = table.entry(self.address) {
            entry.get_mut().connections -= 1;
            if entry.get().connections == 0 {
                entry.remove();
            }
        }
    }
}

/// The client of an address.
fn client_of(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() & NETWORK_BITS)),
        address @ IpAddr::V4(_) => address,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn clients(connections_per_client_max: usize, requests_per_client_max: usize) -> Arc<Clients> {
        Clients::new(&ServeLimits {
            connections_per_client_max,
            requests_per_client_max,
            ..ServeLimits::default()
        })
    }

    fn address(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn a_client_is_an_address_or_a_network() {
        let same = [
            ("10.0.0.1", "::ffff:10.0.0.1"),
            ("2001:db8:1:2::1", "2001:db8:1:2:ffff:ffff:ffff:ffff"),
        ];
        for (one, other) in same {
            assert_eq!(client_of(address(one)), client_of(address(other)));
        }
        for (one, other) in [("10.0.0.1", "10.0.0.2"), ("2001:db8:1:2::1", "2001:db8:1:3::1")] {
            assert_ne!(client_of(address(one)), client_of(address(other)));
        }
    }

    #[test]
    fn connections_are_limited_and_the_last_one_removes_its_client() {
        let clients = clients(2, 1);
        let connect = |text| clients.connect(address(text));
        let kept = [connect("10.0.0.1").unwrap(), connect("::ffff:10.0.0.1").unwrap()];
        assert_eq!(connect("10.0.0.1").unwrap_err(), TooManyConnections { count_max: 2 });
        let other = connect("10.0.0.2").unwrap();
        drop(kept);
        assert_eq!(clients.table().len(), 1);
        drop(connect("10.0.0.1").unwrap());
        drop(other);
        assert!(clients.table().is_empty());
    }

    #[test]
    fn requests_of_all_connections_of_a_client_count() {
        let clients = clients(9, 2);
        let connect = |text| clients.connect(address(text)).unwrap();
        let (one, two, other) = (connect("10.0.0.1"), connect("10.0.0.1"), connect("10.0.0.2"));
        assert_eq!((one.begin_request(), two.begin_request()), (Ok(()), Ok(())));
        assert_eq!(two.begin_request(), Err(TooManyRequests { count_max: 2 }));
        assert_eq!(other.begin_request(), Ok(()));
        two.end_request();
        one.end_request();
        assert_eq!(two.begin_request(), Ok(()));
    }
}
