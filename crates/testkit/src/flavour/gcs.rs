//! Google Cloud Storage's XML API, read side.
//!
//! Source: <https://cloud.google.com/storage/docs/xml-api/reference-headers>. `x-goog-hash` covers
//! the whole object also on ranged responses, with one field per hash. The server decompresses a
//! compressed object for a client that does not accept `gzip`
//! (<https://cloud.google.com/storage/docs/transcoding>); the test supplies the decompressed bytes.
//! The content and its checksums require a customer's key, other metadata does not.

use super::{Coded, Dialect, Document, Problem, View, xml};
use crate::{
    blob::Blob,
    checksums::{Checksums, Kind},
    conditional::Verdict,
    customer_key::{self, KeyFields, KeyHash, KeyMatch},
    head::Head,
    options::ServerOptions,
    request::Request,
    store::Selector,
};

pub(super) struct Gcs;

impl Dialect for Gcs {
    fn selector(&self, request: &Request) -> Selector {
        match request.parameter("generation").map(str::parse) {
            None => Selector::Latest,
            Some(Ok(generation)) => Selector::Generation(generation),
            Some(Err(_)) => Selector::Impossible,
        }
    }

    fn precondition(&self, request: &Request, blob: &Blob) -> Verdict {
        let named = |field| request.field(field).map(|value| value.parse() == Ok(blob.version));
        if named("x-goog-if-generation-match") == Some(false) {
            return Verdict::Failed;
        }
        if named("x-goog-if-generation-not-match") == Some(true) {
            return Verdict::NotModified;
        }
        Verdict::Proceed
    }

    fn key_fields(&self) -> Option<KeyFields> {
        Some(KeyFields {
            algorithm: "x-goog-encryption-algorithm",
            key: "x-goog-encryption-key",
            hash: "x-goog-encryption-key-sha256",
            hash_is: KeyHash::Sha256,
        })
    }

    fn key_problem(&self, found: KeyMatch, request: &Request) -> Option<Coded> {
        let (code, message) = match found {
            KeyMatch::Fits => return None,
            // Metadata requires no key; only the checksums stay hidden.
            KeyMatch::Missing if request.is_head() => return None,
            KeyMatch::Missing => (
                "ResourceIsEncryptedWithCustomerEncryptionKey",
                "The resource is encrypted with a customer encryption key.",
            ),
            KeyMatch::Wrong => {
                ("CustomerEncryptionKeyIsIncorrect", "The provided encryption key is incorrect.")
            }
            KeyMatch::Malformed => (
                "CustomerEncryptionKeySha256IsInvalid",
                "Missing a SHA256 hash of the encryption key, or it does not match the key.",
            ),
            KeyMatch::Needless => (
                "ResourceNotEncryptedWithCustomerEncryptionKey",
                "The resource is not encrypted with a customer encryption key.",
            ),
        };
        Some(Coded { status: 400, code, message })
    }

    fn payer_problem(&self, request: &Request) -> Option<Coded> {
        request.field("x-goog-user-project").is_none().then_some(Coded {
            status: 400,
            code: "UserProjectMissing",
            message: "Bucket is a requester pays bucket but no user project provided.",
        })
    }

    fn decodes(&self, request: &Request) -> bool {
        let accepted = request.field("accept-encoding").unwrap_or_default();
        !accepted.split(',').any(|coding| coding.trim().eq_ignore_ascii_case("gzip"))
    }

    fn bucket_segments(&self) -> usize {
        1
    }

    fn kinds(&self, blob: &Blob, _options: &ServerOptions) -> Vec<Kind> {
        match blob.checksums {
            Checksums::None => Vec::new(),
            Checksums::Correct | Checksums::Wrong if blob.md5 => vec![Kind::Crc32c, Kind::Md5],
            _ => vec![Kind::Crc32c],
        }
    }

    fn describe(&self, view: &View<'_>, head: &mut Head) {
        let blob = view.blob;
        head.add("x-goog-generation", blob.version.to_string());
        head.add("x-goog-metageneration", "1");
        let encoding = blob.content_encoding.as_deref().unwrap_or("identity");
        head.add("x-goog-stored-content-encoding", encoding);
        head.add("x-goog-stored-content-length", blob.len_bytes().to_string());
        if let Checksums::Composite { parts } = blob.checksums {
            head.add("x-goog-component-count", parts.max(1).to_string());
        }
        let keyless =
            blob.customer_key.is_some() && view.request.field("x-goog-encryption-key").is_none();
        if let Some(key) = &blob.customer_key {
            head.add("x-goog-encryption-algorithm", "AES256");
            let hash = customer_key::hash(key, KeyHash::Sha256);
            head.add("x-goog-encryption-key-sha256", hash);
        }
        for (name, kind) in [("crc32c", Kind::Crc32c), ("md5", Kind::Md5)] {
            if let Some(sum) = view.sums.get(kind).filter(|_| !keyless) {
                head.add("x-goog-hash", format!("{name}={sum}"));
            }
        }
        head.add("x-goog-storage-class", "STANDARD");
    }

    fn document(&self, problem: Problem, request: &Request) -> Document {
        let (code, message) = match problem {
            Problem::NoSuchBucket => ("NoSuchBucket", "The specified bucket does not exist."),
            Problem::NoSuchKey | Problem::NoSuchVersion | Problem::Status(404) => {
                ("NoSuchKey", "The specified key does not exist.")
            }
            Problem::Coded(coded) => (coded.code, coded.message),
            Problem::Status(401) => ("AuthenticationRequired", "Authentication required."),
            Problem::Status(403) => ("AccessDenied", "Access denied."),
            Problem::Status(405) => ("MethodNotAllowed", "The method is not allowed here."),
            Problem::Status(412) | Problem::BlobExists => {
                ("PreconditionFailed", "A precondition did not hold.")
            }
            Problem::Status(416) => ("InvalidRange", "The requested range cannot be satisfied."),
            Problem::Status(429) => ("SlowDown", "The rate limit is exceeded."),
            Problem::Status(503) => ("ServiceUnavailable", "The service is unavailable."),
            Problem::Status(_) => ("InternalError", "We encountered an internal error."),
        };
        if crate::write::is_json(&request.path) {
            return json(problem, code, message);
        }
        let content_type = "application/xml; charset=UTF-8";
        Document { content_type, body: xml(code, message), field: None }
    }
}

/// The error document of the JSON API. Its reasons differ from the codes of the XML API.
fn json(problem: Problem, code: &str, message: &str) -> Document {
    let status = problem.status();
    let reason = match status {
        404 if !matches!(problem, Problem::Coded(_)) => "notFound",
        412 => "conditionNotMet",
        429 => "rateLimitExceeded",
        500 | 503 if !matches!(problem, Problem::Coded(_)) => "backendError",
        _ => code,
    };
    let error = serde_json::json!({ "message": message, "domain": "global", "reason": reason });
    let body = serde_json::json!({
        "error": { "code": status, "message": message, "errors": [error] }
    });
    let content_type = "application/json; charset=UTF-8";
    Document { content_type, body: body.to_string(), field: None }
}
