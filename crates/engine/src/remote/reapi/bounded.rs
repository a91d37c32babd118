//! [`Bounded`]: a codec that counts the entries of a response before it decodes them; see
//! [`tidegate_reapi::bounded`]. The caller knows how many blobs it asked about, and so how many
//! entries a correct response has.

use std::marker::PhantomData;

use bytes::Buf as _;
use http::uri::PathAndQuery;
use prost::Message;
use tidegate_reapi::Error;
use tidegate_reapi::bounded::{EntryLimit, decode};
use tonic::body::Body;
use tonic::client::{Grpc, GrpcService};
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};
use tonic::{Request, Status};

/// The limits of a response.
#[derive(Clone, Debug)]
pub(super) struct ResponseLimits {
    /// Maximum size of the message.
    pub(super) bytes: usize,
    pub(super) entries: Vec<EntryLimit>,
}

/// Makes a unary call. `path` is the path of the method.
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
    entries: Vec<EntryLimit>,
    messages: PhantomData<(Q, A)>,
}

/// Encodes a request.
#[derive(Debug)]
struct Plain<Q>(PhantomData<Q>);

/// Decodes a response that respects its limits.
#[derive(Debug)]
struct Counted<A> {
    entries: Vec<EntryLimit>,
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
        // The buffer grows, so encoding cannot run out of space.
        request.encode(to).map_err(|error| Status::internal(error.to_string()))
    }
}

impl<A: Message + Default> Decoder for Counted<A> {
    type Item = A;
    type Error = Status;

    fn decode(&mut self, from: &mut DecodeBuf<'_>) -> Result<Option<A>, Status> {
        // Shares the buffer, as the decoded message does.
        let message = from.copy_to_bytes(from.remaining());
        decode(message, &self.entries).map(Some).map_err(|error| match &error {
            // The code that `tonic` uses for a message that is too long.
            Error::TooManyEntries { .. } => Status::out_of_range(error.to_string()),
            _ => Status::internal(error.to_string()),
        })
    }
}
