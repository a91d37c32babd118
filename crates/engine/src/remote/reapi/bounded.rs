//! [`Bounded`]: a codec that counts the entries of a response before it makes records of them.
//!
//! An empty entry takes two bytes of a message and up to 150 bytes of memory once it is decoded. So a
//! limit on a message's length does not bound what it becomes: 8 MB of empty entries become 600 MB.
//! The caller knows how many blobs it asked about, and so how many entries an honest response has.

use std::marker::PhantomData;

use bytes::Buf as _;
use http::uri::PathAndQuery;
use prost::Message;
use prost::encoding::{DecodeContext, WireType, decode_key, decode_varint, skip_field};
use tonic::body::Body;
use tonic::client::{Grpc, GrpcService};
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};
use tonic::{Request, Status};

/// How many entries a response may have.
#[derive(Clone, Debug)]
pub(super) struct ResponseLimits {
    /// The longest message.
    pub(super) bytes: usize,
    /// Entries, at most, by the numbers of the fields that lead to them.
    pub(super) entries: Vec<(&'static [u32], usize)>,
}

/// Makes a call with one message each way. `path` is that of the method.
pub(super) async fn call<S, Q, A>(
    client: Grpc<S>,
    path: &'static str,
    request: Q,
    limits: ResponseLimits,
) -> Result<A, Status>
where
    S: GrpcService<Body>,
    S::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    S::ResponseBody: http_body::Body<Data = bytes::Bytes> + Send + 'static,
    <S::ResponseBody as http_body::Body>::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    Q: Message + 'static,
    A: Message + Default + 'static,
{
    let mut client = client.max_decoding_message_size(limits.bytes);
    client.ready().await.map_err(|error| Status::from_error(error.into()))?;
    let codec = Bounded { entries: limits.entries, messages: PhantomData };
    // CANCEL: dropping the future resets the stream.
    let response = client.unary(Request::new(request), PathAndQuery::from_static(path), codec);
    Ok(response.await?.into_inner())
}

/// See the module docs.
#[derive(Debug)]
struct Bounded<Q, A> {
    entries: Vec<(&'static [u32], usize)>,
    messages: PhantomData<(Q, A)>,
}

/// Encodes a request.
#[derive(Debug)]
struct Plain<Q>(PhantomData<Q>);

/// Decodes a response that is within its limits.
#[derive(Debug)]
struct Counted<A> {
    entries: Vec<(&'static [u32], usize)>,
    message: PhantomData<A>,
}

impl<Q, A> Codec for Bounded<Q, A>
where
    Q: Message + 'static,
    A: Message + Default + 'static,
{
    type Encode = Q;
    type Decode = A;
    type Encoder = Plain<Q>;
    type Decoder = Counted<A>;

    fn encoder(&mut self) -> Plain<Q> {
        Plain(PhantomData)
    }

    fn decoder(&mut self) -> Counted<A> {
        Counted { entries: self.entries.clone(), message: PhantomData }
    }
}

impl<Q: Message> Encoder for Plain<Q> {
    type Item = Q;
    type Error = Status;

    fn encode(&mut self, request: Q, to: &mut EncodeBuf<'_>) -> Result<(), Status> {
        // A buffer that grows is never too short.
        request.encode(to).map_err(|error| Status::internal(error.to_string()))
    }
}

impl<A: Message + Default> Decoder for Counted<A> {
    type Item = A;
    type Error = Status;

    fn decode(&mut self, from: &mut DecodeBuf<'_>) -> Result<Option<A>, Status> {
        // Shares the buffer, as the decoded message does.
        let message = from.copy_to_bytes(from.remaining());
        for (path, count_max) in &self.entries {
            let count = count(&message, path)
                .ok_or_else(|| Status::internal("expected a message, got other bytes"))?;
            if count > *count_max {
                // The code that `tonic` gives to a message that is too long.
                let text = format!("expected at most {count_max} entries, got {count}");
                return Err(Status::out_of_range(text));
            }
        }
        A::decode(message).map(Some).map_err(|error| Status::internal(error.to_string()))
    }
}

/// How many fields a message has at the end of `path`, each step a field that is a message; `None`
/// for bytes that are no message.
fn count(mut message: &[u8], path: &[u32]) -> Option<usize> {
    let Some((first, rest)) = path.split_first() else { return Some(1) };
    let mut sum = 0;
    while message.has_remaining() {
        let (field, wire_type) = decode_key(&mut message).ok()?;
        if field != *first || wire_type != WireType::LengthDelimited {
            skip_field(wire_type, field, &mut message, DecodeContext::default()).ok()?;
            continue;
        }
        let len = usize::try_from(decode_varint(&mut message).ok()?).ok()?;
        let (inner, after) = message.split_at_checked(len)?;
        sum += count(inner, rest)?;
        message = after;
    }
    Some(sum)
}

#[cfg(test)]
mod tests {
    use tidegate_reapi::{rpc, v2};
    use v2::batch_update_blobs_response::Response as One;

    use super::*;

    fn response(entries: usize, details: usize) -> Vec<u8> {
        let status = rpc::Status {
            details: vec![prost_types::Any::default(); details],
            ..Default::default()
        };
        let one = One { digest: None, status: Some(status) };
        v2::BatchUpdateBlobsResponse { responses: vec![one; entries] }.encode_to_vec()
    }

    #[test]
    fn entries_are_counted_along_their_path() {
        let message = response(7, 3);
        assert_eq!(count(&message, &[1]), Some(7));
        assert_eq!(count(&message, &[1, 2]), Some(7));
        assert_eq!(count(&message, &[1, 2, 3]), Some(21));
        assert_eq!(count(&message, &[2]), Some(0));
        assert_eq!(count(&[0x0a, 0].repeat(1000), &[1]), Some(1000));
    }

    #[test]
    fn what_is_no_message_is_not_counted() {
        for message in [&[0x0a][..], &[0x0a, 5, 1], &[0x0b], &[0xff; 11], &[0x0a, 2, 0x12, 9]] {
            assert_eq!(count(message, &[1, 2]), None, "{message:?}");
        }
    }
}
