//! The cut points of files, and the chunks that they share.

use std::fmt::Write as _;
use std::path::Path;

use serde_json::Value;
use tempfile::TempDir;
use tidegate_core::chunking::{Chunking, FastCdc2020Params, RepMaxCdcParams, cuts};
use tidegate_core::{Digest, DigestFunction};
use tidegate_testkit::pseudo_random;

use crate::bed::run_in;

fn folder(files: &[(&str, &[u8])]) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, bytes) in files {
        std::fs::write(folder.path().join(name), bytes).unwrap();
    }
    folder
}

/// The expected listing.
fn expected(
    chunking: &Chunking,
    function: DigestFunction,
    bytes: &[u8],
) -> Vec<(u64, u64, String)> {
    let mut offset = 0;
    let row = |len| {
        let hash = Digest::of(function, &bytes[offset..offset + len]).checksum().hex();
        let row = (offset as u64, len as u64, hash);
        offset += len;
        row
    };
    cuts(chunking, bytes).map(row).collect()
}

fn rows(chunks: &Value) -> Vec<(u64, u64, String)> {
    let row = |chunk: &Value| {
        let number = |name: &str| chunk[name].as_u64().unwrap();
        (number("offset"), number("length"), chunk["digest"].as_str().unwrap().to_owned())
    };
    chunks.as_array().unwrap().iter().map(row).collect()
}

async fn json(folder: &Path, args: &[&str]) -> Value {
    run_in(folder, &[&["chunk", "--json"], args].concat()).await.ends(0).json()
}

#[tokio::test(flavor = "multi_thread")]
async fn json_output_lists_the_chunks() {
    let bytes = pseudo_random(5 << 20, 3);
    let folder = folder(&[("a", &bytes), ("empty", b"")]);
    let path = folder.path();
    let of_api = FastCdc2020Params::new(512 << 10, 0).unwrap();
    let listed = json(path, &["a"]).await;
    let by_default = expected(&Chunking::FastCdc2020(of_api), DigestFunction::Sha256, &bytes);
    assert_eq!(rows(&listed["chunks"]), by_default);
    assert_eq!((&listed["function"], &listed["avg"]), (&"fastcdc2020".into(), &(512 << 10).into()));
    assert_eq!((&listed["file"], &listed["bytes"]), (&"a".into(), &(5 << 20).into()));

    let args = ["--avg", "64KiB", "--min", "1000", "--max", "300000", "--normalization", "1"];
    let listed = json(path, &[&args, &["--seed", "666", "a"][..]].concat()).await;
    let params = FastCdc2020Params::new(64 << 10, 666).unwrap();
    let params = params.with_chunk_bytes(1000..=300_000).unwrap().with_normalization(1).unwrap();
    let with_all = expected(&Chunking::FastCdc2020(params), DigestFunction::Sha256, &bytes);
    assert_eq!(rows(&listed["chunks"]), with_all);

    let args = ["--function", "repmaxcdc", "--min", "4KiB", "--horizon", "20000"];
    let listed = json(path, &[&args, &["--digest", "blake3", "a"][..]].concat()).await;
    let params = Chunking::RepMaxCdc(RepMaxCdcParams::new(4096, 20_000).unwrap());
    assert_eq!(rows(&listed["chunks"]), expected(&params, DigestFunction::Blake3, &bytes));

    assert_eq!(json(path, &["empty"]).await["chunks"], serde_json::json!([]));
}

#[tokio::test(flavor = "multi_thread")]
async fn text_output_has_columns() {
    let bytes = pseudo_random(2 << 20, 4);
    let folder = folder(&[("a", &bytes)]);
    let ran = run_in(folder.path(), &["chunk", "--avg", "64KiB", "a"]).await;
    let params = Chunking::FastCdc2020(FastCdc2020Params::new(64 << 10, 0).unwrap());
    let mut text = " offset   length  sha256\n".to_owned();
    for (offset, length, hash) in expected(&params, DigestFunction::Sha256, &bytes) {
        writeln!(text, "{offset:>7}  {length:>7}  {hash}").unwrap();
    }
    assert_eq!(ran.ends(0).out(), text);
    ran.says("2.00 MiB in ").says(" chunks, ");
    let quiet = run_in(folder.path(), &["chunk", "--quiet", "--avg", "64KiB", "a"]).await;
    assert_eq!((quiet.out(), &*quiet.stderr), (text, ""));
}

#[tokio::test(flavor = "multi_thread")]
async fn several_files_show_their_shared_bytes() {
    let first = pseudo_random(4 << 20, 5).to_vec();
    let mut second = first.clone();
    second.splice(1_000_000..1_000_010, *b"inserted text, of another length");
    let folder = folder(&[("v1", &first), ("v2", &second), ("other", &pseudo_random(1 << 20, 6))]);
    let args = ["--avg", "16KiB", "v1", "v2", "other"];
    let listed = json(folder.path(), &args).await;
    let sharing = &listed["sharing"];
    let number = |value: &Value| value.as_u64().unwrap();
    let files = sharing["files"].as_array().unwrap();
    let distinct = number(&sharing["distinct_bytes"]);
    for (file, bytes) in files.iter().zip([first.len(), second.len()]) {
        assert_eq!(number(&file["bytes"]), bytes as u64);
        assert!(number(&file["shared_bytes"]) > bytes as u64 * 9 / 10, "{file}");
        assert!(number(&file["shared_bytes"]) < bytes as u64, "{file}");
    }
    assert_eq!((&files[2]["shared_bytes"], &files[2]["shared_chunks"]), (&0.into(), &0.into()));
    let all = first.len() + second.len() + (1 << 20);
    assert_eq!(number(&sharing["bytes"]), all as u64);
    assert!(distinct < 6 << 20, "{sharing}");
    let chunks = listed["files"].as_array().unwrap().iter();
    let chunks: usize = chunks.map(|file| file["chunks"].as_array().unwrap().len()).sum();
    assert_eq!(number(&sharing["chunks"]), chunks as u64);

    let out = run_in(folder.path(), &[&["chunk"], &args[..]].concat()).await.ends(0).out();
    for line in ["v1\n", "v2\n", "in others, too\n", "together ", " distinct chunks, 1."] {
        assert!(out.contains(line), "expected {line:?} in {out}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_cannot_be_cut_is_an_error() {
    let folder = folder(&[("a", b"abc")]);
    run_in(folder.path(), &["chunk", "absent"]).await.ends(3).says("absent: there is no such file");
    run_in(folder.path(), &["chunk", "."]).await.ends(2).says("expected a file: is a directory");
    let failed = run_in(folder.path(), &["chunk", "--json", "a", "absent"]).await;
    assert_eq!(failed.ends(3).json()["error"]["kind"], "not_found");
    let cases: [(&[&str], &str); 9] = [
        (&[], "required"),
        (&["--avg", "100000", "a"], "expected the average to be a power of two from 1024"),
        (&["--avg", "2MiB", "a"], "from 1024 to 1048576, got 2097152"),
        (&["--min", "600KiB", "a"], "expected the minimum to be 64 to 524288, got 614400"),
        (&["--normalization", "4", "a"], "expected the normalization to be 0 to 3, got 4"),
        (&["--horizon", "1MiB", "a"], "--horizon is not for --function fastcdc2020"),
        (&["--function", "repmaxcdc", "--avg", "1MiB", "a"], "--avg is not for"),
        (&["--function", "repmaxcdc", "--min", "63", "a"], "expected the minimum to be 64"),
        (&["--function", "rabin", "a"], "fastcdc2020, repmaxcdc"),
    ];
    for (args, text) in cases {
        run_in(folder.path(), &[&["chunk"], args].concat()).await.ends(2).says(text);
    }
}
