//! Targets that cannot be written: reported at once, and no data is lost.

use std::os::unix::fs::{PermissionsExt, chown};

use tidegate_testkit::{Fault, Gate, Rule};

use crate::bed::{Bed, Ran, command, finish, shell, within};

#[tokio::test(flavor = "multi_thread")]
async fn an_impossible_target_is_reported_without_a_request() {
    let bed = Bed::http().await;
    bed.put("/f/blob", 10);
    let url = bed.server.url("/f/blob");
    std::fs::create_dir_all(bed.path("folder/blob")).unwrap();
    std::fs::write(bed.path("file"), "old").unwrap();
    for (target, text) in [
        ("none/out", "its folder does not exist"),
        ("file/out", "error: cannot write"),
        // A folder that already contains a folder with the blob's name.
        ("folder", "it is a folder"),
        // A folder that accepts no files even from root.
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

/// A full disk needs a separate file system, and that needs root. A limit on the size of files
/// fails the same calls at the same places, with another error number.
#[tokio::test(flavor = "multi_thread")]
async fn no_room_for_the_file() {
    let bed = Bed::http().await;
    bed.put("/f/blob", 1_000_000);
    std::fs::write(bed.path("out"), "old").unwrap();
    let url = bed.server.url("/f/blob");
    // In blocks of 512 or 1024 bytes. The signal is ignored, so that the call fails.
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

/// The links stay, and the file that they lead to is created.
#[tokio::test(flavor = "multi_thread")]
async fn a_chain_of_links_to_nothing_leads_to_the_last_name() {
    use std::os::unix::fs::symlink;
    let bed = Bed::http().await;
    let bytes = bed.put("/f/blob", 10);
    let url = bed.server.url("/f/blob");
    symlink("two", bed.path("one")).unwrap();
    symlink("three", bed.path("two")).unwrap();
    bed.run(&["cp", &url, "one"]).await.ends(0);
    assert_eq!((bed.names().join(" "), bed.read("three")), ("one three two".to_owned(), bytes));
    assert!(bed.path("one").is_symlink() && bed.path("two").is_symlink());
    assert!(!bed.path("three").is_symlink());

    bed.server.clear_log();
    symlink("loop", bed.path("loop")).unwrap();
    bed.run(&["cp", &url, "loop"]).await.ends(1).says("error: cannot write loop");
    assert!(bed.server.log().is_empty() && bed.path("loop").is_symlink());
}

/// Found before the first request, not by the rename at the end. Only root can run as two users.
#[tokio::test(flavor = "multi_thread")]
async fn another_users_file_in_a_sticky_folder_is_reported_without_a_request() {
    const ANNA: u32 = 4321;
    const BERT: u32 = 4322;
    let bed = Bed::http().await;
    let bytes = bed.put("/f/blob", 10);
    let url = bed.server.url("/f/blob");
    let mode = |path: &std::path::Path, mode| {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    };
    mode(bed.folder.path(), 0o1777);
    std::fs::write(bed.path("out"), "old").unwrap();
    if chown(bed.path("out"), Some(ANNA), None).is_err() {
        return;
    }
    mode(&bed.path("out"), 0o666);
    let cp = async |user: u32| {
        let state = tempfile::tempdir().unwrap();
        chown(state.path(), Some(user), None).unwrap();
        let mut command = command(bed.folder.path());
        command.args(["cp", &url, "out"]).uid(user).gid(user).env("XDG_STATE_HOME", state.path());
        // Fails if other users cannot access the folders above the binary.
        let output = within(command.output()).await.ok()?;
        Some(Ran::new(output.status, output.stdout, &output.stderr))
    };
    let Some(ran) = cp(BERT).await else { return };
    ran.ends(1).says("only its owner, user 4321, may replace it").says("sticky");
    assert_eq!((bed.server.requests(), bed.names()), (0, vec!["out".to_owned()]));
    assert_eq!(bed.read("out"), b"old");
    // The file's owner may replace it.
    cp(ANNA).await.unwrap().ends(0);
    assert_eq!(bed.read("out"), bytes);
}

/// The error names the process that holds the lock, and its user.
#[tokio::test(flavor = "multi_thread")]
async fn a_locked_part_file_names_who_locked_it() {
    let bed = Bed::http().await;
    bed.put("/f/blob", 10);
    let url = bed.server.url("/f/blob");
    let part = std::fs::File::create(bed.path(".out.tidegate-part")).unwrap();
    rustix::fs::flock(&part, rustix::fs::FlockOperation::LockExclusive).unwrap();
    let ran = bed.run(&["cp", &url, "out"]).await;
    let named = format!("its part file is locked by process {} (", std::process::id());
    ran.ends(1).says(&named).says(") of user ").says("hint: wait for it to end");
    assert_eq!(bed.server.requests(), 0);

    rustix::fs::flock(&part, rustix::fs::FlockOperation::Unlock).unwrap();
    let gate = Gate::new();
    bed.server.script().push(Rule::new(Fault::HoldAfter { bytes: 0, gate: gate.clone() }).always());
    let mut first = command(bed.folder.path());
    let mut first = first.args(["cp", &url, "out"]).spawn().unwrap();
    within(gate.reached(1)).await;
    let named = format!("another run is writing this target: process {} of", first.id().unwrap());
    bed.run(&["cp", &url, "out"]).await.ends(1).says(&named);
    within(first.kill()).await.unwrap();
}

/// A later run would take such a target for another target's part file.
#[tokio::test(flavor = "multi_thread")]
async fn names_of_part_files_are_no_targets() {
    let bed = Bed::http().await;
    for name in [".foo.tidegate-part", ".foo.tidegate-chunks"] {
        bed.put(&format!("/f/{name}"), 10);
        let url = bed.server.url(&format!("/f/{name}"));
        let encoded = url.replace(".tidegate-", ".tidegate%2D");
        for url in [&url, &encoded] {
            let ran = bed.run(&["cp", url, "."]).await;
            ran.ends(2).says("no name for a file in the folder").says("reserved for part files");
            bed.run(&["cp", url, name]).await.ends(2).says("reserved for part files");
        }
        bed.run(&["cp", &url, "/dev/null"]).await.ends(0);
        assert!(bed.names().is_empty(), "{:?}", bed.names());
    }
    assert_eq!(bed.server.requests(), 2, "only those of /dev/null");
}
