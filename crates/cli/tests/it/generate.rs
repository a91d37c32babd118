//! Man pages and completions.

use crate::bed::{finish, names, run_in, shell};

#[tokio::test(flavor = "multi_thread")]
async fn every_command_has_a_page() {
    let folder = tempfile::tempdir().unwrap();
    let ran = run_in(folder.path(), &["man", "--dir", "new/man1", "--json"]).await;
    let expected: Vec<String> = [
        "tidegate-cacheprog",
        "tidegate-cat",
        "tidegate-check",
        "tidegate-chunk",
        "tidegate-completions",
        "tidegate-config-show",
        "tidegate-config",
        "tidegate-cp",
    ]
    .into_iter()
    .chain(["tidegate-demo-serve", "tidegate-demo", "tidegate-man", "tidegate-mb", "tidegate-mv"])
    .chain(["tidegate-presign", "tidegate-rb", "tidegate-rm", "tidegate-serve"])
    .chain(["tidegate-stat"])
    .chain(["tidegate-store-check", "tidegate-store-import", "tidegate-store-purge"])
    .chain(["tidegate-store-replay", "tidegate-store", "tidegate-uploads-abort"])
    .chain(["tidegate-uploads-list", "tidegate-uploads", "tidegate"])
    .map(|name| format!("{name}.1"))
    .collect();
    assert_eq!(ran.ends(0).json()["written"].as_array().unwrap().len(), expected.len());
    assert_eq!(names(&folder.path().join("new/man1")), expected);
    let page = std::fs::read_to_string(folder.path().join("new/man1/tidegate-cp.1")).unwrap();
    assert!(page.contains("tidegate\\-cp") && page.contains("\\-\\-shard\\-size"), "{page}");
    for section in [".SH ENVIRONMENT", ".SH FILES", ".SH \"EXIT STATUS\""] {
        assert!(page.contains(section), "{page}");
    }
    let all = run_in(folder.path(), &["man"]).await.ends(0).out();
    assert_eq!(all.matches("\n.TH ").count(), expected.len());
    std::fs::write(folder.path().join("file"), "").unwrap();
    run_in(folder.path(), &["man", "--dir", "file"]).await.ends(1).says("cannot write file");
}

#[tokio::test(flavor = "multi_thread")]
async fn shells_can_complete() {
    let folder = tempfile::tempdir().unwrap();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let out = run_in(folder.path(), &["completions", shell]).await.ends(0).out();
        assert!(out.contains("tidegate") && out.contains("shard-size"), "{shell}");
    }
    run_in(folder.path(), &["completions", "cmd"]).await.ends(2).says("bash");
}

/// Some machines have no groff.
#[tokio::test(flavor = "multi_thread")]
async fn pages_render_without_warnings() {
    let folder = tempfile::tempdir().unwrap();
    run_in(folder.path(), &["man", "--dir", "."]).await.ends(0);
    let script =
        "command -v groff >/dev/null || exit 0; groff -man -ww -Tutf8 -rLL=78n *.1 >/dev/null";
    let ran = finish(shell(folder.path(), script, &[])).await;
    assert_eq!(ran.ends(0).stderr, "");
}
