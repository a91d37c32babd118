//! One connection: a loop that reads a request, picks its faults and sends the response.

use std::{io, sync::Arc, time::Duration};

use bytes::{Buf, BytesMut};
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;

use crate::{
    delivery::Delivery,
    log::Entry,
    network::Pacer,
    options::Framing,
    origin::{InService, OpenConnection, Origin},
    request::{self, Parsed, Request},
    respond::{self, Answer},
    treatment::{Ending, Treatment},
    wire::Wire,
    write::{self, Broken, Call, RequestBody},
};

/// The longest request body that is read and dropped before the response.
const REQUEST_BODY_BYTES_MAX: usize = 1024 * 1024;
const BAD_REQUEST: &[u8] =
    b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";

/// Serves one connection until either side ends it.
pub(crate) async fn serve(
    open: OpenConnection,
    origin: Arc<Origin>,
    tcp: TcpStream,
    tls: Option<TlsAcceptor>,
) {
    // An error of a client's connection ends only that connection.
    let _ = run(&open, origin, tcp, tls).await;
}

async fn run(
    open: &OpenConnection,
    origin: Arc<Origin>,
    tcp: TcpStream,
    tls: Option<TlsAcceptor>,
) -> io::Result<()> {
    tcp.set_nodelay(true)?;
    let wire = match tls {
        Some(acceptor) => Wire::Tls(Box::new(acceptor.accept(tcp).await?)),
        None => Wire::Plain(tcp),
    };
    let pacer = Pacer::new(origin.options.profile.rate_bytes_per_second);
    let buffer = BytesMut::with_capacity(8 * 1024);
    let mut connection =
        Connection { origin, wire, pacer, buffer, number: open.number, requests: 0 };
    let ending = loop {
        let Some(request) = connection.receive().await? else {
            return connection.wire.close().await;
        };
        match connection.exchange(&request).await? {
            Ending::KeepAlive => {}
            ending => break ending,
        }
    };
    connection.end(ending).await
}

struct Connection {
    origin: Arc<Origin>,
    wire: Wire,
    pacer: Pacer,
    /// Bytes read and not yet used.
    buffer: BytesMut,
    number: u64,
    requests: u64,
}

impl Connection {
    /// The next request; `None` if there is no further request.
    async fn receive(&mut self) -> io::Result<Option<Request>> {
        loop {
            match request::parse(&self.buffer) {
                Parsed::Request(request, used) => {
                    self.buffer.advance(used);
                    if write::takes(&self.origin, &request) {
                        return Ok(Some(*request));
                    }
                    let readable = request.body_bytes().filter(|n| *n <= REQUEST_BODY_BYTES_MAX);
                    let Some(body_bytes) = readable else {
                        return self.refuse().await;
                    };
                    return Ok(self.skip(body_bytes).await?.then_some(*request));
                }
                Parsed::Partial if self.wire.read(&mut self.buffer).await? == 0 => return Ok(None),
                Parsed::Partial => {}
                Parsed::Malformed => return self.refuse().await,
            }
        }
    }

    async fn refuse(&mut self) -> io::Result<Option<Request>> {
        self.wire.write_all(BAD_REQUEST).await?;
        self.wire.flush().await?;
        Ok(None)
    }

    /// Drops `count` bytes of input; `false` if it ends before.
    async fn skip(&mut self, mut count: usize) -> io::Result<bool> {
        loop {
            let here = count.min(self.buffer.len());
            self.buffer.advance(here);
            count -= here;
            if count == 0 {
                return Ok(true);
            }
            if self.wire.read(&mut self.buffer).await? == 0 {
                return Ok(false);
            }
        }
    }

    /// Responds to one request.
    async fn exchange(&mut self, request: &Request) -> io::Result<Ending> {
        self.requests += 1;
        let origin = Arc::clone(&self.origin);
        let range = origin.dialect.range(request);
        // The entry exists before the request is counted, and is complete before the server is
        // idle.
        let entry = origin.log.begin(self.number, request, range);
        let in_service = InService::new(&origin);
        let faults = origin.script.decide(&respond::facts(&origin, request));
        let treatment = Treatment::of(&faults);
        entry.edit(|logged| logged.faults = faults);
        if let Some(blob) = treatment.replace.clone() {
            origin.store.put(&request.path, blob);
        }
        let latency_ms = origin.latency_ms(self.number, self.requests);
        pause(latency_ms.saturating_add(treatment.delay_ms)).await;
        if let Some(gate) = &treatment.request.hold_before {
            // The body may have arrived, so a client that left shows only when it is written to.
            gate.pass().await;
        }
        if treatment.request.cut_after == Some(0) {
            return Ok(Ending::Reset);
        }
        let (answer, is_read) = match self.answer(request, &treatment, &entry).await {
            Ok(answered) => answered,
            Err(Broken::Gone(error)) => return Err(error),
            Err(Broken::Fault(ending)) => return Ok(ending),
            Err(Broken::Malformed) => {
                self.wire.write_all(BAD_REQUEST).await?;
                self.wire.flush().await?;
                return Ok(Ending::Linger);
            }
        };
        if let Some(gate) = &treatment.request.hold_after {
            gate.pass().await;
        }
        if treatment.request.loses_response {
            return Ok(Ending::Reset);
        }
        let requests_max = origin.options.requests_per_connection_max.unwrap_or(u64::MAX);
        let mut delivery = Delivery {
            origin: &origin,
            wire: &mut self.wire,
            pacer: &mut self.pacer,
            entry: &entry,
            treatment: &treatment,
            path: &request.path,
            framing: framing(request, origin.options.framing),
            head_only: request.is_head(),
            keep_alive: is_read && request.keeps_alive() && self.requests < requests_max,
        };
        let mut ending = delivery.send(answer).await;
        if let (false, Ok(Ending::Close)) = (is_read, &ending) {
            ending = Ok(Ending::Linger);
        }
        if matches!(ending, Ok(Ending::Silence)) {
            // A stalled request still counts as in service.
            self.wire.drain().await;
        }
        drop(entry);
        drop(in_service);
        ending
    }

    /// The response to a request, and whether the whole request was read.
    async fn answer(
        &mut self,
        request: &Request,
        treatment: &Treatment,
        entry: &Entry,
    ) -> Result<(Answer, bool), Broken> {
        let origin = &*self.origin;
        if !write::takes(origin, request) {
            return Ok((respond::answer(origin, request, treatment).await, true));
        }
        let connection = (&mut self.wire, &mut self.buffer, &mut self.pacer);
        let faults = &treatment.request;
        let body = RequestBody::new(request, faults, entry, connection)?;
        let mut call = Call { origin, request, body, faults };
        let answer = write::answer(&mut call, treatment).await?;
        Ok((answer, call.body.is_finished()))
    }

    async fn end(self, ending: Ending) -> io::Result<()> {
        match ending {
            Ending::KeepAlive | Ending::Close => self.wire.close().await,
            // A stall ends when the client closes the connection.
            Ending::Fin | Ending::Silence => self.wire.cut().await,
            Ending::Reset => self.wire.reset(),
            Ending::Linger => self.wire.linger().await,
        }
    }
}

/// HTTP/1.0 knows no chunks.
fn framing(request: &Request, framing: Framing) -> Framing {
    if framing == Framing::Chunked && !request.modern { Framing::UntilClose } else { framing }
}

async fn pause(ms: u64) {
    if ms > 0 {
        tokio::time::sleep(Duration::from_millis(ms)).await;
    }
}
