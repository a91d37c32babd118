//! [`decode`]: counts the entries of a message before it allocates records for them.
//!
//! An empty entry takes two bytes of a message and up to 150 bytes of memory once it is decoded. So
//! a limit on a message's length does not bound its decoded size: 8 MB of empty entries become 600
//! MB. A client knows how many blobs it asked for, and a server how many it allows in one request.

use bytes::{Buf as _, Bytes};
use prost::Message;
use prost::encoding::{DecodeContext, WireType, decode_key, decode_varint, skip_field};

use crate::error::{Error, Result};

/// The maximum number of entries of one kind in a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EntryLimit {
    /// The field numbers of the path to the entries. In a `BatchUpdateBlobsResponse`, `[1]` is the
    /// responses and `[1, 2, 3]` the details of their statuses.
    pub path: &'static [u32],
    /// The maximum of entries in the whole message.
    pub count_max: usize,
}

/// Decodes a message if it is within its limits. Fields of bytes share the message's memory.
pub fn decode<M: Message + Default>(message: Bytes, limits: &[EntryLimit]) -> Result<M> {
    for limit in limits {
        let count = count(&message, limit.path).ok_or(Error::Malformed)?;
        if count > limit.count_max {
            return Err(Error::TooManyEntries { count, max: limit.count_max });
        }
    }
    Ok(M::decode(message)?)
}

/// The number of fields at the end of `path` in a message. Each step of the path is a field that is
/// itself a message. `None` if the bytes are not a message.
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
    use super::*;
    use crate::v2::batch_update_blobs_response::Response as One;
    use crate::{rpc, v2};

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

    #[test]
    fn a_message_is_decoded_within_its_limits() {
        type Many = v2::BatchUpdateBlobsResponse;
        let message = Bytes::from(response(7, 3));
        let limits = |entries, details| {
            [
                EntryLimit { path: &[1], count_max: entries },
                EntryLimit { path: &[1, 2, 3], count_max: details },
            ]
        };
        let decoded: Many = decode(message.clone(), &limits(7, 21)).unwrap();
        assert_eq!(decoded.responses.len(), 7);
        let refused = |entries, details| decode::<Many>(message.clone(), &limits(entries, details));
        assert_eq!(refused(6, 21), Err(Error::TooManyEntries { count: 7, max: 6 }));
        assert_eq!(refused(7, 20), Err(Error::TooManyEntries { count: 21, max: 20 }));
        let noise = Bytes::from_static(&[0x0a, 5, 1]);
        assert_eq!(decode::<Many>(noise.clone(), &limits(7, 21)), Err(Error::Malformed));
        assert!(matches!(decode::<Many>(noise, &[]), Err(Error::Decode(_))));
    }

    #[test]
    fn bytes_are_not_copied() {
        let data = vec![7; 1000].into();
        let message = Bytes::from(crate::bytestream::ReadResponse { data }.encode_to_vec());
        let decoded: crate::bytestream::ReadResponse = decode(message.clone(), &[]).unwrap();
        assert_eq!(decoded.data.as_ptr(), message[message.len() - 1000..].as_ptr());
    }
}
