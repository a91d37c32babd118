//! [`OtherClient`]: a bucket of a real server as a place for the suites, with another client as the
//! witness.
//!
//! The other client stores and reads blobs by the service's own SDK, so that a suite does not compare
//! the remote with itself. It is a program that reads one JSON object a line and writes one a line:
//!
//! | request | response | meaning |
//! |---|---|---|
//! | `{"put": NAME, "file": PATH}` | `{}` | stores the file as the blob NAME |
//! | `{"get": NAME, "file": PATH}` | `{"found": true}` | writes the blob to the file |
//! | `{"leftovers": true}` | `{"leftovers": [...]}` | names unfinished uploads |
//!
//! It ends when its standard input ends. A client that fails ends the run of the suites.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::{Mutex, PoisonError};

use async_trait::async_trait;
use bytes::Bytes;
use serde_json::{Value, json};
use tidegate::remote::RemoteOptions;
use tidegate::{Client, ClientOptions, Location};
use tidegate_conformance::remote::Place;

/// A bucket, and a process that reads and writes it.
pub(crate) struct OtherClient {
    client: Client,
    base: String,
    scratch: tempfile::NamedTempFile,
    process: Mutex<Pipes>,
}

struct Pipes {
    child: Child,
    requests: ChildStdin,
    responses: BufReader<ChildStdout>,
}

impl Drop for Pipes {
    fn drop(&mut self) {
        // A failure means that it has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl OtherClient {
    /// Starts the program with these arguments.
    pub(crate) fn start(
        base: &str,
        endpoint: Option<String>,
        program: &[String],
    ) -> Result<Self, String> {
        let [program, arguments @ ..] = program else { return Err("no program is named".into()) };
        let shown = |error: std::io::Error| format!("{program}: {error}");
        let mut child = Command::new(program)
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(shown)?;
        let (Some(requests), Some(responses)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(format!("{program}: its pipes are missing"));
        };
        let responses = BufReader::new(responses);
        let remote = RemoteOptions { endpoint, ..RemoteOptions::default() };
        let place = Self {
            client: Client::new(ClientOptions::default().remote(remote)),
            base: base.to_owned(),
            scratch: tempfile::NamedTempFile::new().map_err(shown)?,
            process: Mutex::new(Pipes { child, requests, responses }),
        };
        // It may make the bucket when it starts.
        place.ask(&json!({ "leftovers": true }))?;
        Ok(place)
    }

    /// The response to one request.
    fn ask(&self, request: &Value) -> Result<Value, String> {
        let mut pipes = self.process.lock().unwrap_or_else(PoisonError::into_inner);
        let mut line = String::new();
        let sent = writeln!(pipes.requests, "{request}");
        sent.and_then(|()| pipes.responses.read_line(&mut line))
            .map_err(|error| format!("the other client, {request}: {error}"))?;
        serde_json::from_str(&line)
            .map_err(|error| format!("the other client, {request}: {line:?}: {error}"))
    }

    /// The same, while other tasks go on.
    fn asked(&self, request: &Value) -> Value {
        match tokio::task::block_in_place(|| self.ask(request)) {
            Ok(response) => response,
            Err(error) => panic!("{error}"),
        }
    }
}

/// # Panics
///
/// If the program fails, or if a name makes no URL.
#[async_trait]
impl Place for OtherClient {
    fn at(&self, name: &str) -> Location {
        match self.client.locate_target(&format!("{}/{name}", self.base)) {
            Ok(location) => location,
            Err(error) => panic!("{}", error.chain()),
        }
    }

    async fn put(&self, name: &str, bytes: Bytes) {
        if let Err(error) = std::fs::write(&self.scratch, &bytes) {
            panic!("{}: {error}", self.scratch.path().display());
        }
        self.asked(&json!({ "put": name, "file": self.scratch.path() }));
    }

    async fn get(&self, name: &str) -> Option<Bytes> {
        let response = self.asked(&json!({ "get": name, "file": self.scratch.path() }));
        if response["found"] != json!(true) {
            return None;
        }
        match std::fs::read(&self.scratch) {
            Ok(bytes) => Some(bytes.into()),
            Err(error) => panic!("{}: {error}", self.scratch.path().display()),
        }
    }

    async fn leftovers(&self) -> Vec<String> {
        let response = self.asked(&json!({ "leftovers": true }));
        let names = response["leftovers"].as_array().into_iter().flatten();
        names.map(|name| name.as_str().unwrap_or_default().to_owned()).collect()
    }
}
