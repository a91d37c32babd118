//! [`CacheClient`]: a client of `/ac/` and `/cas/` of a cache over HTTP, for programs that use one.
//!
//! Each call is one attempt. A caller for which the cache is only an optimisation goes on without it
//! after an error. Blobs are verified while they arrive.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures_util::{Stream, StreamExt as _, stream};
use http::header::{AUTHORIZATION, CONTENT_LENGTH};
use http::{HeaderValue, Method, Request, Response, StatusCode};
use http_body::Frame;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full, StreamBody};
use hyper::body::Incoming;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use tidegate_core::checksum::Checksummer;
use tidegate_core::digest::Digest;
use tokio::time::timeout;

use crate::serve::PurgeRequest;
use crate::store::PurgeReport;

/// Time for a connection.
const CONNECT_MAX: Duration = Duration::from_secs(5);
/// Time without a byte from the server.
const STALL_MAX: Duration = Duration::from_secs(30);
/// A purge of hundreds of millions of values takes no longer.
const PURGE_MAX: Duration = Duration::from_mins(30);
/// A body is sent at this rate at least, in bytes per second, beside [`STALL_MAX`].
const SEND_RATE_MIN: u64 = 64 << 10;
/// Bytes of a value that a caller gets in memory.
const VALUE_BYTES_MAX: usize = 64 << 10;

/// Why a call failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CacheClientError {
    /// The URL is not one of a cache.
    #[error("expected http://HOST or https://HOST, perhaps with a path")]
    Url,
    /// The key is not part of a URL.
    #[error("the key is not part of a URL")]
    Key(#[source] http::Error),
    /// TLS cannot be used.
    #[error("TLS cannot be used")]
    Tls(#[source] rustls::Error),
    /// No response.
    #[error("the cache does not answer")]
    NoResponse(#[source] hyper_util::client::legacy::Error),
    /// The response ended early.
    #[error("the response of the cache ended early")]
    CutOff(#[source] hyper::Error),
    /// Nothing arrived for too long.
    #[error("nothing arrived from the cache for {} seconds", STALL_MAX.as_secs())]
    Stalled,
    /// Another status than expected.
    #[error("the cache answered {0}")]
    Status(StatusCode),
    /// The bytes are not those of the digest, or of a value.
    #[error("the cache sent other bytes than expected")]
    Mismatch,
    /// The response is not the JSON that the server sends.
    #[error("the response is no report of a purge")]
    Json(#[source] serde_json::Error),
}

/// The frames of an upload. An error cuts the request off.
pub type UploadBody = UnsyncBoxBody<Bytes, std::io::Error>;

/// A client of one cache. Clones share its connections.
#[derive(Clone, Debug)]
pub struct CacheClient {
    client: Client<HttpsConnector<HttpConnector>, UploadBody>,
    /// Without a slash at the end.
    base: String,
    authorization: Option<HeaderValue>,
}

/// Connects by HTTP/1.1, with TLS and the system's certificates where the URL asks for it. Blocks.
pub(crate) fn connector() -> Result<HttpsConnector<HttpConnector>, rustls::Error> {
    let mut roots = rustls::RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    let provider = std::sync::Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots)
        .with_no_client_auth();
    let mut connector = HttpConnector::new();
    connector.enforce_http(false);
    connector.set_nodelay(true);
    connector.set_connect_timeout(Some(CONNECT_MAX));
    Ok(HttpsConnectorBuilder::new()
        .with_tls_config(config)
        .https_or_http()
        .enable_http1()
        .wrap_connector(connector))
}

impl CacheClient {
    /// A client of the cache at a URL. `authorization` is the header of that name. Reads the
    /// system's certificates, so it blocks. Connects to nothing yet.
    pub fn new(url: &str, authorization: Option<&str>) -> Result<Self, CacheClientError> {
        let base = url.trim_end_matches('/').to_owned();
        let uri: http::Uri = base.parse().ok().ok_or(CacheClientError::Url)?;
        let is_http = matches!(uri.scheme_str(), Some("http" | "https"));
        if !is_http || uri.authority().is_none() || uri.query().is_some() {
            return Err(CacheClientError::Url);
        }
        let connector = connector().map_err(CacheClientError::Tls)?;
        let client = Client::builder(TokioExecutor::new()).build(connector);
        let authorization = authorization.map(HeaderValue::from_str).transpose();
        let mut authorization = authorization.ok().ok_or(CacheClientError::Url)?;
        if let Some(secret) = &mut authorization {
            secret.set_sensitive(true);
        }
        Ok(Self { client, base, authorization })
    }

    /// The value of a key of `/ac/`; `None` if there is none.
    pub async fn value(&self, key: &str) -> Result<Option<Bytes>, CacheClientError> {
        let Some(response) = self.get(&format!("/ac/{key}")).await? else { return Ok(None) };
        Ok(Some(whole(response).await?))
    }

    /// Gives a key of `/ac/` a value.
    pub async fn put_value(&self, key: &str, value: Bytes) -> Result<(), CacheClientError> {
        let len = value.len() as u64;
        let body = Full::new(value).map_err(|never| match never {}).boxed_unsync();
        self.put(&format!("/ac/{key}"), len, body).await
    }

    /// A blob; `None` if there is none. The stream fails at its end if the bytes are not those of
    /// the digest. The digest's function is SHA-256.
    pub async fn blob(
        &self,
        digest: &Digest,
    ) -> Result<
        Option<impl Stream<Item = Result<Bytes, CacheClientError>> + Send + use<>>,
        CacheClientError,
    > {
        let path = format!("/cas/{}", digest.checksum().hex());
        let Some(response) = self.get(&path).await? else { return Ok(None) };
        let hash = Checksummer::new(digest.function.algorithm()).ok();
        let state = (response.into_body(), hash, 0, *digest);
        let pieces = stream::try_unfold(state, |(mut body, mut hash, seen, digest)| async move {
            let Some(piece) = next(&mut body).await? else {
                let is_right =
                    seen == digest.len && hash.map(Checksummer::finish) == Some(digest.checksum());
                return if is_right { Ok(None) } else { Err(CacheClientError::Mismatch) };
            };
            let seen = seen + piece.len() as u64;
            if seen > digest.len {
                return Err(CacheClientError::Mismatch);
            }
            if let Some(hash) = &mut hash {
                hash.update(&piece);
            }
            Ok(Some((piece, (body, hash, seen, digest))))
        });
        Ok(Some(pieces))
    }

    /// Whether there is a blob.
    pub async fn has_blob(&self, digest: &Digest) -> Result<bool, CacheClientError> {
        let path = format!("/cas/{}", digest.checksum().hex());
        let response = self.send(Method::HEAD, &path, 0, empty()).await?;
        match response.status() {
            StatusCode::OK => Ok(true),
            StatusCode::NOT_FOUND => Ok(false),
            status => Err(CacheClientError::Status(status)),
        }
    }

    /// Stores a blob, whose bytes are those of `pieces`.
    pub async fn put_blob(
        &self,
        digest: &Digest,
        pieces: impl Stream<Item = std::io::Result<Bytes>> + Send + 'static,
    ) -> Result<(), CacheClientError> {
        let body = StreamBody::new(pieces.map(|piece| piece.map(Frame::data))).boxed_unsync();
        self.put(&format!("/cas/{}", digest.checksum().hex()), digest.len, body).await
    }

    /// Removes values of the server, or says which ones it would remove. It takes as long as the
    /// server reads all of its records, at most half an hour.
    pub async fn purge(&self, request: &PurgeRequest) -> Result<PurgeReport, CacheClientError> {
        let bytes = serde_json::to_vec(request).map_err(CacheClientError::Json)?;
        let body = Full::new(bytes.into()).map_err(|never| match never {}).boxed_unsync();
        let response = self.send_within(Method::POST, "/purge", None, body, PURGE_MAX).await?;
        if response.status() != StatusCode::OK {
            return Err(CacheClientError::Status(response.status()));
        }
        serde_json::from_slice(&whole(response).await?).map_err(CacheClientError::Json)
    }

    async fn get(&self, path: &str) -> Result<Option<Response<Incoming>>, CacheClientError> {
        let response = self.send(Method::GET, path, 0, empty()).await?;
        match response.status() {
            StatusCode::OK => Ok(Some(response)),
            StatusCode::NOT_FOUND => Ok(None),
            status => Err(CacheClientError::Status(status)),
        }
    }

    async fn put(&self, path: &str, len: u64, body: UploadBody) -> Result<(), CacheClientError> {
        let response = self.send(Method::PUT, path, len, body).await?;
        let status = response.status();
        // The rest of the response would keep its connection from the pool.
        let mut body = response.into_body();
        while next(&mut body).await?.is_some() {}
        if status.is_success() { Ok(()) } else { Err(CacheClientError::Status(status)) }
    }

    async fn send(
        &self,
        method: Method,
        path: &str,
        len: u64,
        body: UploadBody,
    ) -> Result<Response<Incoming>, CacheClientError> {
        let patience = STALL_MAX + Duration::from_secs(len / SEND_RATE_MIN);
        let len = (method == Method::PUT).then_some(len);
        self.send_within(method, path, len, body, patience).await
    }

    async fn send_within(
        &self,
        method: Method,
        path: &str,
        len: Option<u64>,
        body: UploadBody,
        patience: Duration,
    ) -> Result<Response<Incoming>, CacheClientError> {
        let request = Request::builder().method(method).uri(format!("{}{path}", self.base));
        let mut request = request.body(body).map_err(CacheClientError::Key)?;
        if let Some(len) = len {
            request.headers_mut().insert(CONTENT_LENGTH, HeaderValue::from(len));
        }
        if let Some(authorization) = &self.authorization {
            request.headers_mut().insert(AUTHORIZATION, authorization.clone());
        }
        let response = timeout(patience, self.client.request(request)).await;
        let response = response.ok().ok_or(CacheClientError::Stalled)?;
        response.map_err(CacheClientError::NoResponse)
    }
}

fn empty() -> UploadBody {
    http_body_util::Empty::new().map_err(|never| match never {}).boxed_unsync()
}

/// The body of a response that is a value or a report.
async fn whole(response: Response<Incoming>) -> Result<Bytes, CacheClientError> {
    let mut body = response.into_body();
    let mut all = BytesMut::new();
    while let Some(piece) = next(&mut body).await? {
        all.extend_from_slice(&piece);
        if all.len() > VALUE_BYTES_MAX {
            return Err(CacheClientError::Mismatch);
        }
    }
    Ok(all.freeze())
}

/// The next bytes of a response; `None` at the end.
async fn next(body: &mut Incoming) -> Result<Option<Bytes>, CacheClientError> {
    loop {
        let frame = timeout(STALL_MAX, body.frame()).await.ok().ok_or(CacheClientError::Stalled)?;
        let Some(frame) = frame else { return Ok(None) };
        // Trailers are not used.
        if let Ok(data) = frame.map_err(CacheClientError::CutOff)?.into_data() {
            return Ok(Some(data));
        }
    }
}
