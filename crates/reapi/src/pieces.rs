//! Messages that carry the bytes of blobs, as pieces that do not copy these bytes.
//!
//! Generated code is not used here. It encodes each message into its own buffer: one more copy of
//! all bytes in flight, in memory that is not charged to the budget. Here a message is a sequence
//! of pieces: the bytes before a blob's data, and then that data. The data stays the caller's own,
//! and the connection releases it once it is sent.
//!
//! A message begins with its prefix (see `framing`). The order of its fields does not matter
//! (protobuf, "Message Structure"), so the data can always come last.

use bytes::{BufMut as _, Bytes, BytesMut};
use prost::Message;
use prost::encoding::{WireType, encode_key, encode_varint, encoded_len_varint, key_len};

use crate::bytestream::{ReadResponse, WriteRequest};
use crate::error::Result;
use crate::framing::{PREFIX_BYTES, put_prefix};
use crate::v2::batch_read_blobs_response::Response as ReadOne;
use crate::v2::batch_update_blobs_request::Request as WriteOne;
use crate::v2::{BatchReadBlobsResponse, BatchUpdateBlobsRequest};

/// Data shorter than this is copied, together with the bytes before and after it. A separate piece
/// costs a frame and a system call, which take as long as copying this many bytes.
const COPIED_BELOW_BYTES: usize = 16 << 10;

/// A piece of copied bytes ends at this length.
const TOGETHER_BYTES: usize = 64 << 10;

/// The numbers of the fields that are written here, not by the code of their messages.
const STREAM_DATA: u32 = 10;
const UPDATE_REQUESTS: u32 = 2;
const READ_RESPONSES: u32 = 1;
const BATCH_DATA: u32 = 2;

/// One request of a stream: the bytes before its data, and the data.
pub fn write(mut message: WriteRequest) -> Result<[Bytes; 2]> {
    let data = std::mem::take(&mut message.data);
    stream_message(&message, data)
}

/// One response of a stream: the bytes before its data, and the data.
pub fn read(mut message: ReadResponse) -> Result<[Bytes; 2]> {
    let data = std::mem::take(&mut message.data);
    stream_message(&message, data)
}

fn stream_message(others: &impl Message, data: Bytes) -> Result<[Bytes; 2]> {
    let len = others.encoded_len() + field_len(STREAM_DATA, data.len());
    let mut head = BytesMut::with_capacity(PREFIX_BYTES + len - data.len());
    put_prefix(&mut head, len)?;
    put_fields(&mut head, others);
    put_data_key(&mut head, STREAM_DATA, data.len());
    Ok([head.freeze(), data])
}

/// The pieces of one request with many blobs. No piece is empty.
pub fn batch_update(
    mut message: BatchUpdateBlobsRequest,
) -> Result<impl Iterator<Item = Bytes> + Send + 'static> {
    let requests = std::mem::take(&mut message.requests);
    Pieces::new(&message, UPDATE_REQUESTS, requests)
}

/// The pieces of one response with many blobs. No piece is empty.
pub fn batch_read(
    mut message: BatchReadBlobsResponse,
) -> Result<impl Iterator<Item = Bytes> + Send + 'static> {
    let responses = std::mem::take(&mut message.responses);
    Pieces::new(&message, READ_RESPONSES, responses)
}

/// An entry of a batch.
trait Entry: Message {
    /// Removes and returns its data, which is field [`BATCH_DATA`].
    fn take_data(&mut self) -> Bytes;
}

impl Entry for WriteOne {
    fn take_data(&mut self) -> Bytes {
        std::mem::take(&mut self.data)
    }
}

impl Entry for ReadOne {
    fn take_data(&mut self) -> Bytes {
        std::mem::take(&mut self.data)
    }
}

/// The iterator of [`batch_update`] and [`batch_read`].
struct Pieces<E> {
    /// The bytes before the data.
    head: BytesMut,
    data: Option<Bytes>,
    /// The number of the entries' field.
    field: u32,
    entries: std::vec::IntoIter<E>,
}

impl<E: Entry> Pieces<E> {
    /// The pieces of a message with these entries in this field, and with the other fields of
    /// `others`.
    fn new(others: &impl Message, field: u32, entries: Vec<E>) -> Result<Self> {
        let entries_len: usize =
            entries.iter().map(|one| key_len(field) + delimited_len(one.encoded_len())).sum();
        let mut head = BytesMut::new();
        put_prefix(&mut head, others.encoded_len() + entries_len)?;
        put_fields(&mut head, others);
        Ok(Self { head, data: None, field, entries: entries.into_iter() })
    }
}

impl<E: Entry> Iterator for Pieces<E> {
    type Item = Bytes;

    fn next(&mut self) -> Option<Bytes> {
        if let Some(data) = self.data.take() {
            return Some(data);
        }
        for mut one in self.entries.by_ref() {
            encode_key(self.field, WireType::LengthDelimited, &mut self.head);
            encode_varint(one.encoded_len() as u64, &mut self.head);
            let data = one.take_data();
            put_fields(&mut self.head, &one);
            put_data_key(&mut self.head, BATCH_DATA, data.len());
            if data.len() >= COPIED_BELOW_BYTES {
                self.data = Some(data);
                break;
            }
            self.head.put_slice(&data);
            if self.head.len() >= TOGETHER_BYTES {
                break;
            }
        }
        let head = self.head.split().freeze();
        (!head.is_empty()).then_some(head)
    }
}

fn put_fields(head: &mut BytesMut, message: &impl Message) {
    // The buffer grows, so it is never too short.
    let _ = message.encode(head);
}

/// Appends the bytes before the data of a field. An empty field is left out.
fn put_data_key(head: &mut BytesMut, field: u32, len: usize) {
    if len > 0 {
        encode_key(field, WireType::LengthDelimited, head);
        encode_varint(len as u64, head);
    }
}

fn field_len(field: u32, len: usize) -> usize {
    if len > 0 { key_len(field) + delimited_len(len) } else { 0 }
}

fn delimited_len(len: usize) -> usize {
    encoded_len_varint(len as u64) + len
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::{rpc, v2};

    /// Decodes the message from its pieces.
    fn message<M: Message + Default>(pieces: &[Bytes]) -> M {
        let stream = pieces.concat();
        let (prefix, message) = stream.split_at(PREFIX_BYTES);
        assert_eq!(prefix[0], 0);
        assert_eq!(prefix[1..], u32::try_from(message.len()).unwrap().to_be_bytes());
        M::decode(message).unwrap()
    }

    fn one(len: usize) -> WriteOne {
        let data: Vec<u8> = (0..len).map(|n| n.to_le_bytes()[0]).collect();
        let digest = v2::Digest { hash: "ab".repeat(32), size_bytes: i64::try_from(len).unwrap() };
        WriteOne { digest: Some(digest), data: data.into(), compressor: 1 }
    }

    proptest! {
        #[test]
        fn a_batch_is_the_message_that_it_was(
            lens in prop::collection::vec(prop_oneof![0..200_usize, 10_000..70_000_usize], 0..40),
            instance_name in "[a-z]{0,200}",
            digest_function in 0..9,
        ) {
            let requests = lens.into_iter().map(one).collect();
            let sent = BatchUpdateBlobsRequest { instance_name, requests, digest_function };
            let pieces: Vec<Bytes> = batch_update(sent.clone()).unwrap().collect();
            prop_assert!(pieces.iter().all(|piece| !piece.is_empty()));
            prop_assert_eq!(message::<BatchUpdateBlobsRequest>(&pieces), sent);
        }

        #[test]
        fn a_batch_that_is_read_is_the_message_that_it_was(
            lens in prop::collection::vec(prop_oneof![0..200_usize, 10_000..70_000_usize], 0..40),
            code in 0..17,
        ) {
            let status = Some(rpc::Status { code, ..rpc::Status::default() });
            let responses = lens.into_iter().map(one).map(|WriteOne { digest, data, compressor }| {
                ReadOne { digest, data, compressor, status: status.clone() }
            });
            let sent = BatchReadBlobsResponse { responses: responses.collect() };
            let pieces: Vec<Bytes> = batch_read(sent.clone()).unwrap().collect();
            prop_assert!(pieces.iter().all(|piece| !piece.is_empty()));
            prop_assert_eq!(message::<BatchReadBlobsResponse>(&pieces), sent);
        }

        #[test]
        fn a_read_is_the_message_that_it_was(len in 0..40_000_usize) {
            let sent = ReadResponse { data: one(len).data };
            prop_assert_eq!(message::<ReadResponse>(&read(sent.clone()).unwrap()), sent);
        }

        #[test]
        fn a_write_is_the_message_that_it_was(
            len in 0..40_000_usize,
            resource_name in "[a-z]{0,200}",
            write_offset in 0..i64::MAX,
            finish_write: bool,
        ) {
            let data = one(len).data;
            let sent = WriteRequest { resource_name, write_offset, finish_write, data };
            prop_assert_eq!(message::<WriteRequest>(&write(sent.clone()).unwrap()), sent);
        }
    }

    #[test]
    fn long_bytes_are_not_copied() {
        let long = one(COPIED_BELOW_BYTES);
        let requests = vec![one(10), long.clone(), one(10)];
        let sent = BatchUpdateBlobsRequest { requests, ..BatchUpdateBlobsRequest::default() };
        let pieces: Vec<Bytes> = batch_update(sent).unwrap().collect();
        assert_eq!(pieces.len(), 3);
        assert_eq!(pieces[1].as_ptr(), long.data.as_ptr());
        let sent = WriteRequest { data: long.data.clone(), ..WriteRequest::default() };
        assert_eq!(write(sent).unwrap()[1].as_ptr(), long.data.as_ptr());
    }

    #[test]
    fn what_is_copied_comes_in_pieces_of_some_length() {
        let requests = vec![one(4096); 1000];
        let sent = BatchUpdateBlobsRequest { requests, ..BatchUpdateBlobsRequest::default() };
        let longest = batch_update(sent).unwrap().map(|piece| piece.len()).max();
        assert!(longest.unwrap() < TOGETHER_BYTES + COPIED_BELOW_BYTES);
    }
}
