//! A range of a blob as a stream: `google.bytestream.ByteStream.Read`.
//!
//! This module does not use the generated client, so that it can pass bytes on as they arrive; see
//! `tidegate_reapi::deframe`. It returns a response only after its first bytes have arrived,
//! because a server may report until then that the blob does not exist.
//!
//! Invariants: a body gives at most the requested range, and a body that ends without an error gave
//! all of it.

use std::ops::Range;
use std::time::{Duration, Instant};

use bytes::{BufMut, Bytes, BytesMut};
use futures_util::stream;
use http::{HeaderValue, Method, Uri, Version, header};
use http_body_util::{BodyExt as _, Full};
use tidegate_core::digest::Digest;
use tidegate_core::retry::RetryClass;
use tidegate_reapi::bytestream::ReadRequest;
use tidegate_reapi::deframe::Deframer;
use tidegate_reapi::resource::{Compressor, ReadName};
use tidegate_reapi::zstd::{INFLATER_BYTES, Inflater};
use tonic::{Code, Status};
use tower_service::Service as _;

use super::super::Body;
use super::grpc_body::GrpcBody;
use super::{Compression, ReapiCache, failure};
use crate::budget::{Budget, BytesPermit};
use crate::error::{Error, ErrorKind, Operation, Result};

/// The only call whose response is a stream of messages.
pub(super) const PATH: &str = "/google.bytestream.ByteStream/Read";

/// A response whose bytes are in flight.
pub(super) struct Reading {
    /// Time from sending the request to the first bytes.
    pub(super) waited: Duration,
    /// 0 if the range was empty.
    pub(super) requests: u32,
    pub(super) body: Body,
}

impl ReapiCache {
    /// Requests a range that lies within a blob. Memory for decoding is taken from `budget` without
    /// waiting, because the caller already holds one of its request permits. If the budget has too
    /// little, the bytes are requested uncompressed.
    pub(super) async fn read(
        &self,
        digest: &Digest,
        range: Range<u64>,
        budget: &Budget,
    ) -> Result<Reading> {
        if range.is_empty() {
            let body = Box::pin(stream::empty());
            return Ok(Reading { waited: Duration::ZERO, requests: 0, body });
        }
        // A compressed read cannot have a limit.
        let may_be_zstd = range.end == digest.len
            && self.compression() != Compression::Never
            && self.capabilities().await?.zstd
            && !self.sends_bad_zstd();
        // A smaller budget grants everything that it has; that is not enough.
        let paid = if may_be_zstd { budget.try_bytes(INFLATER_BYTES) } else { None };
        let paid = paid.filter(|paid| paid.bytes() >= INFLATER_BYTES);
        let zstd = paid.is_some();
        let target = self.target(Some(digest));
        let start = Instant::now();
        let answer = self.ask_for(digest, &range, zstd, &target).await?;
        let inflater = zstd.then(Inflater::new).transpose().map_err(|error| {
            let message = "the decompressor cannot be made";
            Error::new(ErrorKind::Unsupported, Operation::Read, &target, message).caused_by(error)
        })?;
        let mut bytes = Arriving {
            cache: self.clone(),
            answer,
            deframer: Deframer::new(),
            frame: Bytes::new(),
            inflater,
            _paid: paid,
            packed: Bytes::new(),
            left: range.end - range.start,
            target,
        };
        let first = Box::pin(bytes.next()).await?;
        let waited = start.elapsed();
        let body = stream::try_unfold((first, bytes), |(first, mut bytes)| async move {
            let piece = match first {
                Some(piece) => Some(piece),
                None => bytes.next().await?,
            };
            Ok(piece.map(|piece| (piece, (None, bytes))))
        });
        Ok(Reading { waited, requests: 1, body: Box::pin(body) })
    }

    /// Sends the request; returns when the head of the response has arrived and is not a failure.
    async fn ask_for(
        &self,
        digest: &Digest,
        range: &Range<u64>,
        zstd: bool,
        target: &str,
    ) -> Result<http::Response<GrpcBody>> {
        let limit = if zstd || range.end == digest.len { 0 } else { range.end - range.start };
        let compressor = if zstd { Compressor::Zstd } else { Compressor::Identity };
        let name = ReadName { instance: self.instance(), compressor, digest: *digest };
        let message = ReadRequest {
            resource_name: name.to_string(),
            read_offset: i64::try_from(range.start).unwrap_or(i64::MAX),
            read_limit: i64::try_from(limit).unwrap_or(i64::MAX),
        };
        let request = self.request(PATH, &message).map_err(|error| {
            let text = "it makes no valid request";
            Error::new(ErrorKind::Invalid, Operation::Read, target, text).caused_by(error)
        })?;
        // CANCEL: dropping the future resets the stream.
        let answer = self.channel().clone().call(request).await.map_err(|error| {
            failure::failed(&Status::from_error(error), Operation::Read, target)
        })?;
        // If the head has no status, the end of the body has one.
        let status = Status::from_header_map(answer.headers());
        if let Some(status) = status.filter(|status| status.code() != Code::Ok) {
            return Err(failure::failed(&status, Operation::Read, target));
        }
        Ok(answer)
    }

    /// A request of a call without generated code, with one message.
    pub(super) fn request(
        &self,
        path: &str,
        message: &impl prost::Message,
    ) -> Result<http::Request<tonic::body::Body>, http::Error> {
        let address = Uri::builder()
            .scheme(self.channel().origin().scheme_str().unwrap_or("http"))
            .authority(self.url().authority())
            .path_and_query(path)
            .build()?;
        let encoded = message.encode_to_vec();
        let mut framed = BytesMut::with_capacity(5 + encoded.len());
        framed.put_u8(0);
        // Names and digests are a few hundred bytes.
        framed.put_u32(u32::try_from(encoded.len()).unwrap_or(u32::MAX));
        framed.put_slice(&encoded);
        let mut request = http::Request::new(tonic::body::Body::new(Full::new(framed.freeze())));
        *request.method_mut() = Method::POST;
        *request.uri_mut() = address;
        *request.version_mut() = Version::HTTP_2;
        let headers = request.headers_mut();
        headers.insert(header::TE, HeaderValue::from_static("trailers"));
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
        Ok(request)
    }
}

/// The bytes of a response, as they arrive.
struct Arriving {
    cache: ReapiCache,
    answer: http::Response<GrpcBody>,
    deframer: Deframer,
    /// The unused rest of the last frame.
    frame: Bytes,
    inflater: Option<Inflater>,
    /// Pays for the inflater's memory.
    _paid: Option<BytesPermit>,
    packed: Bytes,
    /// Bytes that have not arrived yet.
    left: u64,
    target: String,
}

impl Arriving {
    async fn next(&mut self) -> Result<Option<Bytes>> {
        loop {
            if let Some(piece) = self.at_hand()? {
                let len = piece.len() as u64;
                self.left = self
                    .left
                    .checked_sub(len)
                    .ok_or_else(|| self.wrong("expected no more bytes than were asked for"))?;
                return Ok(Some(piece));
            }
            let Some(frame) = self.answer.body_mut().frame().await else {
                return self.end();
            };
            let frame = frame.map_err(|error| {
                failure::failed(&Status::from_error(error), Operation::Read, &self.target)
            })?;
            match frame.into_data() {
                Ok(data) => self.frame = data,
                Err(frame) => {
                    let status = frame.trailers_ref().and_then(Status::from_header_map);
                    if let Some(status) = status.filter(|status| status.code() != Code::Ok) {
                        return Err(failure::failed(&status, Operation::Read, &self.target));
                    }
                }
            }
        }
    }

    /// The next bytes that are available without waiting.
    fn at_hand(&mut self) -> Result<Option<Bytes>> {
        loop {
            if let Some(inflater) = &mut self.inflater {
                let unpacked = inflater.next(&mut self.packed, self.left);
                let unpacked = unpacked.map_err(|error| {
                    self.cache.found_bad_zstd();
                    self.wrong(error)
                });
                if let Some(piece) = unpacked? {
                    return Ok(Some(piece));
                }
            }
            let data = self.deframer.next(&mut self.frame);
            match data.map_err(|error| self.wrong(error))? {
                Some(data) if self.inflater.is_some() => self.packed = data,
                data => return Ok(data),
            }
        }
    }

    fn end(&self) -> Result<Option<Bytes>> {
        if self.left == 0 && self.deframer.is_between_messages() {
            return Ok(None);
        }
        let message = format!("the answer ended {} bytes early", self.left);
        Err(Error::new(ErrorKind::Transport, Operation::Read, &self.target, message)
            .retryable(RetryClass::Now))
    }

    /// The damage may have happened in transit, so the caller can retry.
    fn wrong(&self, message: impl std::fmt::Display) -> Error {
        failure::wrong(&self.target, Operation::Read, message).retryable(RetryClass::Now)
    }
}
