//! Pieces of a blob in any order, overlapping or not: the CRCs of accepted pieces combine to the
//! CRC of the bytes.

#![no_main]

use libfuzzer_sys::fuzz_target;
use tidegate_core::checksum::{Crc, CrcAlgorithm};
use tidegate_core::extents::Extents;
use tidegate_core::parts::CrcParts;

fuzz_target!(|input: (&[u8], Vec<(u16, u16)>)| {
    let (bytes, pieces) = input;
    for algorithm in [CrcAlgorithm::Crc32c, CrcAlgorithm::Crc64Nvme] {
        let mut parts = CrcParts::new(algorithm);
        let mut extents = Extents::new();
        for (start, len) in &pieces {
            let start = usize::from(*start).min(bytes.len());
            let end = (start + usize::from(*len)).min(bytes.len());
            let range = start as u64..end as u64;
            let is_new = extents.gaps(range.clone()).map(|gap| gap.end - gap.start).sum::<u64>()
                == range.end - range.start;
            let accepted =
                parts.insert(range.start, Crc::of(algorithm, &bytes[start..end])).is_ok();
            if start < end {
                assert_eq!(accepted, is_new);
            }
            if accepted {
                extents.insert(range);
            }
        }
        for (start, crc) in parts.iter() {
            let (start, len) = (start as usize, crc.len() as usize);
            assert_eq!(crc, Crc::of(algorithm, &bytes[start..start + len]));
        }
        let whole = parts.whole(bytes.len() as u64);
        assert_eq!(whole.is_some(), extents.is_complete(bytes.len() as u64));
    }
});
