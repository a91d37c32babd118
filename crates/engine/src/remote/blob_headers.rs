//! Which of a caller's header fields describe a blob. Pure.
//!
//! A field that describes a blob, such as `Content-Disposition`, belongs to the request that makes the
//! blob: the one of a put or a copy, and the one that begins an upload in parts. The other requests
//! of an upload are sent without it, because services refuse or misread it there.

use http::HeaderMap;

/// Fields of HTTP that services keep with a blob.
const OF_HTTP: [&str; 6] = [
    "cache-control",
    "content-disposition",
    "content-encoding",
    "content-language",
    "content-type",
    "expires",
];

/// Fields of the services begin so.
const OF_SERVICES: [&str; 3] = ["x-amz-", "x-goog-", "x-ms-"];

/// Fields of the services that every request needs: who pays, whose the bucket is, a key that the
/// customer keeps, a lease, a name in logs.
const OF_REQUESTS: [&str; 12] = [
    "x-amz-expected-bucket-owner",
    "x-amz-request-payer",
    "x-amz-server-side-encryption-customer-",
    "x-amz-source-expected-bucket-owner",
    "x-goog-encryption-algorithm",
    "x-goog-encryption-key",
    "x-goog-request-",
    "x-goog-user-project",
    "x-ms-client-",
    "x-ms-encryption-",
    "x-ms-lease-id",
    "x-ms-version",
];

/// Whether a field, in lower case, describes a blob.
fn is_of_blob(name: &str) -> bool {
    let begins = |list: &[&str]| list.iter().any(|start| name.starts_with(start));
    OF_HTTP.contains(&name) || (begins(&OF_SERVICES) && !begins(&OF_REQUESTS))
}

/// The fields for every request, and those that describe a blob.
pub(super) fn split(headers: &HeaderMap) -> (HeaderMap, HeaderMap) {
    let (mut of_requests, mut of_blobs) = (HeaderMap::new(), HeaderMap::new());
    for (name, value) in headers {
        let part = if is_of_blob(name.as_str()) { &mut of_blobs } else { &mut of_requests };
        part.append(name, value.clone());
    }
    (of_requests, of_blobs)
}

/// The fields as names and values; they are visible ASCII.
pub(super) fn pairs(headers: &HeaderMap) -> Vec<(String, String)> {
    let text = |value: &http::HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
    headers.iter().map(|(name, value)| (name.to_string(), text(value))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_and_payers_are_of_every_request() {
        for name in [
            "content-disposition",
            "expires",
            "x-amz-acl",
            "x-amz-server-side-encryption",
            "x-amz-server-side-encryption-aws-kms-key-id",
            "x-amz-meta-a",
            "x-goog-acl",
            "x-goog-encryption-kms-key-name",
            "x-ms-blob-content-disposition",
            "x-ms-immutability-policy-mode",
        ] {
            assert!(is_of_blob(name), "{name}");
        }
        for name in [
            "authorization",
            "x-own",
            "x-amz-request-payer",
            "x-amz-server-side-encryption-customer-key",
            "x-goog-encryption-key-sha256",
            "x-goog-user-project",
            "x-ms-encryption-scope",
            "x-ms-lease-id",
        ] {
            assert!(!is_of_blob(name), "{name}");
        }
    }
}
