//! [`Deframer`]: extracts the data from a stream of `google.bytestream` messages as it arrives.
//!
//! Generated code is not used here. It collects each message (some peers send 4 MiB) before it
//! passes it on, in memory that is not charged to the budget, and copies it once more. Here every
//! piece of data is a part of the frame in which it arrived.
//!
//! A stream of messages is defined in gRPC over HTTP/2, "Length-Prefixed-Message": a flag of one
//! byte, a length of four bytes, and a message of that length. Data is field 10, in `ReadResponse`
//! and in `WriteRequest`. A client skips the other fields, which only later versions add. A server
//! keeps them, up to a limit: they name the blob and the offset, and may come after the data.
//!
//! Invariants: the output does not depend on how the stream was cut into frames. No memory is
//! allocated for a length that is only claimed.

use bytes::{Buf, Bytes};

use crate::error::{Error, Result};

/// Field 10, of wire type 2: a length, then that many bytes.
const DATA: u64 = 10 << 3 | 2;

#[derive(Clone, Copy, Debug)]
enum State {
    /// Before a message. This many bytes of its flag and length were read.
    Prefix(u8),
    /// In a message, before a field, or in its number.
    Key(Varint),
    /// In the length of a field, or, if `key` has no length, in a number that is skipped.
    Length { key: u64, number: Varint },
    /// In a field; `data` says whether it is the data field.
    Value { left: u64, data: bool },
    /// After a message whose end was not returned yet.
    End,
}

/// A number that may be spread over frames (protobuf, "Base 128 Varints").
#[derive(Clone, Copy, Debug, Default)]
struct Varint {
    value: u64,
    bits: u32,
}

impl Varint {
    /// Adds a byte; returns whether it was the last.
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

/// The next part of a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part {
    /// Data of the current message, never empty.
    Data(Bytes),
    /// The current message is complete.
    End,
}

/// The fields of the current message other than its data.
#[derive(Debug)]
struct Fields {
    bytes_max: usize,
    bytes: Vec<u8>,
    /// Where the current field begins.
    start: usize,
}

/// Extracts data from a stream of messages. See the module docs.
#[derive(Debug)]
pub struct Deframer {
    state: State,
    /// The length of the current message, as far as it was read.
    length: u32,
    /// Bytes of the current message that have not arrived.
    left: u64,
    /// The data of the current message has begun.
    seen: bool,
    fields: Option<Fields>,
}

impl Default for Deframer {
    fn default() -> Self {
        Self::new()
    }
}

impl Deframer {
    /// A deframer that skips all fields except the data.
    pub fn new() -> Self {
        Self { state: State::Prefix(0), length: 0, left: 0, seen: false, fields: None }
    }

    /// A deframer that keeps the other fields of each message. More than `bytes_max` of them are an
    /// error.
    pub fn keeping_fields(bytes_max: usize) -> Self {
        let fields = Fields { bytes_max, bytes: Vec::new(), start: 0 };
        Self { fields: Some(fields), ..Self::new() }
    }

    /// The other fields of the current message, encoded. After [`Part::End`] these are all of them,
    /// and after [`Part::Data`] those that came before the data. Empty if they are not kept.
    pub fn fields(&self) -> &[u8] {
        self.fields.as_ref().map_or(&[], |fields| &fields.bytes)
    }

    /// The next data in `frame`, never empty. Removes it from `frame`. `None` when `frame` is
    /// empty.
    pub fn next(&mut self, frame: &mut Bytes) -> Result<Option<Bytes>> {
        loop {
            match self.next_part(frame)? {
                Some(Part::Data(piece)) => return Ok(Some(piece)),
                Some(Part::End) => {}
                None => return Ok(None),
            }
        }
    }

    /// The next part of the stream. Removes its bytes from `frame`. `None` when `frame` is empty.
    ///
    /// After an error the rest of the stream cannot be read.
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

    /// Takes one byte that is not in a field's value.
    fn step(&mut self, byte: u8) -> Result<State> {
        if !matches!(self.state, State::Prefix(_)) {
            // A state inside a message is left as soon as the message has no bytes left.
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
            // By the protobuf rules the last one would count, but the first was already returned.
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

    /// Adds to the kept fields. Their length was checked when it was read. Only the number and the
    /// length of one field were not, which are at most 20 bytes.
    fn keep(&mut self, bytes: &[u8]) {
        if let Some(fields) = &mut self.fields {
            fields.bytes.extend_from_slice(bytes);
        }
    }

    /// Checks that the kept fields may grow by `more` bytes.
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

    /// Removes the number and the length of the data field from the kept fields.
    fn drop_field(&mut self) {
        if let Some(fields) = &mut self.fields {
            fields.bytes.truncate(fields.start);
        }
    }
}

/// The encoding of a field's value: 0 a number, 1 eight bytes, 2 a length and bytes, 5 four bytes.
fn wire_type(key: u64) -> u64 {
    key & 7
}

#[cfg(test)]
mod tests;
