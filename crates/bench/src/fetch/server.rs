//! The server that all tools fetch from: nginx, on free loopback ports.
//!
//! One object, four manners of asking for it: as plain HTTP, as a read-only S3 endpoint (path
//! style, a `HEAD` and ranged `GET`s without signatures), and as GCS (`x-goog-*` headers). One
//! port for each [`Link`]. nginx is what the peers' own figures were taken with, sends from the
//! page cache without a copy, and costs little of the processor that the tools need too.

use std::fs;
use std::io::{self, ErrorKind};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use rustix::process::{Pid, Signal, kill_process};

use super::case::Link;
use super::object::Object;

const INSTALL: &str = "apt-get install nginx-light libnginx-mod-http-echo";

/// Where Debian puts the module that waits before it answers.
const ECHO_MODULE: &str = "/usr/lib/nginx/modules/ngx_http_echo_module.so";

/// nginx is up within some 50 ms; a machine that takes this long is not fit for measuring.
const START_LIMIT: Duration = Duration::from_secs(10);

/// The bucket, as S3 and GCS tools call it.
pub(crate) const BUCKET: &str = "bench";

/// A running nginx; ends when dropped.
#[derive(Debug)]
pub(crate) struct Server {
    process: Child,
    ports: Ports,
    key: String,
    /// As it calls itself, for the report.
    pub(crate) version: String,
}

#[derive(Clone, Copy, Debug)]
struct Ports {
    plain: u16,
    delay: u16,
    capped: u16,
}

impl Server {
    /// Serves the folder that `object` lies in; configuration and logs go to `folder`.
    pub(crate) fn start(folder: &Path, object: &Object) -> Result<Self> {
        let version = find_nginx()?;
        let ports = free_ports()?;
        let configuration = folder.join("nginx.conf");
        let errors = folder.join("error.log");
        fs::write(&configuration, configure(folder, object, ports)?)
            .with_context(|| format!("writing {}", configuration.display()))?;
        let process = Command::new("nginx")
            .arg("-c")
            .arg(&configuration)
            .arg("-e")
            .arg(&errors)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .context("starting nginx")?;
        let key = file_name(object)?.to_owned();
        let mut server = Self { process, ports, key, version };
        server.wait_until_up().with_context(|| {
            format!("starting nginx: {}", fs::read_to_string(&errors).unwrap_or_default().trim())
        })?;
        Ok(server)
    }

    /// The object as plain HTTP.
    pub(crate) fn url(&self, link: Link) -> String {
        format!("{}/{BUCKET}/{}", self.endpoint(link), self.key)
    }

    /// The base address, for S3 and GCS tools.
    pub(crate) fn endpoint(&self, link: Link) -> String {
        let port = match link {
            Link::Plain => self.ports.plain,
            Link::Delay => self.ports.delay,
            Link::Capped => self.ports.capped,
        };
        format!("http://127.0.0.1:{port}")
    }

    /// `bench/KEY`, what follows `s3://` and `gs://`.
    pub(crate) fn bucket_and_key(&self) -> String {
        format!("{BUCKET}/{}", self.key)
    }

    fn wait_until_up(&mut self) -> Result<()> {
        let deadline = Instant::now() + START_LIMIT;
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, self.ports.capped));
        while TcpStream::connect(address).is_err() {
            if let Some(status) = self.process.try_wait()? {
                bail!("it ended with {status}");
            }
            ensure!(Instant::now() < deadline, "it did not listen within {START_LIMIT:?}");
            thread::sleep(Duration::from_millis(10));
        }
        Ok(())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Not `Child::kill`: a killed master leaves its workers behind.
        let pid = i32::try_from(self.process.id()).ok().and_then(Pid::from_raw);
        if pid.is_some_and(|pid| kill_process(pid, Signal::TERM).is_ok()) {
            let _ = self.process.wait();
        }
    }
}

/// The version of the installed nginx, or how to install it.
fn find_nginx() -> Result<String> {
    let output = match Command::new("nginx").arg("-v").output() {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            bail!("nginx is not installed, and every tool is measured against it: {INSTALL}")
        }
        output => output.context("asking nginx for its version")?,
    };
    ensure!(
        Path::new(ECHO_MODULE).exists(),
        "{ECHO_MODULE} is missing, which delays the answers: {INSTALL}"
    );
    Ok(String::from_utf8_lossy(&output.stderr).trim().trim_start_matches("nginx version: ").into())
}

/// Three ports, held together while they are chosen so that they differ.
fn free_ports() -> io::Result<Ports> {
    let listen = || TcpListener::bind((Ipv4Addr::LOCALHOST, 0));
    let held = [listen()?, listen()?, listen()?];
    let [plain, delay, capped] = held.each_ref().map(TcpListener::local_addr);
    Ok(Ports { plain: plain?.port(), delay: delay?.port(), capped: capped?.port() })
}

fn file_name(object: &Object) -> Result<&str> {
    object.path.file_name().and_then(|name| name.to_str()).context("the object has no plain name")
}

/// `sendfile`, two workers, connections kept: nginx as it is run for throughput. Checksums are
/// sent where the clouds send them: GCS with every answer, S3 with whole answers only, and only
/// when asked for.
fn configure(folder: &Path, object: &Object, ports: Ports) -> Result<String> {
    let here = folder.display();
    let root = object.path.parent().context("the object has no folder")?.display();
    let Ports { plain, delay, capped } = ports;
    let Object { len_bytes, crc32c, crc64nvme, .. } = object;
    // The master drops to a user that cannot read our folders, if it may.
    let user = if rustix::process::geteuid().is_root() { "user root;" } else { "" };
    let listing = format!(
        "location = /{BUCKET} {{ default_type application/xml; return 200 '{}'; }}",
        list(object)?
    );
    let direct = format!("{listing} location /{BUCKET}/ {{ alias {root}/; }}");
    let delayed = format!(
        "{listing}
    location ~ ^/{BUCKET}/(?<key>[a-z0-9]+)$ {{ echo_sleep 0.020; echo_exec /direct/$key; }}
    location /direct/ {{ internal; alias {root}/; }}"
    );
    Ok(format!(
        "load_module {ECHO_MODULE};
{user}
daemon off;
worker_processes 2;
pid {here}/nginx.pid;
error_log {here}/error.log warn;
events {{ worker_connections 1024; }}
http {{
  access_log off;
  sendfile on; tcp_nopush on; tcp_nodelay on;
  keepalive_timeout 300s; keepalive_requests 1000000;
  default_type application/octet-stream;
  client_body_temp_path {here}/body; proxy_temp_path {here}/proxy;
  fastcgi_temp_path {here}/fastcgi; uwsgi_temp_path {here}/uwsgi; scgi_temp_path {here}/scgi;
  map $http_x_amz_checksum_mode:$http_range $crc64nvme {{ 'ENABLED:' '{crc64nvme}'; }}
  map $crc64nvme $crc64nvme_type {{ '' ''; default FULL_OBJECT; }}
  add_header x-amz-checksum-crc64nvme $crc64nvme;
  add_header x-amz-checksum-type $crc64nvme_type;
  add_header x-goog-generation 1700000000000001;
  add_header x-goog-stored-content-length {len_bytes};
  add_header x-goog-stored-content-encoding identity;
  add_header x-goog-hash 'crc32c={crc32c}';
  server {{ listen 127.0.0.1:{plain}; {direct} }}
  server {{ listen 127.0.0.1:{delay}; {delayed} }}
  server {{ listen 127.0.0.1:{capped}; limit_rate 100m; {delayed} }}
}}
"
    ))
}

/// The bucket's listing, as S3 gives it: `rclone cat` asks for it even for one object.
fn list(object: &Object) -> Result<String> {
    Ok(format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\
         <ListBucketResult xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">\
         <Name>{BUCKET}</Name><Prefix></Prefix><MaxKeys>1000</MaxKeys>\
         <IsTruncated>false</IsTruncated><Contents><Key>{}</Key>\
         <LastModified>2026-01-01T00:00:00.000Z</LastModified><ETag>&quot;0&quot;</ETag>\
         <Size>{}</Size><StorageClass>STANDARD</StorageClass></Contents></ListBucketResult>",
        file_name(object)?,
        object.len_bytes
    ))
}
