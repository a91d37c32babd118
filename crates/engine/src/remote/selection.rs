//! [`Selection`]: everything that decides which object a name leads to.
//!
//! A URL alone does not decide: `?id=1` and `?id=2`, two users, two endpoints or a header may each
//! select another object under the same displayed name. A resumed download must not mix two
//! objects. So its journal identifies the selection by a keyed hash.
//!
//! Invariant: its content may be secret, and leaves the process only as a keyed hash.

use std::fmt;

/// The selection of one object, as bytes; see the module docs. Two names lead to one object if
/// their selections are equal. If only the access differs, as in two signed URLs, they may still
/// lead to one object: then a checksum must verify it.
#[derive(Clone, PartialEq, Eq)]
pub struct Selection {
    object: Vec<u8>,
    access: Vec<u8>,
}

impl fmt::Debug for Selection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Selection(..)")
    }
}

impl Selection {
    /// A selection with only the kind of remote, such as `gs`.
    pub fn new(kind: &str) -> Self {
        let (object, access) = (Vec::new(), Vec::new());
        Self { object, access }.with("kind", kind)
    }

    /// Adds a field that distinguishes objects: a bucket, an endpoint, a header.
    #[must_use]
    pub fn with(mut self, name: &str, value: impl AsRef<[u8]>) -> Self {
        put(&mut self.object, name, value.as_ref());
        self
    }

    /// Adds a field that grants access: a signature, an access key. At some servers it also selects
    /// another object.
    #[must_use]
    pub fn with_access(mut self, name: &str, value: impl AsRef<[u8]>) -> Self {
        put(&mut self.access, name, value.as_ref());
        self
    }

    /// All fields.
    pub(crate) fn all(&self) -> Vec<u8> {
        let mut all = (self.object.len() as u64).to_le_bytes().to_vec();
        all.extend_from_slice(&self.object);
        all.extend_from_slice(&self.access);
        all
    }

    /// All fields except those that grant access.
    pub(crate) fn object(&self) -> &[u8] {
        &self.object
    }

    /// The fields that all blobs of one remote share for a caller with these options. Reads the
    /// certificate file that the options name, as the transport does.
    #[cfg(feature = "_http1")]
    pub(super) fn of_caller(remote: &str, options: &super::RemoteOptions) -> Self {
        let mut selection = Self::new(remote).with_headers(options.headers.as_map());
        if let Some(identity) = &options.transport.client_identity {
            let certificate = std::fs::read(&identity.certificates).unwrap_or_default();
            selection = selection.with("client certificate", certificate);
        }
        #[cfg(any(feature = "gcs", feature = "s3", feature = "azure"))]
        if let Some(key) = &options.customer_key {
            selection = selection.with("customer key", key.base64());
        }
        if let Some(project) = &options.user_project {
            selection = selection.with_access("user project", project);
        }
        selection.with_access("request payer", [u8::from(options.request_payer)])
    }

    /// Adds these header fields; their order does not matter.
    #[cfg(feature = "_http1")]
    fn with_headers(self, headers: &http::HeaderMap) -> Self {
        let mut fields: Vec<(&str, &[u8])> =
            headers.iter().map(|(name, value)| (name.as_str(), value.as_bytes())).collect();
        // The sort is stable: the values of one name keep their order.
        fields.sort_by_key(|(name, _)| *name);
        fields.into_iter().fold(self, |selection, (name, value)| {
            selection.with("header", name).with("value", value)
        })
    }

    /// Adds a URL: its user info and path, its query without a signature, and the whole query.
    #[cfg(feature = "http")]
    pub(super) fn with_url(self, url: &url::Url) -> Self {
        let mut bare = url.clone();
        bare.set_fragment(None);
        let query = bare.query().map(str::to_owned);
        bare.set_query(None);
        let Some(query) = query else { return self.with("url", bare.as_str()) };
        // Compared without decoding: a server may distinguish two spellings.
        let (signature, rest): (Vec<&str>, Vec<&str>) =
            query.split('&').partition(|pair| signs(pair.split('=').next().unwrap_or_default()));
        let has_rest = !rest.is_empty() || signature.is_empty();
        let selection = self.with("url", bare.as_str());
        let selection = if has_rest { selection.with("query", rest.join("&")) } else { selection };
        // The position of the signature among the other parameters counts, too.
        selection.with_access("whole query", query)
    }
}

/// Writes each field with its length, so that two lists never give the same bytes.
fn put(bytes: &mut Vec<u8>, name: &str, value: &[u8]) {
    for field in [name.as_bytes(), value] {
        bytes.extend_from_slice(&(field.len() as u64).to_le_bytes());
        bytes.extend_from_slice(field);
    }
}

/// Whether a parameter of a URL's query is part of a signature: of Amazon S3 (versions 4 and 2),
/// `CloudFront`, Google Cloud Storage, or a shared access signature of Azure. Other parameters,
/// such as `versionId`, select an object.
#[cfg(feature = "http")]
fn signs(name: &str) -> bool {
    const NAMES: [&str; 11] = [
        "awsaccesskeyid",
        "googleaccessid",
        "signature",
        "expires",
        "policy",
        "key-pair-id",
        "sig",
        "se",
        "st",
        "skt",
        "ske",
    ];
    const V4: [&str; 8] = [
        "algorithm",
        "credential",
        "date",
        "expires",
        "signedheaders",
        "signature",
        "security-token",
        "content-sha256",
    ];
    let name = name.to_ascii_lowercase();
    let v4 = name.strip_prefix("x-amz-").or_else(|| name.strip_prefix("x-goog-"));
    NAMES.contains(&name.as_str()) || v4.is_some_and(|field| V4.contains(&field))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_that_spell_the_same_differ() {
        let one = Selection::new("x").with("ab", "c");
        let other = Selection::new("x").with("a", "bc");
        assert_ne!(one.all(), other.all());
        let (object, access) = (Selection::new("x").with("a", "b"), Selection::new("x"));
        assert_ne!(object.all(), access.with_access("a", "b").all());
    }

    #[test]
    fn access_does_not_change_the_object() {
        let one = Selection::new("x").with("key", "k").with_access("token", "1");
        let other = Selection::new("x").with("key", "k").with_access("token", "2");
        assert_eq!(one.object(), other.object());
        assert_ne!(one.all(), other.all());
        assert_eq!(format!("{one:?}"), "Selection(..)");
    }

    #[cfg(feature = "http")]
    fn url(text: &str) -> Selection {
        Selection::new("http").with_url(&url::Url::parse(text).unwrap())
    }

    #[cfg(feature = "http")]
    #[test]
    fn a_signature_is_no_part_of_the_object() {
        let plain = "https://h/b/k?versionId=7";
        for signed in [
            "https://h/b/k?versionId=7&X-Amz-Signature=abc&X-Amz-Date=1",
            "https://h/b/k?X-Goog-Credential=me&versionId=7&X-Goog-Expires=9",
            "https://h/b/k?versionId=7&Expires=5&Signature=x&AWSAccessKeyId=y",
            "https://h/b/k?versionId=7&sig=x&se=2026#fragment",
        ] {
            assert_eq!(url(signed).object(), url(plain).object(), "{signed}");
            assert_ne!(url(signed).all(), url(plain).all(), "{signed}");
        }
        let (one, other) = (url("https://h/k?Signature=1"), url("https://h/k?Signature=2"));
        assert_eq!(one.object(), other.object());
        assert_eq!(one.object(), url("https://h/k").object());
    }

    #[cfg(feature = "http")]
    #[test]
    fn all_else_in_a_url_is() {
        let all = [
            "https://h/k",
            "https://h/k?",
            "https://h/k?id=1",
            "https://h/k?id=2",
            "https://h/k?ID=1",
            "https://h/k?id=1&id=2",
            "https://h/k?x-amz-acl=1",
            "https://me@h/k",
            "https://me:pw@h/k",
            "http://h/k",
            "https://h:8/k",
            "https://h/k/",
        ];
        for (index, one) in all.iter().enumerate() {
            for other in &all[index + 1..] {
                assert_ne!(url(one).object(), url(other).object(), "{one} {other}");
            }
        }
        assert_eq!(url("https://h/k#a").all(), url("https://h/k#b").all());
    }

    #[cfg(feature = "_http1")]
    #[test]
    fn headers_count_by_name_and_value() {
        let of = |fields: &[(&'static str, &'static str)]| {
            let mut headers = http::HeaderMap::new();
            for (name, value) in fields {
                headers.append(*name, http::HeaderValue::from_static(value));
            }
            Selection::new("x").with_headers(&headers).all()
        };
        assert_eq!(of(&[("a", "1"), ("b", "2")]), of(&[("b", "2"), ("a", "1")]));
        assert_ne!(of(&[("a", "1"), ("a", "2")]), of(&[("a", "2"), ("a", "1")]));
        assert_ne!(of(&[("a", "1")]), of(&[("a", "2")]));
        assert_ne!(of(&[]), of(&[("a", "")]));
    }
}
