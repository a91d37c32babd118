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
