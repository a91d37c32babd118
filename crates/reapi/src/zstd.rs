//! Compression and decompression with Zstandard (RFC 8878). Memory is bounded by the expected
//! length, not by the length that the bytes claim.

use std::fmt;

use ::zstd::bulk;
use ::zstd::stream::raw::{
    CParameter, DParameter, Decoder, Encoder, InBuffer, Operation, OutBuffer,
};
use bytes::{Buf as _, Bytes, BytesMut};

use crate::error::{Error, Result};

/// The fastest of the ordinary levels: a higher one makes the sender slower than most links.
const LEVEL: i32 = 1;

/// The largest window that is decoded, as a power of two: 8 MiB, the limit that RFC 8878
/// (3.1.1.1.2) recommends to encoders. Streams with a larger window are refused.
const WINDOW_LOG_MAX: u32 = 23;

/// The most memory that decoding a stream takes: the window, and the decoder with its buffers.
pub const INFLATER_BYTES: u64 = (1 << WINDOW_LOG_MAX) + (512 << 10);

/// The most bytes that one step returns.
const STEP_BYTES: usize = 256 << 10;

/// The length of a blob's sample, its first bytes, which decide whether compression is worth it.
pub const SAMPLE_BYTES: usize = 64 << 10;

/// Decompresses a stream.
pub struct Inflater {
    decoder: Decoder<'static>,
    /// The last step filled its buffer, so the decoder may return more without input.
    full: bool,
    /// The last step ended a frame, or there was none.
    is_between_frames: bool,
}

impl Inflater {
    /// Fails if the library cannot allocate memory for it.
    pub fn new() -> Result<Self> {
        let mut decoder = Decoder::new().map_err(error)?;
        decoder.set_parameter(DParameter::WindowLogMax(WINDOW_LOG_MAX)).map_err(error)?;
        Ok(Self { decoder, full: false, is_between_frames: true })
    }

    /// The next decompressed bytes, never empty. Removes the used input from `packed`; `None` when
    /// it is used up. `left` is how many bytes are still expected. At most one byte more than that
    /// is returned, so that the caller detects an excess.
    pub fn next(&mut self, packed: &mut Bytes, left: u64) -> Result<Option<Bytes>> {
        let room = usize::try_from(left.saturating_add(1)).unwrap_or(usize::MAX).min(STEP_BYTES);
        while self.full || packed.has_remaining() {
            let mut piece = BytesMut::zeroed(room);
            let step = self.decoder.run_on_buffers(packed, &mut piece).map_err(error)?;
            packed.advance(step.bytes_read);
            if step.bytes_read > 0 || step.bytes_written > 0 {
                self.is_between_frames = step.remaining == 0;
            }
            self.full = step.bytes_written == room;
            if step.bytes_written > 0 {
                piece.truncate(step.bytes_written);
                // A short piece must not keep a large buffer alive.
                let short = piece.len() < room / 4;
                return Ok(Some(if short {
                    Bytes::copy_from_slice(&piece)
                } else {
                    piece.freeze()
                }));
            }
        }
        Ok(None)
    }

    /// Whether the input so far ends at the end of a frame, and not within one.
    pub fn is_between_frames(&self) -> bool {
        self.is_between_frames
    }
}

/// Compresses a stream.
pub struct Deflater {
    encoder: Encoder<'static>,
}

impl Deflater {
    /// For a blob of this length, which is written to the frame's header.
    pub fn new(len: u64) -> Result<Self> {
        let mut encoder = Encoder::new(LEVEL).map_err(error)?;
        encoder.set_pledged_src_size(Some(len)).map_err(error)?;
        encoder.set_parameter(CParameter::ContentSizeFlag(true)).map_err(error)?;
        Ok(Self { encoder })
    }

    /// Compresses all of `bytes`, and appends the available output to `packed`.
    pub fn push(&mut self, bytes: &[u8], packed: &mut Vec<u8>) -> Result<()> {
        let mut input = InBuffer::around(bytes);
        while input.pos() < bytes.len() {
            let start = packed.len();
            packed.resize(start + STEP_BYTES, 0);
            let mut output = OutBuffer::around_pos(packed, start);
            self.encoder.run(&mut input, &mut output).map_err(error)?;
            let end = output.pos();
            packed.truncate(end);
        }
        Ok(())
    }

    /// Appends the rest of the output.
    pub fn finish(&mut self, packed: &mut Vec<u8>) -> Result<()> {
        loop {
            let start = packed.len();
            packed.resize(start + STEP_BYTES, 0);
            let mut output = OutBuffer::around_pos(packed, start);
            let left = self.encoder.finish(&mut output, true).map_err(error)?;
            let end = output.pos();
            packed.truncate(end);
            if left == 0 {
                return Ok(());
            }
        }
    }
}

/// Decompresses bytes whose decompressed length must be `len`. Allocates `len` bytes at once. So
/// the caller must check `len` against its limits first, in particular if the peer sent it.
pub fn unpack(packed: &[u8], len: u64) -> Result<Bytes> {
    let room =
        usize::try_from(len).ok().ok_or(Error::MessageTooLong { len, max: usize::MAX as u64 })?;
    Ok(bulk::decompress(packed, room).map_err(error)?.into())
}

/// The compressed bytes, if they are at least an eighth shorter.
pub fn pack_if_worth_it(bytes: &[u8]) -> Option<Bytes> {
    let packed = bulk::compress(bytes, LEVEL).ok()?;
    (packed.len() <= bytes.len() - bytes.len() / 8).then(|| packed.into())
}

impl fmt::Debug for Inflater {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Inflater").finish_non_exhaustive()
    }
}

impl fmt::Debug for Deflater {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Deflater").finish_non_exhaustive()
    }
}

/// The library reports its errors as text.
fn error(error: impl fmt::Display) -> Error {
    Error::Zstd(error.to_string())
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    fn packed(bytes: &[u8]) -> Bytes {
        let mut deflater = Deflater::new(bytes.len() as u64).unwrap();
        let mut packed = Vec::new();
        for piece in bytes.chunks(70_000) {
            deflater.push(piece, &mut packed).unwrap();
        }
        deflater.finish(&mut packed).unwrap();
        packed.into()
    }

    fn sample(len: usize) -> Vec<u8> {
        (0..len).map(|i| u8::try_from((i / 7 * 31 + i / 1000) % 251).unwrap()).collect()
    }

    #[test]
    fn bytes_come_back_however_the_stream_is_cut() {
        for len in [1, 1000, STEP_BYTES, 3 * STEP_BYTES + 17] {
            let bytes = sample(len);
            let whole = packed(&bytes);
            for cut in [1, 13, 4096, whole.len()] {
                let mut inflater = Inflater::new().unwrap();
                let mut back = Vec::new();
                for piece in whole.chunks(cut) {
                    let mut piece = Bytes::copy_from_slice(piece);
                    loop {
                        let left = (len - back.len()) as u64;
                        let Some(bytes) = inflater.next(&mut piece, left).unwrap() else { break };
                        back.extend_from_slice(&bytes);
                    }
                }
                assert!(back == bytes, "{len} bytes cut by {cut}");
                assert!(inflater.is_between_frames(), "{len} bytes cut by {cut}");
            }
        }
    }

    #[test]
    fn a_bomb_gives_no_more_than_one_byte_too_many() {
        let mut bomb = packed(&vec![0; 64 << 20]);
        assert!(bomb.len() < 64 << 10);
        let first = Inflater::new().unwrap().next(&mut bomb, 10).unwrap().unwrap();
        assert_eq!(first.len(), 11);
        assert!(unpack(&packed(&vec![0; 100_000]), 10).is_err());
    }

    #[test]
    fn a_window_that_is_too_large_is_refused() {
        let mut encoder = ::zstd::stream::Encoder::new(Vec::new(), LEVEL).unwrap();
        encoder.window_log(WINDOW_LOG_MAX + 1).unwrap();
        io::Write::write_all(&mut encoder, &sample(100_000)).unwrap();
        let mut packed = Bytes::from(encoder.finish().unwrap());
        let error = Inflater::new().unwrap().next(&mut packed, 1 << 20).unwrap_err();
        assert!(error.to_string().contains("memory"), "{error}");
    }

    #[test]
    fn what_is_no_zstd_is_an_error() {
        let mut noise = Bytes::from_static(b"this is no frame at all");
        assert!(Inflater::new().unwrap().next(&mut noise, 10).is_err());
        assert!(unpack(b"", 10).unwrap_or_default().is_empty());
    }

    #[test]
    fn what_does_not_shrink_is_left_alone() {
        let mut state = 1_u64;
        let noise: Vec<u8> = std::iter::repeat_with(|| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 56) as u8
        })
        .take(10_000)
        .collect();
        assert!(pack_if_worth_it(&noise).is_none());
        assert!(pack_if_worth_it(&sample(10_000)).is_some());
    }
}
