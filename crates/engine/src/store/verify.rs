//! [`Verifier`]: compares bytes with a digest, piece by piece.

use tidegate_core::checksum::Checksummer;
use tidegate_core::digest::Digest;

/// Hashes the pieces of one blob in their order.
#[derive(Debug)]
pub(super) struct Verifier {
    digest: Digest,
    checksummer: Option<Checksummer>,
    seen_bytes: u64,
}

impl Verifier {
    pub(super) fn new(digest: &Digest) -> Self {
        // All digest functions are available, so this never fails; otherwise `finish` would reject
        // the bytes.
        let checksummer = Checksummer::new(digest.function.algorithm()).ok();
        Self { digest: *digest, checksummer, seen_bytes: 0 }
    }

    pub(super) fn update(&mut self, bytes: &[u8]) {
        if let Some(checksummer) = &mut self.checksummer {
            checksummer.update(bytes);
        }
        self.seen_bytes += bytes.len() as u64;
    }

    /// Bytes hashed so far.
    pub(super) fn seen_bytes(&self) -> u64 {
        self.seen_bytes
    }

    /// Whether these were the blob's bytes; otherwise the error says what differs.
    pub(super) fn finish(self) -> Result<(), String> {
        let Self { digest, checksummer, seen_bytes } = self;
        if seen_bytes != digest.len {
            return Err(format!("expected {} bytes, got {seen_bytes}", digest.len));
        }
        match checksummer.map(Checksummer::finish) {
            Some(actual) if actual == digest.checksum() => Ok(()),
            Some(actual) => Err(format!("expected {}, got {actual}", digest.checksum())),
            None => Err(format!("{} cannot be computed", digest.function)),
        }
    }
}
