//! `tidegate store`, and blobs in `store:DIR`.

use std::fmt::Write as _;
use std::path::Path;

use serde_json::Value;
use tempfile::TempDir;
use tidegate_testkit::pseudo_random;

use crate::bed::{finish, run_in, shell};

/// Two builds of eight outputs of 12 MiB, and one of eight other outputs between them.
fn folder() -> TempDir {
    let mut text = "# tidegate trace 1\n".to_owned();
    for (build, first) in [1, 100, 1].into_iter().enumerate() {
        for output in first..first + 8 {
            let time_ms = build * 10_000_000 + output * 1000;
            writeln!(text, "{time_ms} get {output:x} 12582912").unwrap();
        }
    }
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("trace"), text).unwrap();
    folder
}

fn stores(json: &Value) -> Vec<(&str, Option<u64>, u64)> {
    let rows = json["stores"].as_array().unwrap().iter();
    rows.map(|row| {
        (row["policy"].as_str().unwrap(), row["size"].as_u64(), row["hits"].as_u64().unwrap())
    })
    .collect()
}

async fn json(folder: &Path, args: &[&str]) -> Value {
    run_in(folder, &[&["store", "replay", "--json"], args].concat()).await.ends(0).json()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_trace_is_replayed_against_sizes_and_policies() {
    let folder = folder();
    let found = json(folder.path(), &["trace", "--size", "256MiB", "--size", "100MiB"]).await;
    let expected = [
        ("age-lru", Some(100 << 20), 0),
        ("lru", Some(100 << 20), 0),
        ("fifo", Some(100 << 20), 0),
        ("age-lru", Some(256 << 20), 8),
        ("lru", Some(256 << 20), 8),
        ("fifo", Some(256 << 20), 8),
        ("unlimited", None, 8),
    ];
    assert_eq!(stores(&found), expected);
    assert_eq!((&found["requests"], &found["distinct_bytes"]), (&24.into(), &(192 << 20).into()));
    assert_eq!(found["stores"][6]["hit_rate"].as_f64().unwrap(), 8.0 / 24.0);

    let by_default = json(folder.path(), &["trace"]).await;
    let sizes: Vec<_> = stores(&by_default).iter().map(|(_, size, _)| *size).collect();
    assert_eq!((sizes.first(), sizes.len()), (Some(&Some(16 << 20)), 3 * 5 + 1));

    let text = run_in(folder.path(), &["store", "replay", "trace", "--size", "256M"]).await;
    let text = text.ends(0).out();
    for part in ["24 requests for 288 MiB, 192 MiB distinct", "age-lru     33.33%", "unlimited"] {
        assert!(text.contains(part), "expected {part:?} in {text}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn young_blobs_are_kept_as_long_as_the_flag_says() {
    let folder = folder();
    let refused = |found: &Value| found["stores"][0]["refused"].as_u64().unwrap();
    let of = async |min_age: &str| {
        refused(&json(folder.path(), &["trace", "--size", "48MiB", "--min-age", min_age]).await)
    };
    assert_eq!(of("0").await, 0);
    assert_eq!(of("1h").await, 12);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_trace_comes_from_a_pipe() {
    let folder = folder();
    let script = "cat trace | \"$0\" store replay --size 256MiB --json -";
    let found = finish(shell(folder.path(), script, &[])).await.ends(0).json();
    assert_eq!(stores(&found).len(), 4);
    let ran = finish(shell(folder.path(), "\"$0\" store replay - <trace", &[])).await;
    ran.ends(2).says("standard input can be read only once").says("--size");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_no_trace_is_an_error() {
    let folder = folder();
    std::fs::write(folder.path().join("other"), "hello\n").unwrap();
    std::fs::write(folder.path().join("broken"), "# tidegate trace 1\n1 get\n").unwrap();
    let run = async |name: &str| run_in(folder.path(), &["store", "replay", name]).await;
    run("absent").await.ends(3).says("absent: there is no such file");
    run(".").await.ends(2).says("expected a file");
    run("other").await.ends(2).says("other: it is not a trace").says("# tidegate trace 1");
    run("broken").await.ends(2).says("line 2: the fingerprint is not");
    run_in(folder.path(), &["store"]).await.ends(2).says("Usage: tidegate store");
}

fn used_bytes(folder: &Path) -> u64 {
    let files = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap());
    files
        .map(|entry| match entry.metadata().unwrap() {
            found if found.is_dir() => used_bytes(&entry.path()),
            found => std::os::unix::fs::MetadataExt::blocks(&found) * 512,
        })
        .sum()
}

/// A file, an edit of it, and the edit again: each comes back exactly, and costs what is new in it.
#[tokio::test(flavor = "multi_thread")]
async fn a_file_goes_into_a_store_and_back_by_its_url() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    let first = pseudo_random(24 << 20, 9).to_vec();
    let mut second = first.clone();
    second.splice(5_000_000..5_000_010, *b"other bytes, of another length");
    std::fs::write(path.join("first"), &first).unwrap();
    std::fs::write(path.join("second"), &second).unwrap();
    std::fs::write(path.join("short"), b"short").unwrap();
    let put = async |name: &str| {
        let ran = run_in(path, &["cp", name, "store:cache"]).await.ends(0).out();
        ran.trim_end().to_owned()
    };
    let url = put("first").await;
    assert!(url.starts_with("store:cache/sha256/") && url.ends_with("/25165824"), "{url}");
    let before = used_bytes(&path.join("cache"));
    assert!((24 << 20..48 << 20).contains(&before), "{before}");
    let edited = put("second").await;
    let grown = used_bytes(&path.join("cache")) - before;
    assert!(grown < 8 << 20, "{grown}");
    let again = run_in(path, &["cp", "--json", "second", "store:cache"]).await.ends(0).json();
    assert_eq!(again["outcome"], "present");
    let short = put("short").await;

    run_in(path, &["cp", &url, "back"]).await.ends(0);
    assert!(std::fs::read(path.join("back")).unwrap() == first);
    std::fs::create_dir(path.join("all")).unwrap();
    run_in(path, &["cp", &url, &edited, &short, "all"]).await.ends(0);
    let name = edited.split('/').nth(2).unwrap();
    assert!(std::fs::read(path.join("all").join(name)).unwrap() == second);
    let ran = run_in(path, &["cat", "--range", "4999990-5000040", &edited]).await;
    assert!(ran.ends(0).stdout == second[4_999_990..=5_000_040]);
    let facts = run_in(path, &["stat", "--json", &short]).await.ends(0).json();
    assert_eq!(facts["bytes"], 5);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_store_lacks_is_not_found() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    std::fs::write(path.join("a"), b"abc").unwrap();
    let url = run_in(path, &["cp", "a", "store:cache"]).await.ends(0).out();
    let other = url.trim_end().replace("/3", "/4");
    run_in(path, &["cp", &other, "b"]).await.ends(3);
    let absent = url.trim_end().replace("store:cache", "store:absent");
    run_in(path, &["cp", &absent, "b"]).await.ends(3).says("there is no such store");
    assert!(!path.join("absent").exists());
    run_in(path, &["cp", "store:cache", "b"]).await.ends(2).says("no blob in it");
    run_in(path, &["cp", "a", "store:"]).await.ends(2).says("the folder is missing");
    run_in(path, &["cp", "a", "store:a"]).await.ends(1).says("cannot be used as a store");
    run_in(path, &["cp", "./store:cache", "b"]).await.ends(3);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_check_finds_damage() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    std::fs::write(path.join("a"), pseudo_random(3 << 20, 1)).unwrap();
    run_in(path, &["cp", "--chunking", "never", "a", "store:cache"]).await.ends(0);
    let check = async |args: &[&str]| run_in(path, &[&["store", "check"], args].concat()).await;
    check(&["cache"]).await.ends(0).says("1 value in ");
    let found = check(&["--json", "cache"]).await.ends(0).json();
    assert_eq!((&found["values"], &found["damaged"]), (&1.into(), &0.into()));
    let file = largest_file(&path.join("cache/files"));
    let mut bytes = std::fs::read(&file).unwrap();
    bytes[1_000_000] ^= 1;
    std::fs::write(&file, bytes).unwrap();
    check(&["cache"]).await.ends(5).says("1 of 1 values are damaged");
    let found = check(&["--json", "cache"]).await.ends(5).json();
    assert_eq!((&found["damaged"], &found["error"]["kind"]), (&1.into(), &"integrity".into()));
    check(&["a"]).await.ends(3).says("there is no store in the folder");
}

fn largest_file(folder: &Path) -> std::path::PathBuf {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let files = entries.map(|path| if path.is_dir() { largest_file(&path) } else { path });
    files.max_by_key(|path| std::fs::metadata(path).unwrap().len()).unwrap()
}
