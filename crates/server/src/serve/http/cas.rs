//! `/cas/HASH`: blobs by their hash.
//!
//! The path holds no length, so the store finds the digest by the hash. A blob that any client
//! stored, by any protocol, is found.
//!
//! An upload of a blob that exists is answered from the index: at once if the client waits for
//! `100 Continue`, otherwise after its body, which is dropped.

use http::header::{ACCEPT_RANGES, CONTENT_RANGE, ETAG, IF_NONE_MATCH, IF_RANGE, RANGE};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Response, StatusCode};
use tidegate::store::BlobStore as _;
use tidegate_core::digest::Digest;

use super::range::{Selection, lists_tag, select};
use super::upload::Upload;
use super::{Call, HttpCache, Reply, reply};
use crate::serve::body::ResponseBody;
use crate::serve::error::ServeError;
use crate::store::BlobHash;

/// Memory of one response: a piece of the store, and as much in the connection.
pub(super) const RESPONSE_MEMORY_BYTES: u64 = 512 << 10;

impl HttpCache {
    pub(super) async fn blob(&self, call: &Call<'_>, name: BlobHash, upload: &mut Upload) -> Reply {
        if call.parts.method == Method::PUT {
            return self.put_blob(call, name, upload).await;
        }
        let mut digest = self.store.find_by_hash(name).await?;
        if let (None, Some(upstream)) = (&digest, &self.upstream)
            && !call.is_head()
        {
            digest = upstream.fill_by_hash(name).await;
        }
        let Some(digest) = digest else { return Ok(reply::not_found()) };
        self.get_blob(call, &digest).await
    }

    async fn get_blob(&self, call: &Call<'_>, digest: &Digest) -> Reply {
        let headers = &call.parts.headers;
        let tag = entity_tag(digest);
        if header(headers, IF_NONE_MATCH).is_some_and(|tags| lists_tag(tags, &tag)) {
            return Ok(with_tag(reply::empty(StatusCode::NOT_MODIFIED), &tag));
        }
        // A part is only of use to a client that has the rest of this very blob.
        let is_same = header(headers, IF_RANGE).is_none_or(|wanted| wanted.trim() == tag);
        let selection = match header(headers, RANGE) {
            // RFC 9110 defines ranges for GET only.
            Some(range) if is_same && !call.is_head() => select(range, digest.len),
            _ => Selection::All,
        };
        let (status, range) = match selection {
            Selection::All => (StatusCode::OK, 0..digest.len),
            Selection::Part(range) => (StatusCode::PARTIAL_CONTENT, range),
            Selection::Unsatisfiable => {
                let response = reply::text(StatusCode::RANGE_NOT_SATISFIABLE, "no such bytes");
                return Ok(with_range(response, &format!("bytes */{}", digest.len)));
            }
        };
        let len = range.end - range.start;
        let pieces = if call.is_head() {
            None
        } else {
            let permit = self.budget.bytes(len.min(RESPONSE_MEMORY_BYTES)).await;
            match self.store.get(digest, range.start, &self.budget).await {
                Ok(body) => {
                    if let Some(observer) = &self.observer {
                        observer.read(digest);
                    }
                    Some((reply::first_bytes(body, len), permit))
                }
                Err(error) if error.kind() == tidegate::ErrorKind::NotFound => {
                    return Ok(reply::not_found());
                }
                Err(error) => return Err(error.into()),
            }
        };
        let mut response = with_tag(reply::stream(status, len, pieces), &tag);
        response.headers_mut().insert(ACCEPT_RANGES, HeaderValue::from_static("bytes"));
        if status == StatusCode::PARTIAL_CONTENT {
            let place = format!("bytes {}-{}/{}", range.start, range.end - 1, digest.len);
            response = with_range(response, &place);
        }
        Ok(response)
    }

    async fn put_blob(&self, call: &Call<'_>, name: BlobHash, upload: &mut Upload) -> Reply {
        if let Some(digest) = self.store.find_by_hash(name).await? {
            if upload.declared().is_some_and(|declared| declared != digest.len) {
                return Err(ServeError::Invalid("the length differs from that of the hash"));
            }
            upload.skip(digest.len);
            return Ok(with_tag(reply::empty(StatusCode::OK), &entity_tag(&digest)));
        }
        let bytes_max = self.limits.blob_bytes_max;
        upload.check_len(bytes_max)?;
        self.quotas.check(&call.caller, &call.instance, upload.declared().unwrap_or(0))?;
        // CANCEL: dropping the writer names nothing.
        let mut writer = self.store.begin_by_hash(name);
        while let Some(piece) = upload.piece(bytes_max).await? {
            writer = writer.write(piece).await?;
        }
        let digest = writer.finish().await?;
        self.quotas.count(&call.caller, &call.instance, digest.len);
        Ok(with_tag(reply::empty(StatusCode::OK), &entity_tag(&digest)))
    }
}

/// The hash in quotes. It names the bytes exactly, so it is a strong tag.
fn entity_tag(digest: &Digest) -> String {
    format!("\"{}\"", digest.checksum().hex())
}

fn with_tag(mut response: Response<ResponseBody>, tag: &str) -> Response<ResponseBody> {
    if let Ok(tag) = HeaderValue::from_str(tag) {
        response.headers_mut().insert(ETAG, tag);
    }
    response
}

fn with_range(mut response: Response<ResponseBody>, range: &str) -> Response<ResponseBody> {
    if let Ok(range) = HeaderValue::from_str(range) {
        response.headers_mut().insert(CONTENT_RANGE, range);
    }
    response
}

fn header(headers: &HeaderMap, name: HeaderName) -> Option<&str> {
    headers.get(name).and_then(|value| value.to_str().ok())
}
