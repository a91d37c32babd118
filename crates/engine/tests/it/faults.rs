//! The fault matrix: every fault of the test server, for every kind of target and every kind of
//! remote, with one request at a time and with several. A transient fault costs exactly its own
//! requests. A permanent fault ends in an error of the right kind after a bounded number of
//! requests.

use tidegate::ErrorKind;
use tidegate_core::retry::RetryPolicy;
use tidegate_testkit::{
    Blob, ContentRangeLie, Fault, FaultMix, Flavour, NetworkProfile, RangeMatch, Rule,
    ServerOptions,
};

use crate::bed::{Bed, SHARD_BYTES};
use crate::call::DownloadOptions;
use crate::trial::{KINDS, Kind, Trial};

pub(crate) const FLAVOURS: [Flavour; 3] = [Flavour::Http, Flavour::Gcs, Flavour::S3];
pub(crate) const WINDOWS: [u32; 2] = [1, 4];

/// Five shards, the last one shorter.
pub(crate) const LEN: usize = 300_000;
const SHARDS: usize = 5;

/// In the fourth shard.
const SPOT: u64 = 3 * SHARD_BYTES + 1000;

const ATTEMPTS_MAX: u32 = 4;

/// All timeouts are short, so that a stalled request ends soon.
pub(crate) fn options(window: u32) -> DownloadOptions {
    let options = Bed::options();
    DownloadOptions {
        window: Some(window),
        durability: tidegate::Durability::None,
        retry: RetryPolicy {
            attempts_max: ATTEMPTS_MAX,
            stall_ms_max: 150,
            header_ms_max: 1000,
            ..options.retry
        },
        ..options
    }
}

/// Requests of a download without faults: S3 also asks for the checksum of the whole.
pub(crate) fn requests(flavour: Flavour, window: u32) -> usize {
    let shards = if window == 1 { 1 } else { SHARDS };
    shards + usize::from(flavour == Flavour::S3)
}

/// A date in the past, for `Retry-After`.
const LONG_AGO: &str = "Sun, 06 Nov 1994 08:49:37 GMT";

/// Once for the request that covers [`SPOT`].
pub(crate) fn once(fault: Fault) -> Rule {
    Rule::new(fault).method("GET").range(RangeMatch::Covers(SPOT))
}

/// Transient faults, and the extra requests of each with a window of one and of several. Each
/// interruption costs one request.
fn transient() -> Vec<(Fault, usize, usize)> {
    let busy = |code, after: &str| Fault::status_retry_after(code, after);
    let mut faults = vec![
        (Fault::Latency(5), 0, 0),
        (Fault::SlowDrip { bytes: 30_000, interval_ms: 1 }, 0, 0),
        (Fault::CutAfter(0), 1, 1),
        (Fault::CutAfter(5000), 1, 1),
        (Fault::ResetAfter(5000), 1, 1),
        (Fault::CloseBeforeFirstByte, 1, 1),
        (Fault::TruncatedHead, 1, 1),
        (Fault::GarbageHead, 1, 1),
        (Fault::OneByteBody, 1, 1),
        (Fault::BodyShortByOne, 1, 1),
        (Fault::Stall(5000), 1, 1),
        (Fault::Stall(0), 1, 1),
        (Fault::status(429), 1, 1),
        (Fault::status(500), 1, 1),
        (Fault::status(503), 1, 1),
        (busy(429, "0"), 1, 1),
        (busy(503, "0"), 1, 1),
        (busy(503, LONG_AGO), 1, 1),
        (busy(503, "soon, I hope"), 1, 1),
        // These change nothing if the request has no range.
        (Fault::ShortRange(1), 0, 1),
        (Fault::ShortRange(5000), 0, 1),
    ];
    for lie in [
        ContentRangeLie::Shifted,
        ContentRangeLie::Longer,
        ContentRangeLie::OtherTotal,
        ContentRangeLie::Malformed,
        ContentRangeLie::Missing,
    ] {
        faults.push((Fault::WrongContentRange(lie), 0, 1));
    }
    // Allowed by HTTP, and enough for a client that knows the total.
    faults.push((Fault::WrongContentRange(ContentRangeLie::UnknownTotal), 0, 0));
    faults
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_transient_fault_costs_only_its_own_requests() {
    for flavour in FLAVOURS {
        for window in WINDOWS {
            for (fault, extra_one, extra_many) in transient() {
                let extra = if window == 1 { extra_one } else { extra_many };
                at_once(KINDS, |kind| passes(flavour, window, kind, fault.clone(), extra)).await;
            }
        }
    }
}

async fn passes(flavour: Flavour, window: u32, kind: Kind, fault: Fault, extra: usize) {
    let label = format!("{flavour:?} {window} {kind:?} {fault:?}");
    let bed = Bed::new(ServerOptions::of(flavour), LEN).await;
    bed.server.script().push(once(fault.clone()));
    let trial = Trial::run(&bed, kind, &options(window)).await;
    trial.assert_whole(&bed, requests(flavour, window) + extra, &label);
    assert_eq!(bed.server.script().applied(), 1, "{label}");
    let report = trial.result.unwrap();
    assert_eq!(report.totals.restarts, extra as u64, "{label}");
    assert_eq!(report.totals.requests, trial.requests as u64, "{label}");
    assert_eq!(report.is_verified(), flavour != Flavour::Http, "{label}");
}

/// Runs a case for each of `cases` concurrently: they wait more than they compute.
pub(crate) async fn at_once<C, F: Future<Output = ()>>(
    cases: impl IntoIterator<Item = C>,
    run: impl FnMut(C) -> F,
) {
    futures_util::future::join_all(cases.into_iter().map(run)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn n_interruptions_cost_n_requests() {
    for flavour in FLAVOURS {
        let bed = Bed::new(ServerOptions::of(flavour), LEN).await;
        for window in WINDOWS {
            for n in [2, 10] {
                bed.server.script().clear();
                // Each attempt makes progress, so there may be more attempts than the policy allows
                // without progress.
                let cut = Rule::new(Fault::CutAfter(4096)).method("GET").times(n);
                bed.server.script().push(cut);
                let trial = Trial::run(&bed, Kind::File, &options(window)).await;
                let label = format!("{flavour:?} {window} {n}");
                let expected = requests(flavour, window) + usize::try_from(n).unwrap();
                trial.assert_whole(&bed, expected, &label);
            }
        }
    }
}

/// The same after the first response has begun. The engine retries a remote that has responded for
/// as many attempts as the policy has.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_remote_that_has_responded_is_retried_up_to_the_policys_attempts() {
    for flavour in FLAVOURS {
        let bed = Bed::new(ServerOptions::of(flavour), LEN).await;
        for window in WINDOWS {
            let mut options = options(window);
            options.retry.attempts_max = 8;
            bed.server.script().clear();
            if window == 1 {
                bed.server.script().push(once(Fault::CutAfter(0)));
            }
            let away = if window == 1 { 6 } else { 7 };
            bed.server.script().push(once(Fault::CloseBeforeFirstByte).times(away));
            let trial = Trial::run(&bed, Kind::File, &options).await;
            let extra = 7;
            trial.assert_whole(
                &bed,
                requests(flavour, window) + extra,
                &format!("{flavour:?} {window}"),
            );
        }
    }
}

/// Permanent faults, and the error that each ends in.
fn permanent(flavour: Flavour, window: u32) -> Vec<(Fault, ErrorKind)> {
    let mut faults = vec![
        (Fault::CutAfter(0), ErrorKind::Exhausted),
        (Fault::ResetAfter(0), ErrorKind::Exhausted),
        (Fault::CloseBeforeFirstByte, ErrorKind::Exhausted),
        (Fault::TruncatedHead, ErrorKind::Exhausted),
        (Fault::GarbageHead, ErrorKind::Exhausted),
        (Fault::OneByteBody, ErrorKind::Exhausted),
        (Fault::Stall(0), ErrorKind::Exhausted),
        (Fault::status(429), ErrorKind::Exhausted),
        (Fault::status(503), ErrorKind::Exhausted),
        (Fault::status_retry_after(503, "0"), ErrorKind::Exhausted),
        (Fault::status_retry_after(503, "86400"), ErrorKind::Exhausted),
        (Fault::status_retry_after(429, "18446744073709551615"), ErrorKind::Exhausted),
        (Fault::status(400), ErrorKind::Remote),
        (Fault::status(401), ErrorKind::NoAccess),
        (Fault::status(403), ErrorKind::NoAccess),
        (Fault::status(404), ErrorKind::NotFound),
        (Fault::status(501), ErrorKind::Remote),
        (Fault::NotSatisfiable, ErrorKind::OutOfRange),
        (Fault::Redirect("/bucket/blob".to_owned()), ErrorKind::Unsupported),
        (Fault::Redirect("ftp://elsewhere/".to_owned()), ErrorKind::Unsupported),
        (Fault::LieAboutLength(5), ErrorKind::Exhausted),
    ];
    if flavour != Flavour::Http {
        faults.push((Fault::FlipBit(SPOT), ErrorKind::Integrity));
        faults.push((Fault::LieAboutLength(-5), ErrorKind::Integrity));
    }
    if window > 1 {
        faults.push((Fault::ShortRange(1), ErrorKind::Exhausted));
        for lie in [ContentRangeLie::Shifted, ContentRangeLie::Longer, ContentRangeLie::Malformed] {
            faults.push((Fault::WrongContentRange(lie), ErrorKind::Exhausted));
        }
    }
    faults
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_permanent_fault_is_an_error_after_a_bounded_number_of_requests() {
    for flavour in FLAVOURS {
        for window in WINDOWS {
            for (fault, error) in permanent(flavour, window) {
                at_once(KINDS, |kind| stays(flavour, window, kind, fault.clone(), error)).await;
            }
        }
    }
}

async fn stays(flavour: Flavour, window: u32, kind: Kind, fault: Fault, error: ErrorKind) {
    let label = format!("{flavour:?} {window} {kind:?} {fault:?}");
    let bed = Bed::new(ServerOptions::of(flavour), LEN).await;
    bed.server.script().push(Rule::new(fault.clone()).always());
    let trial = Trial::run(&bed, kind, &options(window)).await;
    trial.assert_fails(&bed, kind, error, &label);
    // The policy's attempts for each shard of a window, and for S3's checksum request.
    let bound = requests(flavour, window) + (ATTEMPTS_MAX * (window + 1)) as usize;
    // A redirect is followed ten times.
    let bound = if matches!(fault, Fault::Redirect(_)) { 11 } else { bound };
    assert!(trial.requests <= bound, "{label}: {} requests", trial.requests);
    assert!(!trial.result.unwrap_err().target().is_empty(), "{label}");
}

/// A server sends one byte a response. The engine gives up after a bounded number of requests.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn responses_of_one_byte_are_given_up_after_a_bounded_number_of_requests() {
    for fault in [Fault::OneByteBody, Fault::ShortRange(1)] {
        for flavour in FLAVOURS {
            let bed = Bed::new(ServerOptions::of(flavour), LEN).await;
            bed.server.script().push(Rule::new(fault.clone()).method("GET").always());
            let options = DownloadOptions { window: Some(2), ..options(2) };
            let trial = Trial::run(&bed, Kind::Discard, &options).await;
            let label = format!("{flavour:?} {fault:?}");
            trial.assert_fails(&bed, Kind::Discard, ErrorKind::Exhausted, &label);
            let bound = (2 * ATTEMPTS_MAX) as usize + 1;
            assert!(trial.requests <= bound, "{label}: {} requests", trial.requests);
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_redirect_is_followed() {
    for window in WINDOWS {
        let bed = Bed::new(ServerOptions::of(Flavour::Http), LEN).await;
        bed.server.put("/elsewhere", Blob::new(bed.bytes.clone()));
        let to = Fault::Redirect(bed.server.url("/elsewhere"));
        bed.server.script().push(Rule::new(to).path(bed.path()).always());
        for kind in KINDS {
            let trial = Trial::run(&bed, kind, &options(window)).await;
            // The shards after the first are requested directly from the final URL.
            let expected = 1 + requests(Flavour::Http, window);
            trial.assert_whole(&bed, expected, &format!("{window} {kind:?}"));
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn jitter_and_a_rate_for_each_connection_change_nothing_but_time() {
    let profile =
        NetworkProfile { latency_ms: 1, jitter_ms: 10, rate_bytes_per_second: Some(8 << 20) };
    for flavour in FLAVOURS {
        let bed = Bed::new(ServerOptions { profile, ..ServerOptions::of(flavour) }, LEN).await;
        for window in WINDOWS {
            for kind in KINDS {
                let trial = Trial::run(&bed, kind, &options(window)).await;
                let label = format!("{flavour:?} {window} {kind:?}");
                trial.assert_whole(&bed, requests(flavour, window), &label);
            }
        }
    }
}

/// Random faults that a correct client survives, by seed. A failure prints the seed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn random_transient_faults_are_survived() {
    for seed in 0..60_u64 {
        let flavour = FLAVOURS[usize::try_from(seed).unwrap() % FLAVOURS.len()];
        let window = WINDOWS[usize::try_from(seed / 3).unwrap() % WINDOWS.len()];
        let kind = KINDS[usize::try_from(seed / 6).unwrap() % KINDS.len()];
        let bed = Bed::new(ServerOptions { seed, ..ServerOptions::of(flavour) }, LEN).await;
        bed.server.script().random(seed, FaultMix::recoverable(0.5));
        let mut options = options(window);
        options.retry.attempts_max = 8;
        options.retry.seed = Some(seed);
        let trial = Trial::run(&bed, kind, &options).await;
        let label = format!("seed {seed}: {flavour:?} {window} {kind:?}");
        let report = trial.result.as_ref().unwrap_or_else(|error| panic!("{label}: {error:?}"));
        assert!(trial.content.as_ref().is_none_or(|content| *content == bed.bytes), "{label}");
        assert_eq!(report.bytes, LEN as u64, "{label}");
        // S3's HEAD may be refused twice. Then the report gives the reason why the blob was not
        // verified.
        let verified = report.is_verified() || report.verified.reason().is_some();
        assert!(verified, "{label}");
        let extra = usize::try_from(bed.server.script().applied()).unwrap();
        // A response that is too short costs a second request, see above.
        let most = requests(flavour, window) + 2 * extra;
        assert!(trial.requests <= most, "{label}: {} requests, at most {most}", trial.requests);
    }
}
