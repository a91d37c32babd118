//! [`Integrity`]: a checksum in the form of Subresource Integrity (W3C): `sha256-`, `sha384-` or
//! `sha512-`, and base 64.
//!
//! A SHA-256 is that of the digest. The others are computed of the stored bytes, once: a value of the
//! store then names the digest of the blob that has the checksum.

use futures_util::TryStreamExt as _;
use sha2::{Digest as _, Sha384, Sha512};
use tidegate::store::BlobStore as _;
use tidegate::{Digest, DigestFunction};
use tidegate_core::checksum::{Checksum, ChecksumAlgorithm};

use super::Origins;
use crate::store::BlobHash;

/// A checksum that a blob must have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::serve) enum Integrity {
    /// The hash.
    Sha256([u8; 32]),
    /// The whole text, such as `sha512-...`.
    Computed { text: String, is_512: bool },
}

impl Integrity {
    /// The text of a qualifier `checksum.sri`: hashes with spaces between them, each with options
    /// behind `?`. The SHA-256 is taken if there is one, because it needs no computation.
    pub(in crate::serve) fn parse(text: &str) -> Result<Self, &'static str> {
        let hashes = || text.split_ascii_whitespace().map(|hash| hash.split('?').next());
        let find = |prefix: &str| hashes().flatten().find(|hash| hash.starts_with(prefix));
        if let Some(hash) = find("sha256-") {
            let hash = hash.trim_start_matches("sha256-");
            let checksum = Checksum::from_base64(ChecksumAlgorithm::Sha256, hash).ok();
            let bytes = checksum.and_then(|checksum| checksum.as_bytes().try_into().ok());
            return bytes
                .map(Self::Sha256)
                .ok_or("the SHA-256 in checksum.sri is not 32 bytes in base 64");
        }
        // 48 and 64 bytes in base 64.
        for (prefix, len, is_512) in [("sha512-", 88, true), ("sha384-", 64, false)] {
            if let Some(text) = find(prefix) {
                let is_whole = text.len() == prefix.len() + len;
                return is_whole
                    .then(|| Self::Computed { text: text.to_owned(), is_512 })
                    .ok_or("the hash in checksum.sri has the wrong length");
            }
        }
        Err("checksum.sri has none of sha256-, sha384- and sha512-")
    }
}

impl Origins {
    /// A stored blob that has the checksum, if one is known.
    pub(in crate::serve) async fn known(
        &self,
        integrity: &Integrity,
    ) -> tidegate::Result<Option<Digest>> {
        let text = match integrity {
            Integrity::Sha256(hash) => {
                let name = BlobHash { function: DigestFunction::Sha256, hash: *hash };
                return self.0.store.find_by_hash(name).await;
            }
            Integrity::Computed { text, .. } => text,
        };
        let Some((_, body)) = self.0.store.value(&name(text)).await? else { return Ok(None) };
        let value = body.try_collect::<Vec<_>>().await?.concat();
        let value = std::str::from_utf8(&value).ok();
        let Some(digest) = value.and_then(|value| Digest::parse(value).ok()) else {
            return Ok(None);
        };
        Ok(self.0.store.has(&digest).await?.then_some(digest))
    }

    /// Whether a stored blob has the checksum.
    pub(in crate::serve) async fn matches(
        &self,
        digest: &Digest,
        integrity: &Integrity,
    ) -> tidegate::Result<bool> {
        let (text, is_512) = match integrity {
            Integrity::Sha256(hash) => return Ok(*hash == digest.hash),
            Integrity::Computed { text, is_512 } => (text, *is_512),
        };
        let mut hasher =
            if is_512 { Hasher::Long(Sha512::new()) } else { Hasher::Short(Sha384::new()) };
        let mut body = self.0.store.get(digest, 0, &self.0.budget).await?;
        while let Some(piece) = body.try_next().await? {
            // A piece takes up to a millisecond.
            let updated = tokio::task::spawn_blocking(move || {
                hasher.update(&piece);
                hasher
            });
            hasher = updated.await.map_err(|error| super::asset::cancelled(digest, error))?;
        }
        if hasher.text() != *text {
            return Ok(false);
        }
        if let Some(value) = self.0.store.begin_value(&name(text)) {
            value.write(digest.to_string().into()).await?.finish().await?;
        }
        Ok(true)
    }
}

/// A hash that is computed of the stored bytes.
enum Hasher {
    Short(Sha384),
    Long(Sha512),
}

impl Hasher {
    fn update(&mut self, bytes: &[u8]) {
        match self {
            Self::Short(hasher) => hasher.update(bytes),
            Self::Long(hasher) => hasher.update(bytes),
        }
    }

    fn text(self) -> String {
        use base64::Engine as _;
        let base64 = base64::engine::general_purpose::STANDARD;
        match self {
            Self::Short(hasher) => format!("sha384-{}", base64.encode(hasher.finalize())),
            Self::Long(hasher) => format!("sha512-{}", base64.encode(hasher.finalize())),
        }
    }
}

/// The name of the value that holds the digest of a blob with this checksum.
fn name(text: &str) -> Vec<u8> {
    ["", "origin-integrity", text].join("\0").into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_of_the_web() {
        let empty = "sha256-47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=";
        let Integrity::Sha256(hash) = Integrity::parse(empty).unwrap() else { panic!() };
        assert_eq!(hash, Digest::of(DigestFunction::Sha256, b"").hash);
        for text in [format!("sha512-x  {empty}"), format!("{empty}?ct=a/b")] {
            assert_eq!(Integrity::parse(&text), Ok(Integrity::Sha256(hash)), "{text}");
        }
        for hasher in [Hasher::Short(Sha384::new()), Hasher::Long(Sha512::new())] {
            let is_512 = matches!(hasher, Hasher::Long(_));
            let text = hasher.text();
            assert_eq!(Integrity::parse(&text), Ok(Integrity::Computed { text, is_512 }));
        }
        for text in ["", "sha384-x", "sha256-", "sha256-AAAA", "sha256", "md5-x", "sha512-"] {
            assert!(Integrity::parse(text).is_err(), "{text}");
        }
    }
}
