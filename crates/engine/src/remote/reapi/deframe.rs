//! Takes the data out of a stream of `google.bytestream.ReadResponse` messages as it arrives.
//!
//! Why not through the generated client: that gathers each message (some servers send 4 MiB) before
//! it hands it on, in memory that nobody has taken from the budget, and copies it once more. Here
//! every piece of data is a part of the frame that it arrived in.
//!
//! A stream of messages is (gRPC over HTTP/2, "Length-Prefixed-Message"): a flag of one byte, a
//! length of four, and so many bytes of message, in which data is field 10 and there is nothing
//! else; fields that a later version adds are skipped.
//!
//! Invariants: what comes out does not depend on how the stream was cut into frames; nothing is
//! allocated, whatever lengths are claimed.

use bytes::{Buf, Bytes};

/// The stream is not one of such messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum DeframeError {
    #[error("expected messages without compression, got flag {0}")]
    Compressed(u8),
    #[error("expected a field, got {0:#x}")]
    Field(u64),
    #[error("expected a number of at most 64 bits")]
    Varint,
    #[error("expected a field of at most {left} bytes, got {len}")]
    Overlong { len: u64, left: u64 },
    #[error("expected the data once in a message")]
    Repeated,
}

/// Field 10, of wire type 2: bytes after their length.
const DATA: u64 = 10 << 3 | 2;

#[derive(Clone, Copy, Debug)]
enum State {
    /// Before a message; so many bytes of its flag and length were read.
    Prefix(u8),
    /// In a message, before a field, or in its number.
    Key(Varint),
    /// In the length of a field, or a number that is skipped where `key` is no such field.
    Length { key: u64, number: Varint },
    /// In a field; `data` says whether it is what is sought.
    Value { left: u64, data: bool },
}

/// A number that may be spread over frames (protobuf, "Base 128 Varints").
#[derive(Clone, Copy, Debug, Default)]
struct Varint {
    value: u64,
    bits: u32,
}

impl Varint {
    /// Adds a byte; says whether it was the last.
    fn push(&mut self, byte: u8) -> Result<bool, DeframeError> {
        let part = u64::from(byte & 0x7f);
        if self.bits > 63 || (self.bits == 63 && part > 1) {
            return Err(DeframeError::Varint);
        }
        self.value |= part << self.bits;
        self.bits += 7;
        Ok(byte & 0x80 == 0)
    }
}

/// See the module docs.
#[derive(Debug)]
pub(super) struct Deframer {
    state: State,
    /// Of the current message's length.
    length: u32,
    /// Bytes of the current message that are still to come.
    left: u64,
    /// The current message's data came.
    seen: bool,
}

impl Deframer {
    pub(super) fn new() -> Self {
        Self { state: State::Prefix(0), length: 0, left: 0, seen: false }
    }

    /// The next data in `frame`, never empty, which is taken from it; `None` when it is used up.
    pub(super) fn next(&mut self, frame: &mut Bytes) -> Result<Option<Bytes>, DeframeError> {
        loop {
            if let State::Value { left, data } = &mut self.state {
                if *left > 0 && frame.is_empty() {
                    return Ok(None);
                }
                let here = usize::try_from(*left).unwrap_or(usize::MAX).min(frame.len());
                let piece = frame.split_to(here);
                *left -= here as u64;
                self.left -= here as u64;
                let (ended, wanted) = (*left == 0, *data && here > 0);
                if ended {
                    self.state = self.after_field();
                }
                if wanted {
                    return Ok(Some(piece));
                }
                continue;
            }
            if frame.is_empty() {
                return Ok(None);
            }
            self.state = self.step(frame.get_u8())?;
        }
    }

    /// Whether the stream may end here.
    pub(super) fn is_between_messages(&self) -> bool {
        matches!(self.state, State::Prefix(0))
    }

    /// Takes one byte that is not in a field.
    fn step(&mut self, byte: u8) -> Result<State, DeframeError> {
        if !matches!(self.state, State::Prefix(_)) {
            // States in a message are left as soon as it has no bytes left.
            self.left = self.left.saturating_sub(1);
        }
        match self.state {
            State::Prefix(0) if byte != 0 => Err(DeframeError::Compressed(byte)),
            State::Prefix(have @ 0..=3) => {
                self.length = if have == 0 { 0 } else { self.length << 8 | u32::from(byte) };
                Ok(State::Prefix(have + 1))
            }
            State::Prefix(_) => {
                self.left = u64::from(self.length << 8 | u32::from(byte));
                self.seen = false;
                Ok(self.after_field())
            }
            State::Key(mut number) => {
                if !number.push(byte)? {
                    return self.within(State::Key(number));
                }
                self.field(number.value)
            }
            State::Length { key, mut number } => {
                if !number.push(byte)? {
                    return self.within(State::Length { key, number });
                }
                if wire_type(key) == 0 {
                    return Ok(self.after_field());
                }
                self.value(number.value, key == DATA)
            }
            State::Value { .. } => Ok(self.state),
        }
    }

    fn field(&mut self, key: u64) -> Result<State, DeframeError> {
        if key >> 3 == 0 {
            return Err(DeframeError::Field(key));
        }
        if key == DATA && std::mem::replace(&mut self.seen, true) {
            // The last would count, but the first is handed on already.
            return Err(DeframeError::Repeated);
        }
        match wire_type(key) {
            0 | 2 => self.within(State::Length { key, number: Varint::default() }),
            1 => self.value(8, false),
            5 => self.value(4, false),
            _ => Err(DeframeError::Field(key)),
        }
    }

    fn value(&self, len: u64, data: bool) -> Result<State, DeframeError> {
        if len > self.left {
            return Err(DeframeError::Overlong { len, left: self.left });
        }
        Ok(State::Value { left: len, data })
    }

    /// A state that needs one more byte of the message.
    fn within(&self, state: State) -> Result<State, DeframeError> {
        if self.left == 0 {
            return Err(DeframeError::Overlong { len: 1, left: 0 });
        }
        Ok(state)
    }

    fn after_field(&self) -> State {
        if self.left == 0 { State::Prefix(0) } else { State::Key(Varint::default()) }
    }
}

/// How a field's value is written: 0 as a number, 1 in 8 bytes, 2 after its length, 5 in 4 bytes.
fn wire_type(key: u64) -> u64 {
    key & 7
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use prost::Message as _;
    use tidegate_reapi::bytestream::ReadResponse;

    use super::*;

    fn framed(message: &[u8]) -> Vec<u8> {
        let mut bytes = vec![0];
        bytes.extend_from_slice(&u32::try_from(message.len()).unwrap().to_be_bytes());
        bytes.extend_from_slice(message);
        bytes
    }

    fn take(deframer: &mut Deframer, frames: &[&[u8]]) -> Result<Vec<u8>, DeframeError> {
        let mut data = Vec::new();
        for frame in frames {
            let mut frame = Bytes::copy_from_slice(frame);
            while let Some(piece) = deframer.next(&mut frame)? {
                assert!(!piece.is_empty());
                data.extend_from_slice(&piece);
            }
        }
        Ok(data)
    }

    proptest! {
        #[test]
        fn data_does_not_depend_on_frames(
            messages in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..300), 0..6),
            unknown in prop::collection::vec(0_usize..4, 6),
            cuts in prop::collection::vec(0_usize..2_000, 0..12),
        ) {
            let mut stream = Vec::new();
            for (message, unknown) in messages.iter().zip(unknown) {
                // Fields of a later version: a number, 8 bytes, text, 4 bytes.
                let mut encoded: Vec<u8> = match unknown {
                    0 => vec![],
                    1 => vec![0x08, 0xff, 0x01, 0x11, 1, 2, 3, 4, 5, 6, 7, 8],
                    2 => vec![0x1a, 3, b'a', b'b', b'c'],
                    _ => vec![0x25, 1, 2, 3, 4],
                };
                let data = Bytes::copy_from_slice(message);
                encoded.extend(ReadResponse { data }.encode_to_vec());
                stream.extend(framed(&encoded));
            }
            let mut cuts: Vec<_> = cuts.into_iter().map(|cut| cut.min(stream.len())).collect();
            cuts.extend([0, stream.len()]);
            cuts.sort_unstable();
            let frames: Vec<_> = cuts.windows(2).map(|pair| &stream[pair[0]..pair[1]]).collect();
            let mut deframer = Deframer::new();
            prop_assert_eq!(take(&mut deframer, &frames).unwrap(), messages.concat());
            prop_assert!(deframer.is_between_messages());
        }

        #[test]
        fn noise_is_refused_or_read_but_never_a_panic(
            noise in prop::collection::vec(any::<u8>(), 0..200),
        ) {
            let mut whole = Vec::from([0, 0, 0, 1, 0]);
            whole.extend(noise);
            let _ = take(&mut Deframer::new(), &[&whole]);
        }
    }

    #[test]
    fn what_is_no_such_message_is_refused() {
        for (message, error) in [
            (&[0x52, 9, 1][..], DeframeError::Overlong { len: 9, left: 1 }),
            (&[0x52, 1, 1, 0x52, 1, 2], DeframeError::Repeated),
            (&[0x02, 0], DeframeError::Field(2)),
            (&[0x0b, 0], DeframeError::Field(0x0b)),
            (&[0x52], DeframeError::Overlong { len: 1, left: 0 }),
            (
                &[0x08, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2],
                DeframeError::Varint,
            ),
            (&[0x11, 1], DeframeError::Overlong { len: 8, left: 1 }),
        ] {
            let stream = framed(message);
            assert_eq!(take(&mut Deframer::new(), &[&stream]), Err(error), "{message:?}");
        }
        let compressed = take(&mut Deframer::new(), &[&[1, 0, 0, 0, 0]]);
        assert_eq!(compressed, Err(DeframeError::Compressed(1)));
    }

    #[test]
    fn an_end_within_a_message_shows() {
        let stream = framed(&ReadResponse { data: Bytes::from_static(b"abc") }.encode_to_vec());
        for end in 1..stream.len() {
            let mut deframer = Deframer::new();
            take(&mut deframer, &[&stream[..end]]).unwrap();
            assert!(!deframer.is_between_messages(), "{end}");
        }
    }
}
