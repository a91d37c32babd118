//! Targets that cannot be written: told at once, and nothing is lost.

use crate::bed::{Bed, finish, shell};

#[tokio::test(flavor = "multi_thread")]
async fn a_target_that_cannot_be_is_told_without_a_request() {
    let bed = Bed::http().await;
    bed.put("/f/blob", 10);
    let url = bed.server.url("/f/blob");
    std::fs::create_dir_all(bed.path("folder/blob")).unwrap();
    std::fs::write(bed.path("file"), "old").unwrap();
    for (target, text) in [
        ("none/out", "its folder does not exist"),
        ("file/out", "error: cannot write"),
        // A folder that already has a folder of the blob's name.
        ("folder", "it is a folder"),
        // The one folder that takes no files even from root.
        ("/sys/tidegate-test", "error: cannot write /sys/"),
    ] {
        let ran = bed.run(&["cp", "--json", &url, target]).await;
        assert_eq!(ran.ends(1).json()["error"]["kind"], "storage", "{target}");
        bed.run(&["cp", &url, target]).await.ends(1).says(text);
    }
    assert_eq!(bed.server.requests(), 0);
    assert_eq!(
        (bed.names(), bed.read("file")),
        (vec!["file".into(), "folder".into()], b"old".to_vec())
    );
}

/// A full disk needs a file system of one's own, and that needs root. A limit on the size of files
/// fails the same calls at the same places, with another error number.
#[tokio::test(flavor = "multi_thread")]
async fn no_room_for_the_file() {
    let bed = Bed::http().await;
    bed.put("/f/blob", 1_000_000);
    std::fs::write(bed.path("out"), "old").unwrap();
    let url = bed.server.url("/f/blob");
    // In blocks of 512 or 1024 bytes; the signal is ignored, so that the call fails.
    let script = "trap '' XFSZ; ulimit -f 100; exec \"$0\" cp \"$@\"";
    for more in [&[][..], &["--window", "1"]] {
        let args = [&[url.as_str(), "out"][..], more].concat();
        let ran = finish(shell(bed.folder.path(), script, &args)).await;
        ran.ends(1).says("error: cannot write");
        assert_eq!((bed.names(), bed.read("out")), (vec!["out".to_owned()], b"old".to_vec()));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_output_that_is_full() {
    let bed = Bed::http().await;
    bed.put("/f/blob", 1_000_000);
    let url = bed.server.url("/f/blob");
    let ran = finish(shell(bed.folder.path(), "exec \"$0\" cat \"$1\" > /dev/full", &[&url])).await;
    ran.ends(1).says("no space is left");
    let ran =
        finish(shell(bed.folder.path(), "exec \"$0\" stat \"$1\" > /dev/full", &[&url])).await;
    ran.ends(1).says("error: cannot write standard output");
}
