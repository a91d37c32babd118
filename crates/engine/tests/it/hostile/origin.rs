//! A server whose responses a test writes field by field, for responses that the testkit's server
//! cannot give. Each connection serves one request.

use std::sync::{Arc, Mutex};

use bytes::Bytes;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

/// Five minutes after [`MODIFIED`].
pub(crate) const DATE: &str = "Tue, 14 Nov 2023 22:18:20 GMT";
pub(crate) const MODIFIED: &str = "Tue, 14 Nov 2023 22:13:20 GMT";

/// A request as the server received it.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    pub(crate) method: String,
    pub(crate) path: String,
    /// Counted from 1, over all requests of the server.
    pub(crate) nth: usize,
    fields: Vec<(String, String)>,
}

impl Asked {
    pub(crate) fn field(&self, name: &str) -> Option<&str> {
        let mut named = self.fields.iter().filter(|(n, _)| n.eq_ignore_ascii_case(name));
        named.next().map(|(_, value)| value.as_str())
    }

    pub(crate) fn is_head(&self) -> bool {
        self.method == "HEAD"
    }

    /// The first and the last byte of the requested range, of a blob of `len` bytes. `None` without
    /// a range.
    pub(crate) fn range(&self, len: usize) -> Option<(usize, usize)> {
        let text = self.field("x-ms-range").or_else(|| self.field("range"))?;
        let (first, last) = text.strip_prefix("bytes=")?.split_once('-')?;
        Some(match (first.parse::<usize>(), last.parse::<usize>()) {
            (Ok(first), Ok(last)) => (first, last.min(len.saturating_sub(1))),
            (Ok(first), Err(_)) => (first, len.saturating_sub(1)),
            (Err(_), Ok(count)) => (len.saturating_sub(count), len.saturating_sub(1)),
            (Err(_), Err(_)) => return None,
        })
    }

    /// Whether the request's range begins after byte 0.
    pub(crate) fn is_later(&self) -> bool {
        self.range(usize::MAX).is_some_and(|(first, _)| first > 0)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Framing {
    /// `Content-Length`, unless the test gives one.
    Length,
    Chunked,
    /// The body ends with the connection.
    Close,
}

/// A response with only the fields that the test sets, and the body's framing.
#[derive(Clone, Debug)]
pub(crate) struct Reply {
    status: u16,
    fields: Vec<(String, String)>,
    /// With chunked framing each of these is one chunk.
    body: Vec<Bytes>,
    framing: Framing,
    sent_bytes_max: usize,
}

impl Reply {
    pub(crate) fn new(status: u16) -> Self {
        let (fields, body) = (Vec::new(), Vec::new());
        Self { status, fields, body, framing: Framing::Length, sent_bytes_max: usize::MAX }
    }

    /// An honest server's response to `asked` for a blob of `bytes`, without a version.
    pub(crate) fn of(asked: &Asked, bytes: &[u8]) -> Self {
        let len = bytes.len();
        match asked.range(len).filter(|_| !asked.is_head()) {
            None => Self::new(200).body(bytes),
            Some((first, _)) if first >= len => {
                Self::new(416).with("content-range", format!("bytes */{len}"))
            }
            Some((first, last)) => Self::new(206)
                .with("content-range", format!("bytes {first}-{last}/{len}"))
                .body(&bytes[first..=last]),
        }
        .with("date", DATE)
    }

    pub(crate) fn with(mut self, name: &str, value: impl Into<String>) -> Self {
        self.fields.push((name.to_owned(), value.into()));
        self
    }

    pub(crate) fn without(mut self, name: &str) -> Self {
        self.fields.retain(|(n, _)| n != name);
        self
    }

    pub(crate) fn body(mut self, bytes: &[u8]) -> Self {
        self.body = vec![Bytes::copy_from_slice(bytes)];
        self
    }

    pub(crate) fn and(mut self, bytes: &[u8]) -> Self {
        self.body.push(Bytes::copy_from_slice(bytes));
        self
    }

    pub(crate) fn framed(self, framing: Framing) -> Self {
        Self { framing, ..self }
    }

    /// Ends the connection after `sent_bytes_max` bytes of the body.
    pub(crate) fn cut_after(self, sent_bytes_max: usize) -> Self {
        Self { sent_bytes_max, ..self }
    }

    fn encode(&self, head_only: bool) -> Vec<u8> {
        let mut head = format!("HTTP/1.1 {} Status\r\nConnection: close\r\n", self.status);
        let len: usize = self.body.iter().map(Bytes::len).sum();
        let says_length = self.fields.iter().any(|(name, _)| name == "content-length");
        match self.framing {
            Framing::Length if !says_length => head.push_str(&header("content-length", len)),
            Framing::Chunked => head += "transfer-encoding: chunked\r\n",
            Framing::Length | Framing::Close => {}
        }
        for (name, value) in &self.fields {
            head.push_str(&header(name, value));
        }
        head += "\r\n";
        let mut wire = head.into_bytes();
        if head_only {
            return wire;
        }
        let mut left = self.sent_bytes_max;
        for piece in &self.body {
            let sent = &piece[..piece.len().min(left)];
            left -= sent.len();
            if self.framing == Framing::Chunked && !piece.is_empty() {
                wire.extend_from_slice(format!("{:x}\r\n", piece.len()).as_bytes());
                wire.extend_from_slice(sent);
                wire.extend_from_slice(if sent.len() == piece.len() { b"\r\n" } else { b"" });
            } else {
                wire.extend_from_slice(sent);
            }
        }
        if self.framing == Framing::Chunked && left > 0 {
            wire.extend_from_slice(b"0\r\n\r\n");
        }
        wire
    }
}

type Answerer = dyn Fn(&Asked) -> Reply + Send + Sync;

/// The server. It stops when it is dropped.
pub(crate) struct Origin {
    endpoint: String,
    log: Arc<Mutex<Vec<Asked>>>,
    _tasks: JoinSet<()>,
}

impl Origin {
    pub(crate) async fn new(answer: impl Fn(&Asked) -> Reply + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let endpoint = format!("http://{}", listener.local_addr().unwrap());
        let log = Arc::<Mutex<Vec<Asked>>>::default();
        let mut tasks = JoinSet::new();
        tasks.spawn(serve(listener, Arc::new(answer), Arc::clone(&log)));
        Self { endpoint, log, _tasks: tasks }
    }

    pub(crate) fn endpoint(&self) -> &str {
        &self.endpoint
    }

    pub(crate) fn log(&self) -> Vec<Asked> {
        self.log.lock().unwrap().clone()
    }
}

async fn serve(listener: TcpListener, answer: Arc<Answerer>, log: Arc<Mutex<Vec<Asked>>>) {
    let mut connections = JoinSet::new();
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        let (answer, log) = (Arc::clone(&answer), Arc::clone(&log));
        connections.spawn(async move {
            // The client may disconnect at any time.
            let _ = converse(stream, &*answer, &log).await;
        });
    }
}

async fn converse(
    mut stream: TcpStream,
    answer: &Answerer,
    log: &Mutex<Vec<Asked>>,
) -> std::io::Result<()> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await?);
    }
    let head = String::from_utf8(head).unwrap();
    let mut lines = head.lines();
    let mut words = lines.next().unwrap_or_default().split(' ').map(str::to_owned);
    let (method, path) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let fields = lines.filter_map(|line| line.split_once(": "));
    let fields = fields.map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
    let asked = {
        let mut log = log.lock().unwrap();
        let asked = Asked { method, path, nth: log.len() + 1, fields };
        log.push(asked.clone());
        asked
    };
    let wire = answer(&asked).encode(asked.is_head());
    stream.write_all(&wire).await?;
    stream.shutdown().await?;
    // Closing a connection with unread bytes would reset it.
    let _ = stream.read_to_end(&mut Vec::new()).await;
    Ok(())
}

fn header(name: impl std::fmt::Display, value: impl std::fmt::Display) -> String {
    format!("{name}: {value}\r\n")
}
