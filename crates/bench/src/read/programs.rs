//! The readers' programs: built or found once, run for one object at a time.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

use super::ours::ReadOnce;
use super::reader::{Origin, Reader};
use super::report::Sample;
use super::server::Blob;
use crate::measure::capture;
use crate::peers;

/// The buffer size of the peers' readers, as in the published figures.
const PEER_BUFFER_BYTES: &str = "1048576";

/// Version of the current Java reader.
const JAVA_CURRENT: &str = "2.75.0";

/// The programs that are available.
#[derive(Debug)]
pub(crate) struct Programs {
    ours: PathBuf,
    curl: Option<PathBuf>,
    java: Option<Java>,
    go: Option<PathBuf>,
    object_store: Option<PathBuf>,
    /// Program and version.
    pub(crate) versions: Vec<(String, String)>,
    /// Programs that cannot be measured, and why.
    pub(crate) missing: Vec<(String, String)>,
}

#[derive(Debug)]
struct Java {
    v1: PathBuf,
    current: PathBuf,
}

impl Programs {
    /// Finds and builds the programs of `readers`.
    pub(crate) fn build(readers: &[Reader]) -> Result<Self> {
        ensure!(!cfg!(debug_assertions), "an unoptimised build measures nothing: use --release");
        let mut programs = Self {
            ours: std::env::current_exe().context("finding this program")?,
            curl: None,
            java: None,
            go: None,
            object_store: None,
            versions: Vec::new(),
            missing: Vec::new(),
        };
        let wanted = |origin| readers.iter().any(|reader| reader.origin() == origin);
        if wanted(Origin::Curl) {
            programs.curl = programs.note("curl", find_curl());
        }
        if wanted(Origin::Java) {
            programs.java = programs.note("google-cloud-java", build_java());
        }
        if wanted(Origin::Go) {
            programs.go = programs.note("Go client", build_go());
        }
        if wanted(Origin::ObjectStore) {
            programs.object_store = programs.note("object_store", build_object_store());
        }
        Ok(programs)
    }

    fn note<T>(&mut self, name: &str, built: Result<(T, String)>) -> Option<T> {
        match built {
            Ok((program, version)) => {
                self.versions.push((name.to_owned(), version));
                Some(program)
            }
            Err(error) => {
                self.missing.push((name.to_owned(), format!("{error:#}")));
                None
            }
        }
    }

    /// Whether `reader` can run.
    pub(crate) fn has(&self, reader: Reader) -> bool {
        match reader.origin() {
            Origin::Ours => true,
            Origin::Curl => self.curl.is_some(),
            Origin::Java => self.java.is_some(),
            Origin::Go => self.go.is_some(),
            Origin::ObjectStore => self.object_store.is_some(),
        }
    }

    /// Our own reader, with its arguments.
    pub(crate) fn own(&self, endpoint: &str, url: &str) -> Command {
        let mut command = Command::new(&self.ours);
        command.args(["read-once", "--endpoint", endpoint, url]);
        command
    }

    /// curl to `/dev/null`.
    pub(crate) fn curl(&self) -> Option<Command> {
        let mut command = Command::new(self.curl.as_ref()?);
        command.args(["--disable", "--silent", "--show-error", "--fail", "--output", "/dev/null"]);
        Some(command)
    }

    /// Reads `blob` with `reader`; `times` reads in one process if the reader supports it.
    pub(crate) fn read(
        &self,
        reader: Reader,
        endpoint: &str,
        blob: Blob,
        times: u32,
    ) -> Result<Vec<Sample>> {
        let samples = match reader.origin() {
            Origin::Ours => self.read_ours(reader, endpoint, blob)?,
            Origin::Curl => self.read_curl(endpoint, blob)?,
            Origin::Java | Origin::Go | Origin::ObjectStore => {
                self.read_peer(reader, endpoint, blob, times)?
            }
        };
        for sample in &samples {
            ensure!(
                sample.bytes == blob.len_bytes(),
                "{} read {} bytes, expected {}",
                reader.label(),
                sample.bytes,
                blob.len_bytes()
            );
        }
        Ok(samples)
    }

    fn read_ours(&self, reader: Reader, endpoint: &str, blob: Blob) -> Result<Vec<Sample>> {
        let mut command = self.own(endpoint, &format!("gs://bench/{}", blob.name()));
        command.args(reader.own_arguments());
        let (output, usage) = capture(&mut command)?;
        let read: ReadOnce = serde_json::from_str(&output).context("reading our own result")?;
        ensure!(
            read.verified == (reader != Reader::FramesUnverified),
            "{} verified: {}",
            reader.label(),
            read.verified
        );
        Ok(vec![Sample {
            wall_s: read.wall_s,
            cpu_s: usage.cpu_s,
            rss_kib: usage.rss_kib_max,
            bytes: read.bytes,
        }])
    }

    fn read_curl(&self, endpoint: &str, blob: Blob) -> Result<Vec<Sample>> {
        let mut command = self.curl().context("curl is not there")?;
        command.args(["--write-out", "%{time_total} %{size_download}"]);
        command.arg(format!("{endpoint}/bench/{}", blob.name()));
        let (output, usage) = capture(&mut command)?;
        let (wall_s, bytes) = output.split_once(' ').context("curl did not say what it took")?;
        Ok(vec![Sample {
            wall_s: wall_s.parse().context("reading curl's time")?,
            cpu_s: usage.cpu_s,
            rss_kib: usage.rss_kib_max,
            bytes: bytes.trim().parse().context("reading curl's count")?,
        }])
    }

    fn read_peer(
        &self,
        reader: Reader,
        endpoint: &str,
        blob: Blob,
        times: u32,
    ) -> Result<Vec<Sample>> {
        let times = times.to_string();
        let mut command = match (reader, &self.java, &self.go, &self.object_store) {
            (Reader::JavaV1 | Reader::JavaCurrent, Some(java), ..) => {
                let library = if reader == Reader::JavaV1 { &java.v1 } else { &java.current };
                let mut command = Command::new("java");
                command.arg("-cp").arg(library.join("*")).args(["bench.Bench", "peer", endpoint]);
                command.args(["bench", "reader", PEER_BUFFER_BYTES, &times, "0"]);
                command
            }
            (Reader::Go, _, Some(binary), _) => {
                let mut command = Command::new(binary);
                command.args(["peer", "xml", endpoint, "bench", PEER_BUFFER_BYTES, &times]);
                command.args(["1", "32", "0"]);
                command
            }
            (Reader::ObjectStore, _, _, Some(binary)) => {
                let mut command = Command::new(binary);
                command.args(["peer", "stream", endpoint, "bench", &times, "1", "8"]);
                command
            }
            _ => bail!("{} is not there", reader.label()),
        };
        let (output, usage) = capture(command.arg(blob.name()))?;
        let reads = output.lines().filter(|line| line.starts_with("R "));
        reads.map(|line| parse_read(line, usage.rss_kib_max)).collect()
    }
}

/// Parses a line such as `R label object it=0 bytes=1 sec=0.5 mibs=2 cpu=0.1`.
pub(crate) fn parse_read(line: &str, rss_kib: u64) -> Result<Sample> {
    let value = |name: &str| {
        let words = line.split_whitespace().filter_map(|word| word.split_once('='));
        let mut found = words.filter(|(key, _)| *key == name).map(|(_, value)| value);
        found.next().with_context(|| format!("no {name} in {line:?}"))
    };
    let number = |name: &str| -> Result<f64> {
        value(name)?.parse().with_context(|| format!("reading {name} in {line:?}"))
    };
    Ok(Sample {
        wall_s: number("sec")?,
        cpu_s: number("cpu")?,
        rss_kib,
        bytes: value("bytes")?.parse().with_context(|| format!("reading bytes in {line:?}"))?,
    })
}

fn find_curl() -> Result<(PathBuf, String)> {
    let said = peers::build(Command::new("curl").arg("--version"))?;
    let version = said.split(" (").next().unwrap_or_default().to_owned();
    Ok((PathBuf::from("curl"), version))
}

fn build_java() -> Result<(Java, String)> {
    let said = Command::new("java").arg("-version").output().context("java is not installed")?;
    let said = String::from_utf8_lossy(&said.stderr).into_owned();
    let folder = peers::build_folder("java")?;
    let built = |name: &str| folder.join(format!("lib-{name}"));
    for (profile, name) in [("v1", "v1"), ("latest", JAVA_CURRENT)] {
        let library = built(name);
        // The existing file was built from these sources. Maven would take minutes to check that.
        if library.join("bench.jar").exists() && !is_newer(&library.join("bench.jar"))? {
            continue;
        }
        copy_java_sources(&folder)?;
        peers::build(
            Command::new("mvn")
                .args(["--quiet", "--batch-mode", &format!("-P{profile}")])
                .arg(format!("-Dlatest.version={JAVA_CURRENT}"))
                .args(["-Dmaven.test.skip=true", "-DincludeScope=runtime"])
                .arg(format!("-DoutputDirectory={}", library.display()))
                .args(["package", "dependency:copy-dependencies"])
                .current_dir(&folder),
        )?;
        fs::copy(folder.join("target/java-storage-bench-1.jar"), library.join("bench.jar"))
            .context("copying what maven built")?;
    }
    let version = said.lines().next().unwrap_or_default().to_owned();
    Ok((Java { v1: built("v1"), current: built(JAVA_CURRENT) }, version))
}

const JAVA_SOURCES: [&str; 2] = ["pom.xml", "src/main/java/bench/Bench.java"];

/// Whether a source has changed since `built`.
fn is_newer(built: &Path) -> Result<bool> {
    let time = |path: &Path| {
        let time = fs::metadata(path).and_then(|data| data.modified());
        time.with_context(|| format!("looking at {}", path.display()))
    };
    let built = time(built)?;
    for source in JAVA_SOURCES {
        if time(&peers::sources("gcs-readers/java").join(source))? > built {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Maven builds in its source folder, so it gets a copy.
fn copy_java_sources(folder: &Path) -> Result<()> {
    for source in JAVA_SOURCES {
        let target = folder.join(source);
        if let Some(parent) = target.parent() {
            fs::create_dir_all(parent).with_context(|| format!("creating {}", parent.display()))?;
        }
        fs::copy(peers::sources("gcs-readers/java").join(source), &target)
            .with_context(|| format!("writing {}", target.display()))?;
    }
    Ok(())
}

fn build_go() -> Result<(PathBuf, String)> {
    let version = peers::build(Command::new("go").arg("version"))?;
    let binary = peers::build_folder("go")?.join("gobench");
    let mut command = Command::new("go");
    command.args(["build", "-o"]).arg(&binary).arg(".");
    peers::build(command.current_dir(peers::sources("gcs-readers/go")))?;
    Ok((binary, version.trim_start_matches("go version ").to_owned()))
}

pub(crate) fn build_object_store() -> Result<(PathBuf, String)> {
    let target = peers::build_folder("object-store")?;
    peers::build(
        peers::cargo()
            .args(["build", "--release", "--locked", "--quiet", "--manifest-path"])
            .arg(peers::sources("gcs-readers/rust/Cargo.toml"))
            .arg("--target-dir")
            .arg(&target),
    )?;
    Ok((target.join("release/rust-bench"), "0.14, with reqwest".to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peers_line_is_read() {
        let line = "R peer o4m it=1 bytes=4194304 sec=0.002000 mibs=2000.0 cpu=0.0030 crc=00";
        let sample = parse_read(line, 7).unwrap();
        let expected = Sample { wall_s: 0.002, cpu_s: 0.003, rss_kib: 7, bytes: 4_194_304 };
        assert_eq!(sample, expected);
        assert!(parse_read("R peer o4m it=1 sec=0.1", 7).is_err());
    }
}
