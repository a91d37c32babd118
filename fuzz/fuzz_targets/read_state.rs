//! The state of a read as untrusted text: an accepted state is displayed as text that parses to the
//! same state. A read that continues from any state ends and delivers only bytes of the blob.

#![no_main]

use std::time::Duration;

use arbitrary::Arbitrary;
use libfuzzer_sys::fuzz_target;
use tidegate::read::ReadState;
use tidegate::{Client, Error, Location};
use tidegate_core::checksum::{Checksum, ChecksumAlgorithm, Crc, CrcAlgorithm};

const BLOB: &[u8] = b"the tide comes in, the tide goes out; what is built of sand is gone by noon";

#[derive(Arbitrary, Debug)]
enum Input<'a> {
    Text(&'a str),
    /// JSON, to which the target adds the right checksum.
    Json(&'a str),
    State(State),
}

#[derive(Arbitrary, Debug)]
struct State {
    /// The file's version if the flag is true, else this entity tag.
    version: Option<(bool, String)>,
    len_bytes: Option<u64>,
    /// From the start if the flag is true, else from the end. Only a small number can be within the
    /// blob.
    position: (bool, Number),
    limit: Option<Number>,
    decoded: bool,
    against: Option<(u8, Vec<u8>)>,
    decode: bool,
    numbers: [Number; 12],
    checksum: Option<(u8, Vec<u8>, Option<Sum>)>,
}

#[derive(Arbitrary, Clone, Copy, Debug)]
enum Number {
    Small(u8),
    Any(u64),
}

#[derive(Arbitrary, Debug)]
enum Sum {
    Bytes(Vec<u8>),
    Text(String),
}

impl Number {
    fn value(self) -> u64 {
        match self {
            Self::Small(value) => value.into(),
            Self::Any(value) => value,
        }
    }
}

/// A checksum with the algorithm's length; `bytes` is cut or padded to it.
fn checksum(algorithm: u8, bytes: &[u8]) -> String {
    let algorithm = ChecksumAlgorithm::ALL[usize::from(algorithm) % ChecksumAlgorithm::ALL.len()];
    let text = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let fitting = (0..=64).find_map(|len| {
        let mut bytes = bytes.to_vec();
        bytes.resize(len, 7);
        Checksum::from_hex(algorithm, &text(&bytes)).ok()
    });
    fitting.map(|sum| sum.to_string()).unwrap_or_default()
}

impl State {
    fn json(&self, source: &str, stamp: &serde_json::Value) -> String {
        let version = self.version.as_ref().map(|(is_right, text)| {
            if *is_right { stamp.clone() } else { serde_json::json!({ "e_tag": text }) }
        });
        let side = if self.position.0 { "start" } else { "end" };
        let [
            buffer,
            drain,
            hedge,
            attempts,
            least,
            most,
            deadline,
            stall,
            connect,
            header,
            progress,
            after,
        ] = self.numbers.map(Number::value);
        let verify = match &self.against {
            Some((algorithm, bytes)) => {
                serde_json::json!({ "against": checksum(*algorithm, bytes) })
            }
            None => "stored".into(),
        };
        let sum = self.checksum.as_ref().map(|(algorithm, expected, so_far)| {
            let so_far = so_far.as_ref().map(|sum| match sum {
                Sum::Bytes(bytes) => bytes.iter().map(|byte| format!("{byte:02x}")).collect(),
                Sum::Text(text) => text.clone(),
            });
            serde_json::json!({ "expected": checksum(*algorithm, expected), "so_far": so_far })
        });
        serde_json::json!({
            "source": source,
            "version": version,
            "len_bytes": self.len_bytes,
            "position": { side: self.position.1.value() },
            "limit": self.limit.map(Number::value),
            "decoded": self.decoded,
            "options": {
                "verify": verify,
                "decode": self.decode,
                "buffer_bytes": buffer,
                "drain_bytes_max": drain,
                "hedge_ms": (hedge > 0).then_some(hedge),
                "retry": {
                    "attempts_max": attempts % 8,
                    "delay_ms_min": least,
                    "delay_ms_max": most,
                    "deadline_ms": (deadline > 0).then_some(deadline),
                    "stall_ms_max": stall,
                    "connect_ms_max": connect,
                    "header_ms_max": header,
                    "progress_bytes_min": progress,
                    "retry_after_ms_max": after,
                },
            },
            "checksum": sum,
        })
        .to_string()
    }
}

fn sealed(json: &str) -> String {
    let crc = Crc::of(CrcAlgorithm::Crc32c, json.as_bytes()).to_checksum().hex();
    format!("tidegate-read-1 {crc} {json}")
}

/// The file that every input reads, and its client.
struct Bed {
    runtime: tokio::runtime::Runtime,
    _folder: tempfile::TempDir,
    client: Client,
    location: Location,
    /// The version of the file, as the format has it.
    stamp: serde_json::Value,
}

impl Bed {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("blob");
        std::fs::write(&path, BLOB).unwrap();
        let client = Client::default();
        let location = client.locate(path.to_str().unwrap()).unwrap();
        // The paused clock skips waits.
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .start_paused(true)
            .build()
            .unwrap();
        let stamp = runtime.block_on(async {
            let mut channel = client.read(&location).open().unwrap();
            channel.next().await.unwrap();
            serde_json::to_value(channel.capture().unwrap().version().unwrap()).unwrap()
        });
        Self { runtime, _folder: folder, client, location, stamp }
    }

    fn go_on(&self, state: &ReadState) {
        let Ok(mut channel) = self.client.restore(&self.location, state).open() else {
            return;
        };
        let delivered: Result<usize, Error> = self.runtime.block_on(async {
            let read = async {
                let mut delivered = 0;
                while let Some(piece) = channel.next().await? {
                    assert!(BLOB.windows(piece.len()).any(|window| window == &piece[..]));
                    delivered += piece.len();
                }
                Ok(delivered)
            };
            // The state chooses the delay between retries, but retries end.
            let year = Duration::from_secs(1 << 40);
            tokio::time::timeout(year, read).await.expect("it ends")
        });
        match delivered {
            Ok(delivered) => assert!(delivered <= BLOB.len()),
            Err(error) => assert!(!error.chain().is_empty()),
        }
    }
}

thread_local! {
    static BED: Bed = Bed::new();
}

fuzz_target!(|input: Input| {
    BED.with(|bed| {
        let text = match &input {
            Input::Text(text) => (*text).to_owned(),
            Input::Json(json) => sealed(json),
            Input::State(state) => sealed(&state.json(bed.location.display(), &bed.stamp)),
        };
        match text.parse::<ReadState>() {
            Ok(state) => {
                let shown = state.to_string();
                assert_eq!(shown.parse::<ReadState>().ok().as_ref(), Some(&state), "{shown}");
                bed.go_on(&state);
            }
            Err(error) => assert!(!error.to_string().is_empty()),
        }
    });
});
