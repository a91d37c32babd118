//! Requests whose messages carry the bytes of blobs, as bodies that do not copy them.
//!
//! Why not through the generated client alone: that encodes each message into a buffer of its own,
//! which is one more copy of everything that is on its way, in memory that nobody has taken from the
//! budget. Here a body is a sequence of pieces: what stands before a blob's bytes, and then those
//! bytes, which are the caller's own and which the connection lets go of once they are sent.
//!
//! A message is (gRPC over HTTP/2, "Length-Prefixed-Message") a flag of one byte, a length of four,
//! and the fields, whose order does not matter (protobuf, "Message Structure"): so bytes can always
//! come last.
//!
//! The generated client still makes the call, with an empty message; [`Carrying`] puts the body in
//! the place of its.

use std::convert::Infallible;
use std::task::{Context, Poll};

use bytes::{BufMut, Bytes, BytesMut};
use futures_core::Stream;
use futures_util::StreamExt as _;
use http_body::Frame;
use http_body_util::StreamBody;
use prost::Message;
use prost::encoding::{WireType, encode_key, encode_varint, encoded_len_varint, key_len};
use tidegate_reapi::bytestream::WriteRequest;
use tidegate_reapi::v2::BatchUpdateBlobsRequest;
use tidegate_reapi::v2::batch_update_blobs_request::Request as WriteOne;
use tonic::body::Body;
use tower_service::Service;

use super::channel::Channel;
use crate::store::SendProgress;

/// Bytes below this are copied, together with what stands before and after them: a piece by itself
/// costs a frame and a system call, which take as long as copying so many.
const COPIED_BELOW_BYTES: usize = 16 << 10;

/// So many copied bytes make a piece.
const TOGETHER_BYTES: usize = 64 << 10;

/// The flag and the length before a message.
const PREFIX_BYTES: usize = 5;

/// The numbers of the fields that are not written by their messages' own code.
const WRITE_DATA: u32 = 10;
const BATCH_REQUESTS: u32 = 2;
const BATCH_DATA: u32 = 2;

/// A message would be longer than gRPC can say.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected a message of less than 4 GiB, got {0} bytes")]
pub(super) struct Overlong(usize);

/// A connection for one request, which carries another body than the client would send.
#[derive(Debug)]
pub(super) struct Carrying {
    channel: Channel,
    body: Option<Body>,
    progress: SendProgress,
}

impl Carrying {
    /// `progress` learns which connection is chosen.
    pub(super) fn new(
        channel: &Channel,
        pieces: impl Stream<Item = Bytes> + Send + 'static,
        progress: &SendProgress,
    ) -> Self {
        let frames = pieces.map(|piece| Ok::<_, Infallible>(Frame::data(piece)));
        let body = Some(Body::new(StreamBody::new(frames)));
        Self { channel: channel.clone(), body, progress: progress.clone() }
    }
}

impl Service<http::Request<Body>> for Carrying {
    type Response = <Channel as Service<http::Request<Body>>>::Response;
    type Error = <Channel as Service<http::Request<Body>>>::Error;
    type Future = <Channel as Service<http::Request<Body>>>::Future;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.channel.poll_ready(cx)
    }

    fn call(&mut self, mut request: http::Request<Body>) -> Self::Future {
        if let Some(body) = self.body.take() {
            *request.body_mut() = body;
            request.extensions_mut().insert(self.progress.clone());
        }
        self.channel.call(request)
    }
}

/// One message of a stream: what stands before its data, and the data.
pub(super) fn write(mut message: WriteRequest) -> Result<[Bytes; 2], Overlong> {
    let data = std::mem::take(&mut message.data);
    let len = message.encoded_len() + field_len(WRITE_DATA, data.len());
    let mut head = BytesMut::with_capacity(PREFIX_BYTES + len - data.len());
    put_prefix(&mut head, len)?;
    put_fields(&mut head, &message);
    put_data_key(&mut head, WRITE_DATA, data.len());
    Ok([head.freeze(), data])
}

/// The pieces of one message with many blobs.
pub(super) fn batch(
    message: BatchUpdateBlobsRequest,
) -> Result<impl Iterator<Item = Bytes>, Overlong> {
    let BatchUpdateBlobsRequest { requests, .. } = &message;
    let requests_len: usize =
        requests.iter().map(|one| key_len(BATCH_REQUESTS) + delimited_len(one.encoded_len())).sum();
    let BatchUpdateBlobsRequest { instance_name, requests, digest_function } = message;
    let others = BatchUpdateBlobsRequest { instance_name, requests: Vec::new(), digest_function };
    let mut head = BytesMut::new();
    put_prefix(&mut head, others.encoded_len() + requests_len)?;
    put_fields(&mut head, &others);
    Ok(Pieces { head, data: None, requests: requests.into_iter() })
}

/// See [`batch`].
struct Pieces {
    /// What is to go before the data.
    head: BytesMut,
    data: Option<Bytes>,
    requests: std::vec::IntoIter<WriteOne>,
}

impl Iterator for Pieces {
    type Item = Bytes;

    fn next(&mut self) -> Option<Bytes> {
        if let Some(data) = self.data.take() {
            return Some(data);
        }
        for mut one in self.requests.by_ref() {
            encode_key(BATCH_REQUESTS, WireType::LengthDelimited, &mut self.head);
            encode_varint(one.encoded_len() as u64, &mut self.head);
            let data = std::mem::take(&mut one.data);
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

fn put_prefix(head: &mut BytesMut, len: usize) -> Result<(), Overlong> {
    let length = u32::try_from(len).ok().ok_or(Overlong(len))?;
    head.put_u8(0);
    head.put_u32(length);
    Ok(())
}

fn put_fields(head: &mut BytesMut, message: &impl Message) {
    // A buffer that grows is never too short.
    let _ = message.encode(head);
}

/// What stands before bytes; bytes that are none are left out.
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
    use tidegate_reapi::v2;

    use super::*;

    /// The message that the pieces are.
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
            let pieces: Vec<Bytes> = batch(sent.clone()).unwrap().collect();
            prop_assert!(pieces.iter().all(|piece| !piece.is_empty()));
            prop_assert_eq!(message::<BatchUpdateBlobsRequest>(&pieces), sent);
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
        let pieces: Vec<Bytes> = batch(sent).unwrap().collect();
        assert_eq!(pieces.len(), 3);
        assert_eq!(pieces[1].as_ptr(), long.data.as_ptr());
        let sent = WriteRequest { data: long.data.clone(), ..WriteRequest::default() };
        assert_eq!(write(sent).unwrap()[1].as_ptr(), long.data.as_ptr());
    }

    #[test]
    fn what_is_copied_comes_in_pieces_of_some_length() {
        let requests = vec![one(4096); 1000];
        let sent = BatchUpdateBlobsRequest { requests, ..BatchUpdateBlobsRequest::default() };
        let longest = batch(sent).unwrap().map(|piece| piece.len()).max();
        assert!(longest.unwrap() < TOGETHER_BYTES + COPIED_BELOW_BYTES);
    }
}
