//! Tests of the deframer: streams cut in any way, and invalid bytes.

use proptest::prelude::*;
use prost::Message as _;

use super::*;
use crate::bytestream::{ReadResponse, WriteRequest};

fn framed(message: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0];
    bytes.extend_from_slice(&u32::try_from(message.len()).unwrap().to_be_bytes());
    bytes.extend_from_slice(message);
    bytes
}

fn take(deframer: &mut Deframer, frames: &[&[u8]]) -> Result<Vec<u8>> {
    let mut data = Vec::new();
    for frame in frames {
        let mut frame = Bytes::copy_from_slice(frame);
        while let Some(piece) = deframer.next(&mut frame)? {
            assert!(!piece.is_empty());
            data.extend_from_slice(&piece);
        }
    }
    Ok(data)
}

proptest! {
    #[test]
    fn data_does_not_depend_on_frames(
        messages in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..300), 0..6),
        unknown in prop::collection::vec(0_usize..4, 6),
        cuts in prop::collection::vec(0_usize..2_000, 0..12),
    ) {
        let mut stream = Vec::new();
        for (message, unknown) in messages.iter().zip(unknown) {
            // Fields of a later version: a number, 8 bytes, text, 4 bytes.
            let mut encoded: Vec<u8> = match unknown {
                0 => vec![],
                1 => vec![0x08, 0xff, 0x01, 0x11, 1, 2, 3, 4, 5, 6, 7, 8],
                2 => vec![0x1a, 3, b'a', b'b', b'c'],
                _ => vec![0x25, 1, 2, 3, 4],
            };
            let data = Bytes::copy_from_slice(message);
            encoded.extend(ReadResponse { data }.encode_to_vec());
            stream.extend(framed(&encoded));
        }
        let mut cuts: Vec<_> = cuts.into_iter().map(|cut| cut.min(stream.len())).collect();
        cuts.extend([0, stream.len()]);
        cuts.sort_unstable();
        let frames: Vec<_> = cuts.windows(2).map(|pair| &stream[pair[0]..pair[1]]).collect();
        let mut deframer = Deframer::new();
        prop_assert_eq!(take(&mut deframer, &frames).unwrap(), messages.concat());
        prop_assert!(deframer.is_between_messages());
    }

    #[test]
    fn noise_is_refused_or_read_but_never_a_panic(
        noise in prop::collection::vec(any::<u8>(), 0..200),
    ) {
        let mut whole = Vec::from([0, 0, 0, 1, 0]);
        whole.extend(noise);
        let _ = take(&mut Deframer::new(), &[&whole]);
    }
}

#[test]
fn what_is_no_such_message_is_refused() {
    for (message, error) in [
        (&[0x52, 9, 1][..], Error::FieldTooLong { len: 9, left: 1 }),
        (&[0x52, 1, 1, 0x52, 1, 2], Error::DataRepeated),
        (&[0x02, 0], Error::Field(2)),
        (&[0x0b, 0], Error::Field(0x0b)),
        (&[0x52], Error::FieldTooLong { len: 1, left: 0 }),
        (&[0x08, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2], Error::Varint),
        (&[0x11, 1], Error::FieldTooLong { len: 8, left: 1 }),
    ] {
        let stream = framed(message);
        assert_eq!(take(&mut Deframer::new(), &[&stream]), Err(error), "{message:?}");
    }
    let compressed = take(&mut Deframer::new(), &[&[1, 0, 0, 0, 0]]);
    assert_eq!(compressed, Err(Error::Compressed(1)));
}

#[test]
fn an_end_within_a_message_shows() {
    let stream = framed(&ReadResponse { data: Bytes::from_static(b"abc") }.encode_to_vec());
    for end in 1..stream.len() {
        let mut deframer = Deframer::new();
        take(&mut deframer, &[&stream[..end]]).unwrap();
        assert!(!deframer.is_between_messages(), "{end}");
    }
}

/// Decodes the requests as a server does: each with its other fields, and all of its data.
fn requests(stream: &[u8], cut: usize, bytes_max: usize) -> Result<Vec<WriteRequest>> {
    let mut deframer = Deframer::keeping_fields(bytes_max);
    let (mut requests, mut data) = (Vec::new(), Vec::new());
    for frame in stream.chunks(cut) {
        let mut frame = Bytes::copy_from_slice(frame);
        while let Some(part) = deframer.next_part(&mut frame)? {
            let fields = WriteRequest::decode(deframer.fields()).unwrap();
            match part {
                Part::Data(piece) => data.extend_from_slice(&piece),
                Part::End => {
                    let data = std::mem::take(&mut data).into();
                    requests.push(WriteRequest { data, ..fields });
                }
            }
        }
    }
    assert!(deframer.is_between_messages());
    Ok(requests)
}

fn write(name: &str, data: &'static [u8]) -> WriteRequest {
    let resource_name = name.to_owned();
    let data = Bytes::from_static(data);
    WriteRequest { resource_name, write_offset: 300, finish_write: true, data }
}

#[test]
fn the_other_fields_are_kept_wherever_they_stand() {
    let sent = [write("a/b", b"some data"), write("", b"x"), write("c", b""), write("", b"")];
    let mut stream: Vec<u8> =
        sent.iter().flat_map(|request| framed(&request.encode_to_vec())).collect();
    // The data comes before the other fields; and a message without fields.
    let late = [&[0x52, 3][..], b"abc", &[0x0a, 1], b"n", &[0x10, 5]].concat();
    stream.extend(framed(&late));
    stream.extend(framed(&[]));
    for cut in 1..=stream.len() {
        let back = requests(&stream, cut, 20).unwrap();
        assert_eq!(back[..4], sent, "{cut}");
        assert_eq!((back[4].write_offset, &back[4].data[..]), (5, &b"abc"[..]), "{cut}");
        assert_eq!((back[4].resource_name.as_str(), back.len()), ("n", 6), "{cut}");
        assert_eq!(back[5], WriteRequest::default(), "{cut}");
    }
}

#[test]
fn too_many_other_fields_are_refused_when_their_length_is_claimed() {
    let request = write("name", b"data");
    let stream = framed(&request.encode_to_vec());
    // The name with its number and length (6), the offset (3), the end (2).
    assert_eq!(requests(&stream, 3, 11), Ok(vec![request]));
    assert_eq!(requests(&stream, 3, 10), Err(Error::FieldsTooLong { max: 10 }));
    let claim = [0, 0xff, 0, 0, 0, 0x0a, 0xff, 0xff, 0xff, 0x07];
    let mut deframer = Deframer::keeping_fields(1 << 20);
    let part = deframer.next_part(&mut Bytes::copy_from_slice(&claim));
    assert_eq!(part, Err(Error::FieldsTooLong { max: 1 << 20 }));
    assert!(deframer.fields().len() < 20);
}
