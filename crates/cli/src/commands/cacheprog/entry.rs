//! [`Entry`]: what the cache knows of an action: its output, and the blob that holds the bytes.

use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};
use tidegate_core::Digest;
use tidegate_core::checksum::Checksum;
use tidegate_core::digest::DigestFunction;

/// What the cache knows of an action. Its text is JSON, so no server takes it for a result of the
/// Remote Execution API.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Entry {
    /// The output's name in hexadecimal digits. Go takes the SHA-256 of the body.
    output: String,
    /// The SHA-256 of the body.
    sha256: String,
    size: u64,
    /// When it was stored, in seconds since 1970.
    time: u64,
}

impl Entry {
    /// The entry of an output that is stored now.
    pub(super) fn new(output: &[u8], digest: &Digest) -> Self {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self {
            output: hex(output),
            sha256: digest.checksum().hex(),
            size: digest.len,
            time: now.as_secs(),
        }
    }

    /// `None` if the text is no entry.
    pub(super) fn parse(text: &[u8]) -> Option<Self> {
        let entry: Self = serde_json::from_slice(text).ok()?;
        entry.digest()?;
        entry.output()?;
        Some(entry)
    }

    pub(super) fn text(&self) -> Vec<u8> {
        // Texts and numbers are always JSON.
        serde_json::to_vec(self).unwrap_or_default()
    }

    /// The output's name.
    pub(super) fn output(&self) -> Option<Vec<u8>> {
        let text = self.output.as_bytes();
        if !text.len().is_multiple_of(2) {
            return None;
        }
        let byte = |pair: &[u8]| {
            let pair = std::str::from_utf8(pair).ok()?;
            pair.bytes().all(|one| one.is_ascii_hexdigit()).then_some(())?;
            u8::from_str_radix(pair, 16).ok()
        };
        text.chunks(2).map(byte).collect()
    }

    /// The blob.
    pub(super) fn digest(&self) -> Option<Digest> {
        let function = DigestFunction::Sha256;
        let hash = Checksum::from_hex(function.algorithm(), &self.sha256).ok()?;
        Some(Digest { function, hash: hash.as_bytes().try_into().ok()?, len: self.size })
    }

    /// When it was stored, as Go writes times.
    pub(super) fn time(&self) -> String {
        let time = UNIX_EPOCH.checked_add(std::time::Duration::from_secs(self.time));
        humantime::format_rfc3339_seconds(time.unwrap_or(UNIX_EPOCH)).to_string()
    }
}

/// Hexadecimal digits.
pub(super) fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    let mut text = String::with_capacity(2 * bytes.len());
    for byte in bytes {
        // Writing to a String cannot fail.
        let _ = write!(text, "{byte:02x}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_come_back() {
        let digest = Digest::of(DigestFunction::Sha256, b"body");
        let entry = Entry::new(&[0, 0xab, 3], &digest);
        let read = Entry::parse(&entry.text()).unwrap();
        assert_eq!(read, entry);
        assert_eq!((read.output(), read.digest()), (Some(vec![0, 0xab, 3]), Some(digest)));
        assert_eq!(Entry { time: 0, ..entry.clone() }.time(), "1970-01-01T00:00:00Z");
        let hash = digest.checksum().hex();
        for wrong in [
            String::new(),
            "{}".into(),
            format!(r#"{{"output":"abc","sha256":"{hash}","size":1,"time":0}}"#),
            format!(r#"{{"output":"+1","sha256":"{hash}","size":1,"time":0}}"#),
            r#"{"output":"ab","sha256":"12","size":1,"time":0}"#.to_owned(),
        ] {
            assert_eq!(Entry::parse(wrong.as_bytes()), None, "{wrong}");
        }
    }
}
