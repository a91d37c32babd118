//! `cacheprog`: the protocol of the `go` command, with a folder and with a cache over HTTP.

use std::convert::Infallible;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tidegate::Budget;
use tidegate_core::Digest;
use tidegate_core::digest::DigestFunction;
use tidegate_server::cache_client::CacheClient;
use tidegate_server::serve::{Caller, HttpCache, HttpLimits, Tenant};
use tidegate_server::store::{LocalStore, StoreOptions};
use tokio::net::TcpListener;
use tokio::runtime::Runtime;

/// "body" in base 64, and an output that is not its hash.
const BODY: &str = "Ym9keQ==";
const OUTPUT: &str = "b3V0cHV0";
const ACTION: &str = "YWN0aW9u";

/// The program, as Go runs it.
struct Program {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Program {
    fn start(folder: &Path, place: &str) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_tidegate"))
            .args(["cacheprog", place])
            .current_dir(folder)
            .env("TMPDIR", folder)
            .env("HOME", folder)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let (input, output) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        let mut program = Self { child, input, output: BufReader::new(output) };
        let greeting = program.receive();
        assert_eq!(greeting, json!({"ID": 0, "KnownCommands": ["get", "put", "close"]}));
        program
    }

    fn send(&mut self, request: &Value) {
        writeln!(self.input, "{request}\n").unwrap();
    }

    fn receive(&mut self) -> Value {
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap()
    }

    fn get(&mut self) -> Value {
        self.send(&json!({"ID": 1, "Command": "get", "ActionID": ACTION}));
        self.receive()
    }

    /// Returns the path of the body.
    fn put(&mut self) -> String {
        let request = json!({"ID": 2, "Command": "put", "ActionID": ACTION, "OutputID": OUTPUT, "BodySize": 4});
        self.send(&request);
        writeln!(self.input, "\"{BODY}\"").unwrap();
        let response = self.receive();
        assert_eq!(response["ID"], 2);
        response["DiskPath"].as_str().unwrap().to_owned()
    }

    /// Returns what it wrote to standard error.
    fn close(mut self) -> String {
        self.send(&json!({"ID": 3, "Command": "close"}));
        assert_eq!(self.receive(), json!({"ID": 3}));
        let Self { child, input, output } = self;
        drop((input, output));
        let ended = child.wait_with_output().unwrap();
        assert!(ended.status.success(), "{ended:?}");
        String::from_utf8(ended.stderr).unwrap()
    }
}

/// A cache over HTTP on a free port of this machine.
struct Server {
    address: SocketAddr,
    runtime: Runtime,
}

impl Server {
    fn start(folder: &Path) -> Self {
        let runtime = Runtime::new().unwrap();
        let store = LocalStore::open_blocking(&folder.join("served"), StoreOptions::new(512 << 20));
        let cache = HttpCache::new(store.unwrap(), Budget::default(), HttpLimits::default());
        let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
        let address = listener.local_addr().unwrap();
        runtime.spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let cache = cache.clone();
                let service = service_fn(move |request| {
                    let cache = cache.clone();
                    let caller = Caller::anyone(Tenant::default());
                    async move { Ok::<_, Infallible>(cache.handle(request, caller).await) }
                });
                // A client that goes away ends its connection with an error.
                tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(stream), service));
            }
        });
        Self { address, runtime }
    }

    fn has_blob(&self, digest: &Digest) -> bool {
        let client = CacheClient::new(&format!("http://{}", self.address), None).unwrap();
        self.runtime.block_on(client.has_blob(digest)).unwrap()
    }
}

/// Whether a response is a hit whose file has the body.
fn is_hit(response: &Value) -> bool {
    let path = response["DiskPath"].as_str().unwrap_or_default();
    response["OutputID"] == OUTPUT
        && response["Size"] == 4
        && response["Time"].as_str().is_some_and(|time| time.ends_with('Z'))
        && std::fs::read(path).is_ok_and(|body| body == b"body")
}

#[test]
fn a_folder_keeps_outputs() {
    let folder = tempfile::tempdir().unwrap();
    let mut program = Program::start(folder.path(), "cache");
    assert_eq!(program.get(), json!({"ID": 1, "Miss": true}));
    let path = program.put();
    assert_eq!(std::fs::read(&path).unwrap(), b"body");
    assert!(Path::new(&path).is_absolute());
    assert_eq!(program.close(), "");

    let mut program = Program::start(folder.path(), "cache");
    assert!(is_hit(&program.get()));
    // The store has it, too.
    std::fs::remove_file(&path).unwrap();
    assert!(is_hit(&program.get()));
    program.send(&json!({"ID": 9, "Command": "unknown"}));
    assert!(program.receive()["Err"].is_string());
    assert_eq!(program.close(), "");
}

/// A second `go` command finds what the first one stored, while that has the store.
#[test]
fn two_programs_share_a_folder() {
    let folder = tempfile::tempdir().unwrap();
    let mut first = Program::start(folder.path(), "cache");
    first.put();
    // The entry is a file before the next request of the same action is answered.
    while !is_hit(&first.get()) {}
    let mut second = Program::start(folder.path(), "cache");
    assert!(is_hit(&second.get()));
    second.put();
    assert!(second.close().contains("the store is in use"));
    assert!(is_hit(&first.get()));
    assert_eq!(first.close(), "");
}

/// The end of the input is an end, too: Go was killed.
#[test]
fn the_end_of_the_input_ends_it() {
    let folder = tempfile::tempdir().unwrap();
    let mut program = Program::start(folder.path(), "cache");
    program.put();
    let Program { child, input, output } = program;
    drop(input);
    assert!(child.wait_with_output().unwrap().status.success());
    drop(output);
    let mut program = Program::start(folder.path(), "cache");
    assert!(is_hit(&program.get()), "what was in flight is stored");
    program.close();
}

#[test]
fn a_server_keeps_outputs() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path());
    let place = format!("http://user:secret@{}/go", server.address);
    let mut program = Program::start(folder.path(), &place);
    assert_eq!(program.get(), json!({"ID": 1, "Miss": true}));
    program.put();
    assert_eq!(program.close(), "");
    let mut program = Program::start(folder.path(), &place);
    let hit = program.get();
    assert!(is_hit(&hit));
    assert_eq!(program.close(), "");
    let path = hit["DiskPath"].as_str().unwrap();
    assert!(!Path::new(path).exists(), "the files end with the program");
    assert!(server.has_blob(&Digest::of(DigestFunction::Sha256, b"body")));
    // The path of the URL keeps projects apart.
    let mut program = Program::start(folder.path(), &format!("http://{}/other", server.address));
    assert_eq!(program.get(), json!({"ID": 1, "Miss": true}));
    program.close();
}

/// A build goes on without its cache.
#[test]
fn a_server_that_is_gone_is_a_miss() {
    let folder = tempfile::tempdir().unwrap();
    let address = Server::start(folder.path()).address;
    let mut program = Program::start(folder.path(), &format!("http://user:secret@{address}"));
    for _ in 0..5 {
        assert_eq!(program.get(), json!({"ID": 1, "Miss": true}));
    }
    let path = program.put();
    assert_eq!(std::fs::read(path).unwrap(), b"body");
    let stderr = program.close();
    assert_eq!(stderr.matches("the build goes on").count(), 1, "{stderr}");
    assert!(!stderr.contains("secret"), "{stderr}");
}

#[test]
fn a_place_that_is_none_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("file"), "").unwrap();
    for place in ["ftp://user:secret@host", "http://", "file"] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tidegate"));
        let ended = command
            .args(["cacheprog", place])
            .current_dir(folder.path())
            .stdin(Stdio::null())
            .output()
            .unwrap();
        assert!(!ended.status.success() && ended.stdout.is_empty(), "{place}: {ended:?}");
        let stderr = String::from_utf8(ended.stderr).unwrap();
        assert!(!stderr.is_empty() && !stderr.contains("secret"), "{stderr}");
    }
}
