//! Interrupted runs, and the runs after them.

use std::path::Path;

use tidegate_testkit::{Fault, Gate, RangeMatch, Rule};
use tokio::io::AsyncBufReadExt;
use tokio::process::{Child, Command};

use crate::bed::{Bed, Ran, command, names, shell, within};

const LEN: usize = 8 << 20;
/// The server sends the bytes before this position, and holds the bytes after it.
const HALF: u64 = 4 << 20;
const PART: &str = ".out.tidegate-part";

/// Starts `cp` of a blob whose second half is held back.
async fn start(bed: &Bed, more: &[&str]) -> (Vec<u8>, Gate, Child) {
    let bytes = bed.put("/bucket/blob", LEN);
    let gate = Gate::new();
    let hold = Fault::HoldAfter { bytes: 0, gate: gate.clone() };
    bed.server.script().push(Rule::new(hold).range(RangeMatch::StartsFrom(HALF)).always());
    let mut command = command(bed.folder.path());
    command.args(arguments(bed)).args(more);
    let child = command.spawn().unwrap();
    within(gate.reached(1)).await;
    (bytes, gate, child)
}

fn arguments(bed: &Bed) -> Vec<String> {
    let endpoint = bed.server.endpoint();
    let args = ["cp", "--shard-size", "1MiB", "--anonymous", "gs://bucket/blob", "out"];
    args.into_iter().chain(["--endpoint", &endpoint]).map(str::to_owned).collect()
}

/// Runs the same command again, with nothing held back.
async fn again(bed: &Bed, more: &[&str]) -> Ran {
    bed.server.script().clear();
    bed.server.clear_log();
    let args = arguments(bed);
    let args: Vec<&str> = args.iter().map(String::as_str).chain(more.iter().copied()).collect();
    let ran = bed.run(&args).await;
    within(bed.server.idle()).await;
    ran
}

fn sent(bed: &Bed) -> u64 {
    bed.server.log().iter().map(|logged| logged.bytes_sent).sum()
}

/// The extents in the journal, which follows the part file's data.
fn extents(part: &Path) -> usize {
    let Ok(bytes) = std::fs::read(part) else { return 0 };
    let journal = bytes.get(LEN..).unwrap_or_default();
    journal.windows(4).filter(|window| window == b"TGJ2").count().saturating_sub(1)
}

pub(crate) async fn signal(child: &Child, name: &str) {
    let pid = child.id().unwrap().to_string();
    let status =
        Command::new("sh").args(["-c", "kill -s \"$0\" \"$1\"", name, &pid]).status().await;
    assert!(status.unwrap().success());
}

async fn end(child: Child) -> Ran {
    let output = within(child.wait_with_output()).await.unwrap();
    Ran::new(output.status, output.stdout, &output.stderr)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_run_is_resumed() {
    let bed = Bed::gcs().await;
    std::fs::write(bed.path("out"), "old").unwrap();
    let (bytes, _gate, mut child) = start(&bed, &[]).await;
    within(async {
        while extents(&bed.path(PART)) < 4 {
            tokio::task::yield_now().await;
        }
    })
    .await;
    within(child.kill()).await.unwrap();
    assert_eq!((bed.read("out"), bed.names()), (b"old".to_vec(), vec![PART.into(), "out".into()]));
    let ran = again(&bed, &["--json"]).await;
    let json = ran.ends(0).json();
    assert_eq!(json["resumed_bytes"], HALF, "{json}");
    assert_eq!(sent(&bed), LEN as u64 - HALF, "only what was missing is fetched");
    assert_eq!(json["verified"], serde_json::json!(["crc32c"]));
    assert!(bed.read("out") == bytes && bed.names() == ["out"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_part_file_of_another_source_is_dropped_and_mentioned() {
    let bed = Bed::gcs().await;
    let (_, _gate, child) = start(&bed, &[]).await;
    signal(&child, "INT").await;
    end(child).await.ends(8);
    assert_eq!(bed.names(), [PART]);
    let other = bed.put("/bucket/other", 1000);
    bed.server.script().clear();
    let ran = bed.gcs_run(&["cp", "gs://bucket/other", "out"]).await;
    ran.ends(0).says("note: a part file of another source was there and was dropped");
    assert!(bed.read("out") == other && bed.names() == ["out"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_interrupt_saves_progress_and_says_how_to_resume() {
    for name in ["INT", "TERM", "HUP"] {
        let bed = Bed::gcs().await;
        let (bytes, _gate, child) = start(&bed, &[]).await;
        signal(&child, name).await;
        let ran = end(child).await;
        ran.ends(8).says("Interrupted, saving progress. Press Ctrl-C again to quit now.");
        ran.says("hint: run the same command again to resume");
        assert!(!bed.path("out").exists());
        again(&bed, &[]).await.ends(0).says(" of 8.00 MiB already on disk");
        assert!(bed.read("out") == bytes && bed.names() == ["out"]);
    }
}

/// Several runs create the user's key at once, and a later run believes the journals of all. The
/// server gives no checksum, so only the key lets a run resume.
#[tokio::test(flavor = "multi_thread")]
async fn concurrent_runs_create_one_key() {
    const RUNS: [&str; 4] = ["a", "b", "c", "d"];
    let bed = Bed::http().await;
    let bytes = bed.put("/f/blob", LEN);
    let url = bed.server.url("/f/blob");
    let state = tempfile::tempdir().unwrap();
    let hold = Fault::HoldAfter { bytes: 0, gate: Gate::new() };
    bed.server.script().push(Rule::new(hold).range(RangeMatch::StartsFrom(HALF)).always());
    let cp = |name: &str| {
        let mut command = command(bed.folder.path());
        command.args(["cp", "--json", "--shard-size", "1MiB", &url, name]);
        command.env("XDG_STATE_HOME", state.path());
        command
    };
    let children = RUNS.map(|name| cp(name).spawn().unwrap());
    for name in RUNS {
        let part = bed.path(&format!(".{name}.tidegate-part"));
        within(async {
            while extents(&part) < 4 {
                tokio::task::yield_now().await;
            }
        })
        .await;
    }
    for mut child in children {
        within(child.kill()).await.unwrap();
    }
    bed.server.script().clear();
    assert_eq!(names(&state.path().join("tidegate")), ["key"]);
    for name in RUNS {
        let output = within(cp(name).output()).await.unwrap();
        let ran = Ran::new(output.status, output.stdout, &output.stderr);
        assert_eq!(ran.ends(0).json()["resumed_bytes"], HALF, "{name}: {}", ran.out());
        assert!(bed.read(name) == bytes, "{name}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn no_resume_starts_from_the_beginning() {
    let bed = Bed::gcs().await;
    let (bytes, _gate, child) = start(&bed, &["--json"]).await;
    signal(&child, "INT").await;
    assert_eq!(end(child).await.ends(8).json()["error"]["kind"], "cancelled");
    let json = again(&bed, &["--no-resume", "--json"]).await.ends(0).json();
    assert_eq!((&json["resumed_bytes"], sent(&bed)), (&0.into(), LEN as u64));
    assert!(bed.read("out") == bytes && bed.names() == ["out"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_blob_that_changed_is_fetched_from_the_start() {
    let bed = Bed::gcs().await;
    let (_, _gate, child) = start(&bed, &[]).await;
    signal(&child, "INT").await;
    end(child).await.ends(8);
    let other = tidegate_testkit::pseudo_random(LEN, 8);
    bed.server.replace("/bucket/blob", tidegate_testkit::Blob::new(other.clone()));
    again(&bed, &["-v"]).await.ends(0).says("note: ").says("changed since").says("generation 2");
    assert!(bed.read("out") == other && bed.names() == ["out"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_idle_reader_does_not_delay_the_interrupt() {
    let bed = Bed::gcs().await;
    bed.put("/bucket/blob", LEN);
    let mut command = command(bed.folder.path());
    let endpoint = bed.server.endpoint();
    command.args(["cat", "--shard-size", "64KiB", "--anonymous", "--endpoint", &endpoint]);
    let mut child = command.arg("gs://bucket/blob").spawn().unwrap();
    let unread = child.stdout.take();
    within(bed.server.arrived(2)).await;
    signal(&child, "INT").await;
    end(child).await.ends(8).says("starts from the beginning");
    drop(unread);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unread_pipe_does_not_delay_the_interrupt() {
    let bed = Bed::gcs().await;
    bed.put("/bucket/blob", 10);
    let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
    rustix::fs::mkfifoat(rustix::fs::CWD, bed.path("out"), mode).unwrap();
    let mut command = command(bed.folder.path());
    command.args(["cp", "-v", "--anonymous", "gs://bucket/blob", "out"]);
    let mut child = command.args(["--endpoint", &bed.server.endpoint()]).spawn().unwrap();
    let mut stderr = tokio::io::BufReader::new(child.stderr.take().unwrap()).lines();
    within(async {
        while !stderr.next_line().await.unwrap().unwrap().contains("process that reads the pipe") {}
    })
    .await;
    signal(&child, "INT").await;
    let mut rest = String::new();
    within(async {
        while let Some(line) = stderr.next_line().await.unwrap() {
            rest.push_str(&line);
        }
    })
    .await;
    assert_eq!(end(child).await.code, Some(8), "{rest}");
    assert!(rest.contains("before a process read the pipe"), "{rest}");
    assert!(rest.contains("it starts from the beginning"), "{rest}");
    assert_eq!(bed.server.requests(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_interrupt_ends_all_of_several_blobs() {
    let bed = Bed::gcs().await;
    let gate = Gate::new();
    let hold = Fault::HoldAfter { bytes: 0, gate: gate.clone() };
    bed.server.script().push(Rule::new(hold).always());
    let mut command = command(bed.folder.path());
    command.args(["cp", "--anonymous", "--endpoint", &bed.server.endpoint()]);
    for index in 0..20 {
        bed.put(&format!("/bucket/{index}"), 10);
        command.arg(format!("gs://bucket/{index}"));
    }
    let child = command.arg(".").spawn().unwrap();
    within(gate.reached(8)).await;
    signal(&child, "INT").await;
    let ran = end(child).await;
    ran.ends(8).says("0 of 20 blobs").says("hint: run the same command again to resume");
    assert_eq!(ran.stderr.matches("error: ").count(), 1, "one error: {}", ran.stderr);
    assert_eq!((bed.server.requests(), bed.names().len()), (8, 0), "eight at once, none after");
}

/// A closed terminal sends SIGHUP to the shell and its jobs, and the shell sends it to its jobs
/// again.
#[tokio::test(flavor = "multi_thread")]
async fn the_demo_cleans_up() {
    for names_of_signals in [&["INT"][..], &["TERM"], &["HUP", "HUP"]] {
        let folder = tempfile::tempdir().unwrap();
        let mut command = command(folder.path());
        // One stream of this size takes five seconds.
        command.args(["demo", "--size", "500MiB"]).env("TMPDIR", folder.path());
        let child = command.spawn().unwrap();
        let files = || {
            names(folder.path()).first().map_or(0, |demo| names(&folder.path().join(demo)).len())
        };
        within(async {
            while files() < 2 {
                tokio::task::yield_now().await;
            }
        })
        .await;
        for name in names_of_signals {
            signal(&child, name).await;
        }
        end(child).await.ends(8).says("Interrupted. Press Ctrl-C again to quit now.");
        assert_eq!(names(folder.path()), Vec::<String>::new());
    }
}

/// As `nohup` starts it.
#[tokio::test(flavor = "multi_thread")]
async fn an_ignored_hangup_stays_ignored() {
    let bed = Bed::gcs().await;
    let bytes = bed.put("/bucket/blob", LEN);
    let gate = Gate::new();
    let hold = Fault::HoldAfter { bytes: 0, gate: gate.clone() };
    bed.server.script().push(Rule::new(hold).range(RangeMatch::StartsFrom(HALF)).always());
    let args = arguments(&bed);
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let mut command = shell(bed.folder.path(), "trap '' HUP; exec \"$0\" \"$@\"", &args);
    let child = command.spawn().unwrap();
    within(gate.reached(1)).await;
    signal(&child, "HUP").await;
    gate.open();
    end(child).await.ends(0);
    assert!(bed.read("out") == bytes);
}
