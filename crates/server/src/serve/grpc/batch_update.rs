//! `ContentAddressableStorage.BatchUpdateBlobs`, decoded in place: the bytes of each blob are a slice
//! of the message until they are in the log. The blobs of a call are one group of the store.

use bytes::{Bytes, BytesMut};
use prost::Message as _;
use tidegate_core::digest::{Digest, DigestFunction};
use tidegate_reapi::Error;
use tidegate_reapi::framing::{PREFIX_BYTES, put_prefix};
use tidegate_reapi::v2::compressor::Value as Compressor;
use tonic::Status;

use super::fields::{Fields, Value, digest, field_len, put_bytes, put_len};
use super::reply::Reply;
use super::request::RequestMessage;
use super::{Api, Outcome, function, status};
use crate::store::BatchEntry;

/// The fields of the request and of the response.
const REQUESTS: u64 = 2;
const RESPONSES: u32 = 1;
const DIGEST: u32 = 1;
const STATUS: u32 = 2;

/// Entries of one call: 64 MiB of the shortest ones would be gigabytes once they are decoded. Clients
/// that send blobs of one byte reach 4,000,000 bytes with fewer.
const ENTRIES_MAX: usize = 64 << 10;

/// A blob of a request, or why it is refused.
struct Entry<'a> {
    /// The digest as it came.
    raw: &'a [u8],
    blob: Outcome<BatchEntry>,
}

impl Api {
    pub(super) async fn batch_update(&self, message: RequestMessage) -> Outcome {
        let entries = decode(&message.bytes).map_err(|error| status::invalid(&error))?;
        let (instance, entries) = entries?;
        self.check_instance(instance)?;
        let packed = entries.iter().filter_map(|entry| entry.blob.as_ref().ok());
        let unpacked_bytes = packed.filter(|blob| blob.is_packed).map(|blob| blob.digest.len).sum();
        let _permit = match unpacked_bytes {
            0 => None,
            bytes => {
                // The call holds its message, so it must not wait.
                let permit = self.parts.budget.try_bytes(bytes);
                let within = bytes <= self.parts.budget.limits().bytes;
                Some(permit.filter(|_| within).ok_or_else(|| status::no_memory(bytes))?)
            }
        };
        let mut blobs = Vec::with_capacity(entries.len());
        let mut refused = Vec::with_capacity(entries.len());
        for entry in entries {
            refused.push((entry.raw, entry.blob.map(|blob| blobs.push(blob)).err()));
        }
        let bytes = blobs.iter().map(|blob| blob.digest.len).sum();
        self.check_quota(instance, bytes)?;
        let results = self.store.put_entries(blobs).await;
        self.count_written(instance, bytes);
        let mut results = results.map_err(|error| status::of(&error))?.into_iter();
        let statuses: Vec<(&[u8], Vec<u8>)> = refused
            .into_iter()
            .map(|(raw, refusal)| {
                let status = refusal.or_else(|| {
                    results.next().and_then(Result::err).map(|error| status::of(&error))
                });
                (raw, status.map_or(Vec::new(), |one| status::in_batch(&one).encode_to_vec()))
            })
            .collect();
        response(&statuses)
    }
}

/// Each digest with its status; an empty one is a success.
fn response(statuses: &[(&[u8], Vec<u8>)]) -> Outcome {
    let inner = |(raw, status): &(&[u8], Vec<u8>)| {
        field_len(DIGEST, raw.len()) + field_len(STATUS, status.len())
    };
    let len = statuses.iter().map(|one| field_len(RESPONSES, inner(one))).sum();
    let mut response = BytesMut::with_capacity(PREFIX_BYTES + len);
    put_prefix(&mut response, len).map_err(|error| status::invalid(&error))?;
    for one in statuses {
        put_len(&mut response, RESPONSES, inner(one));
        put_bytes(&mut response, DIGEST, one.0);
        put_bytes(&mut response, STATUS, &one.1);
    }
    Ok(Reply::pieces([response.freeze()], None))
}

/// The instance and the blobs of a request.
fn decode(message: &Bytes) -> Result<Outcome<(&str, Vec<Entry<'_>>)>, Error> {
    let (mut instance, mut number, mut count) = ("", 0, 0);
    for field in Fields::of(message) {
        match field? {
            (1, Value::Bytes(name)) => {
                instance = std::str::from_utf8(name).ok().ok_or(Error::Malformed)?;
            }
            (REQUESTS, Value::Bytes(_)) => count += 1,
            (5, Value::Number(value)) => number = value,
            (1 | 2 | 5, _) => return Err(Error::Malformed),
            _ => {}
        }
    }
    if count > ENTRIES_MAX {
        return Err(Error::TooManyEntries { count, max: ENTRIES_MAX });
    }
    let function = match function(i32::try_from(number).unwrap_or(i32::MAX)) {
        Ok(function) => function,
        Err(status) => return Ok(Err(status)),
    };
    let mut entries = Vec::with_capacity(count);
    for field in Fields::of(message) {
        if let (REQUESTS, Value::Bytes(request)) = field? {
            entries.push(entry(message, request, function)?);
        }
    }
    Ok(Ok((instance, entries)))
}

/// One blob. A message that is malformed fails the call; a digest that is invalid fails the blob.
fn entry<'a>(
    message: &Bytes,
    request: &'a [u8],
    function: DigestFunction,
) -> Result<Entry<'a>, Error> {
    let (mut raw, mut data, mut compressor): (&[u8], &[u8], u64) = (&[], &[], 0);
    for field in Fields::of(request) {
        match field? {
            (1, Value::Bytes(value)) => raw = value,
            (2, Value::Bytes(value)) => data = value,
            (3, Value::Number(value)) => compressor = value,
            (1..=3, _) => return Err(Error::Malformed),
            _ => {}
        }
    }
    let blob = match digest(raw, function) {
        Ok(digest) => blob(digest, message.slice_ref(data), compressor),
        Err(error) => Err(status::invalid(&error)),
    };
    Ok(Entry { raw, blob })
}

fn blob(digest: Digest, data: Bytes, compressor: u64) -> Outcome<BatchEntry> {
    let compressor = i32::try_from(compressor).ok().and_then(|number| number.try_into().ok());
    let is_packed = match compressor {
        Some(Compressor::Identity) => false,
        Some(Compressor::Zstd) => true,
        _ => return Err(Status::invalid_argument("expected no compressor or zstd")),
    };
    if !is_packed && data.len() as u64 != digest.len {
        let (expected, got) = (digest.len, data.len());
        let message = format!("expected {expected} bytes of {digest}, got {got}");
        return Err(Status::invalid_argument(message));
    }
    if is_packed && digest.len > super::REQUEST_BYTES_MAX {
        let message = format!("{digest} is too long for a batch; write it by ByteStream");
        return Err(Status::invalid_argument(message));
    }
    Ok(BatchEntry { digest, data, is_packed })
}
