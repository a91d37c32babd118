//! The options of a server, which a test chooses.

use crate::{flavour::Flavour, network::NetworkProfile, tls::Tls, write::WriteOptions};

/// How a [`Server`](crate::Server) behaves when no fault is scripted.
///
/// The default is a well-behaved plain HTTP origin on an unshaped loopback: ranges, strong `ETag`s,
/// dates, lengths, kept-alive connections, no checksums in the HTTP flavour.
#[derive(Debug, Clone)]
pub struct ServerOptions {
    /// The remote that it imitates.
    pub flavour: Flavour,
    /// TLS, or `None` for plain text.
    pub tls: Option<Tls>,
    /// Latency and rate of each connection.
    pub profile: NetworkProfile,
    /// Whether `Range` is honoured; if not, every response is the whole blob with 200.
    pub ranges: bool,
    /// The kind of `ETag` that is sent.
    pub etag: EtagStyle,
    /// Whether the HTTP flavour sends `Last-Modified`; the clouds always do.
    pub last_modified: bool,
    /// Checksum fields of the HTTP flavour.
    pub digests: HttpDigests,
    /// How bodies are delimited.
    pub framing: Framing,
    /// Whether replaced versions stay readable by their version, as in a versioned bucket. If not,
    /// only the current version is readable, and S3 and Azure send no version id.
    pub versioning: bool,
    /// The payer of requests. GCS and S3 can require that the requester pays and says so.
    pub payer: Payer,
    /// How uploads are taken.
    pub writes: WriteOptions,
    /// Requests after which a connection is closed politely, with `Connection: close`.
    pub requests_per_connection_max: Option<u64>,
    /// Port on 127.0.0.1; 0 takes a free one.
    pub port: u16,
    /// Seed of the jitter and of the ids of uploads.
    pub seed: u64,
}

impl Default for ServerOptions {
    fn default() -> Self {
        Self {
            flavour: Flavour::Http,
            tls: None,
            profile: NetworkProfile::LOOPBACK,
            ranges: true,
            etag: EtagStyle::Strong,
            last_modified: true,
            digests: HttpDigests::default(),
            framing: Framing::ContentLength,
            versioning: false,
            payer: Payer::Owner,
            writes: WriteOptions::default(),
            requests_per_connection_max: None,
            port: 0,
            seed: 0,
        }
    }
}

impl ServerOptions {
    /// The defaults with another flavour.
    pub fn of(flavour: Flavour) -> Self {
        Self { flavour, ..Self::default() }
    }
}

/// The payer of requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Payer {
    /// The bucket's owner.
    #[default]
    Owner,
    /// The requester.
    Requester,
}

/// Which kind of `ETag` a server sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum EtagStyle {
    /// `"abc"`: pins the bytes.
    #[default]
    Strong,
    /// `W/"abc"`: pins nothing.
    Weak,
    /// No `ETag` at all.
    None,
}

/// Checksum fields that a plain HTTP server may send. The default is none, as with most servers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct HttpDigests {
    /// `Repr-Digest: sha-256=:…:` of the whole representation, on every response (RFC 9530).
    pub repr_digest: bool,
    /// `Content-MD5`, only on whole responses, because it covers the body that is sent (RFC 2616).
    pub content_md5: bool,
}

/// How the end of a body is marked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Framing {
    /// By `Content-Length`.
    #[default]
    ContentLength,
    /// By the chunked transfer coding, without a length.
    Chunked,
    /// By the end of the connection: a cut looks like the end.
    UntilClose,
}
