//! Keeps binary data off a terminal: there it would show as noise, and could change the terminal's
//! settings.
//!
//! The first bytes decide, before any of them is written. Text is valid UTF-8 without control
//! characters other than those of formatted and coloured text.

use std::error::Error as StdError;
use std::io::{self, Write};

use tidegate::{Error, ErrorKind, Operation};

use crate::standard::OUTPUT;

/// Bytes that decide. Archives, images and executables show that they are binary in their first
/// few; a stream of text that is slower than a line a second is still shown soon.
const HEAD_BYTES: usize = 512;

/// The kind of the error of a refused write. The engine passes it on, and a write to a terminal
/// never fails with it.
const BINARY: io::ErrorKind = io::ErrorKind::InvalidData;

/// A writer to a terminal that refuses binary data. The last bytes of a short text are written by
/// [`Write::flush`].
#[derive(Debug)]
pub(crate) struct TextOnly<W> {
    inner: W,
    /// The first bytes, not written yet; `None` once they have decided.
    head: Option<Vec<u8>>,
}

impl<W: Write> TextOnly<W> {
    pub(crate) fn new(inner: W) -> Self {
        Self { inner, head: Some(Vec::new()) }
    }

    /// Decides, and writes the first bytes. `is_whole` says that no more bytes follow.
    fn decide(&mut self, is_whole: bool) -> io::Result<()> {
        let Some(head) = &self.head else { return Ok(()) };
        if !is_text(head, is_whole) {
            return Err(io::Error::new(BINARY, "the data is binary"));
        }
        self.inner.write_all(head)?;
        self.head = None;
        Ok(())
    }
}

impl<W: Write> Write for TextOnly<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let Some(head) = &mut self.head else { return self.inner.write(bytes) };
        head.extend_from_slice(bytes);
        if head.len() >= HEAD_BYTES {
            self.decide(false)?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.decide(true)?;
        self.inner.flush()
    }
}

/// Whether these first bytes are text. Unless they are the whole, they may end within a character.
fn is_text(bytes: &[u8], is_whole: bool) -> bool {
    let is_cut = |error: std::str::Utf8Error| !is_whole && error.error_len().is_none();
    let is_utf8 = std::str::from_utf8(bytes).map_or_else(is_cut, |_| true);
    // Bell, backspace, tab, line and page ends, and the escape that begins a colour.
    let is_format = |byte: &u8| matches!(byte, 0x07..=0x0d | 0x1b);
    is_utf8 && bytes.iter().all(|byte| is_format(byte) || (*byte >= 0x20 && *byte != 0x7f))
}

/// The error for the user, if a transfer failed because of binary data.
pub(crate) fn explained(error: Error) -> Error {
    let mut cause = StdError::source(&error).filter(|_| error.operation() == Operation::Write);
    while let Some(level) = cause {
        if level.downcast_ref::<io::Error>().is_some_and(|io| io.kind() == BINARY) {
            let message = "it is a terminal, and the data is binary";
            return Error::new(ErrorKind::Invalid, Operation::Write, OUTPUT, message)
                .with_hint("redirect it to a file (> FILE) or a pipe, or pass --force");
        }
        cause = level.source();
    }
    error
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(parts: &[&[u8]]) -> io::Result<Vec<u8>> {
        let mut out = Vec::new();
        let mut guard = TextOnly::new(&mut out);
        parts.iter().try_for_each(|part| guard.write_all(part))?;
        guard.flush()?;
        drop(guard);
        Ok(out)
    }

    #[test]
    fn text_passes_however_it_is_cut() {
        let text = "\u{1b}[1mgrün\u{1b}[0m\t😀\r\n".repeat(200);
        for len in [1, 3, 511, 512, 513, 10_000] {
            let parts: Vec<&[u8]> = text.as_bytes().chunks(len).collect();
            assert_eq!(written(&parts).unwrap(), text.as_bytes(), "{len}");
        }
        assert_eq!(written(&[]).unwrap(), b"");
    }

    #[test]
    fn nothing_of_binary_data_is_written() {
        let late = [&b"text ".repeat(100)[..], b"\0"].concat();
        for bytes in
            [&b"\0"[..], b"\x7fELF", b"PK\x03\x04", b"\xff\xfe", b"gr\xfcn", b"ab\xc3", &late]
        {
            let mut out = Vec::new();
            let mut guard = TextOnly::new(&mut out);
            let outcome = bytes.chunks(2).try_for_each(|part| guard.write_all(part));
            assert!(outcome.and_then(|()| guard.flush()).is_err(), "{bytes:?}");
            drop(guard);
            assert!(out.is_empty(), "{bytes:?}");
        }
    }
}
