//! [`JsonBucket`]: the addresses of a bucket in the JSON interface, and those of sessions. Pure.
//!
//! The address of a session is a secret: a process that knows it can write the object. A request to
//! it carries no credentials, but the bytes of the object. So an upload's id has only the path and
//! the query of the address, and requests go to the bucket's own endpoint. A server or a journal
//! that names another host cannot make them go there.

use std::fmt;

use http::{HeaderMap, header};
use url::{Origin, Url};

use crate::error::Result;
use crate::remote::locate::invalid;
use crate::remote::object_client::{OtherAddress, Secret, encoded};
use crate::remote::write::UploadId;

/// What is before the address in an upload's id. A `silent` session must not be asked for its
/// state: fake-gcs-server completes the object then. Only the process that began it can go on.
const SESSION: &str = "session:";
const SILENT: &str = "session-silent:";

/// A session's address, as an upload's id holds it.
#[derive(Clone, Copy)]
pub(super) struct Session<'a> {
    /// The path and the query.
    pub(super) path: &'a str,
    /// Whether the service tells its state.
    pub(super) tells_state: bool,
}

/// The session of an upload; `None` if the upload is none.
pub(super) fn session(id: &UploadId) -> Option<Session<'_>> {
    let id = id.as_str();
    if let Some(path) = id.strip_prefix(SILENT) {
        return Some(Session { path, tells_state: false });
    }
    id.strip_prefix(SESSION).map(|path| Session { path, tells_state: true })
}

/// See the module docs.
#[derive(Clone)]
pub(in crate::remote) struct JsonBucket {
    endpoint: Url,
    /// The endpoint, without a slash at its end.
    pub(super) base: String,
    /// The bucket's name.
    pub(super) name: String,
    /// The URL for new objects.
    pub(super) uploads: String,
    /// The URL of the objects.
    objects: String,
    /// The headers of a customer's key, which every request for the object needs.
    pub(super) encryption: HeaderMap,
}

impl fmt::Debug for JsonBucket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JsonBucket").field("uploads", &self.uploads).finish_non_exhaustive()
    }
}

impl JsonBucket {
    /// A bucket at this endpoint; `headers` may have a customer's key.
    pub(in crate::remote) fn new(base: &str, bucket: &str, headers: &HeaderMap) -> Result<Self> {
        let base = base.trim_end_matches('/');
        let endpoint = Url::parse(base)
            .map_err(|error| invalid(base, "the endpoint is not a valid URL").caused_by(error))?;
        let name = bucket.to_owned();
        let bucket = encoded(bucket);
        let mut encryption = HeaderMap::new();
        for (name, value) in headers {
            if name.as_str().starts_with("x-goog-encryption-") {
                encryption.insert(name, value.clone());
            }
        }
        Ok(Self {
            endpoint,
            base: base.to_owned(),
            name,
            uploads: format!("{base}/upload/storage/v1/b/{bucket}/o"),
            objects: format!("{base}/storage/v1/b/{bucket}/o"),
            encryption,
        })
    }

    /// The address of an object.
    pub(super) fn object(&self, key: &str) -> String {
        format!("{}/{}", self.objects, encoded(key).replace('/', "%2F"))
    }

    /// The id of the session at this address, which may name any host; `None` for an address that
    /// cannot be one.
    pub(super) fn upload_id(&self, location: &str, tells_state: bool) -> Option<UploadId> {
        let url = self.endpoint.join(location).ok()?;
        let query = url.query().filter(|query| !query.is_empty())?;
        let kind = if tells_state { SESSION } else { SILENT };
        Some(UploadId::new(format!("{kind}{}?{query}", url.path())))
    }

    /// Where requests to a session go; `None` if the path leads to another host.
    pub(super) fn at(&self, session: Session<'_>) -> Option<OtherAddress> {
        let url = self.endpoint.join(session.path).ok()?;
        let is_here = url.origin() == self.endpoint.origin()
            && matches!(url.origin(), Origin::Tuple(..))
            && url.username().is_empty()
            && url.password().is_none();
        is_here.then(|| OtherAddress {
            url: Secret(url.to_string()),
            is_signed: false,
            accepted: Some(308),
        })
    }

    /// A signed request to this URL.
    pub(super) fn signed(url: String) -> OtherAddress {
        OtherAddress { url: Secret(url), is_signed: true, accepted: None }
    }
}

/// Headers of a request whose response is JSON: nothing there may be compressed.
pub(super) fn plain() -> HeaderMap {
    HeaderMap::from_iter([(header::ACCEPT_ENCODING, header::HeaderValue::from_static("identity"))])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bucket(base: &str) -> JsonBucket {
        JsonBucket::new(base, "b", &HeaderMap::new()).unwrap()
    }

    #[test]
    fn a_session_is_used_at_the_endpoint_only() {
        let google = bucket("https://storage.googleapis.com");
        for location in [
            "https://storage.googleapis.com/upload/storage/v1/b/b/o?upload_id=x",
            "http://evil.example/upload/storage/v1/b/b/o?upload_id=x",
            "/upload/storage/v1/b/b/o?upload_id=x",
        ] {
            let id = google.upload_id(location, true).unwrap();
            assert_eq!(id.as_str(), "session:/upload/storage/v1/b/b/o?upload_id=x");
            let at = google.at(session(&id).unwrap()).unwrap();
            assert_eq!(
                at.url.0,
                "https://storage.googleapis.com/upload/storage/v1/b/b/o?upload_id=x"
            );
            assert!(!at.is_signed);
            assert!(!format!("{at:?} {id:?}").contains("upload_id"), "it is a secret");
        }
        assert!(google.upload_id("https://storage.googleapis.com/x", true).is_none());
    }

    #[test]
    fn a_journal_cannot_name_another_host() {
        let google = bucket("https://storage.googleapis.com");
        for path in [
            "https://evil.example/x?y",
            "//evil.example/x?y",
            "\\\\evil.example/x?y",
            "http://storage.googleapis.com/x?y",
            "https://storage.googleapis.com:8443/x?y",
            "https://user@storage.googleapis.com/x?y",
            "data:x",
        ] {
            let id = UploadId::new(format!("session:{path}"));
            assert!(google.at(session(&id).unwrap()).is_none(), "{path}");
        }
    }

    #[test]
    fn other_uploads_are_no_sessions() {
        assert!(session(&UploadId::new("crc32c:ABC")).is_none());
        let silent = UploadId::new("session-silent:/u?x");
        assert!(!session(&silent).unwrap().tells_state);
    }

    #[test]
    fn an_object_has_one_segment() {
        let bucket = bucket("http://127.0.0.1:1/");
        assert_eq!(bucket.object("a/b c"), "http://127.0.0.1:1/storage/v1/b/b/o/a%2Fb%20c");
    }
}
