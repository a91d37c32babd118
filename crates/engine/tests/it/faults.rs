//! The fault matrix: every fault of the test server, into every kind of target, from every kind of
//! remote, with one request at a time and with several. A fault that passes costs exactly its own
//! requests; one that stays ends in an error of the right kind after a bounded number of them.

use tidegate::ErrorKind;
use tidegate::core::retry::RetryPolicy;
use tidegate::download::DownloadOptions;
use tidegate_testkit::{
    Blob, ContentRangeLie, Fault, FaultMix, Flavour, NetworkProfile, RangeMatch, Rule,
    ServerOptions, pseudo_random,
};

use crate::bed::{Bed, SHARD_BYTES};
use crate::trial::{KINDS, Kind, Trial};

const FLAVOURS: [Flavour; 3] = [Flavour::Http, Flavour::Gcs, Flavour::S3];
const WINDOWS: [u32; 2] = [1, 4];

/// Five shards, the last one shorter.
const LEN: usize = 300_000;
const SHARDS: usize = 5;

/// In the fourth shard.
const SPOT: u64 = 3 * SHARD_BYTES + 1000;

const ATTEMPTS_MAX: u32 = 4;

/// Everything short, so that what waits in vain does not wait long.
fn options(bed: &Bed, window: u32) -> DownloadOptions {
    let options = bed.options();
    DownloadOptions {
        window,
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
fn requests(flavour: Flavour, window: u32) -> usize {
    let shards = if window == 1 { 1 } else { SHARDS };
    shards + usize::from(flavour == Flavour::S3)
}

/// A date that has passed, as in `Retry-After`.
const LONG_AGO: &str = "Sun, 06 Nov 1994 08:49:37 GMT";

/// Once for the request that covers [`SPOT`].
fn once(fault: Fault) -> Rule {
    Rule::new(fault).method("GET").range(RangeMatch::Covers(SPOT))
}

/// Faults that pass, and what each costs in requests with a window of one and of several: as many
/// as there are interruptions.
fn passing(flavour: Flavour) -> Vec<(Fault, usize, usize)> {
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
        // Without a range in the request these change nothing.
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
    // Allowed, and enough for one who knows the total; object_store asks for one.
    let again = usize::from(flavour != Flavour::Http);
    faults.push((Fault::WrongContentRange(ContentRangeLie::UnknownTotal), 0, again));
    faults
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fault_that_passes_costs_its_own_requests_and_nothing_else() {
    for flavour in FLAVOURS {
        for window in WINDOWS {
            for (fault, extra_one, extra_many) in passing(flavour) {
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
    let trial = Trial::run(&bed, kind, &options(&bed, window)).await;
    // object_store drops an answer of fewer bytes, so they are asked for again.
    let dropped = matches!(fault, Fault::ShortRange(_)) && flavour != Flavour::Http;
    let again = usize::from(dropped && extra == 1);
    trial.assert_whole(&bed, requests(flavour, window) + extra + again, &label);
    assert_eq!(bed.server.script().applied(), 1, "{label}");
    let report = trial.result.unwrap();
    assert_eq!(report.totals.restarts, extra as u64, "{label}");
    assert_eq!(report.totals.requests + again as u64, trial.requests as u64, "{label}");
    assert_eq!(report.is_verified(), flavour != Flavour::Http, "{label}");
}

/// Runs a case for each of `cases` side by side: they wait more than they work.
async fn at_once<C, F: Future<Output = ()>>(
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
                // Each attempt makes progress, so that there may be more than the policy's.
                let cut = Rule::new(Fault::CutAfter(4096)).method("GET").times(n);
                bed.server.script().push(cut);
                let trial = Trial::run(&bed, Kind::File, &options(&bed, window)).await;
                let label = format!("{flavour:?} {window} {n}");
                let expected = requests(flavour, window) + usize::try_from(n).unwrap();
                trial.assert_whole(&bed, expected, &label);
            }
        }
    }
}

/// The same once the first answer is being read: what was contacted before is worth waiting for
/// as long as the policy says.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_remote_that_has_answered_may_be_away_for_as_many_attempts_as_the_policy_has() {
    for flavour in FLAVOURS {
        let bed = Bed::new(ServerOptions::of(flavour), LEN).await;
        for window in WINDOWS {
            let mut options = options(&bed, window);
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

/// Faults that stay, the error that each ends in, and the most requests that may be spent on it.
fn staying(flavour: Flavour, window: u32) -> Vec<(Fault, ErrorKind)> {
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
        (Fault::status(400), ErrorKind::Invalid),
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
async fn a_fault_that_stays_is_an_error_after_a_bounded_number_of_requests() {
    for flavour in FLAVOURS {
        for window in WINDOWS {
            for (fault, error) in staying(flavour, window) {
                at_once(KINDS, |kind| stays(flavour, window, kind, fault.clone(), error)).await;
            }
        }
    }
}

async fn stays(flavour: Flavour, window: u32, kind: Kind, fault: Fault, error: ErrorKind) {
    let label = format!("{flavour:?} {window} {kind:?} {fault:?}");
    let bed = Bed::new(ServerOptions::of(flavour), LEN).await;
    bed.server.script().push(Rule::new(fault.clone()).always());
    let trial = Trial::run(&bed, kind, &options(&bed, window)).await;
    trial.assert_fails(&bed, kind, error, &label);
    // As many attempts for each shard of a window, and for S3's second question.
    let bound = requests(flavour, window) + (ATTEMPTS_MAX * (window + 1)) as usize;
    // A redirect is followed ten times, and what object_store drops is asked twice.
    let bound = match fault {
        Fault::Redirect(_) => 11,
        Fault::ShortRange(_) => 2 * bound,
        _ => bound,
    };
    assert!(trial.requests <= bound, "{label}: {} requests", trial.requests);
    assert!(!trial.result.unwrap_err().target().is_empty(), "{label}");
}

/// A server that gives a byte an answer is given up on once nothing more can be expected of it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_of_one_byte_answers_is_asked_as_often_as_a_dead_one() {
    for fault in [Fault::OneByteBody, Fault::ShortRange(1)] {
        for flavour in FLAVOURS {
            let bed = Bed::new(ServerOptions::of(flavour), LEN).await;
            bed.server.script().push(Rule::new(fault.clone()).method("GET").always());
            let options = DownloadOptions { window: 2, ..options(&bed, 2) };
            let trial = Trial::run(&bed, Kind::Discard, &options).await;
            let label = format!("{flavour:?} {fault:?}");
            trial.assert_fails(&bed, Kind::Discard, ErrorKind::Exhausted, &label);
            // Twice as many where object_store drops what it did not ask for.
            let bound = (2 * 2 * ATTEMPTS_MAX) as usize + 1;
            assert!(trial.requests <= bound, "{label}: {} requests", trial.requests);
        }
    }
}

/// A blob that changes between two shards, while a shard is being restarted, or with what it was
/// before still there by its version.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_blob_that_changes_is_never_mixed() {
    let other = Blob::new(pseudo_random(LEN, 8)).with_version(2);
    let shorter = Blob::new(pseudo_random(LEN - 70_000, 9)).with_version(3);
    for flavour in [Flavour::Http, Flavour::Gcs, Flavour::S3, Flavour::Azure] {
        for window in WINDOWS {
            for kind in KINDS {
                for new in [&other, &shorter] {
                    let bed = Bed::new(ServerOptions::of(flavour), LEN).await;
                    if window == 1 {
                        bed.server.script().push(once(Fault::CutAfter(100_000)));
                    }
                    bed.server
                        .script()
                        .push(Rule::new(Fault::ChangedVersion(new.clone())).method("GET").nth(2));
                    let trial = Trial::run(&bed, kind, &options(&bed, window)).await;
                    let label = format!("{flavour:?} {window} {kind:?}");
                    trial.assert_fails(&bed, kind, ErrorKind::Changed, &label);
                }
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replaced_generation_that_is_still_there_is_brought_whole() {
    let other = Blob::new(pseudo_random(LEN, 8)).with_version(2);
    for window in WINDOWS {
        let options_of = ServerOptions { versioning: true, ..ServerOptions::of(Flavour::Gcs) };
        let bed = Bed::new(options_of, LEN).await;
        if window == 1 {
            bed.server.script().push(once(Fault::CutAfter(100_000)));
        }
        let change = Rule::new(Fault::ChangedVersion(other.clone())).method("GET").nth(2);
        bed.server.script().push(change);
        let trial = Trial::run(&bed, Kind::File, &options(&bed, window)).await;
        let expected = requests(Flavour::Gcs, window) + usize::from(window == 1);
        trial.assert_whole(&bed, expected, &format!("{window}"));
    }
}

/// A body that turns into another in its middle, with nothing in its head that shows it: only the
/// checksum can tell, or a later request.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_torn_body_does_not_pass() {
    let other = Blob::new(pseudo_random(LEN, 8)).with_version(2);
    for flavour in FLAVOURS {
        for window in WINDOWS {
            for kind in KINDS {
                if flavour == Flavour::Http && window == 1 {
                    continue;
                }
                let bed = Bed::new(ServerOptions::of(flavour), LEN).await;
                let tear = Fault::ChangeDuringBody { after: 1000, blob: other.clone() };
                bed.server.script().push(Rule::new(tear).method("GET"));
                let trial = Trial::run(&bed, kind, &options(&bed, window)).await;
                let label = format!("{flavour:?} {window} {kind:?}");
                // Whether another request comes after the change is a matter of time.
                let error = trial.result.as_ref().map(|_| ()).unwrap_err().kind();
                let told = matches!(error, ErrorKind::Integrity | ErrorKind::Changed);
                assert!(told, "{label}: {error:?}");
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_without_ranges_is_read_as_one_stream() {
    for flavour in FLAVOURS {
        for window in WINDOWS {
            for kind in KINDS {
                let no_ranges = ServerOptions { ranges: false, ..ServerOptions::of(flavour) };
                let bed = Bed::new(no_ranges, LEN).await;
                let trial = Trial::run(&bed, kind, &options(&bed, window)).await;
                // object_store throws away what it did not ask for, so it is asked again.
                let again = usize::from(window > 1 && flavour != Flavour::Http);
                let expected = requests(flavour, 1) + again;
                let label = format!("{flavour:?} {window} {kind:?}");
                trial.assert_whole(&bed, expected, &label);
                let notes = trial.result.unwrap().notes;
                let said = notes.iter().any(|note| note.contains("ignores ranges"));
                assert_eq!(said, window > 1, "{label}: {notes:?}");
            }
        }
    }
}

/// A server without ranges whose connection breaks starts from the beginning; what was delivered
/// is not delivered again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_delivered_is_skipped_when_the_whole_blob_comes_again() {
    for flavour in FLAVOURS {
        for window in WINDOWS {
            for kind in KINDS {
                let no_ranges = ServerOptions { ranges: false, ..ServerOptions::of(flavour) };
                let bed = Bed::new(no_ranges, LEN).await;
                bed.server
                    .script()
                    .push(Rule::new(Fault::CutAfter(100_000)).method("GET").times(3));
                let trial = Trial::run(&bed, kind, &options(&bed, window)).await;
                let label = format!("{flavour:?} {window} {kind:?}");
                let report = trial.result.as_ref().unwrap_or_else(|e| panic!("{label}: {e:?}"));
                if let Some(content) = &trial.content {
                    assert!(*content == bed.bytes, "{label}");
                }
                assert_eq!(report.bytes, LEN as u64, "{label}");
                assert!(report.totals.bytes_wasted >= 100_000, "{label}: {:?}", report.totals);
            }
        }
    }
}

/// One shard's answer is the whole blob: the rest of the blob is not taken for the shard.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_answer_that_ignores_its_range_does_no_harm() {
    for flavour in FLAVOURS {
        let bed = Bed::new(ServerOptions::of(flavour), LEN).await;
        for kind in KINDS {
            bed.server.script().clear();
            bed.server.script().push(once(Fault::NoRangeSupport));
            let trial = Trial::run(&bed, kind, &options(&bed, 4)).await;
            let again = usize::from(flavour != Flavour::Http);
            let label = format!("{flavour:?} {kind:?}");
            trial.assert_whole(&bed, requests(flavour, 4) + again, &label);
        }
    }
}

/// One answer lies about the length and the others do not.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lie_about_the_length_is_never_delivered() {
    for flavour in FLAVOURS {
        for delta in [-70_000, -5, 5, 70_000] {
            for nth in [1, 2, 5] {
                for kind in KINDS {
                    let bed = Bed::new(ServerOptions::of(flavour), LEN).await;
                    let lie = Rule::new(Fault::LieAboutLength(delta)).method("GET").nth(nth);
                    bed.server.script().push(lie);
                    let trial = Trial::run(&bed, kind, &options(&bed, 4)).await;
                    let label = format!("{flavour:?} {delta} {nth} {kind:?}");
                    match &trial.result {
                        Ok(report) => {
                            assert_eq!(report.bytes, LEN as u64, "{label}");
                            assert!(
                                trial.content.as_ref().is_none_or(|c| *c == bed.bytes),
                                "{label}"
                            );
                        }
                        Err(error) => assert!(
                            matches!(
                                error.kind(),
                                ErrorKind::Integrity | ErrorKind::Changed | ErrorKind::Exhausted
                            ),
                            "{label}: {error:?}"
                        ),
                    }
                }
            }
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
            let trial = Trial::run(&bed, kind, &options(&bed, window)).await;
            let expected = 2 * requests(Flavour::Http, window);
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
                let trial = Trial::run(&bed, kind, &options(&bed, window)).await;
                let label = format!("{flavour:?} {window} {kind:?}");
                trial.assert_whole(&bed, requests(flavour, window), &label);
            }
        }
    }
}

/// Whatever is slow, the deadline ends it, with one error and in the same state as any other.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deadline_bounds_everything() {
    let faults = [
        Fault::Stall(0),
        Fault::Stall(5000),
        Fault::Latency(500),
        Fault::status_retry_after(503, "60"),
        Fault::SlowDrip { bytes: 1, interval_ms: 5 },
        Fault::CutAfter(0),
    ];
    for flavour in FLAVOURS {
        for window in WINDOWS {
            at_once(faults.clone(), |fault| is_late(flavour, window, fault)).await;
        }
    }
}

async fn is_late(flavour: Flavour, window: u32, fault: Fault) {
    let label = format!("{flavour:?} {window} {fault:?}");
    let bed = Bed::new(ServerOptions::of(flavour), LEN).await;
    bed.server.script().push(Rule::new(fault).method("GET").always());
    // S3's second question is as slow.
    bed.server.script().push(Rule::new(Fault::Latency(500)).method("HEAD").always());
    let mut options = options(&bed, window);
    options.retry = RetryPolicy {
        attempts_max: 1000,
        stall_ms_max: 60_000,
        header_ms_max: 60_000,
        deadline_ms: Some(100),
        ..options.retry
    };
    let trial = Trial::run(&bed, Kind::File, &options).await;
    trial.assert_fails(&bed, Kind::File, ErrorKind::Exhausted, &label);
}

/// Shards that are each in time do not make the whole in time.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deadline_is_for_the_download_and_not_for_each_shard() {
    let profile = NetworkProfile { latency_ms: 60, ..NetworkProfile::LOOPBACK };
    let bed = Bed::new(ServerOptions { profile, ..ServerOptions::default() }, 1_000_000).await;
    let mut options = options(&bed, 2);
    options.retry.deadline_ms = Some(250);
    let trial = Trial::run(&bed, Kind::File, &options).await;
    trial.assert_fails(&bed, Kind::File, ErrorKind::Exhausted, "sixteen shards of 60 ms");
}

/// Random faults that a right client survives, by seed; a failure prints the seed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn random_faults_that_pass_are_survived() {
    for seed in 0..60_u64 {
        let flavour = FLAVOURS[usize::try_from(seed).unwrap() % FLAVOURS.len()];
        let window = WINDOWS[usize::try_from(seed / 3).unwrap() % WINDOWS.len()];
        let kind = KINDS[usize::try_from(seed / 6).unwrap() % KINDS.len()];
        let bed = Bed::new(ServerOptions { seed, ..ServerOptions::of(flavour) }, LEN).await;
        bed.server.script().random(seed, FaultMix::recoverable(0.5));
        let mut options = options(&bed, window);
        options.retry.attempts_max = 8;
        options.retry.seed = Some(seed);
        let trial = Trial::run(&bed, kind, &options).await;
        let label = format!("seed {seed}: {flavour:?} {window} {kind:?}");
        let report = trial.result.as_ref().unwrap_or_else(|error| panic!("{label}: {error:?}"));
        assert!(trial.content.as_ref().is_none_or(|content| *content == bed.bytes), "{label}");
        assert_eq!(report.bytes, LEN as u64, "{label}");
        // S3's HEAD may be refused twice, and then says why.
        let verified = report.is_verified() || report.unverified.is_some();
        assert!(verified, "{label}");
        let extra = usize::try_from(bed.server.script().applied()).unwrap();
        // An answer of fewer bytes is asked for again, see above.
        let most = requests(flavour, window) + 2 * extra;
        assert!(trial.requests <= most, "{label}: {} requests, at most {most}", trial.requests);
    }
}
