//! Local sources that are no plain files: streams, devices, and files whose length differs from the
//! system's report. And a source that is its own target.

use std::io::Write;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::Path;
use std::process::Stdio;

use rustix::fs::{CWD, Mode, mkfifoat};
use tidegate_testkit::pseudo_random;
use tidegate_testkit::reapi::{ReapiOptions, ReapiServer};

use crate::bed::{Bed, PATIENCE, Ran, command, finish, object, shell, within};

/// More than any pipe's buffer holds, and no multiple of any block size.
const LEN: usize = 3_000_017;

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().unwrap()
}

/// Runs the binary with these bytes in a pipe as standard input.
async fn piped(folder: &Path, args: &[&str], bytes: &[u8]) -> Ran {
    let (reader, mut writer) = std::io::pipe().unwrap();
    let mut command = command(folder);
    command.args(args).stdin(Stdio::from(reader));
    let bytes = bytes.to_vec();
    let writing = tokio::task::spawn_blocking(move || drop(writer.write_all(&bytes)));
    let ran = finish(command).await;
    within(writing).await.unwrap();
    ran
}

fn fifo(folder: &Path, name: &str) {
    mkfifoat(CWD, folder.join(name), Mode::RUSR | Mode::WUSR).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_is_read_to_its_end() {
    let folder = folder();
    for len in [0, 1, LEN] {
        let bytes = pseudo_random(len, 3);
        for source in ["-", "/dev/stdin"] {
            for more in [&[][..], &["--window", "1"]] {
                let args = [&["cp", "--json", source, "out"][..], more].concat();
                let ran = piped(folder.path(), &args, &bytes).await;
                let done = ran.ends(0).json();
                assert_eq!((&done["bytes"], &done["version"]), (&len.into(), &().into()), "{done}");
                assert!(std::fs::read(folder.path().join("out")).unwrap() == bytes, "{args:?}");
            }
            let ran = piped(folder.path(), &["cat", source], &bytes).await;
            assert!(ran.ends(0).stdout == bytes, "{source}");
            ran.says("standard input  ").says("not verified");
        }
    }
    let bytes = pseudo_random(LEN, 3);
    let ran = piped(folder.path(), &["cat", "--range", "1000-1999", "-"], &bytes).await;
    assert!(ran.ends(0).stdout == bytes[1000..2000]);
    let ran = piped(folder.path(), &["cat", "--range=-5", "-"], &bytes).await;
    ran.ends(1).says("does not tell the length");
    // A checksum that the caller gives is compared.
    let wrong = "00000000000000000000000000000000";
    let ran = piped(folder.path(), &["cp", "--md5", wrong, "-", "out2"], &bytes).await;
    ran.ends(5);
    assert!(!folder.path().join("out2").exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn standard_input_may_be_a_file_too() {
    let folder = folder();
    let bytes = pseudo_random(LEN, 4);
    std::fs::write(folder.path().join("in"), &bytes).unwrap();
    let run = async |script: &str| finish(shell(folder.path(), script, &[])).await;
    run("\"$0\" cp - out <in").await.ends(0);
    assert!(std::fs::read(folder.path().join("out")).unwrap() == bytes);
    // The copy starts where the previous reader stopped.
    run("{ head -c 5 >/dev/null; \"$0\" cp - rest; } <in").await.ends(0);
    let rest = std::fs::read(folder.path().join("rest")).unwrap();
    assert!(rest.len() < bytes.len() && bytes.ends_with(&rest), "{}", rest.len());
    run("\"$0\" cp - empty </dev/null").await.ends(0);
    assert_eq!(std::fs::read(folder.path().join("empty")).unwrap(), b"");
    run("\"$0\" cp - closed <&-").await.ends(1).says("standard input").says("closed");
    assert!(!folder.path().join("closed").exists());
    run("\"$0\" cp - zero </dev/zero").await.ends(2).says("device");
    // A stream can be read only once.
    run("\"$0\" cp - - /dev/null <in").await.ends(2).says("standard input");
    run("echo x | \"$0\" cp - .").await.ends(2).says("name the target");
    run("echo x | \"$0\" stat --json - >facts").await.ends(0);
    let facts = std::fs::read_to_string(folder.path().join("facts")).unwrap();
    assert_eq!(object(&facts)["bytes"], serde_json::Value::Null);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_named_pipe_is_waited_for_and_read() {
    let folder = folder();
    fifo(folder.path(), "pipe");
    let bytes = pseudo_random(LEN, 5);
    for args in [&["cp", "pipe", "out"][..], &["cat", "pipe"]] {
        let mut command = command(folder.path());
        // A pause of the pipe's writer is no stall, although it exceeds these limits.
        let child = command.args(args).args(["--stall", "0.05"]);
        let child =
            child.args(["--min-speed", "1GiB", "--min-speed-time", "0.05"]).spawn().unwrap();
        let (path, theirs) = (folder.path().join("pipe"), bytes.clone());
        let writing = tokio::task::spawn_blocking(move || {
            // Opened for reading too, so that the open does not wait for a reader.
            let mut options = std::fs::OpenOptions::new();
            let mut pipe = options.read(true).write(true).open(path).unwrap();
            pipe.write_all(&theirs[..1000]).unwrap();
            let begun = std::time::Instant::now();
            while rustix::io::ioctl_fionread(&pipe).unwrap() > 0 && begun.elapsed() < PATIENCE {
                std::thread::yield_now();
            }
            // Longer than the stall limit.
            std::thread::sleep(std::time::Duration::from_millis(200));
            pipe.write_all(&theirs[1000..]).unwrap();
        });
        let output = within(child.wait_with_output()).await.unwrap();
        let ran = Ran::new(output.status, output.stdout, &output.stderr);
        ran.ends(0);
        within(writing).await.unwrap();
        let out = folder.path().join("out");
        let got = if args[0] == "cat" { ran.stdout } else { std::fs::read(&out).unwrap() };
        assert!(got == bytes, "{args:?}");
    }
}

/// Kernel files report a length of zero, or a wrong length, until they are read.
#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_length_of_a_kernel_file_is_not_believed() {
    let folder = folder();
    let cache = ReapiServer::start(ReapiOptions::default()).await.unwrap();
    for path in ["/proc/version", "/sys/devices/system/cpu/possible"] {
        let bytes = std::fs::read(path).unwrap();
        assert_ne!(std::fs::metadata(path).unwrap().len(), bytes.len() as u64, "{path}");
        let run = async |args: &[&str]| crate::bed::run_in(folder.path(), args).await;
        run(&["cp", path, "out"]).await.ends(0);
        assert!(std::fs::read(folder.path().join("out")).unwrap() == bytes, "{path}");
        assert!(run(&["cat", path]).await.ends(0).stdout == bytes, "{path}");
        let facts = run(&["stat", "--json", path]).await.ends(0).json();
        assert_eq!(facts["bytes"], serde_json::Value::Null, "{path}");
        let put = run(&["cp", "--json", path, &cache.url()]).await.ends(0).json();
        assert_eq!(put["bytes"], bytes.len(), "{path}");
        run(&["cp", put["target"].as_str().unwrap(), "back"]).await.ends(0);
        assert!(std::fs::read(folder.path().join("back")).unwrap() == bytes, "{path}");
        run(&["chunk", path]).await.ends(2).says("length");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn endless_devices_are_refused() {
    let folder = folder();
    let cache = ReapiServer::start(ReapiOptions::default()).await.unwrap();
    let cache = &*cache.url();
    for device in ["/dev/zero", "/dev/urandom", "/dev/full"] {
        for args in [
            &["cp", device, "out"][..],
            &["cat", device],
            &["stat", device],
            &["cp", device, cache],
        ] {
            let ran = crate::bed::run_in(folder.path(), args).await;
            ran.ends(2).says("device").says("hint: ");
            assert!(ran.stdout.is_empty());
        }
    }
    assert!(!folder.path().join("out").exists());
    // A device that ends at once can be copied.
    crate::bed::run_in(folder.path(), &["cp", "/dev/null", "out"]).await.ends(0);
    assert_eq!(std::fs::read(folder.path().join("out")).unwrap(), b"");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_is_uploaded_to_a_cache() {
    let folder = folder();
    let server = ReapiServer::start(ReapiOptions::default()).await.unwrap();
    let url = &*server.url();
    std::fs::create_dir(folder.path().join("spool")).unwrap();
    for len in [0, 1, LEN, 3 * LEN] {
        let bytes = pseudo_random(len, 6);
        for source in ["-", "/dev/stdin"] {
            let ran = piped(folder.path(), &["cp", "--json", source, url], &bytes).await;
            let put = ran.ends(0).json();
            assert_eq!(put["bytes"], len, "{put}");
            let target = put["target"].as_str().unwrap();
            crate::bed::run_in(folder.path(), &["cp", target, "back"]).await.ends(0);
            assert!(std::fs::read(folder.path().join("back")).unwrap() == bytes, "{source} {len}");
        }
    }
    // A message names the folder that holds the data until its digest is known.
    let mut command = shell(folder.path(), "head -c 100 /dev/zero | \"$0\" cp - \"$1\"", &[url]);
    command.env("TMPDIR", folder.path().join("spool"));
    finish(command).await.ends(0).says("spool");
    // The digest in the URL is compared.
    let other = format!("{url}/sha256/{}/5", "0".repeat(64));
    piped(folder.path(), &["cp", "-", &other], b"12345").await.ends(5);
    piped(folder.path(), &["cp", "-", &other], b"123456").await.ends(5);
    fifo(folder.path(), "pipe");
    let writing = shell(folder.path(), "echo hello >pipe", &[]).spawn().unwrap();
    let put =
        crate::bed::run_in(folder.path(), &["cp", "--json", "pipe", url]).await.ends(0).json();
    assert_eq!(put["bytes"], 6);
    drop(writing);
    let left = crate::bed::names(&folder.path().join("spool"));
    assert_eq!(left, Vec::<String>::new(), "nothing is left");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_too_long_for_the_cache_or_the_spool_is_refused() {
    let folder = folder();
    let options =
        ReapiOptions { blob_bytes_max: 100_000, splice: false, ..ReapiOptions::default() };
    let server = ReapiServer::start(options).await.unwrap();
    let bytes = pseudo_random(LEN, 7);
    let ran = piped(folder.path(), &["cp", "-", &server.url()], &bytes).await;
    ran.ends(1).says("100000");
    // A limit on file size also applies to the spool file.
    let script = "ulimit -f 100; head -c 1000000 /dev/zero | \"$0\" cp - \"$1\"";
    let plain = ReapiServer::start(ReapiOptions::default()).await.unwrap();
    let mut command = shell(folder.path(), script, &[&plain.url()]);
    command.env("TMPDIR", folder.path());
    finish(command).await.ends(1).says("TMPDIR");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_source_that_is_its_own_target_is_refused() {
    let bed = Bed::http().await;
    std::fs::write(bed.path("file"), "content").unwrap();
    symlink("file", bed.path("link")).unwrap();
    std::fs::hard_link(bed.path("file"), bed.path("hard")).unwrap();
    std::fs::create_dir(bed.path("folder")).unwrap();
    std::fs::hard_link(bed.path("file"), bed.path("folder/file")).unwrap();
    let before = std::fs::metadata(bed.path("file")).unwrap();
    let url = format!("file://{}", bed.arg("file"));
    for args in [
        ["file", "file"],
        ["file", "./file"],
        ["./file", "file"],
        ["file", "link"],
        ["link", "file"],
        ["file", "hard"],
        ["hard", "file"],
        ["file", "folder"],
        ["file", "folder/"],
        ["file", "."],
        [&url, "file"],
        ["file", &url],
    ] {
        let ran = bed.run(&[&["cp"][..], &args].concat()).await;
        ran.ends(2).says("source and target are the same file");
    }
    for script in ["\"$0\" cat file >>file", "\"$0\" cp - file <file", "\"$0\" cp file - >>hard"] {
        let ran = finish(shell(bed.folder.path(), script, &[])).await;
        ran.ends(2).says("source and target are the same file");
    }
    let after = std::fs::metadata(bed.path("file")).unwrap();
    assert_eq!((after.ino(), after.nlink(), after.len()), (before.ino(), 3, 7));
    assert_eq!(bed.read("file"), b"content");
    bed.run(&["cp", "/dev/null", "/dev/null"]).await.ends(0);
}
