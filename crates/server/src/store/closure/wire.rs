//! The fields of a protobuf message, read in place.
//!
//! An empty entry takes two bytes of a message and up to 150 bytes once it is decoded. Reading in
//! place costs no memory at all.

use bytes::Buf as _;
use prost::encoding::{WireType, decode_key, decode_varint};

use super::Flaw;

/// One field of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Field<'a> {
    pub(super) number: u32,
    pub(super) value: Value<'a>,
}

/// The value of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Value<'a> {
    Number(u64),
    /// A number of fixed width. No message here has one, but an unknown field may.
    Fixed,
    /// Text, bytes or a message.
    Bytes(&'a [u8]),
}

/// The next field; `None` at the end of the message. Advances `message` past it.
///
/// Refuses groups, which the messages here never had.
pub(super) fn next<'a>(message: &mut &'a [u8]) -> Result<Option<Field<'a>>, Flaw> {
    if !message.has_remaining() {
        return Ok(None);
    }
    let (number, wire_type) = decode_key(message).ok().ok_or(Flaw::Malformed)?;
    let value = match wire_type {
        WireType::Varint => Value::Number(varint(message)?),
        WireType::LengthDelimited => {
            let len = usize::try_from(varint(message)?).ok().ok_or(Flaw::Malformed)?;
            Value::Bytes(take(message, len)?)
        }
        WireType::ThirtyTwoBit => take(message, 4).map(|_| Value::Fixed)?,
        WireType::SixtyFourBit => take(message, 8).map(|_| Value::Fixed)?,
        WireType::StartGroup | WireType::EndGroup => return Err(Flaw::Malformed),
    };
    Ok(Some(Field { number, value }))
}

/// A key has at most 5 bytes, and a number or a length at most 10.
const HEAD_BYTES_MAX: usize = 15;

/// The bytes that the first field of `message` takes, key included; `None` if `message` is a part
/// that ends before the field says so.
pub(super) fn field_len(message: &[u8]) -> Result<Option<u64>, Flaw> {
    match head_and_value_len(message) {
        Ok(len) => Ok(Some(len)),
        Err(_) if message.len() < HEAD_BYTES_MAX => Ok(None),
        Err(flaw) => Err(flaw),
    }
}

fn head_and_value_len(message: &[u8]) -> Result<u64, Flaw> {
    let mut rest = message;
    let (_, wire_type) = decode_key(&mut rest).ok().ok_or(Flaw::Malformed)?;
    let value_len = match wire_type {
        WireType::Varint => varint(&mut rest).map(|_| 0)?,
        WireType::LengthDelimited => varint(&mut rest)?,
        WireType::ThirtyTwoBit => 4,
        WireType::SixtyFourBit => 8,
        WireType::StartGroup | WireType::EndGroup => return Err(Flaw::Malformed),
    };
    Ok(value_len.saturating_add((message.len() - rest.len()) as u64))
}

fn varint(message: &mut &[u8]) -> Result<u64, Flaw> {
    decode_varint(message).ok().ok_or(Flaw::Malformed)
}

fn take<'a>(message: &mut &'a [u8], len: usize) -> Result<&'a [u8], Flaw> {
    let (taken, rest) = message.split_at_checked(len).ok_or(Flaw::Malformed)?;
    *message = rest;
    Ok(taken)
}
