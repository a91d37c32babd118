//! Cutting: for any bytes, parameters and split, the chunks add up to the blob and keep to their
//! bounds. They do not depend on how the input is split or on which bytes the caller passes over.

#![no_main]

use arbitrary::Arbitrary;
use libfuzzer_sys::fuzz_target;
use tidegate_core::chunking::{Chunking, Cutter, FastCdc2020Params, RepMaxCdcParams, cuts};

#[derive(Arbitrary, Debug)]
struct Input {
    is_rep_max: bool,
    avg_bits: u8,
    min: u16,
    beyond: u16,
    normalization: u8,
    seed: u32,
    splits: Vec<Split>,
    /// Bytes and how often they repeat, so that a short input gives a long blob.
    parts: Vec<(Vec<u8>, u8)>,
}

/// The blob's next `count` bytes. If `is_passed`, the cutter passes over as many as it can and is
/// fed the rest; otherwise it is fed all.
#[derive(Arbitrary, Debug)]
struct Split {
    count: u16,
    is_passed: bool,
}

impl Input {
    fn chunking(&self) -> Option<Chunking> {
        if self.is_rep_max {
            let params = RepMaxCdcParams::new(self.min.into(), self.beyond.into()).ok()?;
            return Some(Chunking::RepMaxCdc(params));
        }
        let avg = 1_u64 << (10 + self.avg_bits % 4);
        let params = FastCdc2020Params::new(avg, self.seed).ok()?;
        let bounds = self.min.into()..=avg + u64::from(self.beyond);
        let params = params.with_chunk_bytes(bounds).ok()?;
        params.with_normalization(self.normalization.into()).ok().map(Chunking::FastCdc2020)
    }
}

fuzz_target!(|input: Input| {
    let Some(chunking) = input.chunking() else { return };
    let repeated = |(part, times): &(Vec<u8>, u8)| part.repeat(usize::from(*times) + 1);
    let blob: Vec<u8> = input.parts.iter().flat_map(repeated).take(1 << 20).collect();

    let whole: Vec<u64> = cuts(&chunking, &blob).map(|len| len as u64).collect();
    assert_eq!(whole.iter().sum::<u64>(), blob.len() as u64);
    assert!(whole.iter().all(|len| (1..=chunking.chunk_bytes_max()).contains(len)));
    let min = match &chunking {
        Chunking::FastCdc2020(params) => params.min_bytes() & !1,
        Chunking::RepMaxCdc(params) => params.min_bytes(),
        _ => 0,
    };
    assert!(whole.iter().rev().skip(1).all(|len| *len >= min));

    let mut cutter = Cutter::new(&chunking);
    let mut streamed: Vec<u64> = Vec::new();
    let mut rest = &blob[..];
    for split in &input.splits {
        let (mut piece, after) = rest.split_at(rest.len().min(usize::from(split.count)));
        if split.is_passed {
            let passed = cutter.pass(piece.len() as u64);
            assert!(passed <= piece.len() as u64);
            piece = &piece[usize::try_from(passed).expect("it is within a piece")..];
        }
        streamed.extend(cutter.feed(piece));
        rest = after;
    }
    streamed.extend(cutter.feed(rest));
    streamed.extend(cutter.finish());
    assert_eq!(streamed, whole);
});
