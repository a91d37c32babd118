//! The S3 servers: versitygw, or the testkit's server in a process of its own.
//!
//! The testkit's server hashes what arrives and drops it, so a file of any length needs neither memory
//! nor a disk. It compares the checksums of S3; it computes no MD5, which S3 needs for tags only.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use clap::Args;
use tidegate_testkit::{Flavour, NetworkProfile, ServerOptions, WriteEtags, WriteOptions};

use super::case::Link;
use crate::object::Object;

/// versitygw creates its tables in a second.
const START_LIMIT: Duration = Duration::from_secs(30);

/// The credentials of versitygw; the testkit's server asks for none.
pub(super) const ACCESS_KEY: &str = "bench";
pub(super) const SECRET_KEY: &str = "bench-secret";

/// The bucket.
pub(super) const BUCKET: &str = "bench";

/// The link of the hidden server.
#[derive(Debug, Args)]
pub(crate) struct UploadServerOptions {
    #[arg(long)]
    link: Link,
}

/// Serves until standard input ends.
pub(crate) fn run_server(options: &UploadServerOptions) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        let profile = match options.link {
            Link::Plain => NetworkProfile::LOOPBACK,
            Link::Delay => NetworkProfile::CLOUD_UNCAPPED,
            Link::Capped => NetworkProfile::CLOUD,
        };
        let writes =
            WriteOptions { discard: true, etags: WriteEtags::Opaque, ..WriteOptions::default() };
        let options = ServerOptions { profile, writes, ..ServerOptions::of(Flavour::S3) };
        let server = tidegate_testkit::Server::start(options).await?;
        writeln!(std::io::stdout(), "{}", server.endpoint()).context("naming the address")?;
        let ended = tokio::task::spawn_blocking(|| {
            std::io::copy(&mut std::io::stdin(), &mut std::io::sink())
        });
        ended.await.context("waiting for the end")??;
        server.shutdown().await;
        Ok(())
    })
}

/// A running server, which ends when this is dropped.
#[derive(Debug)]
pub(super) struct Server {
    child: Child,
    pub(super) endpoint: String,
    /// The folder in which it keeps objects as files; `None` if it drops them.
    folder: Option<PathBuf>,
    pub(super) name: String,
}

impl Server {
    /// The testkit's server.
    pub(super) fn discarding(link: Link) -> Result<Self> {
        let this = std::env::current_exe().context("finding this program")?;
        let mut child = Command::new(this)
            .args(["upload-server", "--link", link.name()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("starting the server")?;
        let output = child.stdout.take().context("the server has no output")?;
        let mut endpoint = String::new();
        BufReader::new(output).read_line(&mut endpoint).context("reading the address")?;
        let endpoint = endpoint.trim().to_owned();
        let server = Self { child, endpoint, folder: None, name: "the testkit's server".into() };
        ensure!(!server.endpoint.is_empty(), "the server did not start");
        Ok(server)
    }

    /// versitygw with an empty bucket in `folder`.
    pub(super) fn versitygw(program: &Path, folder: &Path) -> Result<Self> {
        let bucket = folder.join(BUCKET);
        fs::create_dir_all(&bucket).with_context(|| format!("creating {}", bucket.display()))?;
        // The next free port: nothing else takes it in this short time.
        let address = TcpListener::bind("127.0.0.1:0").and_then(|free| free.local_addr())?;
        let child = Command::new(program)
            .env("ROOT_ACCESS_KEY_ID", ACCESS_KEY)
            .env("ROOT_SECRET_ACCESS_KEY", SECRET_KEY)
            .args(["--quiet", "--keep-alive", "--port", &address.to_string(), "posix"])
            .arg(folder)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .with_context(|| format!("starting {}", program.display()))?;
        let endpoint = format!("http://{address}");
        let mut server =
            Self { child, endpoint, folder: Some(bucket), name: "versitygw".to_owned() };
        let started = Instant::now();
        while TcpStream::connect(address).is_err() {
            if let Some(status) = server.child.try_wait()? {
                bail!("versitygw ended with {status}");
            }
            ensure!(started.elapsed() < START_LIMIT, "versitygw does not listen");
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(server)
    }

    /// Fails unless the object has the file's bytes. A server that drops them has only its length.
    pub(super) fn check(&self, key: &str, object: &Object) -> Result<()> {
        match &self.folder {
            Some(folder) => object.ensure_same(&folder.join(key)),
            None => self.check_len(key, object.len_bytes),
        }
    }

    /// Fails unless the object has this length.
    pub(super) fn check_len(&self, key: &str, len_bytes: u64) -> Result<()> {
        let host = self.endpoint.trim_start_matches("http://");
        let mut stream = TcpStream::connect(host).context("asking for the length")?;
        write!(
            stream,
            "HEAD /{BUCKET}/{key} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n"
        )?;
        let mut head = String::new();
        stream.read_to_string(&mut head).context("asking for the length")?;
        let expected = format!("content-length: {len_bytes}");
        let found = head.lines().any(|line| line.eq_ignore_ascii_case(&expected));
        ensure!(found, "{key} is not an object of {len_bytes} bytes: {head}");
        Ok(())
    }

    /// Removes an object, so that the next upload of it writes new pages.
    pub(super) fn clear(&self, key: &str) -> Result<()> {
        let Some(folder) = &self.folder else { return Ok(()) };
        match fs::remove_file(folder.join(key)) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                Err(error).with_context(|| format!("removing {key}"))
            }
            _ => Ok(()),
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // A failure means that it has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
