//! For any blob, any parameters and any split, the cuts are those of the naive model.

use proptest::prelude::*;
use tidegate_core::chunking::{Chunking, Cutter, FastCdc2020Params, RepMaxCdcParams, cuts};

use super::{input, naive};

/// Blobs of several parts: noise, runs of one byte, short periods, repeats of earlier bytes.
fn blob() -> impl Strategy<Value = Vec<u8>> {
    let part = prop_oneof![
        (any::<u64>(), 0..20_000_usize).prop_map(|(seed, len)| input::splitmix64(seed, len)),
        (any::<u8>(), 0..9_000_usize).prop_map(|(byte, len)| vec![byte; len]),
        (prop::collection::vec(any::<u8>(), 1..200), 0..9_000_usize)
            .prop_map(|(period, len)| period.into_iter().cycle().take(len).collect()),
    ];
    prop::collection::vec(part, 0..5).prop_map(|parts| {
        let mut bytes = parts.concat();
        // Repeats earlier bytes, so that cuts meet the same content at another distance.
        bytes.extend_from_within(bytes.len() / 3..bytes.len() / 2);
        bytes
    })
}

fn fast_cdc() -> impl Strategy<Value = Chunking> {
    (10..=12_u32, any::<u32>(), 0..=3_u32, 64..=1024_u64, 0..9000_u64).prop_map(
        |(bits, seed, normalization, min, beyond)| {
            let params = FastCdc2020Params::new(1 << bits, seed).unwrap();
            let params = params.with_normalization(normalization).unwrap();
            Chunking::FastCdc2020(params.with_chunk_bytes(min..=(1 << bits) + beyond).unwrap())
        },
    )
}

fn rep_max_cdc() -> impl Strategy<Value = Chunking> {
    (64..700_u64, prop_oneof![0..300_u64, 0..9_000_u64])
        .prop_map(|(min, horizon)| Chunking::RepMaxCdc(RepMaxCdcParams::new(min, horizon).unwrap()))
}

fn streamed(cutter: &mut Cutter, mut bytes: &[u8], splits: &[usize]) -> Vec<u64> {
    let mut lengths = Vec::new();
    for split in splits {
        let (piece, rest) = bytes.split_at(bytes.len().min(*split));
        lengths.extend(cutter.feed(piece));
        bytes = rest;
    }
    lengths.extend(cutter.feed(bytes));
    lengths.extend(cutter.finish());
    lengths
}

/// As `streamed`, but skips the bytes that the cutter does not need.
fn streamed_in_part(cutter: &mut Cutter, mut bytes: &[u8], splits: &[usize]) -> Vec<u64> {
    let mut lengths = Vec::new();
    let mut splits = splits.iter().copied().chain(std::iter::repeat(usize::MAX));
    while !bytes.is_empty() {
        let len_max = splits.next().unwrap().min(bytes.len());
        let passed = usize::try_from(cutter.pass(len_max as u64)).unwrap();
        assert!(passed <= len_max, "{passed} of {len_max} bytes passed over");
        bytes = &bytes[passed..];
        let (piece, rest) = bytes.split_at(bytes.len().min(len_max));
        lengths.extend(cutter.feed(piece));
        bytes = rest;
    }
    lengths.extend(cutter.finish());
    lengths
}

fn check(chunking: &Chunking, blob: &[u8], splits: &[usize]) -> Result<(), TestCaseError> {
    let expected = naive::lengths(chunking, blob);
    let whole: Vec<u64> = cuts(chunking, blob).map(|len| len as u64).collect();
    prop_assert_eq!(&whole, &expected);
    let mut cutter = Cutter::new(chunking);
    prop_assert_eq!(&streamed(&mut cutter, blob, splits), &expected, "in pieces");
    prop_assert_eq!(&streamed(&mut cutter, blob, &[]), &expected, "used again");
    prop_assert_eq!(&streamed_in_part(&mut cutter, blob, splits), &expected, "passing over some");
    prop_assert!(whole.iter().all(|len| *len <= chunking.chunk_bytes_max()));
    Ok(())
}

proptest! {
    #[test]
    fn fast_cdc_2020_agrees_with_its_model(
        chunking in fast_cdc(),
        blob in blob(),
        splits in prop::collection::vec(0..5_000_usize, 0..20),
    ) {
        check(&chunking, &blob, &splits)?;
    }

    #[test]
    fn rep_max_cdc_agrees_with_its_model(
        chunking in rep_max_cdc(),
        blob in blob(),
        splits in prop::collection::vec(0..5_000_usize, 0..20),
    ) {
        check(&chunking, &blob, &splits)?;
    }

    #[test]
    fn bytes_may_be_passed_one_by_one(
        chunking in prop_oneof![fast_cdc(), rep_max_cdc()],
        blob in blob(),
    ) {
        let blob = &blob[..blob.len().min(9_000)];
        let expected = naive::lengths(&chunking, blob);
        prop_assert_eq!(streamed(&mut Cutter::new(&chunking), blob, &vec![1; blob.len()]), expected);
    }
}

/// The cutter returns a known cut at once, not at the end.
#[test]
fn a_chunk_is_known_soon_after_its_end() {
    let blob = input::splitmix64(1, 100_000);
    for (chunking, behind_max) in [
        (Chunking::FastCdc2020(FastCdc2020Params::new(1024, 0).unwrap()), 1),
        (Chunking::RepMaxCdc(RepMaxCdcParams::new(512, 4096).unwrap()), 2 * 512 + 4096),
    ] {
        let (mut cutter, mut cut) = (Cutter::new(&chunking), 0);
        for (at, byte) in (1..).zip(&blob) {
            cut += cutter.feed(&[*byte]).sum::<u64>();
            let open_max = chunking.chunk_bytes_max() + behind_max;
            assert!(at - cut <= open_max, "{chunking:?}: {cut} of {at}");
        }
    }
}

/// The caller can omit bytes too close to a chunk's start.
#[test]
fn bytes_before_the_minimum_are_passed_over() {
    let blob = input::splitmix64(2, 1 << 20);
    let mut cutter =
        Cutter::new(&Chunking::FastCdc2020(FastCdc2020Params::new(1 << 16, 0).unwrap()));
    assert_eq!(cutter.pass(1000), 1000);
    assert_eq!(cutter.pass(u64::MAX), (1 << 14) - 1000);
    assert_eq!(cutter.pass(u64::MAX), 0);
    // The cut is known after one or two bytes of the next chunk.
    let cut = blob[1 << 14..].iter().position(|byte| cutter.feed(&[*byte]).count() > 0);
    assert!(cut.is_some());
    assert!(cutter.pass(u64::MAX) >= (1 << 14) - 2);

    let mut cutter = Cutter::new(&Chunking::RepMaxCdc(RepMaxCdcParams::new(1 << 14, 0).unwrap()));
    assert_eq!(cutter.pass(u64::MAX), (1 << 14) - 64);
}

#[test]
fn an_empty_blob_has_no_chunk() {
    let chunking = Chunking::RepMaxCdc(RepMaxCdcParams::new(64, 0).unwrap());
    assert_eq!(cuts(&chunking, &[]).count(), 0);
    assert_eq!(Cutter::new(&chunking).finish().count(), 0);
}
