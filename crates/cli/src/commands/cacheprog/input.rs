//! [`Input`]: the requests on standard input. A body is a line of its own, a JSON string in base 64.
//! It is decoded into a file and hashed while it is read, so no body is in memory.

use std::io::{self, BufRead, Write as _};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use tempfile::NamedTempFile;
use tidegate_core::Digest;
use tidegate_core::checksum::Checksummer;
use tidegate_core::digest::DigestFunction;

use super::files::Files;
use super::message::Request;

/// A request has two hashes and some numbers.
const LINE_BYTES_MAX: u64 = 64 << 10;
/// Characters of base 64 that are decoded at once; a multiple of 4.
const TEXT_BYTES: usize = 64 << 10;

/// The body of a request.
#[derive(Debug)]
pub(super) struct ReceivedBody {
    pub(super) file: NamedTempFile,
    pub(super) digest: Digest,
}

/// What arrived.
#[derive(Debug)]
pub(super) struct Received {
    pub(super) request: Request,
    /// For `put`; an error if the file could not be written.
    pub(super) body: Option<io::Result<ReceivedBody>>,
}

/// The requests of a reader.
#[derive(Debug)]
pub(super) struct Input<R> {
    reader: R,
    files: Files,
}

impl<R: BufRead> Input<R> {
    pub(super) fn new(reader: R, files: Files) -> Self {
        Self { reader, files }
    }

    /// The next request; `None` at the end. Fails if the bytes are not the protocol.
    pub(super) fn next(&mut self) -> io::Result<Option<Received>> {
        let mut line = Vec::new();
        loop {
            line.clear();
            let mut limited = io::Read::take(&mut self.reader, LINE_BYTES_MAX);
            if limited.read_until(b'\n', &mut line)? == 0 {
                return Ok(None);
            }
            if !line.trim_ascii().is_empty() {
                break;
            }
        }
        let request: Request = serde_json::from_slice(&line)?;
        let body = match request.command.as_str() {
            "put" => Some(self.body(request.body_size)?),
            _ => None,
        };
        Ok(Some(Received { request, body }))
    }

    /// Reads a body. The outer error ends the protocol; the inner one is that of its file.
    fn body(&mut self, size: u64) -> io::Result<io::Result<ReceivedBody>> {
        let mut writer = BodyWriter::new(&self.files);
        if size > 0 {
            self.quote()?;
            let mut text = Vec::with_capacity(TEXT_BYTES);
            loop {
                let is_end = self.text(&mut text)?;
                let bytes = STANDARD.decode(&text).map_err(invalid)?;
                writer.write(&bytes);
                if is_end {
                    break;
                }
            }
        }
        if writer.len != size {
            return Err(invalid(format!("expected a body of {size} bytes, got {}", writer.len)));
        }
        Ok(writer.finish())
    }

    /// Skips white space and the quote before a body.
    fn quote(&mut self) -> io::Result<()> {
        loop {
            let bytes = self.reader.fill_buf()?;
            let Some(first) = bytes.first().copied() else {
                return Err(io::ErrorKind::UnexpectedEof.into());
            };
            self.reader.consume(1);
            match first {
                b'"' => return Ok(()),
                one if one.is_ascii_whitespace() => {}
                _ => return Err(invalid("expected a JSON string")),
            }
        }
    }

    /// The next [`TEXT_BYTES`] characters, or those before the quote. Returns whether it is the end.
    fn text(&mut self, text: &mut Vec<u8>) -> io::Result<bool> {
        text.clear();
        while text.len() < TEXT_BYTES {
            let bytes = self.reader.fill_buf()?;
            if bytes.is_empty() {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            let bytes = &bytes[..bytes.len().min(TEXT_BYTES - text.len())];
            let quote = bytes.iter().position(|one| *one == b'"');
            text.extend_from_slice(&bytes[..quote.unwrap_or(bytes.len())]);
            let used = quote.map_or(bytes.len(), |at| at + 1);
            self.reader.consume(used);
            if quote.is_some() {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

fn invalid(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, error)
}

/// Writes a body and hashes it. After a failure of the file, the rest is only counted.
struct BodyWriter {
    file: io::Result<NamedTempFile>,
    hash: Option<Checksummer>,
    len: u64,
}

impl BodyWriter {
    fn new(files: &Files) -> Self {
        let hash = Checksummer::new(DigestFunction::Sha256.algorithm()).ok();
        Self { file: files.begin(), hash, len: 0 }
    }

    fn write(&mut self, bytes: &[u8]) {
        self.len += bytes.len() as u64;
        if let Some(hash) = &mut self.hash {
            hash.update(bytes);
        }
        if let Ok(file) = &mut self.file
            && let Err(error) = file.write_all(bytes)
        {
            self.file = Err(error);
        }
    }

    fn finish(self) -> io::Result<ReceivedBody> {
        let file = self.file?;
        let hash = self.hash.map(Checksummer::finish);
        let hash = hash.and_then(|hash| hash.as_bytes().try_into().ok());
        let hash = hash.ok_or_else(|| invalid("SHA-256 cannot be computed"))?;
        let digest = Digest { function: DigestFunction::Sha256, hash, len: self.len };
        Ok(ReceivedBody { file, digest })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(body: &[u8]) -> String {
        let head =
            format!(r#"{{"ID":1,"Command":"put","ActionID":"AQ==","BodySize":{}}}"#, body.len());
        let body = if body.is_empty() {
            String::new()
        } else {
            format!("\"{}\"\n", STANDARD.encode(body))
        };
        format!("{head}\n\n{body}")
    }

    #[test]
    fn bodies_of_all_lengths_become_files() {
        let folder = tempfile::tempdir().unwrap();
        let files = Files::new(folder.path());
        let lengths = [0, 1, 2, 3, 4, 48 << 10, (48 << 10) + 1, 200_000];
        let bodies = lengths.map(|len| (0..len).map(|at| b"abcdefg"[at % 7]).collect::<Vec<u8>>());
        let mut text: String = bodies.iter().map(|body| put(body)).collect();
        text.push_str("{\"ID\":2,\"Command\":\"close\"}\n");
        for buffer in [1, 7, 4096] {
            let reader = io::BufReader::with_capacity(buffer, text.as_bytes());
            let mut input = Input::new(reader, files.clone());
            for body in &bodies {
                let received = input.next().unwrap().unwrap();
                let read = received.body.unwrap().unwrap();
                assert_eq!(read.digest, Digest::of(DigestFunction::Sha256, body));
                assert!(std::fs::read(read.file.path()).unwrap() == *body);
            }
            assert_eq!(input.next().unwrap().unwrap().request.command, "close");
            assert!(input.next().unwrap().is_none());
        }
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    #[test]
    fn what_is_not_the_protocol_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let files = Files::new(folder.path());
        let head = r#"{"ID":1,"Command":"put","BodySize":3}"#;
        for wrong in [
            "no JSON\n".to_owned(),
            head.to_owned(),
            format!("{head}\n"),
            format!("{head}\nYWJj\n"),
            format!("{head}\n\"YWJj"),
            format!("{head}\n\"YWJjZA==\"\n"),
            format!("{head}\n\"YW!j\"\n"),
            "x".repeat(100_000),
        ] {
            let mut input = Input::new(wrong.as_bytes(), files.clone());
            assert!(input.next().is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_file_that_cannot_be_written_fails_its_request_only() {
        let files = Files::new(std::path::Path::new("/nonexistent/folder"));
        let text = [put(&vec![1; 70_000]), put(&[2; 5])].concat();
        let mut input = Input::new(text.as_bytes(), files);
        for _ in 0..2 {
            assert!(input.next().unwrap().unwrap().body.unwrap().is_err());
        }
        assert!(input.next().unwrap().is_none());
    }
}
