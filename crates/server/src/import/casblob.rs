//! A blob in the folder of bazel-remote 2.
//!
//! ```text
//! magic u32 = 0x184D2A50, length of the rest of the head u32; size of the blob u64, compression u8,
//! length of a chunk u32, number of offsets u64, offsets u64 each; then the chunks
//! ```
//!
//! Numbers are little-endian. The last offset is the end of the file. Each chunk is a zstd frame of its
//! own, or the only chunk is the bytes of the blob. Source: `cache/disk/casblob/casblob.go` of
//! bazel-remote.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;

use bytes::{Buf as _, Bytes};
use tidegate_reapi::zstd::unpack;

const MAGIC: u32 = 0x184D_2A50;
const HEAD_BYTES: usize = 29;
const IDENTITY: u8 = 0;
const ZSTD: u8 = 1;
/// bazel-remote writes chunks of 1 MiB.
const CHUNK_BYTES_MAX: u64 = 64 << 20;
/// Bytes of one read of plain bytes.
const PIECE_BYTES: usize = 256 << 10;

/// The bytes of a blob, in order.
#[derive(Debug)]
pub(super) struct CasBlob {
    file: File,
    form: Form,
}

#[derive(Debug)]
enum Form {
    /// Plain bytes from this offset to the end of the file.
    Plain {
        at: u64,
    },
    Chunks {
        offsets: Vec<u64>,
        next: usize,
        chunk_bytes: u64,
        left: u64,
    },
}

impl CasBlob {
    /// A file without a head.
    pub(super) const fn plain(file: File) -> Self {
        Self { file, form: Form::Plain { at: 0 } }
    }

    /// A file with a head. Fails with `InvalidData` if it is none.
    pub(super) fn open(file: File) -> io::Result<Self> {
        let file_bytes = file.metadata()?.len();
        let mut head = vec![0; HEAD_BYTES];
        file.read_exact_at(&mut head, 0)?;
        let mut fields = &head[..];
        let (magic, _, size) = (fields.get_u32_le(), fields.get_u32_le(), fields.get_u64_le());
        let compression = fields.get_u8();
        let chunk_bytes = u64::from(fields.get_u32_le());
        let count = fields.get_u64_le();
        let table_bytes = count.saturating_mul(8);
        let is_table = count >= 2 && table_bytes < file_bytes;
        if magic != MAGIC || !is_table || !(1..=CHUNK_BYTES_MAX).contains(&chunk_bytes) {
            return Err(io::ErrorKind::InvalidData.into());
        }
        let mut table = vec![0; usize::try_from(table_bytes).unwrap_or(usize::MAX)];
        file.read_exact_at(&mut table, HEAD_BYTES as u64)?;
        let offsets: Vec<u64> = table.chunks_exact(8).map(|mut eight| eight.get_u64_le()).collect();
        let is_ordered = offsets.windows(2).all(|two| two[0] < two[1]);
        if !is_ordered || offsets.last() != Some(&file_bytes) {
            return Err(io::ErrorKind::InvalidData.into());
        }
        let form = match compression {
            IDENTITY => Form::Plain { at: offsets[0] },
            ZSTD => Form::Chunks { offsets, next: 0, chunk_bytes, left: size },
            _ => return Err(io::ErrorKind::InvalidData.into()),
        };
        Ok(Self { file, form })
    }

    /// The next bytes; `None` at the end.
    pub(super) fn next_piece(&mut self) -> io::Result<Option<Bytes>> {
        match &mut self.form {
            Form::Plain { at } => {
                let mut piece = vec![0; PIECE_BYTES];
                let read = self.file.read_at(&mut piece, *at)?;
                *at += read as u64;
                piece.truncate(read);
                Ok((read > 0).then(|| piece.into()))
            }
            Form::Chunks { offsets, next, chunk_bytes, left } => {
                let (Some(start), Some(end)) = (offsets.get(*next), offsets.get(*next + 1)) else {
                    let is_whole = *left == 0;
                    return if is_whole {
                        Ok(None)
                    } else {
                        Err(io::ErrorKind::InvalidData.into())
                    };
                };
                // A chunk that does not compress is a little longer.
                if end - start > *chunk_bytes + (*chunk_bytes >> 7) + 512 {
                    return Err(io::ErrorKind::InvalidData.into());
                }
                let mut packed = vec![0; usize::try_from(end - start).unwrap_or(usize::MAX)];
                self.file.read_exact_at(&mut packed, *start)?;
                let len = (*left).min(*chunk_bytes);
                let piece = unpack(&packed, len).map_err(io::Error::other)?;
                if piece.len() as u64 != len {
                    return Err(io::ErrorKind::InvalidData.into());
                }
                *left -= len;
                *next += 1;
                Ok(Some(piece))
            }
        }
    }
}
