//! The fields of the messages that a closure is found in, and which of them name blobs.
//!
//! Invariant: the tables are those of `remote_execution.proto`. A test compares them with the
//! generated code: every field that it encodes is in the table, with its type.

use tidegate_core::digest::{Digest, DigestFunction};

use super::Flaw;
use super::walk::UnknownFields;
use super::wire::{self, Value};

/// The meaning of a digest for the closure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Role {
    /// A blob that the closure needs and that names no others.
    File,
    /// A `Tree`.
    Tree,
    /// A `Directory` that is a blob of its own.
    Directory,
    /// A `Directory` inside a `Tree`: the tree holds it, so it is no blob of the closure.
    InTree,
}

/// A message type.
pub(super) struct Schema(&'static [Rule]);

/// One field of a message type.
struct Rule {
    number: u32,
    kind: Kind,
    /// Whether it may occur more than once.
    repeated: bool,
    /// Whether it must occur.
    required: bool,
}

#[derive(Clone, Copy)]
enum Kind {
    Number,
    Text,
    Bytes,
    Message(&'static Schema),
    Digest(Role),
}

const fn one(number: u32, kind: Kind) -> Rule {
    Rule { number, kind, repeated: false, required: false }
}

const fn many(number: u32, kind: Kind) -> Rule {
    Rule { number, kind, repeated: true, required: false }
}

const fn required(number: u32, kind: Kind) -> Rule {
    Rule { number, kind, repeated: false, required: true }
}

use Kind::{Bytes, Message, Number, Text};

pub(super) static ACTION_RESULT: Schema = Schema(&[
    many(2, Message(&OUTPUT_FILE)),
    many(3, Message(&OUTPUT_DIRECTORY)),
    one(4, Number),
    one(5, Bytes),
    one(6, Kind::Digest(Role::File)),
    one(7, Bytes),
    one(8, Kind::Digest(Role::File)),
    one(9, Message(&EXECUTED_ACTION_METADATA)),
    many(10, Message(&OUTPUT_SYMLINK)),
    many(11, Message(&OUTPUT_SYMLINK)),
    many(12, Message(&OUTPUT_SYMLINK)),
]);

static OUTPUT_FILE: Schema = Schema(&[
    one(1, Text),
    required(2, Kind::Digest(Role::File)),
    one(4, Number),
    one(5, Bytes),
    one(7, Message(&NODE_PROPERTIES)),
]);

static OUTPUT_DIRECTORY: Schema = Schema(&[
    one(1, Text),
    one(3, Kind::Digest(Role::Tree)),
    one(4, Number),
    one(5, Kind::Digest(Role::Directory)),
]);

static OUTPUT_SYMLINK: Schema =
    Schema(&[one(1, Text), one(2, Text), one(4, Message(&NODE_PROPERTIES))]);

/// A `Directory` as a blob of its own.
pub(super) static DIRECTORY: Schema = Schema(&[
    many(1, Message(&FILE_NODE)),
    many(2, Message(&DIRECTORY_NODE)),
    many(3, Message(&SYMLINK_NODE)),
    one(5, Message(&NODE_PROPERTIES)),
]);

/// A `Directory` inside a `Tree`.
pub(super) static DIRECTORY_IN_TREE: Schema = Schema(&[
    many(1, Message(&FILE_NODE)),
    many(2, Message(&DIRECTORY_NODE_IN_TREE)),
    many(3, Message(&SYMLINK_NODE)),
    one(5, Message(&NODE_PROPERTIES)),
]);

static FILE_NODE: Schema = Schema(&[
    one(1, Text),
    required(2, Kind::Digest(Role::File)),
    one(4, Number),
    one(6, Message(&NODE_PROPERTIES)),
]);

static DIRECTORY_NODE: Schema = Schema(&[one(1, Text), required(2, Kind::Digest(Role::Directory))]);

static DIRECTORY_NODE_IN_TREE: Schema =
    Schema(&[one(1, Text), required(2, Kind::Digest(Role::InTree))]);

static SYMLINK_NODE: Schema =
    Schema(&[one(1, Text), one(2, Text), one(4, Message(&NODE_PROPERTIES))]);

static NODE_PROPERTIES: Schema = Schema(&[
    many(1, Message(&NODE_PROPERTY)),
    one(2, Message(&SECONDS_AND_NANOS)),
    one(3, Message(&NUMBER)),
]);

static NODE_PROPERTY: Schema = Schema(&[one(1, Text), one(2, Text)]);

/// `google.protobuf.Timestamp` and `Duration`.
static SECONDS_AND_NANOS: Schema = Schema(&[one(1, Number), one(2, Number)]);

/// `google.protobuf.UInt32Value`.
static NUMBER: Schema = Schema(&[one(1, Number)]);

/// `google.protobuf.Any`.
static ANY: Schema = Schema(&[one(1, Text), one(2, Bytes)]);

static EXECUTED_ACTION_METADATA: Schema = Schema(&[
    one(1, Text),
    one(2, Message(&SECONDS_AND_NANOS)),
    one(3, Message(&SECONDS_AND_NANOS)),
    one(4, Message(&SECONDS_AND_NANOS)),
    one(5, Message(&SECONDS_AND_NANOS)),
    one(6, Message(&SECONDS_AND_NANOS)),
    one(7, Message(&SECONDS_AND_NANOS)),
    one(8, Message(&SECONDS_AND_NANOS)),
    one(9, Message(&SECONDS_AND_NANOS)),
    one(10, Message(&SECONDS_AND_NANOS)),
    many(11, Message(&ANY)),
    one(12, Message(&SECONDS_AND_NANOS)),
]);

/// How a message is read.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reading {
    /// The function that names its blobs.
    pub(super) function: DigestFunction,
    pub(super) unknown: UnknownFields,
}

impl Reading {
    /// Checks `message`, and calls `found` for each digest in it.
    ///
    /// The recursion is as deep as the tables: five messages.
    pub(super) fn visit<E: From<Flaw>>(
        self,
        schema: &Schema,
        mut message: &[u8],
        found: &mut impl FnMut(Role, Digest) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut seen = 0_u32;
        while let Some(field) = wire::next(&mut message)? {
            let rule = schema.0.iter().find(|rule| rule.number == field.number);
            let Some(rule) = rule else {
                match self.unknown {
                    UnknownFields::Refuse => return Err(Flaw::UnknownField(field.number).into()),
                    UnknownFields::Skip => continue,
                }
            };
            let bit = 1 << rule.number;
            if seen & bit != 0 && !rule.repeated {
                return Err(Flaw::Repeated(rule.number).into());
            }
            seen |= bit;
            match (rule.kind, field.value) {
                (Number, Value::Number(_)) | (Bytes, Value::Bytes(_)) => {}
                (Text, Value::Bytes(text)) => {
                    str::from_utf8(text).ok().ok_or(Flaw::Utf8(rule.number))?;
                }
                (Message(inner), Value::Bytes(bytes)) => self.visit(inner, bytes, found)?,
                (Kind::Digest(of), Value::Bytes(bytes)) => found(of, self.digest(bytes)?)?,
                _ => return Err(Flaw::Type(rule.number).into()),
            }
        }
        let is_set = |rule: &Rule| seen & (1 << rule.number) != 0;
        if schema.0.iter().any(|rule| rule.required && !is_set(rule)) {
            return Err(Flaw::DigestMissing.into());
        }
        Ok(())
    }

    /// Reads a `Digest`, which has the hash in field 1 and the length in field 2.
    fn digest(self, mut message: &[u8]) -> Result<Digest, Flaw> {
        let (mut hash, mut len) = (None, None);
        while let Some(field) = wire::next(&mut message)? {
            match (field.number, field.value) {
                (1, Value::Bytes(text)) if hash.is_none() => {
                    hash = Some(hash_of(text).ok_or(Flaw::Digest)?);
                }
                (2, Value::Number(number)) if len.is_none() => len = Some(number),
                (number @ (1 | 2), Value::Bytes(_) | Value::Number(_)) => {
                    let is_again = if number == 1 { hash.is_some() } else { len.is_some() };
                    let flaw = if is_again { Flaw::Repeated } else { Flaw::Type };
                    return Err(flaw(number));
                }
                (number @ (1 | 2), Value::Fixed) => return Err(Flaw::Type(number)),
                (number, _) if matches!(self.unknown, UnknownFields::Refuse) => {
                    return Err(Flaw::UnknownField(number));
                }
                _ => {}
            }
        }
        // An absent length is 0. The signed number of the message is not negative.
        let len = i64::try_from(len.unwrap_or_default()).ok().ok_or(Flaw::Digest)?;
        let digest = Digest {
            function: self.function,
            hash: hash.ok_or(Flaw::Digest)?,
            len: len.unsigned_abs(),
        };
        // Only one digest has the length 0, that of no bytes.
        if digest.len == 0 && digest != Digest::of(self.function, &[]) {
            return Err(Flaw::Digest);
        }
        Ok(digest)
    }
}

/// Exactly 64 digits, lower case hexadecimal.
fn hash_of(text: &[u8]) -> Option<[u8; 32]> {
    let text: &[u8; 64] = text.try_into().ok()?;
    let mut hash = [0; 32];
    let (pairs, _) = text.as_chunks::<2>();
    for (byte, [high, low]) in hash.iter_mut().zip(pairs) {
        *byte = digit(*high)? << 4 | digit(*low)?;
    }
    Some(hash)
}

fn digit(byte: u8) -> Option<u8> {
    match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        _ => None,
    }
}
