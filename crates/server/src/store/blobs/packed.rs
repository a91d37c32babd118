//! A blob as a zstd frame: as it is stored, or compressed on demand.

use bytes::Bytes;
use tidegate_core::digest::Digest;
use tidegate_reapi::zstd::Deflater;

use super::{BlobReader, Blobs};
use crate::store::error::{StoreError, StoreResult};

/// Reads one blob as a zstd frame.
#[derive(Debug)]
pub(crate) struct PackedReader {
    reader: BlobReader,
    /// `None` if the blob is stored compressed, and when the frame has ended.
    deflater: Option<Deflater>,
}

impl Blobs {
    /// Opens a blob from `offset` on as a zstd frame; `None` if it is missing. A whole blob that is
    /// stored compressed is not compressed again.
    pub(crate) fn open_as_packed(
        &self,
        digest: &Digest,
        offset: u64,
    ) -> StoreResult<Option<PackedReader>> {
        if offset == 0
            && let Some(reader) = self.open_packed(digest)?
        {
            return Ok(Some(PackedReader { reader, deflater: None }));
        }
        let Some(reader) = self.open(digest, offset)? else { return Ok(None) };
        let deflater = Deflater::new(digest.len.saturating_sub(offset)).map_err(failed)?;
        Ok(Some(PackedReader { reader, deflater: Some(deflater) }))
    }
}

impl PackedReader {
    /// The next compressed bytes; `None` at the end.
    pub(crate) fn next_piece(&mut self) -> StoreResult<Option<Bytes>> {
        let Some(mut deflater) = self.deflater.take() else { return self.reader.next_piece() };
        let mut packed = Vec::new();
        while packed.is_empty() {
            let Some(piece) = self.reader.next_piece()? else {
                deflater.finish(&mut packed).map_err(failed)?;
                return Ok(Some(packed.into()));
            };
            deflater.push(&piece, &mut packed).map_err(failed)?;
        }
        self.deflater = Some(deflater);
        Ok(Some(packed.into()))
    }
}

fn failed(error: tidegate_reapi::Error) -> StoreError {
    StoreError::disk("compress a blob")(std::io::Error::other(error))
}
