//! [`Acknowledged`]: the blobs that the server has acknowledged to hold, by the protocol's rules.
//!
//! A separate strict reader parses the responses as they are sent, after all lies. It does not know
//! the lies. A test can therefore check that each success of a client has an acknowledgement. A lie
//! that no client can detect, such as an acknowledgement of dropped bytes, is also an
//! acknowledgement here.
//!
//! The rules, by call:
//! * Any: HTTP status 200, a content type of gRPC, exactly one message, uncompressed, and status 0
//!   in every place that has a status. `Write`, `BatchUpdateBlobs` and `SpliceBlob` may end with
//!   `ALREADY_EXISTS` instead.
//! * `FindMissingBlobs`: acknowledges the requested blobs that it does not name as missing. A
//!   response with a digest that is malformed or was not requested acknowledges nothing.
//! * `BatchUpdateBlobs`: acknowledges the blobs that it names with success and nowhere with an
//!   error.
//! * `Write`: `committed_size` is the blob's length. Compressed: that, -1, or the number of
//!   received bytes after all bytes have arrived.
//! * `QueryWriteStatus`: complete, and `committed_size` is the blob's length.
//! * `SpliceBlob`: names the blob or none.
//!
//! Source: `remote_execution.proto`, `bytestream.proto`, and gRPC's `doc/statuscodes.md` on the
//! number of messages.

use std::collections::{HashMap, HashSet};

use bytes::Bytes;
use prost::Message;
use tidegate_reapi::{
    bytestream::{QueryWriteStatusResponse, WriteResponse},
    v2,
};

use super::super::{
    blob_name::{BlobName, HashFunction, signed},
    status::Code,
};
use super::reply::{End, Reply};

/// The blobs of a call that its response can acknowledge.
#[derive(Debug, Clone, Default)]
pub(crate) enum Asked {
    #[default]
    Nothing,
    FindMissing(Vec<BlobName>),
    BatchUpdate(Vec<BlobName>),
    Write {
        blob: BlobName,
        is_packed: bool,
        /// Everything has arrived.
        is_whole: bool,
        /// Received bytes of this call and of the calls that it continues.
        arrived: u64,
    },
    WriteStatus(BlobName),
    Splice(Spliced),
}

/// A blob and its chunks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Spliced {
    /// The blob.
    pub blob: BlobName,
    /// Its chunks, in order.
    pub chunks: Vec<BlobName>,
}

/// See the module docs.
#[derive(Debug, Clone, Default)]
pub struct Acknowledged {
    stored: HashSet<BlobName>,
    found: HashSet<BlobName>,
    spliced: Vec<Spliced>,
}

impl Acknowledged {
    /// Whether any call has acknowledged the blob.
    pub fn holds(&self, name: &BlobName) -> bool {
        self.stored.contains(name) || self.found.contains(name)
    }

    /// Whether a `FindMissingBlobs` has acknowledged the blob.
    pub fn found(&self, name: &BlobName) -> bool {
        self.found.contains(name)
    }

    /// The blobs that were acknowledged to consist of chunks.
    pub fn spliced(&self) -> &[Spliced] {
        &self.spliced
    }

    /// Records the acknowledgements of a response.
    pub(crate) fn read(&mut self, asked: &Asked, reply: &Reply) {
        let Some(said) = Said::of(reply) else { return };
        match asked {
            Asked::Nothing => {}
            Asked::FindMissing(asked) => self.found.extend(present(asked, &said)),
            Asked::BatchUpdate(asked) => self.stored.extend(updated(asked, &said)),
            Asked::Write { blob, is_packed, is_whole, arrived } => {
                let is_there = said.is_there_already() || {
                    let committed = said.message::<WriteResponse>().map(|said| said.committed_size);
                    let len = signed(blob.len_bytes);
                    committed == Some(len)
                        || *is_packed
                            && (committed == Some(-1)
                                || *is_whole && committed == Some(signed(*arrived)))
                };
                self.stored.extend(is_there.then(|| blob.clone()));
            }
            Asked::WriteStatus(blob) => {
                let said = said.message::<QueryWriteStatusResponse>().unwrap_or_default();
                let is_there = said.complete && said.committed_size == signed(blob.len_bytes);
                self.stored.extend(is_there.then(|| blob.clone()));
            }
            Asked::Splice(spliced) => {
                let made = said.message::<v2::SpliceBlobResponse>().map(|said| said.blob_digest);
                let is_made = match made {
                    Some(None) => true,
                    Some(Some(made)) => made == spliced.blob.message(),
                    None => said.is_there_already(),
                };
                if is_made {
                    self.stored.insert(spliced.blob.clone());
                    self.spliced.push(spliced.clone());
                }
            }
        }
    }
}

fn present(asked: &[BlobName], said: &Said) -> Vec<BlobName> {
    let Some(answer) = said.message::<v2::FindMissingBlobsResponse>() else { return Vec::new() };
    let missing = &answer.missing_blob_digests;
    let is_asked = |digest: &v2::Digest| asked.iter().any(|name| name.message() == *digest);
    if !missing.iter().all(is_asked) {
        return Vec::new();
    }
    asked.iter().filter(|name| !missing.contains(&name.message())).cloned().collect()
}

fn updated(asked: &[BlobName], said: &Said) -> Vec<BlobName> {
    let Some(answer) = said.message::<v2::BatchUpdateBlobsResponse>() else { return Vec::new() };
    let mut codes: HashMap<&str, Vec<(i64, i32)>> = HashMap::new();
    for response in &answer.responses {
        let Some(digest) = &response.digest else { continue };
        let code = response.status.as_ref().map_or(0, |status| status.code);
        codes.entry(&digest.hash).or_default().push((digest.size_bytes, code));
    }
    let is_stored = |name: &&BlobName| {
        let codes = codes.get(&*name.hash).map(Vec::as_slice).unwrap_or_default();
        let mut mine = codes.iter().filter(|(size, _)| *size == signed(name.len_bytes)).peekable();
        let is_named = mine.peek().is_some();
        is_named && mine.all(|(_, code)| *code == 0 || *code == Code::AlreadyExists as i32)
    };
    asked.iter().filter(is_stored).cloned().collect()
}

/// A response that follows gRPC.
struct Said {
    code: i32,
    message: Option<Bytes>,
}

impl Said {
    fn of(reply: &Reply) -> Option<Self> {
        let End::Trailers(trailers) = &reply.end else { return None };
        let kind = reply.head.get(http::header::CONTENT_TYPE);
        if reply.http != 200
            || !kind?.as_bytes().starts_with(b"application/grpc")
            || reply.head.contains_key(http::header::CONTENT_LENGTH)
            || reply.dangling > 0
        {
            return None;
        }
        let statuses = [&reply.head, trailers].map(|fields| fields.get_all("grpc-status"));
        let statuses = statuses.iter().flatten().map(http::HeaderValue::as_bytes);
        let statuses: Vec<&[u8]> = statuses.collect();
        let (first, others) = statuses.split_first()?;
        if others.iter().any(|other| other != first) {
            return None;
        }
        let code = std::str::from_utf8(first).ok()?.parse().ok()?;
        let message = match &reply.messages[..] {
            [] => None,
            [one] if one.flag == 0 && one.is_framed() => Some(one.body.clone()),
            _ => return None,
        };
        Some(Self { code, message })
    }

    /// The message of a success.
    fn message<M: Message + Default>(&self) -> Option<M> {
        let message = self.message.clone().filter(|_| self.code == 0)?;
        M::decode(message).ok()
    }

    fn is_there_already(&self) -> bool {
        self.code == Code::AlreadyExists as i32
    }
}

/// The well-formed digests of a request; others acknowledge nothing.
pub(crate) fn named<'a>(
    function: i32,
    digests: impl Iterator<Item = Option<&'a v2::Digest>>,
) -> Vec<BlobName> {
    let Ok(function) = HashFunction::of_number(function) else { return Vec::new() };
    digests.filter_map(|digest| BlobName::of_message(function, digest).ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::super::super::status::GrpcStatus;
    use super::super::lie::{EndLie, HeadLie, Lie, MessageLie};
    use super::*;

    fn name(data: &[u8]) -> BlobName {
        HashFunction::Sha256.name(data)
    }

    fn reply(message: &impl Message, lies: &[Lie]) -> Reply {
        let mut reply = Reply::honest(vec![message.encode_to_vec().into()], &GrpcStatus::ok());
        reply.tell(lies);
        reply
    }

    fn stored(asked: &Asked, reply: &Reply, name: &BlobName) -> bool {
        let mut acknowledged = Acknowledged::default();
        acknowledged.read(asked, reply);
        acknowledged.holds(name)
    }

    #[test]
    fn a_write_is_acknowledged_by_its_length() {
        let blob = name(b"0123456789");
        let cases = [
            (10, false, false, true),
            (9, false, true, false),
            (-1, false, true, false),
            (-1, true, false, true),
            (10, true, false, true),
            (7, true, true, true),
            (7, true, false, false),
            (7, false, true, false),
        ];
        for (committed_size, is_packed, is_whole, expected) in cases {
            let asked = Asked::Write { blob: blob.clone(), is_packed, is_whole, arrived: 7 };
            let reply = reply(&WriteResponse { committed_size }, &[]);
            let actual = stored(&asked, &reply, &blob);
            assert_eq!(actual, expected, "{committed_size} {is_packed} {is_whole}");
        }
    }

    #[test]
    fn a_response_that_violates_grpc_acknowledges_nothing() {
        let blob = name(b"0123456789");
        let asked = Asked::WriteStatus(blob.clone());
        let whole = QueryWriteStatusResponse { committed_size: 10, complete: true };
        assert!(stored(&asked, &reply(&whole, &[]), &blob));
        assert!(stored(&asked, &reply(&whole, &[Lie::Message(MessageLie::Data(1))]), &blob));
        for lie in [
            Lie::Head(HeadLie::Http(503)),
            Lie::Head(HeadLie::ContentType(None)),
            Lie::Head(HeadLie::Status(5)),
            Lie::Message(MessageLie::Repeat(0)),
            Lie::Message(MessageLie::Flag(0, 1)),
            Lie::Message(MessageLie::Omit(0)),
            Lie::Message(MessageLie::Dangling(3)),
            Lie::End(EndLie::NoStatus),
            Lie::End(EndLie::NoTrailers),
            Lie::End(EndLie::Twice(0, 13)),
            Lie::End(EndLie::Word("OK")),
            Lie::End(EndLie::Status(6)),
        ] {
            assert!(!stored(&asked, &reply(&whole, std::slice::from_ref(&lie)), &blob), "{lie:?}");
        }
        let part = QueryWriteStatusResponse { committed_size: 9, complete: true };
        assert!(!stored(&asked, &reply(&part, &[]), &blob));
    }

    #[test]
    fn an_error_outweighs_a_success_in_a_batch() {
        let (blob, other) = (name(b"blob"), name(b"other"));
        let asked = Asked::BatchUpdate(vec![blob.clone(), other.clone()]);
        let entry = |name: &BlobName, code| v2::batch_update_blobs_response::Response {
            digest: Some(name.message()),
            status: Some(tidegate_reapi::rpc::Status { code, ..Default::default() }),
        };
        for (responses, expected) in [
            (vec![entry(&blob, 0)], true),
            (vec![entry(&blob, 6), entry(&blob, 0)], true),
            (vec![entry(&blob, 0), entry(&blob, 13)], false),
            (vec![entry(&blob, 13), entry(&blob, 0)], false),
            (vec![entry(&other, 0)], false),
            (vec![], false),
        ] {
            let batch = v2::BatchUpdateBlobsResponse { responses: responses.clone() };
            assert_eq!(stored(&asked, &reply(&batch, &[]), &blob), expected, "{responses:?}");
        }
    }

    #[test]
    fn a_blob_that_the_list_omits_exists_unless_the_list_is_wrong() {
        let (blob, other) = (name(b"blob"), name(b"other"));
        let asked = Asked::FindMissing(vec![blob.clone()]);
        for (missing, expected) in
            [(vec![], true), (vec![blob.message()], false), (vec![other.message()], false)]
        {
            let answer = v2::FindMissingBlobsResponse { missing_blob_digests: missing };
            let mut acknowledged = Acknowledged::default();
            acknowledged.read(&asked, &reply(&answer, &[]));
            assert_eq!(acknowledged.found(&blob), expected, "{answer:?}");
        }
    }

    #[test]
    fn chunks_make_the_blob_that_is_named() {
        let (blob, other) = (name(b"blob"), name(b"other"));
        let spliced = Spliced { blob: blob.clone(), chunks: vec![other.clone()] };
        let asked = Asked::Splice(spliced);
        for (blob_digest, expected) in
            [(None, true), (Some(blob.message()), true), (Some(other.message()), false)]
        {
            let answer = v2::SpliceBlobResponse { blob_digest };
            assert_eq!(stored(&asked, &reply(&answer, &[]), &blob), expected, "{answer:?}");
        }
        let already = GrpcStatus::new(Code::AlreadyExists, "");
        assert!(stored(&asked, &Reply::honest(Vec::new(), &already), &blob));
    }
}
