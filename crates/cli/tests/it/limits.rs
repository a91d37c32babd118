//! Limits of the process: the number of threads, and the size of files.

use tidegate_testkit::{Framing, ServerOptions};

use crate::bed::{Bed, finish, shell};

/// The stack size of each thread. It is so large that a limit on address space limits the number of
/// threads. This also works for root, whom `ulimit -u` does not limit.
const STACK_GIB: u64 = 1;

/// Runs the binary with a limit of about `threads` threads.
async fn with_threads(bed: &Bed, threads: u64, args: &[&str]) -> crate::bed::Ran {
    // The program itself needs less than a quarter of a stack's address space.
    let kib = ((threads * STACK_GIB) << 20) + (768 << 10);
    let script = format!("ulimit -v {kib}; exec \"$0\" \"$@\"");
    let mut command = shell(bed.folder.path(), &script, args);
    command.env("RUST_MIN_STACK", (STACK_GIB << 30).to_string());
    command.env("TMPDIR", bed.folder.path());
    finish(command).await
}

/// With few threads the command is slower. With too few, or none, it fails with a message.
#[tokio::test(flavor = "multi_thread")]
async fn few_threads_are_enough_and_too_few_are_reported() {
    let bed = Bed::http().await;
    let bytes = bed.put("/f/blob", 3_000_000);
    let url = &*bed.server.url("/f/blob");
    std::fs::write(bed.path("file"), &bytes).unwrap();
    for args in [
        &["cp", url, "out"][..],
        &["cat", url],
        &["stat", url],
        &["chunk", "file"],
        &["cp", url, "file", "folder"],
    ] {
        std::fs::create_dir_all(bed.path("folder")).unwrap();
        let mut enough = false;
        for threads in 0..8 {
            let ran = with_threads(&bed, threads, args).await;
            assert!(!ran.stderr.contains("panicked"), "{threads} {args:?}: {}", ran.stderr);
            if ran.code == Some(0) {
                enough = true;
            } else {
                ran.ends(1).says("thread").says("hint: ");
                assert!(!enough, "{threads} {args:?}: fewer were enough: {}", ran.stderr);
                assert!(!bed.path("out").exists(), "{threads}");
            }
            if args[0] == "cat" && ran.code == Some(0) {
                assert!(ran.stdout == bytes, "{threads}");
            }
            if bed.path("out").exists() {
                assert!(bed.read("out") == bytes, "{threads}");
                std::fs::remove_file(bed.path("out")).unwrap();
            }
            // The main thread alone is not enough, and six more always are.
            assert!(threads > 0 || !enough, "{args:?}");
            assert!(threads < 6 || enough, "{threads} {args:?}: {}", ran.stderr);
        }
    }
}

/// SIGXFSZ, which comes with the limit, does not end the command.
#[tokio::test(flavor = "multi_thread")]
async fn a_limit_on_files_is_like_a_full_disk() {
    let bed = Bed::http().await;
    bed.put("/f/blob", 1_000_000);
    std::fs::write(bed.path("out"), "old").unwrap();
    let url = &*bed.server.url("/f/blob");
    // In blocks of 512 or 1024 bytes.
    let script = "ulimit -f 100; exec \"$0\" \"$@\"";
    for args in [&["cp", url, "out"][..], &["cp", "--window", "1", url, "out"]] {
        let ran = finish(shell(bed.folder.path(), script, args)).await;
        ran.ends(1).says("error: cannot write").says("ulimit -f");
        assert_eq!(bed.read("out"), b"old", "{args:?}");
        assert_eq!(bed.names(), ["out"], "{args:?}");
    }
    let into_file = "ulimit -f 100; exec \"$0\" \"$@\" >copy";
    let ran = finish(shell(bed.folder.path(), into_file, &["cat", url])).await;
    ran.ends(1).says("cannot write standard output");
    // Commands without network behave in the same way.
    let tiny = "ulimit -f 1; exec \"$0\" \"$@\" >copy";
    for args in [&["man"][..], &["completions", "bash"], &["--help"], &["cp", "--help"]] {
        let ran = finish(shell(bed.folder.path(), tiny, args)).await;
        ran.ends(1).says("standard output");
    }
    let ran = finish(shell(
        bed.folder.path(),
        "ulimit -f 1; exec \"$0\" \"$@\"",
        &["man", "--dir", "pages"],
    ))
    .await;
    ran.ends(1).says("error: cannot write");
}

/// Runs the binary with a limit on the size of files, in bytes. Shells count in blocks of 512 or
/// 1024 bytes, so the script measures the block size.
async fn with_file_limit(bed: &Bed, bytes: u64, args: &[&str]) -> crate::bed::Ran {
    let script = format!(
        "(trap '' XFSZ; ulimit -f 1; head -c 4096 /dev/zero >probe) 2>/dev/null; \
         block=$(wc -c <probe); rm probe; \
         ulimit -f $(({bytes} / block)); exec \"$0\" \"$@\""
    );
    finish(shell(bed.folder.path(), &script, args)).await
}

/// A file may be as long as the blob, and only a little longer. So the journal, which only helps a
/// later run, is left out.
#[tokio::test(flavor = "multi_thread")]
async fn a_blob_is_downloaded_without_a_journal_if_the_journal_has_no_room() {
    const LEN: u64 = 2 << 20;
    let bed = Bed::http().await;
    let url = &*bed.server.url("/f/blob");
    let bytes = bed.put("/f/blob", usize::try_from(LEN).unwrap());
    let args = ["cp", "-v", "--shard-size", "64KiB", url, "out"];
    let none = "there is no room for the journal of its part file";
    // The header fits, but not all of the 32 records of 64 bytes.
    let some = "there was no room for the journal of its part file";
    for (room, note) in [(0, none), (1024, some)] {
        let ran = with_file_limit(&bed, LEN + room, &args).await;
        ran.ends(0).says(note);
        assert!(bed.read("out") == bytes && bed.names() == ["out"], "{room}");
        std::fs::remove_file(bed.path("out")).unwrap();
    }
    let ran = with_file_limit(&bed, LEN + (64 << 10), &args).await;
    assert!(!ran.ends(0).stderr.contains("journal"), "{}", ran.stderr);
    assert!(bed.read("out") == bytes && bed.names() == ["out"]);
}

/// Nothing is kept of a blob that does not fit, and no message promises a resume.
#[tokio::test(flavor = "multi_thread")]
async fn a_blob_that_does_not_fit_promises_no_resume() {
    const LEN: u64 = 2 << 20;
    let bed = Bed::http().await;
    bed.put("/f/blob", usize::try_from(LEN).unwrap());
    let url = &*bed.server.url("/f/blob");
    // With ranges the command fails before the first byte. As one stream it fails too.
    for has_ranges in [true, false] {
        if !has_ranges {
            bed.server.script().always(tidegate_testkit::Fault::NoRangeSupport);
        }
        let args = ["cp", "--shard-size", "64KiB", url, "out"];
        let ran = with_file_limit(&bed, LEN - 1024, &args).await;
        ran.ends(1).says("error: cannot write").says("hint: ");
        let promises = ["resume", "goes on where"].iter().any(|text| ran.stderr.contains(text));
        assert!(!promises, "{has_ranges}: {}", ran.stderr);
        assert!(bed.names().is_empty(), "{has_ranges}: {:?}", bed.names());
    }
}

/// A stream of unknown length is lost if it reaches the file size limit, or the end of the disk.
/// The hint says so when it suggests to run the command again.
#[tokio::test(flavor = "multi_thread")]
async fn a_stream_that_does_not_fit_promises_no_resume() {
    const LEN: u64 = 8 << 20;
    let options =
        ServerOptions { ranges: false, framing: Framing::Chunked, ..ServerOptions::default() };
    let bed = Bed::new(options).await;
    bed.put("/f/blob", usize::try_from(LEN).unwrap());
    let url = &*bed.server.url("/f/blob");
    let ran = with_file_limit(&bed, LEN / 2, &["cp", url, "out"]).await;
    ran.ends(1).says("error: cannot write").says("hint: raise the limit");
    assert!(!ran.stderr.contains("goes on where"), "{}", ran.stderr);
    assert!(bed.names().is_empty(), "{:?}", bed.names());

    // Not every system lets a user mount a file system.
    let script = "mkdir small && mount -t tmpfs -o size=4m none small || exit 77; \
                  \"$0\" \"$@\"; code=$?; ls -A small; exit $code";
    let nested = format!(
        "command -v unshare >/dev/null || exit 77; \
                          unshare -rm sh -c '{script}' \"$0\" \"$@\" || exit $?"
    );
    let ran = finish(shell(bed.folder.path(), &nested, &["cp", url, "small/out"])).await;
    if ran.stderr.contains("error: cannot write") {
        ran.ends(1).says("no space is left").says("it starts from the beginning");
        assert!(!ran.stderr.contains("goes on where"), "{}", ran.stderr);
        assert_eq!(ran.out(), "", "nothing is left");
    } else {
        assert!(ran.code != Some(0), "8 MiB do not fit into 4: {ran:?}");
    }
}
