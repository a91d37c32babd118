//! Parts of every length and profile cover the blob exactly, within the limits of the remote.

use proptest::prelude::*;

use super::*;
use crate::remote::LastPart;
use crate::upload::parted::ranges;

const GIB: u64 = 1 << 30;
const TIB: u64 = 1 << 40;

/// A profile with these limits, and the longest blob.
fn profile(bytes_min: u64, bytes_max: u64, count_max: u32) -> PartProfile {
    PartProfile { bytes_min, bytes_max, count_max, ..PartProfile::any() }
}

fn s3() -> PartProfile {
    profile(5 * MIB, 5 * GIB, 10_000)
}

fn azure() -> PartProfile {
    profile(1, 4_000 * MIB, 50_000)
}

/// Services that imitate S3: fewer parts, or longer ones.
fn profiles() -> [(PartProfile, u64); 6] {
    [
        (s3(), 10_000 * 5 * GIB),
        (s3(), 5 * TIB),
        (azure(), 50_000 * 4_000 * MIB),
        (profile(5 * MIB, 5 * GIB, 1_000), 5_000 * GIB),
        (profile(64 * MIB, 5 * GIB, 10_000), 5 * TIB),
        (profile(1, u64::MAX, 100_000), u64::MAX),
    ]
}

/// Lengths at and around those that decide, and any others.
fn lengths() -> impl Strategy<Value = u64> {
    let near = (0_u32..64, 0_u64..5)
        .prop_map(|(bits, more)| (1_u64 << bits).saturating_add(more).saturating_sub(2));
    prop_oneof![near, any::<u64>(), 0..100 * TIB, 0..GIB]
}

fn check(len: u64, bytes: u64, profile: &PartProfile) -> Result<(), TestCaseError> {
    prop_assert!(bytes >= profile.bytes_min && bytes <= profile.bytes_max);
    prop_assert_eq!(bytes % profile.bytes_multiple, 0);
    prop_assert!(len.div_ceil(bytes) <= u64::from(profile.count_max));
    let mut end = 0;
    for (expected, (number, range)) in (1..).zip(ranges(len, bytes)) {
        prop_assert_eq!(number.get(), expected);
        prop_assert_eq!(range.start, end, "no gap and no overlap");
        prop_assert!(range.end > range.start);
        let is_last = range.end == len;
        prop_assert!(
            range.end - range.start == bytes || (is_last && range.end - range.start < bytes)
        );
        end = range.end;
    }
    prop_assert_eq!(end, len);
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// Every blob that the remote takes has a plan.
    #[test]
    fn every_blob_is_covered(len in lengths(), which in 0..profiles().len()) {
        let (profile, blob_bytes_max) = &profiles()[which];
        match part_bytes(len, None, profile) {
            Ok(bytes) => check(len, bytes, profile)?,
            Err(error) => prop_assert!(len > *blob_bytes_max, "{error}"),
        }
    }

    /// A length that the caller chooses is taken, or refused for a reason that is true.
    #[test]
    fn a_chosen_length_is_kept_or_refused(
        len in 0..100 * TIB,
        wished in lengths(),
        which in 0..profiles().len(),
    ) {
        let (profile, _) = &profiles()[which];
        let bytes = wished.max(profile.bytes_min);
        match part_bytes(len, Some(wished), profile) {
            Ok(planned) => {
                prop_assert_eq!(planned, bytes);
                check(len, planned, profile)?;
            }
            Err(NoPlan::PartTooLong { max, .. }) => prop_assert!(bytes > max),
            Err(NoPlan::TooManyParts { parts, max, .. }) => {
                prop_assert!(parts > u64::from(max) && parts == len.div_ceil(bytes));
            }
        }
    }

    /// Parts of a stream never become shorter, and stay within the limits.
    #[test]
    fn parts_of_a_stream_grow(first in 1..6 * GIB, number in 1_u32..50_000, which in 0..5_usize) {
        let (profile, _) = &profiles()[which];
        let first = first.clamp(profile.bytes_min, profile.bytes_max);
        let this = part_bytes_of_stream(number, first, profile);
        prop_assert!(this >= first && this <= profile.bytes_max);
        prop_assert!(part_bytes_of_stream(number + 1, first, profile) >= this);
        let equal = PartProfile { is_equal: true, ..profile.clone() };
        prop_assert_eq!(part_bytes_of_stream(number, first, &equal), first);
    }

    /// The longest stream with equal parts is exactly that.
    #[test]
    fn the_longest_stream_fits(wished in proptest::option::of(lengths()), expected in lengths()) {
        let equal = PartProfile { is_equal: true, ..s3() };
        let max = stream_bytes_max(&equal, wished, Some(expected)).unwrap();
        prop_assert!(max >= u64::from(equal.count_max) * equal.bytes_min);
        prop_assert_eq!(stream_bytes_max(&s3(), wished, Some(expected)), None);
    }
}

#[test]
fn the_limits_are_met_exactly() {
    let mib8 = 8 * MIB;
    assert_eq!(part_bytes(10_000 * mib8, None, &s3()), Ok(mib8));
    assert!(part_bytes(10_000 * mib8 + 1, None, &s3()).unwrap() > mib8);
    assert_eq!(part_bytes(10_000 * 5 * MIB, Some(5 * MIB), &s3()), Ok(5 * MIB));
    let too_many = NoPlan::TooManyParts { parts: 10_001, bytes: 5 * MIB, max: 10_000 };
    assert_eq!(part_bytes(10_000 * 5 * MIB + 1, Some(5 * MIB), &s3()), Err(too_many));
    let too_long = NoPlan::PartTooLong { bytes: 5 * GIB + 1, max: 5 * GIB };
    assert_eq!(part_bytes(1, Some(5 * GIB + 1), &s3()), Err(too_long));
    // A byte more than the longest object of most services; the longest of S3, and a byte more.
    assert!(part_bytes(5 * TIB + 1, None, &s3()).is_ok());
    assert_eq!(part_bytes(10_000 * 5 * GIB, None, &s3()), Ok(5 * GIB));
    assert!(part_bytes(10_000 * 5 * GIB + 1, None, &s3()).is_err());
}

#[test]
fn a_stream_of_unknown_length_can_become_as_long_as_an_object() {
    for (profile, longest) in [(s3(), 5 * TIB), (azure(), 150 * TIB)] {
        let parts = (1..=profile.count_max)
            .map(|number| part_bytes_of_stream(number, PART_BYTES, &profile));
        assert!(parts.sum::<u64>() > longest);
    }
    let parts = |number| part_bytes_of_stream(number, PART_BYTES, &s3()) / MIB;
    assert_eq!([1, 1_000, 1_001, 2_000, 2_001, 10_000].map(parts), [8, 8, 16, 16, 32, 4_096]);
}

#[test]
fn a_session_takes_any_length() {
    let session = PartProfile {
        order: PartOrder::InOrder,
        bytes_min: 256 << 10,
        last: LastPart::WithComplete,
        ..PartProfile::any()
    };
    assert_eq!(part_bytes(5 * TIB, None, &session), Ok(PART_BYTES));
    assert_eq!(part_bytes(5 * TIB, Some(1), &session), Ok(1));
}
