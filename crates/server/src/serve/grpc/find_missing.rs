//! `ContentAddressableStorage.FindMissingBlobs`, decoded in place.
//!
//! A build asks for thousands of digests at a time. Each is read where it lies in the message, and
//! those of missing blobs are copied from the message into the response as they are.

use bytes::BytesMut;
use tidegate_core::digest::Digest;
use tidegate_reapi::Error;
use tidegate_reapi::framing::{PREFIX_BYTES, put_prefix};

use super::fields::{Fields, Value, digest, field_len, put_bytes};
use super::reply::Reply;
use super::request::RequestMessage;
use super::{Api, Outcome, function, status};

/// The fields of the request and of the response.
const DIGESTS: u64 = 2;
const MISSING: u32 = 2;

/// A digest in a message is at least this long: its key and length, and the hash.
const DIGEST_BYTES_MIN: usize = 70;

impl Api {
    pub(super) async fn find_missing(&self, message: RequestMessage) -> Outcome {
        let digests = decode(&message.bytes).map_err(|error| status::invalid(&error))?;
        let (instance, digests) = digests?;
        self.check_instance(instance)?;
        let present = self.store.present(digests).await;
        let present = present.map_err(|error| status::of(&error))?;
        let missing = || entries(&message.bytes).zip(&present).filter(|(_, is_there)| !**is_there);
        let len = missing().map(|(entry, _)| field_len(MISSING, entry.len())).sum();
        let mut response = BytesMut::with_capacity(PREFIX_BYTES + len);
        put_prefix(&mut response, len).map_err(|error| status::invalid(&error))?;
        for (entry, _) in missing() {
            put_bytes(&mut response, MISSING, entry);
        }
        let hits = present.iter().filter(|is_there| **is_there).count();
        let reply = Reply::pieces([response.freeze()], None);
        Ok(reply.with_lookups(hits, present.len() - hits))
    }
}

/// The instance and the digests of a request.
fn decode(message: &[u8]) -> Result<Outcome<(&str, Vec<Digest>)>, Error> {
    let (mut instance, mut number) = ("", 0);
    for field in Fields::of(message) {
        match field? {
            (1, Value::Bytes(name)) => {
                instance = std::str::from_utf8(name).ok().ok_or(Error::Malformed)?;
            }
            (3, Value::Number(value)) => number = value,
            (DIGESTS, Value::Bytes(_)) => {}
            (1..=3, _) => return Err(Error::Malformed),
            _ => {}
        }
    }
    let function = match function(i32::try_from(number).unwrap_or(i32::MAX)) {
        Ok(function) => function,
        Err(status) => return Ok(Err(status)),
    };
    let mut digests = Vec::with_capacity(message.len() / DIGEST_BYTES_MIN);
    for entry in entries(message) {
        digests.push(digest(entry, function)?);
    }
    Ok(Ok((instance, digests)))
}

/// The bytes of each digest. The message was checked.
fn entries(message: &[u8]) -> impl Iterator<Item = &[u8]> {
    Fields::of(message).filter_map(|field| match field {
        Ok((DIGESTS, Value::Bytes(entry))) => Some(entry),
        _ => None,
    })
}
