//! nginx as a child process, on free loopback ports; the peers' own figures were also measured with
//! it. It sends from the page cache without a copy, and so leaves most of the processor to the
//! measured program.
//!
//! Invariant: it ends with its [`Nginx`], workers included, and writes into the given folder only.

use std::fs;
use std::io::{self, ErrorKind};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use rustix::process::{Pid, Signal, kill_process};

const INSTALL: &str = "apt-get install nginx-light libnginx-mod-http-echo";

/// Debian's path of the module that delays a response.
const ECHO_MODULE: &str = "/usr/lib/nginx/modules/ngx_http_echo_module.so";

/// nginx is ready within some 50 ms; a machine that takes this long is not fit for measuring.
const START_LIMIT: Duration = Duration::from_secs(10);

/// A running nginx; ends when dropped.
#[derive(Debug)]
pub(crate) struct Nginx {
    process: Child,
    /// The version that nginx reports.
    pub(crate) version: String,
}

impl Nginx {
    /// Serves the configuration `http`, the inside of an `http` block without its general settings.
    /// Configuration and logs go to `folder`. Returns once `port`, one of the ports in `http`,
    /// accepts connections.
    pub(crate) fn start(folder: &Path, http: &str, port: u16) -> Result<Self> {
        let version = find()?;
        let configuration = folder.join("nginx.conf");
        let errors = folder.join("error.log");
        fs::write(&configuration, configure(folder, http))
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
        let mut server = Self { process, version };
        server.wait_until_up(port).with_context(|| {
            format!("starting nginx: {}", fs::read_to_string(&errors).unwrap_or_default().trim())
        })?;
        Ok(server)
    }

    fn wait_until_up(&mut self, port: u16) -> Result<()> {
        let deadline = Instant::now() + START_LIMIT;
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
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

impl Drop for Nginx {
    fn drop(&mut self) {
        // Not `Child::kill`: a killed master leaves its workers behind.
        let pid = i32::try_from(self.process.id()).ok().and_then(Pid::from_raw);
        if pid.is_some_and(|pid| kill_process(pid, Signal::TERM).is_ok()) {
            let _ = self.process.wait();
        }
    }
}

/// The version of the installed nginx, or how to install it.
fn find() -> Result<String> {
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

/// Different free ports: all are held at the same time while they are chosen.
pub(crate) fn free_ports<const COUNT: usize>() -> io::Result<[u16; COUNT]> {
    let mut held = Vec::with_capacity(COUNT);
    for _ in 0..COUNT {
        held.push(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?);
    }
    let mut ports = [0; COUNT];
    for (port, listener) in ports.iter_mut().zip(&held) {
        *port = listener.local_addr()?.port();
    }
    Ok(ports)
}

/// `sendfile`, two workers, connections kept: nginx configured for throughput.
fn configure(folder: &Path, http: &str) -> String {
    let here = folder.display();
    // The master drops to a user that cannot read our folders, if it may.
    let user = if rustix::process::geteuid().is_root() { "user root;" } else { "" };
    format!(
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
{http}
}}
"
    )
}
