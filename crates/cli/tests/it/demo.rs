//! The demonstration, at a size that a test can wait for.

use crate::bed::{command, finish, names};

#[tokio::test(flavor = "multi_thread")]
async fn the_demo_verifies_both_downloads_and_leaves_no_file() {
    let folder = tempfile::tempdir().unwrap();
    let run = async |args: &[&str]| {
        let mut command = command(folder.path());
        command.args(["demo", "--size", "40MiB"]).args(args).env("TMPDIR", folder.path());
        finish(command).await
    };
    let json = run(&["--json"]).await.ends(0).json();
    assert_eq!(json["bytes"], 40 << 20);
    let runs = json["runs"].as_array().unwrap();
    assert_eq!(runs.len(), 2);
    for run in runs {
        assert_eq!(run["verified"], serde_json::json!(["crc32c"]), "{run}");
        assert!(run["restarts"].as_u64().unwrap() >= 1, "{run}");
    }
    assert!(json["speed_up"].as_f64().unwrap() > 0.0);
    let resumed = &json["resumed"];
    assert!(resumed["killed_after_bytes"].as_u64().unwrap() >= 20 << 20, "{resumed}");
    assert_eq!(resumed["verified"], serde_json::json!(["crc32c"]), "{resumed}");
    assert!(json["caught"]["error"].as_str().unwrap().contains("crc32c"), "{json}");
    let ran = run(&["--seed", "2"]).await;
    let out = ran.ends(0).out();
    assert!(out.contains("one stream") && out.contains("times as fast"), "{out}");
    assert_eq!(names(folder.path()), Vec::<String>::new());
}

/// An edited copy moves and stores some chunks, not the file.
#[tokio::test(flavor = "multi_thread")]
async fn an_edited_copy_costs_the_server_its_edit() {
    let folder = tempfile::tempdir().unwrap();
    let run = async |args: &[&str]| {
        let mut command = command(folder.path());
        command.args(["demo", "serve", "--size", "24MiB"]).args(args).env("TMPDIR", folder.path());
        finish(command).await
    };
    let json = run(&["--json"]).await.ends(0).json();
    let steps = json["steps"].as_array().unwrap();
    let cost = |step: usize, what: &str| steps[step][what].as_u64().unwrap();
    assert_eq!(steps.len(), 4);
    assert_eq!((cost(0, "bytes"), cost(0, "moved_bytes")), (24 << 20, 24 << 20));
    assert!(cost(0, "stored_bytes") >= 24 << 20, "{json}");
    assert_eq!((cost(1, "moved_bytes"), cost(1, "stored_bytes")), (0, 0), "{json}");
    for step in [2, 3] {
        let moved = cost(step, "moved_bytes");
        assert!(moved > 0 && moved < 6 << 20, "{json}");
    }
    assert!(cost(2, "stored_bytes") < 7 << 20, "{json}");
    assert_eq!(steps[3]["verified"], serde_json::json!(["sha256"]), "{json}");
    let ran = run(&[]).await;
    let out = ran.ends(0).out();
    assert!(out.contains("an edited copy") && out.contains("stored"), "{out}");
    assert_eq!(names(folder.path()), Vec::<String>::new());
}
