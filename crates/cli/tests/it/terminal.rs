//! What a person sees on a terminal: the bar while a transfer runs, and what is left at the end.

use std::fs::File;
use std::io::Write;
use std::process::Stdio;

use tidegate_testkit::{Blob, Fault, Gate, RangeMatch, Rule};
use tokio::process::Child;

use crate::bed::{Bed, SHARD, command, within};
use crate::interrupt::signal;
use crate::screen::{Terminal, seen};

/// The length of the blob. The server sends the first half and holds the rest back.
const LEN: usize = 1 << 20;

/// Starts `cp` with standard error on a terminal, and waits until half of the blob is there.
fn half(bed: &Bed, gate: &Gate, program: File, term: &str) -> Child {
    bed.put("/bucket/a-model-with-a-long-name.safetensors", LEN);
    let hold = Fault::HoldAfter { bytes: 0, gate: gate.clone() };
    bed.server
        .script()
        .push(Rule::new(hold).range(RangeMatch::StartsFrom(LEN as u64 / 2)).always());
    let mut command = command(bed.folder.path());
    command.args(["cp", "--anonymous", "--shard-size", SHARD, "--endpoint"]);
    command.arg(bed.server.endpoint()).arg("gs://bucket/a-model-with-a-long-name.safetensors");
    command.arg(".").env("TERM", term).stdout(Stdio::null()).stderr(Stdio::from(program));
    command.spawn().unwrap()
}

/// The line without what differs from run to run: digits, and the padding before them.
fn shape(line: &str) -> String {
    let mut text = String::new();
    for word in line.split_whitespace() {
        let digits = |c: char| if c.is_ascii_digit() { '0' } else { c };
        let word: String = word.chars().map(digits).collect();
        text.push_str(if text.is_empty() { "" } else { " " });
        text.push_str(&word.replace("00.0", "0.00").replace("000", "0.00"));
    }
    text
}

/// While half of the blob is missing the rate falls to 0, and no time left is known.
#[tokio::test(flavor = "multi_thread")]
async fn a_bar_fits_its_terminal_and_leaves_one_line() {
    for (columns, bar) in [
        (60_u16, "a-model-with-… ━━━━━━━╸────── 00%"),
        (
            120,
            "a-model-with-a-long-name.safetensors ━━━━━━━━━━━━━━━━━━━━━━━━━━╸───────────────────────── 00%",
        ),
    ] {
        let bed = Bed::gcs().await;
        let gate = Gate::new();
        let (terminal, program) = Terminal::new(columns);
        let mut child = half(&bed, &gate, program, "xterm");
        terminal.shows(" 50%").await;
        let lines = seen(&terminal.given(), columns.into());
        let [line] = &lines[..] else { panic!("one line is drawn: {lines:#?}") };
        assert!(shape(line).starts_with(bar), "{columns}: {line:?}");
        assert!(line.contains("iB/s  ") && line.ends_with(" left"), "{columns}: {line:?}");
        assert!(line.chars().count() <= columns.into(), "{columns}: {line:?}");
        gate.open();
        assert!(within(child.wait()).await.unwrap().success());
        let lines = seen(&terminal.end(), columns.into());
        let text = lines.concat();
        let result = "a-model-with-a-long-name.safetensors  1.00 MiB in ";
        assert!(text.starts_with(result), "{lines:#?}");
        assert!(text.ends_with("  verified crc32c"), "{lines:#?}");
    }
}

/// The blob that fails first has no length.
#[tokio::test(flavor = "multi_thread")]
async fn a_failed_blob_leaves_the_percentage_of_the_others() {
    let bed = Bed::gcs().await;
    bed.put("/bucket/blob", LEN);
    let gate = Gate::new();
    let hold = Fault::HoldAfter { bytes: 0, gate: gate.clone() };
    bed.server
        .script()
        .push(Rule::new(hold).range(RangeMatch::StartsFrom(LEN as u64 / 2)).always());
    let (terminal, program) = Terminal::new(80);
    let mut command = command(bed.folder.path());
    command.args(["cp", "--anonymous", "--shard-size", SHARD, "--endpoint"]);
    command.arg(bed.server.endpoint()).args(["gs://bucket/missing", "gs://bucket/blob", "."]);
    command.env("TERM", "xterm").stdout(Stdio::null()).stderr(Stdio::from(program));
    let mut child = command.spawn().unwrap();
    drop(command);
    terminal.shows("1/2 blobs").await;
    terminal.shows(" 50%").await;
    gate.open();
    assert_eq!(within(child.wait()).await.unwrap().code(), Some(3));
    let lines = seen(&terminal.end(), 80);
    assert!(lines.last().unwrap().starts_with("1 of 2 blobs  1.00 MiB in "), "{lines:#?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dumb_terminal_gets_no_escapes() {
    let bed = Bed::gcs().await;
    let gate = Gate::new();
    let (terminal, program) = Terminal::new(60);
    let mut child = half(&bed, &gate, program, "dumb");
    within(gate.reached(1)).await;
    gate.open();
    assert!(within(child.wait()).await.unwrap().success());
    let given = terminal.end();
    assert!(!given.contains('\u{1b}'), "{given:?}");
    assert_eq!(given.lines().count(), 1, "{given:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pipe_gets_no_escapes() {
    let bed = Bed::gcs().await;
    bed.put("/bucket/blob", LEN);
    let ran = bed.gcs_run(&["cp", "gs://bucket/blob", "out"]).await;
    assert!(!ran.ends(0).stderr.contains('\u{1b}'), "{:?}", ran.stderr);
    assert_eq!(ran.stderr.lines().count(), 1, "{:?}", ran.stderr);
}

/// Runs the command with standard output and standard error on one terminal. Returns the exit code
/// and all that the terminal received.
async fn shown(bed: &Bed, args: &[&str]) -> (Option<i32>, String) {
    let (terminal, program) = Terminal::new(80);
    let mut command = command(bed.folder.path());
    command.args(args).env("TERM", "xterm");
    command.stdout(Stdio::from(program.try_clone().unwrap())).stderr(Stdio::from(program));
    let mut child = command.spawn().unwrap();
    drop(command);
    let code = within(child.wait()).await.unwrap().code();
    (code, terminal.end())
}

#[tokio::test(flavor = "multi_thread")]
async fn text_on_a_terminal_stands_alone() {
    let bed = Bed::http().await;
    let text = "The first line.\nThe last line, without an end: grün";
    bed.server.put("/f/text", Blob::new(text));
    let url = &*bed.server.url("/f/text");
    for args in [&["cat", url][..], &["cp", url, "-"]] {
        let (code, given) = shown(&bed, args).await;
        assert_eq!((code, given.replace("\r\n", "\n").as_str()), (Some(0), text), "{args:?}");
    }
    let (code, given) = shown(&bed, &["cat", "-v", url]).await;
    assert!(code == Some(0) && given.contains("1 request"), "{given:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn binary_data_on_a_terminal_is_refused() {
    let bed = Bed::http().await;
    bed.server.put("/f/binary", Blob::new("GIF89a\0\u{1}"));
    let url = &*bed.server.url("/f/binary");
    for args in [&["cat", url][..], &["cp", url, "-"]] {
        let (code, given) = shown(&bed, args).await;
        assert_eq!(code, Some(2), "{given:?}");
        assert!(!given.contains("GIF89a"), "{given:?}");
        assert!(given.contains("binary") && given.contains("--force"), "{given:?}");
        let (code, given) = shown(&bed, &[args, &["--force"]].concat()).await;
        assert_eq!((code, given.as_str()), (Some(0), "GIF89a\0\u{1}"));
    }
    // A file or a pipe takes all bytes.
    assert_eq!(bed.run(&["cat", url]).await.ends(0).stdout, b"GIF89a\0\x01");
}

/// The terminal itself prints `^C` in the line of the bar.
#[tokio::test(flavor = "multi_thread")]
async fn nothing_of_the_bar_is_left_after_ctrl_c() {
    let bed = Bed::gcs().await;
    bed.put("/bucket/blob", 8 << 20);
    let gate = Gate::new();
    let hold = Fault::HoldAfter { bytes: 1 << 20, gate: gate.clone() };
    bed.server.script().push(Rule::new(hold).always());
    let (mut terminal, program) = Terminal::new(80);
    let mut command = command(bed.folder.path());
    command.args(["cp", "--anonymous", "gs://bucket/blob", "out", "--endpoint"]);
    command.arg(bed.server.endpoint()).stderr(Stdio::from(program)).stdout(Stdio::null());
    let mut child = command.env("TERM", "xterm").spawn().unwrap();
    drop(command);
    within(gate.reached(1)).await;
    terminal.shows(" left").await;
    terminal.keys.write_all(b"\x03").unwrap();
    terminal.shows("^C").await;
    // It is not this process's controlling terminal, so the key alone sends no signal.
    signal(&child, "INT").await;
    let status = within(child.wait()).await.unwrap();
    assert_eq!(status.code(), Some(8));
    let given = terminal.end();
    let lines = seen(&given, 80);
    assert!(lines.first().is_some_and(|line| line.starts_with("Interrupted")), "{lines:#?}");
    assert!(!lines.iter().any(|line| line.contains(" left")), "{lines:#?}");
}
