//! Processes that are killed while they write.

use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};
use std::time::Duration;

use bytes::Bytes;
use tidegate::remote::{CompleteRequest, PartNumber, Payload, UploadPart, WriteOptions};
use tidegate::{Budget, Client};
use tidegate_conformance::remote::{Place, content};

use crate::folder::Folder;

/// Environment variable with the folder that a child writes to.
const FOLDER: &str = "TIDEGATE_CONFORMANCE_FOLDER";

/// Number of kills. Their instants differ by a fraction of the time that one write takes.
const KILLS: u64 = 12;

const LEN: usize = 3 << 20;

/// The two contents that are written alternately.
fn contents() -> [Bytes; 2] {
    [content(LEN, 1), content(LEN + 1, 2)]
}

/// Run as a child process: writes the target for ever, whole and in parts.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn child() {
    let Some(folder) = std::env::var_os(FOLDER) else { return };
    let at = Client::default().locate(&format!("{}/target", folder.display())).unwrap();
    let writing = at.write().unwrap();
    let (options, contents) = (WriteOptions::default(), contents());
    for index in 0.. {
        let bytes = contents[index % 2].clone();
        if index % 3 == 0 {
            let payload = Payload::from_bytes(bytes);
            writing.put(&at.blob, &payload, &options).await.unwrap();
        } else {
            let upload = writing.begin(&at.blob, &options).await.unwrap();
            let mut stored = Vec::new();
            for (number, piece) in (1..).zip(bytes.chunks(1 << 20)) {
                let number = PartNumber::new(number).unwrap();
                let payload = Payload::from_bytes(bytes.slice_ref(piece));
                let offset = stored.len() as u64 * (1 << 20);
                let part = UploadPart { number, offset, payload };
                stored.push(writing.part(&upload, &part).await.unwrap());
            }
            writing.complete(&upload, &CompleteRequest::new(stored)).await.unwrap();
        }
        if index == 0 {
            writeln!(std::io::stderr(), "written").unwrap();
        }
    }
}

/// The target always has one of the two contents, complete. Leftover uploads are found and aborted.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_killed_process_leaves_is_whole_and_can_be_aborted() {
    let (place, contents) = (Folder::new(), contents());
    let mut aborted = 0;
    for kill in 0..KILLS {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "killed::child", "--nocapture"])
            .env(FOLDER, place.path(""))
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let mut written = lines.map_while(Result::ok).filter(|line| line == "written");
        assert!(written.next().is_some(), "the child wrote nothing");
        tokio::time::sleep(Duration::from_millis(10 + 7 * kill)).await;
        child.kill().unwrap();
        child.wait().unwrap();

        let found = place.get("target").await.unwrap();
        assert!(contents.contains(&found), "half a file has the target's name");
        let at = place.at("target");
        let writing = at.write().unwrap();
        let page = writing.uploads(&at.blob, None, &Budget::default()).await.unwrap();
        for unfinished in page.uploads {
            assert_eq!(unfinished.upload.blob, at.blob);
            writing.abort(&unfinished.upload).await.unwrap();
            aborted += 1;
        }
        assert_eq!(place.all(), [place.path("target")], "left behind");
    }
    assert!(aborted > 0, "no kill came in the middle of a write");
}
