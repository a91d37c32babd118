//! Standard output that is full, closed or not ready. The command reports or waits, and never exits
//! with success after a failed write.

use std::io::{PipeReader, PipeWriter, Read};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use tidegate_testkit::reapi::{ReapiOptions, ReapiServer};
use tokio::process::{Child, Command};

use crate::bed::{Bed, Ran, SHARD, command, finish, object, shell, within};
use crate::interrupt::signal;

/// More than any pipe's buffer holds.
const LEN: usize = 8 << 20;

/// Runs the binary with this redirection.
async fn redirected(bed: &Bed, redirection: &str, args: &[&str]) -> Ran {
    let script = format!("exec \"$0\" \"$@\" {redirection}");
    let mut command = shell(bed.folder.path(), &script, args);
    command.env("TMPDIR", bed.folder.path());
    finish(command).await
}

/// Every command that writes to standard output, with and without JSON.
async fn every_output_fails(redirection: &str, text: &str) {
    let bed = Bed::http().await;
    bed.put("/f/blob", 1000);
    let url = &*bed.server.url("/f/blob");
    std::fs::write(bed.path("file"), vec![7; 100_000]).unwrap();
    let cache = ReapiServer::start(ReapiOptions::default()).await.unwrap();
    let cache = &*cache.url();
    for args in [
        &["stat", "--json", url][..],
        &["stat", url],
        &["cat", url],
        &["cat", "--json", url],
        &["cp", url, "-"],
        &["cp", "--json", url, "-"],
        &["cp", "--json", url, "out"],
        &["cp", "--json", url, url, "/dev/null"],
        &["cp", "file", cache],
        &["cp", "--json", "file", cache],
        &["cp", "--json", "file", "file", cache],
        &["chunk", "file"],
        &["chunk", "--json", "file"],
        &["chunk", "file", "file"],
        &["demo", "--size", "4KiB"],
        &["demo", "--size", "4KiB", "--json"],
        &["man"],
        &["man", "--dir", "pages", "--json"],
        &["completions", "bash"],
        &["--help"],
        &["cp", "--help"],
        &["--version"],
    ] {
        let ran = redirected(&bed, redirection, args).await;
        assert_eq!(ran.code, Some(1), "{args:?}: {ran:?}");
        assert!(ran.stderr.contains("standard output"), "{args:?}: {}", ran.stderr);
        assert!(ran.stderr.contains(text), "{args:?}: {}", ran.stderr);
    }
    // A failed command keeps its exit code, and reports its error on standard error.
    let missing = &*bed.server.url("/f/missing");
    let ran = redirected(&bed, redirection, &["stat", "--json", missing]).await;
    ran.ends(3).says("cannot stat").says("standard output");
    let ran = redirected(&bed, redirection, &["cp", "--json", "only-one"]).await;
    ran.ends(2).says("the target is missing").says("standard output");
    // A command that needs no standard output works without it.
    redirected(&bed, redirection, &["cp", url, "copy"]).await.ends(0);
    assert_eq!(bed.read("copy").len(), 1000);
}

#[tokio::test(flavor = "multi_thread")]
async fn every_command_reports_a_full_output() {
    every_output_fails(">/dev/full", "o space").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_command_reports_a_closed_output() {
    every_output_fails(">&-", "closed").await;
}

/// As other programs start the command: no output is wanted, and this is no failure.
#[tokio::test(flavor = "multi_thread")]
async fn an_output_to_the_null_device_is_not_a_closed_one() {
    let bed = Bed::http().await;
    bed.put("/f/blob", 1000);
    let url = &*bed.server.url("/f/blob");
    for redirection in [">/dev/null", "1<>/dev/null", "0<>/dev/null 1>&0 2>&0"] {
        redirected(&bed, redirection, &["cat", url]).await.ends(0);
        redirected(&bed, redirection, &["stat", "--json", url]).await.ends(0);
    }
}

/// If standard output carries the blob, the report on standard error is the result.
#[tokio::test(flavor = "multi_thread")]
async fn a_report_that_cannot_be_written_is_a_failure() {
    let bed = Bed::http().await;
    let bytes = bed.put("/f/blob", 1000);
    let url = &*bed.server.url("/f/blob");
    let ran = redirected(&bed, "2>/dev/full", &["cat", "--json", url]).await;
    assert!(ran.ends(1).stdout == bytes);
    // Without `--json` the text on standard error is not needed.
    redirected(&bed, "2>/dev/full", &["cat", url]).await.ends(0);
}

/// A non-blocking pipe, as other programs may pass it.
struct Unwaited {
    reader: PipeReader,
    writer: PipeWriter,
}

impl Unwaited {
    fn new() -> Self {
        let (reader, writer) = std::io::pipe().unwrap();
        let flags = fcntl_getfl(&writer).unwrap();
        fcntl_setfl(&writer, flags | OFlags::NONBLOCK).unwrap();
        Self { reader, writer }
    }

    /// Runs a command until the pipe is full.
    async fn fill(self, mut command: Command) -> (Child, PipeReader) {
        command.stdout(self.writer.try_clone().unwrap());
        let child = command.spawn().unwrap();
        drop(command);
        let is_full = || {
            let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
            let mut waited = [PollFd::new(&self.writer, PollFlags::OUT)];
            poll(&mut waited, Some(&at_once)).unwrap() == 0
        };
        within(async {
            while !is_full() {
                tokio::task::yield_now().await;
            }
        })
        .await;
        (child, self.reader)
    }
}

/// `cat` of a blob that is larger than any pipe's buffer.
fn cat(bed: &Bed) -> (Vec<u8>, Command) {
    let bytes = bed.put("/f/blob", LEN);
    let mut command = command(bed.folder.path());
    command.args(["cat", "--shard-size", SHARD, &bed.server.url("/f/blob")]);
    (bytes, command)
}

async fn end(child: Child) -> Ran {
    let output = within(child.wait_with_output()).await.unwrap();
    Ran::new(output.status, output.stdout, &output.stderr)
}

/// Reads all output while the command ends.
async fn drain(child: Child, mut reader: PipeReader) -> (Ran, Vec<u8>) {
    let reading = tokio::task::spawn_blocking(move || {
        let mut got = Vec::new();
        reader.read_to_end(&mut got).map(|_| got)
    });
    let ran = end(child).await;
    (ran, within(reading).await.unwrap().unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn an_output_that_is_not_ready_is_waited_for() {
    let bed = Bed::http().await;
    let (bytes, command) = cat(&bed);
    let (child, reader) = Unwaited::new().fill(command).await;
    let (ran, got) = drain(child, reader).await;
    ran.ends(0);
    assert!(got == bytes);
}

/// The printed listing is longer than the pipe's buffer, too.
#[tokio::test(flavor = "multi_thread")]
async fn a_long_listing_waits_for_its_reader_too() {
    let bed = Bed::http().await;
    std::fs::write(bed.path("file"), tidegate_testkit::pseudo_random(4 << 20, 1)).unwrap();
    let mut command = command(bed.folder.path());
    command.args(["chunk", "--avg", "1KiB", "--json", "file"]);
    let (child, reader) = Unwaited::new().fill(command).await;
    let (ran, got) = drain(child, reader).await;
    ran.ends(0);
    assert_eq!(object(&String::from_utf8(got).unwrap())["bytes"], 4 << 20);
}

#[tokio::test(flavor = "multi_thread")]
async fn waiting_for_an_output_can_be_cancelled() {
    let bed = Bed::http().await;
    let (_, command) = cat(&bed);
    let (child, reader) = Unwaited::new().fill(command).await;
    signal(&child, "INT").await;
    end(child).await.ends(8).says("cancelled");
    drop(reader);
}

/// A reader that closes the pipe ends the wait, as with any pipe.
#[tokio::test(flavor = "multi_thread")]
async fn a_reader_that_leaves_ends_the_wait() {
    let bed = Bed::http().await;
    let (_, command) = cat(&bed);
    let (child, reader) = Unwaited::new().fill(command).await;
    drop(reader);
    assert_eq!(end(child).await.ends(141).stderr, "");
}
