//! A port that refuses connections for as long as a test needs it.

use std::io;
use std::net::SocketAddr;

use tokio::net::TcpSocket;

/// A port of 127.0.0.1 that is bound and does not listen, so the kernel refuses each connection.
///
/// A port that a test binds and releases can go to another process before the test connects.
#[derive(Debug)]
pub struct RefusedPort {
    socket: TcpSocket,
}

impl RefusedPort {
    /// Takes a free port. The port is free again when the value is dropped.
    pub fn bind() -> io::Result<Self> {
        let socket = TcpSocket::new_v4()?;
        socket.bind(SocketAddr::from(([127, 0, 0, 1], 0)))?;
        Ok(Self { socket })
    }

    /// The address that refuses connections.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()
    }
}
