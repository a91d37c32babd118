//! Transient and permanent faults, with `cp` and `cat`.

use tidegate_testkit::{
    Blob, ContentRangeLie, Fault, FaultMix, Flavour, NetworkProfile, RangeMatch, Rule,
    ServerOptions, pseudo_random,
};
use tokio::task::JoinSet;

use crate::run::{Bed, LEN, SHARD_BYTES, SHARDS, VERBS, Verb};

const FLAVOURS: [Flavour; 3] = [Flavour::Http, Flavour::Gcs, Flavour::S3];

/// In the fourth shard.
const SPOT: u64 = 3 * SHARD_BYTES + 1000;

/// Runs at once: they wait more than they compute.
const RUNS_MAX: usize = 6;

/// Cases, `RUNS_MAX` at a time.
struct Cases(JoinSet<()>);

impl Cases {
    fn new() -> Self {
        Self(JoinSet::new())
    }

    async fn add(&mut self, case: impl Future<Output = ()> + Send + 'static) {
        while self.0.len() >= RUNS_MAX {
            self.0.join_next().await.unwrap().unwrap();
        }
        self.0.spawn(case);
    }

    async fn end(mut self) {
        while let Some(case) = self.0.join_next().await {
            case.unwrap();
        }
    }
}

/// Requests of a run without faults: S3 also asks for the checksum of the whole.
fn requests(flavour: Flavour, window: &str) -> usize {
    let shards = if window == "1" { 1 } else { SHARDS };
    shards + usize::from(flavour == Flavour::S3)
}

/// Transient faults, and the extra requests of each with a window of one and of several.
fn transient() -> Vec<(Fault, usize, usize)> {
    vec![
        (Fault::Latency(20), 0, 0),
        (Fault::SlowDrip { bytes: 30_000, interval_ms: 1 }, 0, 0),
        (Fault::CutAfter(5000), 1, 1),
        (Fault::ResetAfter(5000), 1, 1),
        (Fault::CloseBeforeFirstByte, 1, 1),
        (Fault::TruncatedHead, 1, 1),
        (Fault::GarbageHead, 1, 1),
        (Fault::OneByteBody, 1, 1),
        (Fault::BodyShortByOne, 1, 1),
        (Fault::Stall(5000), 1, 1),
        (Fault::status(429), 1, 1),
        (Fault::status(503), 1, 1),
        (Fault::status_retry_after(503, "0"), 1, 1),
        (Fault::status_retry_after(429, "Sun, 06 Nov 1994 08:49:37 GMT"), 1, 1),
        (Fault::WrongContentRange(ContentRangeLie::Shifted), 0, 1),
        (Fault::WrongContentRange(ContentRangeLie::Malformed), 0, 1),
    ]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_transient_fault_costs_only_its_own_requests() {
    let mut cases = Cases::new();
    for (index, (fault, extra_one, extra_many)) in transient().into_iter().enumerate() {
        for (turn, verb) in VERBS.into_iter().enumerate() {
            // Every fault meets every command, and the remotes take turns.
            let flavour = FLAVOURS[(index + turn) % FLAVOURS.len()];
            for (window, extra) in [("1", extra_one), ("4", extra_many)] {
                let fault = fault.clone();
                let case = async move {
                    let bed = Bed::new(ServerOptions::of(flavour)).await;
                    let rule = Rule::new(fault.clone()).method("GET");
                    bed.server.script().push(rule.range(RangeMatch::Covers(SPOT)));
                    let ended = bed.run(verb, &["--window", window]).await;
                    let label = format!("{flavour:?} {window} {verb:?} {fault:?}");
                    ended.assert_whole(&bed, requests(flavour, window) + extra, &label);
                    if verb != Verb::Cat {
                        assert_eq!(ended.json["restarts"], extra, "{label}");
                        assert_eq!(ended.json["requests"], ended.requests, "{label}");
                        let verified = ended.json["verified"].as_array().unwrap();
                        assert_eq!(verified.is_empty(), flavour == Flavour::Http, "{label}");
                    }
                };
                cases.add(case).await;
            }
        }
    }
    cases.end().await;
}

/// Permanent faults, with the exit code and the error kind of each.
fn permanent() -> Vec<(Fault, i32, &'static str)> {
    let exhausted = "retries_exhausted";
    vec![
        (Fault::CutAfter(0), 7, exhausted),
        (Fault::ResetAfter(0), 7, exhausted),
        (Fault::CloseBeforeFirstByte, 7, exhausted),
        (Fault::OneByteBody, 7, exhausted),
        (Fault::GarbageHead, 7, exhausted),
        (Fault::status(429), 7, exhausted),
        (Fault::status(503), 7, exhausted),
        (Fault::status_retry_after(503, "86400"), 7, exhausted),
        (Fault::status(403), 6, "no_access"),
        (Fault::status(401), 6, "no_access"),
        (Fault::status(404), 3, "not_found"),
        (Fault::NotSatisfiable, 1, "out_of_range"),
        (Fault::Redirect("/bucket/blob".to_owned()), 1, "unsupported"),
        (Fault::LieAboutLength(5), 7, exhausted),
    ]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_permanent_fault_has_its_exit_code_after_a_bounded_number_of_requests() {
    let mut cases = Cases::new();
    for (index, (fault, code, kind)) in permanent().into_iter().enumerate() {
        for (turn, verb) in VERBS.into_iter().enumerate() {
            let flavour = FLAVOURS[(index + turn) % FLAVOURS.len()];
            let window = ["1", "4"][(index + turn) % 2];
            let fault = fault.clone();
            let case = async move {
                let bed = Bed::new(ServerOptions::of(flavour)).await;
                bed.server.script().always(fault.clone());
                let ended = bed.run(verb, &["--window", window]).await;
                let label = format!("{flavour:?} {window} {verb:?} {fault:?}");
                ended.assert_fails(verb, code, kind, &label);
                if let (Verb::Cat, Some(content)) = (verb, &ended.content) {
                    assert!(bed.bytes.starts_with(content), "{label}: no prefix");
                    assert!(ended.stderr.contains("error: "), "{label}: {}", ended.stderr);
                }
                // Three attempts for each shard of a window and for S3's checksum request.
                let bound = requests(flavour, window) + 3 * 5;
                assert!(ended.requests <= bound, "{label}: {} requests", ended.requests);
            };
            cases.add(case).await;
        }
    }
    cases.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn wrong_bytes_are_not_delivered() {
    let other = Blob::new(pseudo_random(LEN, 8)).with_version(2);
    let mut cases = Cases::new();
    for flavour in FLAVOURS {
        for verb in VERBS {
            let flip = Fault::FlipBit(SPOT);
            let change = Fault::ChangedVersion(other.clone());
            for (rule, code, kind) in [
                (Rule::new(flip).always(), 5, "integrity"),
                (Rule::new(change).method("GET").nth(2), 4, "changed"),
            ] {
                // Without a checksum a flipped bit may go undetected, and the report says so.
                let unseen = flavour == Flavour::Http && code == 5;
                let case = async move {
                    let bed = Bed::new(ServerOptions::of(flavour)).await;
                    bed.server.script().push(rule);
                    let ended = bed.run(verb, &["--window", "4"]).await;
                    let label = format!("{flavour:?} {verb:?} {kind}");
                    if unseen {
                        assert_eq!(ended.code, Some(0), "{label}");
                        assert!(verb == Verb::Cat || ended.json["unverified"].is_string());
                    } else {
                        ended.assert_fails(verb, code, kind, &label);
                    }
                };
                cases.add(case).await;
            }
        }
    }
    cases.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_without_ranges_is_read_as_one_stream_with_a_note() {
    for flavour in FLAVOURS {
        for verb in VERBS {
            let options = ServerOptions { ranges: false, ..ServerOptions::of(flavour) };
            let bed = Bed::new(options).await;
            let ended = bed.run(verb, &["--window", "4"]).await;
            ended.assert_whole(&bed, requests(flavour, "1"), &format!("{flavour:?}"));
            if verb != Verb::Cat {
                assert!(ended.json["notes"].to_string().contains("ignores ranges"), "{ended:?}");
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_deadline_ends_a_transfer_that_would_take_for_ever() {
    let mut cases = Cases::new();
    for (turn, verb) in VERBS.into_iter().enumerate() {
        let flavour = FLAVOURS[turn];
        for fault in [Fault::Stall(5000), Fault::SlowDrip { bytes: 1, interval_ms: 5 }] {
            let case = async move {
                let bed = Bed::new(ServerOptions::of(flavour)).await;
                bed.server.script().push(Rule::new(fault.clone()).method("GET").always());
                let patient = ["--deadline", "0.3", "--stall", "1000", "--retries", "1000"];
                let ended = bed.run(verb, &patient).await;
                let label = format!("{flavour:?} {verb:?} {fault:?}");
                ended.assert_fails(verb, 7, "retries_exhausted", &label);
            };
            cases.add(case).await;
        }
    }
    cases.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn jitter_and_a_rate_for_each_connection_change_nothing_but_time() {
    let profile =
        NetworkProfile { latency_ms: 1, jitter_ms: 10, rate_bytes_per_second: Some(8 << 20) };
    for (flavour, verb) in FLAVOURS.into_iter().zip(VERBS) {
        let bed = Bed::new(ServerOptions { profile, ..ServerOptions::of(flavour) }).await;
        let ended = bed.run(verb, &["--window", "4"]).await;
        ended.assert_whole(&bed, requests(flavour, "4"), &format!("{flavour:?} {verb:?}"));
    }
}

/// Random faults that a correct client survives, by seed. A failure prints the seed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn random_transient_faults_are_survived() {
    let mut cases = Cases::new();
    for seed in 0..24_u64 {
        let turn = usize::try_from(seed).unwrap();
        let (flavour, verb) = (FLAVOURS[turn % 3], VERBS[turn / 3 % 3]);
        let case = async move {
            let bed = Bed::new(ServerOptions { seed, ..ServerOptions::of(flavour) }).await;
            bed.server.script().random(seed, FaultMix::recoverable(0.4));
            let window = ["1", "4"][turn / 9 % 2];
            let ended = bed.run(verb, &["--window", window, "--retries", "8"]).await;
            let label = format!("seed {seed}: {flavour:?} {verb:?} {window}");
            assert_eq!(ended.code, Some(0), "{label}: {ended:?}");
            assert!(ended.content.is_none_or(|content| content == bed.bytes), "{label}");
            assert!(!ended.left_part, "{label}");
        };
        cases.add(case).await;
    }
    cases.end().await;
}
