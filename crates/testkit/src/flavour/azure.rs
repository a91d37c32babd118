//! Azure Blob, read side, named as the emulator does.
//!
//! Source: the REST reference of "Get Blob" and "Get Blob Properties". `x-ms-range` takes
//! precedence over `Range`. The MD5 of the whole blob is `Content-MD5` on whole responses and
//! `x-ms-blob-content-md5` on ranged ones, where `Content-MD5` would be of the range.

use super::{Coded, Dialect, Document, Problem, View, xml};
use crate::{
    blob::Blob,
    checksums::{Checksums, Kind},
    customer_key::{self, KeyFields, KeyHash, KeyMatch},
    head::Head,
    options::ServerOptions,
    request::Request,
    store::Selector,
};

/// The version of the API that the server claims if the client names none.
const API_VERSION: &str = "2023-11-03";

pub(super) struct Azure;

impl Dialect for Azure {
    fn range<'a>(&self, request: &'a Request) -> Option<&'a str> {
        request.field("x-ms-range").or_else(|| request.field("range"))
    }

    fn selector(&self, request: &Request) -> Selector {
        request
            .parameter("versionid")
            .map_or(Selector::Latest, |id| Selector::VersionId(id.to_owned()))
    }

    fn key_fields(&self) -> Option<KeyFields> {
        Some(KeyFields {
            algorithm: "x-ms-encryption-algorithm",
            key: "x-ms-encryption-key",
            hash: "x-ms-encryption-key-sha256",
            hash_is: KeyHash::Sha256,
        })
    }

    fn key_problem(&self, found: KeyMatch, _request: &Request) -> Option<Coded> {
        let (status, code, message) = match found {
            KeyMatch::Fits => return None,
            KeyMatch::Missing => (
                409,
                "BlobUsesCustomerSpecifiedEncryption",
                "The blob is encrypted with customer specified encryption, but it was not \
                 provided in the request.",
            ),
            KeyMatch::Wrong => (
                409,
                "BlobCustomerSpecifiedEncryptionMismatch",
                "The given customer specified encryption does not match the encryption used to \
                 encrypt the blob.",
            ),
            KeyMatch::Malformed => {
                (400, "InvalidHeaderValue", "The value of a header is not valid.")
            }
            KeyMatch::Needless => (
                409,
                "BlobDoesNotUseCustomerSpecifiedEncryption",
                "The blob does not use customer specified encryption, but it was provided.",
            ),
        };
        Some(Coded { status, code, message })
    }

    fn archive_problem(&self) -> Option<Coded> {
        let message = "This operation is not permitted on an archived blob.";
        Some(Coded { status: 409, code: "BlobArchived", message })
    }

    fn bucket_segments(&self) -> usize {
        2
    }

    fn kinds(&self, blob: &Blob, _options: &ServerOptions) -> Vec<Kind> {
        match blob.checksums {
            Checksums::Correct | Checksums::Wrong if blob.md5 => vec![Kind::Md5],
            _ => Vec::new(),
        }
    }

    fn describe(&self, view: &View<'_>, head: &mut Head) {
        let version = view.request.field("x-ms-version").unwrap_or(API_VERSION);
        head.add("x-ms-version", version);
        head.add("x-ms-blob-type", "BlockBlob");
        if view.options.versioning {
            head.add("x-ms-version-id", view.blob.version_id());
        }
        head.add("x-ms-access-tier", view.blob.archive.unwrap_or("Hot"));
        head.add("x-ms-server-encrypted", "true");
        if !view.blob.tags.is_empty() {
            head.add("x-ms-tag-count", view.blob.tags.len().to_string());
        }
        if let Some(key) = &view.blob.customer_key {
            let hash = customer_key::hash(key, KeyHash::Sha256);
            head.add("x-ms-encryption-key-sha256", hash);
        }
        if let Some(sum) = view.sums.get(Kind::Md5) {
            let name = if view.whole { "Content-MD5" } else { "x-ms-blob-content-md5" };
            head.add(name, sum);
        }
    }

    fn document(&self, problem: Problem, _request: &Request) -> Document {
        let (code, message) = match problem {
            Problem::NoSuchBucket => {
                ("ContainerNotFound", "The specified container does not exist.")
            }
            Problem::NoSuchKey | Problem::NoSuchVersion | Problem::Status(404) => {
                ("BlobNotFound", "The specified blob does not exist.")
            }
            Problem::BlobExists => ("BlobAlreadyExists", "The specified blob already exists."),
            Problem::Coded(coded) => (coded.code, coded.message),
            Problem::Status(401) => ("NoAuthenticationInformation", "Please authenticate."),
            Problem::Status(403) => ("AuthorizationFailure", "You are not authorized."),
            Problem::Status(405) => ("UnsupportedHttpVerb", "The method is not allowed here."),
            Problem::Status(304 | 412) => ("ConditionNotMet", "A condition was not met."),
            Problem::Status(416) => ("InvalidRange", "The range is invalid for this blob."),
            Problem::Status(429 | 503) => ("ServerBusy", "The server is busy."),
            Problem::Status(_) => ("InternalError", "The server met an internal error."),
        };
        let field = Some(("x-ms-error-code", code));
        Document { content_type: "application/xml", body: xml(code, message), field }
    }
}
