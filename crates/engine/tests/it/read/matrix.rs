//! The fault matrix: every fault of the test server, for every kind of range, through every
//! interface. It asserts the bytes, the number of requests (each interruption costs one), and that
//! no received bytes are wasted.

use std::ops::Range;
use std::sync::Arc;

use tidegate::ErrorKind;
use tidegate_core::range::ByteRange;
use tidegate_testkit::{
    ContentRangeLie as Lie, Fault, FaultMix, Flavour, RangeMatch, Rule, ServerOptions,
};

use super::{FACES, Face, options, read};
use crate::bed::Bed;
use crate::call::ReadOptions;
use crate::faults::{FLAVOURS, at_once};

pub(super) const LEN: usize = 300_000;

/// A position within all of the ranges.
const SPOT: u64 = 200_000;

const ATTEMPTS_MAX: usize = 4;

/// Ranges, and the bytes of each in a blob of [`LEN`] bytes.
pub(super) fn ranges() -> [(ByteRange, Range<usize>); 4] {
    [
        (ByteRange::All, 0..LEN),
        (ByteRange::Bounded(50_000..250_000), 50_000..250_000),
        (ByteRange::From(50_000), 50_000..LEN),
        (ByteRange::Last(250_000), 50_000..LEN),
    ]
}

/// Requests without faults. S3's checksum of a whole blob takes one more.
fn requests(flavour: Flavour, range: &ByteRange) -> usize {
    1 + usize::from(flavour == Flavour::S3 && *range == ByteRange::All)
}

/// Transient faults, and the number of interruptions of each.
fn transient(range: &ByteRange) -> Vec<(Fault, usize)> {
    let busy = |code, after: &str| Fault::status_retry_after(code, after);
    let mut faults = vec![
        (Fault::Latency(5), 0),
        (Fault::SlowDrip { bytes: 30_000, interval_ms: 1 }, 0),
        (Fault::CutAfter(0), 1),
        (Fault::CutAfter(1), 1),
        (Fault::CutAfter(5000), 1),
        (Fault::ResetAfter(5000), 1),
        (Fault::CloseBeforeFirstByte, 1),
        (Fault::TruncatedHead, 1),
        (Fault::GarbageHead, 1),
        (Fault::OneByteBody, 1),
        (Fault::BodyShortByOne, 1),
        (Fault::Stall(5000), 1),
        (Fault::Stall(0), 1),
        (Fault::status(429), 1),
        (Fault::status(500), 1),
        (Fault::status(503), 1),
        (busy(429, "0"), 1),
        (busy(503, "Sun, 06 Nov 1994 08:49:37 GMT"), 1),
        (busy(503, "soon, I hope"), 1),
    ];
    if *range == ByteRange::All {
        return faults;
    }
    faults.push((Fault::ShortRange(1), 1));
    faults.push((Fault::ShortRange(5000), 1));
    for lie in [Lie::Shifted, Lie::Longer, Lie::Malformed, Lie::Missing] {
        faults.push((Fault::WrongContentRange(lie), 1));
    }
    // If the request names both ends, the total does not matter. If it asks for the last bytes, the
    // total does not fit. Otherwise the wrong total makes the blob a byte too short, which is no
    // transient fault.
    match range {
        ByteRange::Last(_) => faults.push((Fault::WrongContentRange(Lie::OtherTotal), 1)),
        ByteRange::Bounded(_) => faults.push((Fault::WrongContentRange(Lie::OtherTotal), 0)),
        _ => {}
    }
    // Allowed by HTTP, and enough if the client knows both ends of the range. If the range ends
    // with the blob, a refused range and the facts say that there is no more.
    let unplaced = match range {
        ByteRange::Last(_) => 1,
        ByteRange::From(_) => 2,
        _ => 0,
    };
    faults.push((Fault::WrongContentRange(Lie::UnknownTotal), unplaced));
    faults
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_transient_fault_costs_its_own_requests() {
    for flavour in FLAVOURS {
        for (range, bytes) in ranges() {
            for (fault, extra) in transient(&range) {
                at_once(FACES, |face| {
                    passes(flavour, face, range.clone(), bytes.clone(), fault.clone(), extra)
                })
                .await;
            }
        }
    }
}

async fn passes(
    flavour: Flavour,
    face: Face,
    range: ByteRange,
    bytes: Range<usize>,
    fault: Fault,
    extra: usize,
) {
    let label = format!("{flavour:?} {face:?} {range} {fault:?}");
    let bed = Bed::new(ServerOptions::of(flavour), LEN).await;
    let rule = Rule::new(fault.clone()).method("GET").range(RangeMatch::Covers(SPOT));
    bed.server.script().push(rule);
    let options = ReadOptions { range: range.clone(), ..options() };
    let stats = Arc::clone(&options.stats);
    let outcome = read(bed.location(), options, face).await;
    outcome.result.unwrap_or_else(|error| panic!("{label}: {error:?}"));
    assert!(outcome.content == bed.bytes[bytes], "{label}: other content");
    assert_eq!(bed.server.script().applied(), 1, "{label}");
    assert_eq!(bed.server.requests(), requests(flavour, &range) + extra, "{label}");
    let totals = stats.totals();
    assert_eq!(totals.requests, bed.server.requests() as u64, "{label}");
    assert_eq!(totals.bytes_wasted, 0, "{label}");
    assert_eq!(totals.bytes_delivered, outcome.content.len() as u64, "{label}");
    assert!(totals.first_answer.is_some(), "{label}");
    assert!(totals.first_byte >= totals.first_answer, "{label}");
    let whole = range == ByteRange::All && flavour != Flavour::Http;
    assert_eq!(outcome.verified.is_verified(), whole, "{label}: {:?}", outcome.verified);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn n_interruptions_cost_n_requests() {
    for flavour in FLAVOURS {
        for (range, bytes) in ranges() {
            for n in [2, 10] {
                at_once(FACES, |face| {
                    let (range, bytes) = (range.clone(), bytes.clone());
                    async move {
                        let label = format!("{flavour:?} {face:?} {range} {n}");
                        let bed = Bed::new(ServerOptions::of(flavour), LEN).await;
                        // Each attempt makes progress, so there may be more attempts than the
                        // policy allows without progress.
                        let cut = Rule::new(Fault::CutAfter(4096)).method("GET").times(n);
                        bed.server.script().push(cut);
                        let options = ReadOptions { range: range.clone(), ..options() };
                        let stats = Arc::clone(&options.stats);
                        let outcome = read(bed.location(), options, face).await;
                        outcome.result.unwrap_or_else(|error| panic!("{label}: {error:?}"));
                        assert!(outcome.content == bed.bytes[bytes], "{label}");
                        let expected = requests(flavour, &range) + usize::try_from(n).unwrap();
                        assert_eq!(bed.server.requests(), expected, "{label}");
                        let totals = stats.totals();
                        assert_eq!((totals.restarts, totals.bytes_wasted), (n, 0), "{label}");
                    }
                })
                .await;
            }
        }
    }
}

/// Permanent faults, and the error that each ends in.
fn permanent(flavour: Flavour, range: &ByteRange) -> Vec<(Fault, ErrorKind)> {
    let mut faults = vec![
        (Fault::CutAfter(0), ErrorKind::Exhausted),
        (Fault::ResetAfter(0), ErrorKind::Exhausted),
        (Fault::CloseBeforeFirstByte, ErrorKind::Exhausted),
        (Fault::GarbageHead, ErrorKind::Exhausted),
        (Fault::OneByteBody, ErrorKind::Exhausted),
        (Fault::Stall(0), ErrorKind::Exhausted),
        (Fault::status(503), ErrorKind::Exhausted),
        (Fault::status_retry_after(503, "86400"), ErrorKind::Exhausted),
        (Fault::status(403), ErrorKind::NoAccess),
        (Fault::status(404), ErrorKind::NotFound),
        (Fault::NotSatisfiable, ErrorKind::OutOfRange),
    ];
    if *range == ByteRange::All {
        faults.push((Fault::LieAboutLength(5), ErrorKind::Exhausted));
        if flavour != Flavour::Http {
            faults.push((Fault::FlipBit(SPOT), ErrorKind::Integrity));
        }
    } else {
        faults.push((Fault::WrongContentRange(Lie::Shifted), ErrorKind::Exhausted));
        faults.push((Fault::WrongContentRange(Lie::Malformed), ErrorKind::Exhausted));
    }
    faults
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_permanent_fault_is_an_error_after_right_bytes() {
    for flavour in FLAVOURS {
        for (range, bytes) in ranges() {
            for (fault, kind) in permanent(flavour, &range) {
                at_once(FACES, |face| {
                    let (range, bytes, fault) = (range.clone(), bytes.clone(), fault.clone());
                    async move {
                        let label = format!("{flavour:?} {face:?} {range} {fault:?}");
                        let bed = Bed::new(ServerOptions::of(flavour), LEN).await;
                        bed.server.script().always(fault.clone());
                        let options = ReadOptions { range: range.clone(), ..options() };
                        let outcome = read(bed.location(), options, face).await;
                        let error = outcome.result.expect_err(&label);
                        assert_eq!(error.kind(), kind, "{label}: {error:?}");
                        assert!(!outcome.verified.is_verified(), "{label}");
                        if kind != ErrorKind::Integrity {
                            assert!(bed.bytes[bytes].starts_with(&outcome.content), "{label}");
                        }
                        let bound = 2 * ATTEMPTS_MAX + 2;
                        assert!(bed.server.requests() <= bound, "{label}");
                    }
                })
                .await;
            }
        }
    }
}

/// Random faults that a correct client survives, by seed. A failure prints the seed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn random_transient_faults_are_survived() {
    for seed in 0..72_u64 {
        let index = usize::try_from(seed).unwrap();
        let flavour = FLAVOURS[index % 3];
        let face = FACES[index / 3 % 3];
        let (range, bytes) = ranges()[index / 9 % 4].clone();
        let bed = Bed::new(ServerOptions { seed, ..ServerOptions::of(flavour) }, LEN).await;
        bed.server.script().random(seed, FaultMix::recoverable(0.5));
        let mut options = ReadOptions { range, ..options() };
        options.retry.attempts_max = 8;
        options.retry.seed = Some(seed);
        let outcome = read(bed.location(), options, face).await;
        outcome.result.unwrap_or_else(|error| panic!("seed {seed}: {error:?}"));
        assert!(outcome.content == bed.bytes[bytes], "seed {seed}");
    }
}
