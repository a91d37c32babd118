//! [`CustomerKey`]: a key with which a cloud encrypts a blob, and which the customer keeps, not the
//! cloud. Google calls it customer-supplied (CSEK), Amazon SSE-C, Microsoft customer-provided
//! (CPK). Every request for the blob carries it, including requests for metadata.
//!
//! Invariants:
//! - Its bytes are in no `Debug` output and in no error.
//! - It goes only to the cloud of its remote: not to plain HTTP servers, not along redirects, not
//!   to the services that give credentials.
//! - It is never sent without TLS, except to this machine. The clouds refuse it without TLS, but
//!   only after the network has seen it.

use std::fmt;
use std::fs::File;
use std::io::Read;
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
#[cfg(any(feature = "gcs", feature = "azure"))]
use tidegate_core::checksum::{ChecksumAlgorithm, Checksummer};
use url::{Host, Url};

use super::locate::invalid;
use crate::error::{Error, ErrorKind, Operation, Result};

/// AES-256 is the only algorithm of all three clouds.
const KEY_BYTES: usize = 32;

/// Far more than 32 bytes in base64 with line breaks need; a longer file is not a key.
const FILE_BYTES_MAX: u64 = 1024;

/// An AES-256 key that the caller keeps.
#[derive(Clone)]
pub struct CustomerKey([u8; KEY_BYTES]);

impl fmt::Debug for CustomerKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CustomerKey(..)")
    }
}

impl CustomerKey {
    /// The key with these bytes.
    pub fn new(bytes: [u8; KEY_BYTES]) -> Self {
        Self(bytes)
    }

    /// Parses a key as a file holds it: 32 raw bytes, or their base64 with white space around it.
    ///
    /// Fails with `Invalid` for anything else; the error does not show the content.
    pub fn parse(content: &[u8]) -> Result<Self> {
        if let Ok(bytes) = <[u8; KEY_BYTES]>::try_from(content) {
            return Ok(Self(bytes));
        }
        let decoded = STANDARD.decode(content.trim_ascii()).ok();
        let bytes = decoded.and_then(|bytes| <[u8; KEY_BYTES]>::try_from(bytes).ok());
        bytes.map(Self).ok_or_else(|| {
            let message = format!(
                "expected {KEY_BYTES} bytes or their base64, got {} bytes that are neither",
                content.len()
            );
            invalid("the customer key", &message)
                .with_hint("make one with: openssl rand -base64 32 > FILE")
        })
    }

    /// Reads a key from a file, in the forms of [`Self::parse`]. Blocks.
    ///
    /// Fails with `Invalid` if the file cannot be read or holds no key.
    pub fn from_file(path: &Path) -> Result<Self> {
        let shown = path.display().to_string();
        let mut content = Vec::new();
        File::open(path)
            .and_then(|file| file.take(FILE_BYTES_MAX + 1).read_to_end(&mut content))
            .map_err(|error| invalid(&shown, "the customer key cannot be read").caused_by(error))?;
        Self::parse(&content).map_err(|error| {
            let hint = error.hint().unwrap_or_default().to_owned();
            invalid(&shown, "the file holds no customer key").caused_by(error).with_hint(hint)
        })
    }

    /// The base64 of the key, as all clouds expect it in their headers.
    pub(super) fn base64(&self) -> String {
        STANDARD.encode(self.0)
    }

    /// The base64 of the key's SHA-256, by which Google and Azure identify the key.
    #[cfg(any(feature = "gcs", feature = "azure"))]
    pub(super) fn sha256_base64(&self) -> String {
        // SHA-256 is always available here.
        Checksummer::of(ChecksumAlgorithm::Sha256, &self.0)
            .map(|sum| sum.to_base64())
            .unwrap_or_default()
    }
}

/// Refuses to send a key to `endpoint` without TLS. `None` is the cloud's own address, which has
/// TLS.
pub(super) fn require_tls(endpoint: Option<&str>) -> Result<()> {
    let Some(endpoint) = endpoint else { return Ok(()) };
    let safe = Url::parse(endpoint).is_ok_and(|url| url.scheme() == "https" || is_local(&url));
    if safe {
        return Ok(());
    }
    Err(Error::new(
        ErrorKind::Invalid,
        Operation::Connect,
        endpoint,
        "a customer key is not sent without TLS",
    )
    .with_hint("give the endpoint's https:// address"))
}

fn is_local(url: &Url) -> bool {
    match url.host() {
        Some(Host::Domain(name)) => name == "localhost",
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RAW: &[u8; 32] = b"0123456789abcdefghijklmnopqrstuv";

    #[test]
    fn a_key_is_32_bytes_or_their_base64() {
        let base64 = STANDARD.encode(RAW);
        let lines = format!("\n  {base64}\r\n");
        for content in [RAW.as_slice(), base64.as_bytes(), lines.as_bytes()] {
            assert_eq!(CustomerKey::parse(content).unwrap().0, *RAW);
        }
        let short = STANDARD.encode(&RAW[..31]);
        let mut line = RAW.to_vec();
        line.push(b'\n');
        for content in [b"".as_slice(), &RAW[..31], &line, short.as_bytes(), &[b'='; 44]] {
            let error = CustomerKey::parse(content).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Invalid);
            assert!(!format!("{error:?}").contains("0123456789"), "{error:?}");
        }
        assert!(!format!("{:?}", CustomerKey::new(*RAW)).contains("48"), "nor as numbers");
    }

    #[cfg(feature = "gcs")]
    #[test]
    fn without_tls_it_stays_on_this_machine() {
        for endpoint in ["https://storage.example", "http://127.0.0.1:9", "http://[::1]:9"] {
            assert!(require_tls(Some(endpoint)).is_ok(), "{endpoint}");
        }
        assert!(require_tls(None).is_ok() && require_tls(Some("http://localhost:9")).is_ok());
        for endpoint in ["http://minio.example:9000", "http://127.0.0.1.example", "minio"] {
            assert_eq!(require_tls(Some(endpoint)).unwrap_err().kind(), ErrorKind::Invalid);
        }
    }
}
