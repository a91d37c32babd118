//! [`Deframer`]: takes the data out of a stream of `google.bytestream` messages as it arrives.
//!
//! Why not through generated code: that gathers each message (some peers send 4 MiB) before it
//! hands it on, in memory that nobody has taken from the budget, and copies it once more. Here every
//! piece of data is a part of the frame that it arrived in.
//!
//! A stream of messages is (gRPC over HTTP/2, "Length-Prefixed-Message"): a flag of one byte, a
//! length of four, and so many bytes of message. Data is field 10, in `ReadResponse` and in
//! `WriteRequest`. A client skips the other fields, which only a later version adds. A server keeps
//! them, up to a limit: they name the blob and the offset, and may stand after the data.
//!
//! Invariants: what comes out does not depend on how the stream was cut into frames; nothing is
//! allocated for lengths that are only claimed.

use bytes::{Buf, Bytes};

use crate::error::{Error, Result};

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
    /// After a message whose end is not yet said.
    End,
}

/// A number that may be spread over frames (protobuf, "Base 128 Varints").
#[derive(Clone, Copy, Debug, Default)]
struct Varint {
    value: u64,
    bits: u32,
}

impl Varint {
    /// Adds a byte; says whether it was the last.
    fn push(&mut self, byte: u8) -> Result<bool> {
        let part = u64::from(byte & 0x7f);
        if self.bits > 63 || (self.bits == 63 && part > 1) {
            return Err(Error::Varint);
        }
        self.value |= part << self.bits;
        self.bits += 7;
        Ok(byte & 0x80 == 0)
    }
}

/// What comes next of a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part {
    /// Data of the current message, never empty.
    Data(Bytes),
    /// The current message is complete.
    End,
}

/// The fields besides the data of the current message.
#[derive(Debug)]
struct Fields {
    bytes_max: usize,
    bytes: Vec<u8>,
    /// Where the field that arrives begins.
    start: usize,
}

/// See the module docs.
#[derive(Debug)]
pub struct Deframer {
    state: State,
    /// Of the current message's length.
    length: u32,
    /// Bytes of the current message that are still to come.
    left: u64,
    /// The current message's data came.
    seen: bool,
    fields: Option<Fields>,
}

impl Default for Deframer {
    fn default() -> Self {
        Self::new()
    }
}

impl Deframer {
    /// Skips all fields but the data.
    pub fn new() -> Self {
        Self { state: State::Prefix(0), length: 0, left: 0, seen: false, fields: None }
    }

    /// Keeps the other fields of each message; more than so many bytes are an error.
    pub fn keeping_fields(bytes_max: usize) -> Self {
        let fields = Fields { bytes_max, bytes: Vec::new(), start: 0 };
        Self { fields: Some(fields), ..Self::new() }
    }

    /// The other fields of the current message, encoded: all of them after [`Part::End`], and those
    /// that stand before the data after [`Part::Data`]. Empty where they are not kept.
    pub fn fields(&self) -> &[u8] {
        self.fields.as_ref().map_or(&[], |fields| &fields.bytes)
    }

    /// The next data in `frame`, never empty, which is taken from it; `None` when it is used up.
    pub fn next(&mut self, frame: &mut Bytes) -> Result<Option<Bytes>> {
        loop {
            match self.next_part(frame)? {
                Some(Part::Data(piece)) => return Ok(Some(piece)),
                Some(Part::End) => {}
                None => return Ok(None),
            }
        }
    }

    /// The next part of the stream, whose bytes are taken from `frame`; `None` when it is used up.
    ///
    /// After an error the stream cannot be read on.
    pub fn next_part(&mut self, frame: &mut Bytes) -> Result<Option<Part>> {
        loop {
            if let State::End = self.state {
                self.state = State::Prefix(0);
                return Ok(Some(Part::End));
            }
            if let State::Value { left, data } = self.state {
                if left > 0 && frame.is_empty() {
                    return Ok(None);
                }
                let here = usize::try_from(left).unwrap_or(usize::MAX).min(frame.len());
                let piece = frame.split_to(here);
                self.left -= here as u64;
                let left = left - here as u64;
                if !data {
                    self.keep(&piece);
                }
                self.state =
                    if left == 0 { self.after_field() } else { State::Value { left, data } };
                if data && here > 0 {
                    return Ok(Some(Part::Data(piece)));
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
    pub fn is_between_messages(&self) -> bool {
        matches!(self.state, State::Prefix(0) | State::End)
    }

    /// Takes one byte that is not in a field.
    fn step(&mut self, byte: u8) -> Result<State> {
        if !matches!(self.state, State::Prefix(_)) {
            // States in a message are left as soon as it has no bytes left.
            self.left = self.left.saturating_sub(1);
            self.keep(&[byte]);
        }
        match self.state {
            State::Prefix(0) if byte != 0 => Err(Error::Compressed(byte)),
            State::Prefix(have @ 0..=3) => {
                self.length = if have == 0 { 0 } else { self.length << 8 | u32::from(byte) };
                Ok(State::Prefix(have + 1))
            }
            State::Prefix(_) => {
                self.left = u64::from(self.length << 8 | u32::from(byte));
                self.seen = false;
                if let Some(fields) = &mut self.fields {
                    fields.bytes.clear();
                }
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
                    self.check_fields(0)?;
                    return Ok(self.after_field());
                }
                if key == DATA {
                    self.drop_field();
                }
                self.value(number.value, key == DATA)
            }
            State::Value { .. } | State::End => Ok(self.state),
        }
    }

    fn field(&mut self, key: u64) -> Result<State> {
        if key >> 3 == 0 {
            return Err(Error::Field(key));
        }
        if key == DATA && std::mem::replace(&mut self.seen, true) {
            // The last would count, but the first is handed on already.
            return Err(Error::DataRepeated);
        }
        match wire_type(key) {
            0 | 2 => self.within(State::Length { key, number: Varint::default() }),
            1 => self.value(8, false),
            5 => self.value(4, false),
            _ => Err(Error::Field(key)),
        }
    }

    fn value(&self, len: u64, data: bool) -> Result<State> {
        if len > self.left {
            return Err(Error::FieldTooLong { len, left: self.left });
        }
        if !data {
            self.check_fields(len)?;
        }
        Ok(State::Value { left: len, data })
    }

    /// A state that needs one more byte of the message.
    fn within(&self, state: State) -> Result<State> {
        if self.left == 0 {
            return Err(Error::FieldTooLong { len: 1, left: 0 });
        }
        Ok(state)
    }

    fn after_field(&mut self) -> State {
        if let Some(fields) = &mut self.fields {
            fields.start = fields.bytes.len();
        }
        if self.left == 0 { State::End } else { State::Key(Varint::default()) }
    }

    /// Adds to the fields that are kept. Their length was checked when it was said, but for the
    /// number and the length of one field, which are 20 bytes at most.
    fn keep(&mut self, bytes: &[u8]) {
        if let Some(fields) = &mut self.fields {
            fields.bytes.extend_from_slice(bytes);
        }
    }

    /// Whether the fields that are kept may have so many more bytes.
    fn check_fields(&self, more: u64) -> Result<()> {
        match &self.fields {
            Some(fields)
                if more.saturating_add(fields.bytes.len() as u64) > fields.bytes_max as u64 =>
            {
                Err(Error::FieldsTooLong { max: fields.bytes_max })
            }
            _ => Ok(()),
        }
    }

    /// Takes the number and the length of the data's field away again.
    fn drop_field(&mut self) {
        if let Some(fields) = &mut self.fields {
            fields.bytes.truncate(fields.start);
        }
    }
}

/// How a field's value is written: 0 as a number, 1 in 8 bytes, 2 after its length, 5 in 4 bytes.
fn wire_type(key: u64) -> u64 {
    key & 7
}

#[cfg(test)]
mod tests;
