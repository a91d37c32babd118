//! Compares the checksums of two responses.
//!
//! It finds contradictions between stated values only. It does not verify bytes.

use tidegate_core::checksum::{Checksum, StoredChecksum};

/// The first checksum with one value in `before` and a different one in `now`. A response with two
/// values of one checksum states nothing about it: with MD5 A before, and MD5 A and B now, there is
/// no contradiction. Checksums that do not cover the whole object are ignored.
pub(super) fn contradiction_of<'a>(
    before: &'a [StoredChecksum],
    now: &'a [StoredChecksum],
) -> Option<(&'a Checksum, &'a Checksum)> {
    clear(before).find_map(|was| {
        let mut others = clear(now).filter(|is| is.algorithm() == was.algorithm() && *is != was);
        others.next().map(|is| (was, is))
    })
}

fn clear(stored: &[StoredChecksum]) -> impl Iterator<Item = &Checksum> {
    let whole = move || stored.iter().filter(|stored| stored.is_verifiable());
    whole().map(|stored| &stored.checksum).filter(move |checksum| {
        whole().all(|other| {
            other.checksum.algorithm() != checksum.algorithm() || other.checksum == **checksum
        })
    })
}

#[cfg(test)]
mod tests {
    use tidegate_core::checksum::{ChecksumAlgorithm, Checksummer, Coverage};

    use super::*;

    fn of(bytes: &[u8], algorithm: ChecksumAlgorithm) -> StoredChecksum {
        let checksum = Checksummer::of(algorithm, bytes).unwrap();
        StoredChecksum { checksum, coverage: Coverage::FullObject }
    }

    #[test]
    fn only_two_values_of_one_checksum_contradict() {
        let (md5, crc) = (ChecksumAlgorithm::Md5, ChecksumAlgorithm::Crc32c);
        let (a, b) = ([of(b"a", md5)], [of(b"b", md5)]);
        assert!(contradiction_of(&a, &b).is_some());
        assert!(contradiction_of(&a, &a).is_none());
        assert!(contradiction_of(&a, &[of(b"b", crc)]).is_none());
        assert!(contradiction_of(&a, &[]).is_none());
        assert!(contradiction_of(&a, &[of(b"a", md5), of(b"b", md5)]).is_none(), "it says two");
        let parts =
            StoredChecksum { coverage: Coverage::Composite { parts: Some(2) }, ..of(b"b", md5) };
        assert!(contradiction_of(&a, &[parts]).is_none(), "it is of something else");
    }
}
