//! The byte stream of one connection, plain or TLS, and its possible ends.

use std::{io, time::Duration};

use bytes::BytesMut;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, Interest, Ready},
    net::TcpStream,
};
use tokio_rustls::server::TlsStream;

/// How often a stalled connection looks whether its client is still there.
const HANG_UP_INTERVAL: Duration = Duration::from_millis(5);

/// A connection's stream.
#[derive(Debug)]
pub(crate) enum Wire {
    Plain(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

impl Wire {
    fn tcp(&mut self) -> &mut TcpStream {
        match self {
            Self::Plain(tcp) => tcp,
            Self::Tls(tls) => tls.get_mut().0,
        }
    }

    /// Reads some bytes and appends them to `buffer`; 0 is the end.
    pub(crate) async fn read(&mut self, buffer: &mut BytesMut) -> io::Result<usize> {
        match self {
            Self::Plain(tcp) => tcp.read_buf(buffer).await,
            Self::Tls(tls) => tls.read_buf(buffer).await,
        }
    }

    /// Writes some of `bytes`, without a copy if plain.
    pub(crate) async fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let count = match self {
            Self::Plain(tcp) => tcp.write(bytes).await?,
            Self::Tls(tls) => tls.write(bytes).await?,
        };
        if count == 0 { Err(io::ErrorKind::WriteZero.into()) } else { Ok(count) }
    }

    pub(crate) async fn write_all(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            let count = self.write(bytes).await?;
            bytes = bytes.get(count..).unwrap_or_default();
        }
        Ok(())
    }

    /// Flushes all written bytes to the kernel.
    pub(crate) async fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Plain(_) => Ok(()),
            Self::Tls(tls) => tls.flush().await,
        }
    }

    /// Ends in order: `close_notify` if TLS, then FIN.
    pub(crate) async fn close(mut self) -> io::Result<()> {
        match &mut self {
            Self::Plain(tcp) => tcp.shutdown().await,
            Self::Tls(tls) => tls.shutdown().await,
        }
    }

    /// Ends like a cut line: only FIN.
    pub(crate) async fn cut(mut self) -> io::Result<()> {
        self.tcp().shutdown().await
    }

    /// Ends with RST.
    pub(crate) fn reset(mut self) -> io::Result<()> {
        // With a linger time of zero, the close sends RST and drops unsent bytes.
        self.tcp().set_zero_linger()
    }

    /// Waits until the client closes; reads and drops the bytes that it still sends.
    pub(crate) async fn drain(&mut self) {
        let mut dropped = BytesMut::with_capacity(1024);
        while matches!(self.read(&mut dropped).await, Ok(count) if count > 0) {
            dropped.clear();
        }
    }

    /// Ends in order, and reads and drops what the client still sends, so that it can read a response
    /// that came before its request was complete.
    pub(crate) async fn linger(mut self) -> io::Result<()> {
        match &mut self {
            Self::Plain(tcp) => tcp.shutdown().await?,
            Self::Tls(tls) => tls.shutdown().await?,
        }
        self.drain().await;
        Ok(())
    }

    /// Waits until the client closes, and reads nothing that it sends.
    pub(crate) async fn hung_up(&mut self) {
        loop {
            let ready = self.tcp().ready(Interest::READABLE).await;
            if ready.is_ok_and(Ready::is_read_closed) {
                return;
            }
            // The stream stays readable while its bytes are not read, so there is no event to wait
            // for.
            tokio::time::sleep(HANG_UP_INTERVAL).await;
        }
    }

    /// Waits until the client closes. If the client sends bytes instead, it waits forever.
    pub(crate) async fn gone(&mut self) {
        let mut byte = [0];
        if matches!(self.tcp().peek(&mut byte).await, Ok(count) if count > 0) {
            std::future::pending::<()>().await;
        }
    }
}
