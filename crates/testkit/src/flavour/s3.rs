//! S3, path style, read side.
//!
//! Source: the API reference of `GetObject` and `HeadObject`. Responses contain checksums only for
//! `x-amz-checksum-mode: ENABLED` and only for whole objects. Only versioned buckets send version
//! ids.

use super::{Coded, Dialect, Document, Problem, View, escaped};
use crate::{
    blob::Blob,
    checksums::{Checksums, Kind},
    customer_key::{self, KeyFields, KeyHash, KeyMatch},
    head::Head,
    options::ServerOptions,
    request::Request,
    store::Selector,
};

pub(super) struct S3;

impl Dialect for S3 {
    fn ranges_on_head(&self) -> bool {
        true
    }

    fn part_number<'a>(&self, request: &'a Request) -> Option<&'a str> {
        request.parameter("partNumber")
    }

    fn selector(&self, request: &Request) -> Selector {
        request
            .parameter("versionId")
            .map_or(Selector::Latest, |id| Selector::VersionId(id.to_owned()))
    }

    fn key_fields(&self) -> Option<KeyFields> {
        Some(KeyFields {
            algorithm: "x-amz-server-side-encryption-customer-algorithm",
            key: "x-amz-server-side-encryption-customer-key",
            hash: "x-amz-server-side-encryption-customer-key-MD5",
            hash_is: KeyHash::Md5,
        })
    }

    fn key_problem(&self, found: KeyMatch, _request: &Request) -> Option<Coded> {
        let (status, code, message) = match found {
            KeyMatch::Fits => return None,
            KeyMatch::Missing => (
                400,
                "InvalidRequest",
                "The object was stored using a form of Server Side Encryption. The correct \
                 parameters must be provided to retrieve the object.",
            ),
            KeyMatch::Wrong => (403, "AccessDenied", "Access Denied"),
            KeyMatch::Malformed => (
                400,
                "InvalidArgument",
                "The calculated MD5 hash of the key did not match the hash that was provided.",
            ),
            KeyMatch::Needless => (
                400,
                "InvalidRequest",
                "The encryption parameters are not applicable to this object.",
            ),
        };
        Some(Coded { status, code, message })
    }

    fn payer_problem(&self, request: &Request) -> Option<Coded> {
        let pays = request.field("x-amz-request-payer") == Some("requester");
        let denied = Coded { status: 403, code: "AccessDenied", message: "Access Denied" };
        (!pays).then_some(denied)
    }

    fn archive_problem(&self) -> Option<Coded> {
        let message = "The operation is not valid for the object's storage class";
        Some(Coded { status: 403, code: "InvalidObjectState", message })
    }

    fn bucket_segments(&self) -> usize {
        1
    }

    fn kinds(&self, blob: &Blob, _options: &ServerOptions) -> Vec<Kind> {
        match blob.checksums {
            _ if blob.uploaded.is_some() || blob.stored.is_some() => Vec::new(),
            Checksums::None => Vec::new(),
            Checksums::Correct | Checksums::Wrong => vec![Kind::Crc64Nvme],
            Checksums::Composite { parts } => vec![Kind::CompositeCrc32c(parts.max(1))],
        }
    }

    fn describe(&self, view: &View<'_>, head: &mut Head) {
        if view.options.versioning {
            head.add("x-amz-version-id", view.blob.version_id());
        }
        if let Some(class) = view.blob.archive {
            head.add("x-amz-storage-class", class);
        }
        if !view.blob.tags.is_empty() {
            head.add("x-amz-tagging-count", view.blob.tags.len().to_string());
        }
        if let Some(key) = &view.blob.customer_key {
            head.add("x-amz-server-side-encryption-customer-algorithm", "AES256");
            let hash = customer_key::hash(key, KeyHash::Md5);
            head.add("x-amz-server-side-encryption-customer-key-MD5", hash);
        }
        let mode = view.request.field("x-amz-checksum-mode");
        if !view.whole || !mode.is_some_and(|mode| mode.eq_ignore_ascii_case("ENABLED")) {
            return;
        }
        if let Some(stored) = &view.blob.stored
            && view.blob.checksums != Checksums::None
        {
            for (name, value) in stored.fields(view.blob.checksums == Checksums::Wrong) {
                head.add(name, value);
            }
        }
        if let Some(uploaded) = &view.blob.uploaded
            && let Some(name) = uploaded.algorithm.header()
            && view.blob.checksums != Checksums::None
        {
            head.add(name, uploaded.value(view.blob.checksums == Checksums::Wrong));
            head.add("x-amz-checksum-type", "COMPOSITE");
        }
        if let Some(sum) = view.sums.get(Kind::Crc64Nvme) {
            head.add("x-amz-checksum-crc64nvme", sum);
            head.add("x-amz-checksum-type", "FULL_OBJECT");
        }
        if let Checksums::Composite { parts } = view.blob.checksums
            && let Some(sum) = view.sums.get(Kind::CompositeCrc32c(parts.max(1)))
        {
            head.add("x-amz-checksum-crc32c", format!("{sum}-{}", parts.max(1)));
            head.add("x-amz-checksum-type", "COMPOSITE");
        }
    }

    fn document(&self, problem: Problem, request: &Request) -> Document {
        let (code, message) = match problem {
            Problem::NoSuchBucket => ("NoSuchBucket", "The specified bucket does not exist"),
            Problem::NoSuchVersion => ("NoSuchVersion", "The specified version does not exist."),
            Problem::NoSuchKey | Problem::Status(404) => {
                ("NoSuchKey", "The specified key does not exist.")
            }
            Problem::Coded(coded) => (coded.code, coded.message),
            Problem::Status(401 | 403) => ("AccessDenied", "Access Denied"),
            Problem::Status(405) => ("MethodNotAllowed", "The method is not allowed here."),
            Problem::Status(412) | Problem::BlobExists => {
                ("PreconditionFailed", "A pre-condition did not hold")
            }
            Problem::Status(416) => ("InvalidRange", "The requested range is not satisfiable"),
            Problem::Status(429 | 503) => ("SlowDown", "Please reduce your request rate."),
            Problem::Status(_) => ("InternalError", "We encountered an internal error."),
        };
        let body = format!(
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n\
             <Error><Code>{code}</Code><Message>{message}</Message>\
             <Resource>{}</Resource><RequestId>TESTKIT</RequestId></Error>",
            escaped(&request.path)
        );
        Document { content_type: "application/xml", body, field: None }
    }
}
