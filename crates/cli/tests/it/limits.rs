//! Limits of the process: threads that the system does not give, and files that may not grow.

use crate::bed::{Bed, finish, shell};

/// The stack that each thread asks for: so much address space that a limit on that is one on the
/// number of threads, also for root, whom `ulimit -u` does not bind.
const STACK_GIB: u64 = 1;

/// Runs the binary where the system gives about so many threads.
async fn with_threads(bed: &Bed, threads: u64, args: &[&str]) -> crate::bed::Ran {
    // What a program needs itself is less than a quarter of a stack.
    let kib = (threads * STACK_GIB << 20) + (768 << 10);
    let script = format!("ulimit -v {kib}; exec \"$0\" \"$@\"");
    let mut command = shell(bed.folder.path(), &script, args);
    command.env("RUST_MIN_STACK", (STACK_GIB << 30).to_string());
    command.env("TMPDIR", bed.folder.path());
    finish(command).await
}

/// With few threads it is slower, with too few it says so, and with none as well.
#[tokio::test(flavor = "multi_thread")]
async fn few_threads_are_enough_and_too_few_are_told() {
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
            match ran.code {
                Some(0) => enough = true,
                _ => {
                    ran.ends(1).says("thread").says("hint: ");
                    assert!(!enough, "{threads} {args:?}: fewer were enough: {}", ran.stderr);
                    assert!(!bed.path("out").exists(), "{threads}");
                }
            }
            if args[0] == "cat" && ran.code == Some(0) {
                assert!(ran.stdout == bytes, "{threads}");
            }
            if bed.path("out").exists() {
                assert!(bed.read("out") == bytes, "{threads}");
                std::fs::remove_file(bed.path("out")).unwrap();
            }
            // The main thread alone cannot do it, and six others can.
            assert!(threads > 0 || !enough, "{args:?}");
            assert!(threads < 6 || enough, "{threads} {args:?}: {}", ran.stderr);
        }
    }
}

/// The signal that comes with it ends nothing.
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
    // Those that need no network are no different.
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
