//! Messages of gRPC in a body, for every split into frames: "Length-Prefixed-Message" of "gRPC over
//! HTTP/2".
//!
//! A message is a flag of one byte, a length of four bytes, and that many bytes. The flag says
//! whether the message is compressed. Messages here never are, because blobs that compress well are
//! compressed individually (see `zstd`).
//!
//! A length is only a claim: [`MessageReader`] allocates memory only for bytes that have arrived. A
//! message that arrives in one frame is a part of that frame and is not copied.

use bytes::{Buf as _, BufMut as _, Bytes, BytesMut};

use crate::error::{Error, Result};

/// Bytes before a message: a flag and a length.
pub const PREFIX_BYTES: usize = 5;

/// Appends the prefix of a message of `len` bytes.
pub fn put_prefix(target: &mut BytesMut, len: usize) -> Result<()> {
    let length = u32::try_from(len)
        .ok()
        .ok_or(Error::MessageTooLong { len: len as u64, max: u64::from(u32::MAX) })?;
    target.put_u8(0);
    target.put_u32(length);
    Ok(())
}

/// The length of the message after `prefix`. More than `bytes_max` is an error.
pub fn message_len(prefix: [u8; PREFIX_BYTES], bytes_max: u64) -> Result<u32> {
    let [flag, length @ ..] = prefix;
    if flag != 0 {
        return Err(Error::Compressed(flag));
    }
    let len = u32::from_be_bytes(length);
    if u64::from(len) > bytes_max {
        return Err(Error::MessageTooLong { len: len.into(), max: bytes_max });
    }
    Ok(len)
}

/// Extracts whole messages from the frames of a body.
#[derive(Debug)]
pub struct MessageReader {
    bytes_max: u64,
    /// The part of a prefix or of a message that has arrived.
    pending: BytesMut,
    /// The length of the current message; `None` within a prefix.
    len: Option<usize>,
}

impl MessageReader {
    /// A reader for messages of at most `bytes_max` bytes. It holds at most twice that, since its
    /// buffer grows by doubling.
    pub fn new(bytes_max: u64) -> Self {
        Self { bytes_max, pending: BytesMut::new(), len: None }
    }

    /// The next message in `frame`. Removes its bytes from `frame`. `None` when `frame` is empty.
    ///
    /// After an error the rest of the body cannot be read.
    pub fn next(&mut self, frame: &mut Bytes) -> Result<Option<Bytes>> {
        let len = match self.len {
            Some(len) => len,
            None => match self.prefix(frame)? {
                Some(len) => *self.len.insert(len),
                None => return Ok(None),
            },
        };
        if self.pending.is_empty() && frame.len() >= len {
            self.len = None;
            return Ok(Some(frame.split_to(len)));
        }
        self.fill(frame, len);
        if self.pending.len() < len {
            return Ok(None);
        }
        self.len = None;
        Ok(Some(std::mem::take(&mut self.pending).freeze()))
    }

    /// Whether the body may end here.
    pub fn is_between_messages(&self) -> bool {
        self.len.is_none() && self.pending.is_empty()
    }

    /// The length in the prefix, once the prefix is complete.
    fn prefix(&mut self, frame: &mut Bytes) -> Result<Option<usize>> {
        self.fill(frame, PREFIX_BYTES);
        let Some(prefix) = self.pending.first_chunk::<PREFIX_BYTES>() else { return Ok(None) };
        let len = message_len(*prefix, self.bytes_max)?;
        self.pending.clear();
        Ok(Some(usize::try_from(len).unwrap_or(usize::MAX)))
    }

    /// Moves bytes of `frame` until `len` are pending.
    fn fill(&mut self, frame: &mut Bytes, len: usize) {
        let wanted = len.saturating_sub(self.pending.len()).min(frame.len());
        self.pending.extend_from_slice(&frame[..wanted]);
        frame.advance(wanted);
    }
}

/// Counts the messages that have begun. Holds no bytes.
#[derive(Clone, Copy, Debug, Default)]
pub struct MessageCounter {
    messages: usize,
    /// The current prefix, and how many bytes of it have arrived.
    prefix: [u8; PREFIX_BYTES],
    arrived: usize,
    /// Bytes of the current message that have not arrived.
    left: usize,
}

impl MessageCounter {
    /// Takes the next bytes; returns how many messages have begun so far.
    pub fn count(&mut self, mut data: &[u8]) -> usize {
        while !data.is_empty() {
            if self.left > 0 {
                let here = self.left.min(data.len());
                self.left -= here;
                data = &data[here..];
                continue;
            }
            if self.arrived == 0 {
                self.messages += 1;
            }
            self.prefix[self.arrived] = data[0];
            self.arrived += 1;
            data = &data[1..];
            if self.arrived == PREFIX_BYTES {
                let [_, length @ ..] = self.prefix;
                self.left = usize::try_from(u32::from_be_bytes(length)).unwrap_or(usize::MAX);
                self.arrived = 0;
            }
        }
        self.messages
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn body(messages: &[Vec<u8>]) -> Vec<u8> {
        let mut body = BytesMut::new();
        for message in messages {
            put_prefix(&mut body, message.len()).unwrap();
            body.extend_from_slice(message);
        }
        body.to_vec()
    }

    proptest! {
        #[test]
        fn messages_come_back_however_the_body_is_cut(
            messages in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..40), 0..8),
            cuts in prop::collection::vec(0_usize..300, 0..12),
        ) {
            let body = body(&messages);
            let mut cuts: Vec<_> = cuts.into_iter().map(|cut| cut.min(body.len())).collect();
            cuts.extend([0, body.len()]);
            cuts.sort_unstable();
            let (mut reader, mut back) = (MessageReader::new(40), Vec::new());
            for pair in cuts.windows(2) {
                let mut frame = Bytes::copy_from_slice(&body[pair[0]..pair[1]]);
                while let Some(message) = reader.next(&mut frame).unwrap() {
                    back.push(message.to_vec());
                }
                prop_assert!(frame.is_empty());
            }
            prop_assert!(reader.is_between_messages());
            prop_assert_eq!(back, messages);
        }
    }

    #[test]
    fn a_message_within_a_frame_is_not_copied() {
        let mut frame = Bytes::from(body(&[b"abc".to_vec(), b"de".to_vec()]));
        let start = frame.as_ptr() as usize;
        let mut reader = MessageReader::new(3);
        let first = reader.next(&mut frame).unwrap().unwrap();
        assert_eq!((&first[..], first.as_ptr() as usize - start), (&b"abc"[..], 5));
        let second = reader.next(&mut frame).unwrap().unwrap();
        assert_eq!((&second[..], second.as_ptr() as usize - start), (&b"de"[..], 13));
        assert_eq!(reader.next(&mut frame), Ok(None));
    }

    #[test]
    fn a_length_that_is_only_claimed_takes_no_memory() {
        let mut reader = MessageReader::new(u64::MAX);
        let mut frame = Bytes::from_static(&[0, 0xff, 0xff, 0xff, 0xff, 1, 2, 3]);
        assert_eq!(reader.next(&mut frame), Ok(None));
        assert!(!reader.is_between_messages());
        assert!(reader.pending.capacity() < 1024, "{}", reader.pending.capacity());
    }

    #[test]
    fn what_is_compressed_or_too_long_is_refused() {
        let read = |bytes: &'static [u8]| {
            MessageReader::new(2).next(&mut Bytes::from_static(bytes)).map(Option::unwrap)
        };
        assert_eq!(read(&[0, 0, 0, 0, 2, 1, 2]).unwrap(), &[1, 2][..]);
        assert_eq!(read(&[1, 0, 0, 0, 0]), Err(Error::Compressed(1)));
        assert_eq!(read(&[0, 0, 0, 0, 3]), Err(Error::MessageTooLong { len: 3, max: 2 }));
        let mut prefix = BytesMut::new();
        assert_eq!(put_prefix(&mut prefix, 0xffff_ffff), Ok(()));
        assert_eq!(&prefix[..], [0, 0xff, 0xff, 0xff, 0xff]);
        let max = u64::from(u32::MAX);
        let error = Error::MessageTooLong { len: max + 1, max };
        assert_eq!(put_prefix(&mut prefix, 1 << 32), Err(error));
    }

    #[test]
    fn messages_are_counted_however_they_are_cut() {
        let body =
            [&[0, 0, 0, 0, 3][..], b"abc", &[0, 0, 0, 0, 0], &[0, 0, 0, 0, 1], b"x"].concat();
        for cut in 1..=body.len() {
            let mut counter = MessageCounter::default();
            let counts: Vec<usize> = body.chunks(cut).map(|data| counter.count(data)).collect();
            assert_eq!(counts.last(), Some(&3), "{cut}");
            assert_eq!(MessageCounter::default().count(&body[..8]), 1);
            assert_eq!(MessageCounter::default().count(&body[..9]), 2);
        }
    }
}
