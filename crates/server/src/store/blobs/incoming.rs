//! A blob that arrives: [`Incoming`] plain, [`IncomingPacked`] compressed.
//!
//! Bytes are hashed as they arrive. Short blobs stay in memory, up to 64 KiB; longer ones are a file
//! that no record names yet. So a declared length takes no memory and no space.

use std::io;
use std::sync::Arc;

use bytes::Bytes;
use tidegate_core::checksum::Checksummer;
use tidegate_core::digest::Digest;
use tidegate_reapi::zstd::Inflater;

use super::{Blobs, Form, PIECE_BYTES};
use crate::store::core::{Content, Op};
use crate::store::disk::DiskFile;
use crate::store::error::{StoreError, StoreResult};
use crate::store::files::StagedFile;
use crate::store::key::Key;

/// A blob is kept compressed if that saves at least this part of it: a tenth.
const SAVED_PART: u64 = 10;

/// Bytes on their way into a value: in memory, then in a file.
#[derive(Debug)]
pub(super) struct Spill {
    blobs: Blobs,
    buffer: Vec<u8>,
    file: Option<StagedFile>,
    len: u64,
    /// The length at the end, or 0 if it is not known.
    expected_len: u64,
}

impl Spill {
    pub(super) fn new(blobs: &Blobs) -> Self {
        Self { blobs: blobs.clone(), buffer: Vec::new(), file: None, len: 0, expected_len: 0 }
    }

    pub(super) fn write(&mut self, bytes: &[u8]) -> StoreResult<()> {
        let inline_max = self.blobs.core.options().inline_bytes_max;
        // A file from the start if the blob is known to be longer than a record: then no memory is
        // held while the bytes arrive.
        let len = (self.buffer.len() + bytes.len()) as u64;
        if self.file.is_none() && len.max(self.expected_len) > inline_max as u64 {
            // The hash is ours: it covers both the buffer and the file.
            let mut file = self.blobs.stage()?;
            self.blobs.write_staged(&mut file, &self.buffer)?;
            self.buffer = Vec::new();
            self.file = Some(file);
        }
        match &mut self.file {
            Some(file) => self.blobs.write_staged(file, bytes)?,
            None => self.buffer.extend_from_slice(bytes),
        }
        self.len += bytes.len() as u64;
        Ok(())
    }

    /// At most `max` bytes that were written, at `offset`.
    pub(super) fn read(&self, offset: u64, max: usize) -> StoreResult<Bytes> {
        let left = usize::try_from(self.len - offset).unwrap_or(usize::MAX).min(max);
        let start = usize::try_from(offset).unwrap_or(usize::MAX);
        let Some(file) = &self.file else {
            return Ok(Bytes::copy_from_slice(self.buffer.get(start..start + left).unwrap_or(&[])));
        };
        let mut bytes = vec![0; left];
        let read = file.file().read_at(&mut bytes, offset);
        if read.map_err(StoreError::disk("read a file"))? != left {
            let cut = io::Error::from(io::ErrorKind::UnexpectedEof);
            return Err(StoreError::disk("read a file")(cut));
        }
        Ok(bytes.into())
    }

    /// The file that has all bytes so far; `None` while they are in memory.
    pub(super) fn staged_file(&self) -> Option<Arc<dyn DiskFile>> {
        self.file.as_ref().map(|file| Arc::clone(file.file()))
    }

    /// The content of a value that is in memory.
    pub(super) fn whole(blobs: &Blobs, bytes: &Bytes) -> StoreResult<Content> {
        if bytes.len() <= blobs.core.options().inline_bytes_max {
            return Ok(Content::Bytes(bytes.clone()));
        }
        let mut spill = Self::new(blobs);
        spill.write(bytes)?;
        Ok(spill.content())
    }

    fn content(self) -> Content {
        match self.file {
            Some(file) => Content::File(file),
            None => Content::Bytes(self.buffer.into()),
        }
    }

    /// Gives the blob's key this value.
    pub(super) fn commit(self, digest: &Digest, form: Form) -> StoreResult<()> {
        let key = self.blobs.key(digest);
        self.commit_as(key, form, digest.len)
    }

    /// The bytes that were written.
    pub(super) fn len(&self) -> u64 {
        self.len
    }

    /// Gives a key this value.
    pub(super) fn commit_as(self, key: Key, form: Form, size: u64) -> StoreResult<()> {
        let blobs = self.blobs.clone();
        let op = Op::Put { key, form: form as u8, size, content: self.content() };
        blobs.commit(vec![op]).pop().unwrap_or(Err(StoreError::Closed))
    }
}

/// The hash of bytes as they arrive.
#[derive(Debug)]
struct Hashing {
    digest: Digest,
    hash: Option<Checksummer>,
    seen: u64,
}

impl Hashing {
    fn new(digest: &Digest) -> Self {
        let hash = Checksummer::new(digest.function.algorithm()).ok();
        Self { digest: *digest, hash, seen: 0 }
    }

    /// Fails with `Mismatch` as soon as there are too many bytes.
    fn update(&mut self, bytes: &[u8]) -> StoreResult<()> {
        self.seen += bytes.len() as u64;
        if self.seen > self.digest.len {
            return Err(StoreError::Mismatch);
        }
        if let Some(hash) = &mut self.hash {
            hash.update(bytes);
        }
        Ok(())
    }

    fn finish(self) -> StoreResult<()> {
        let hash = self.hash.map(Checksummer::finish);
        if self.seen == self.digest.len && hash == Some(self.digest.checksum()) {
            return Ok(());
        }
        Err(StoreError::Mismatch)
    }
}

/// A blob that arrives plain.
#[derive(Debug)]
pub(crate) struct Incoming {
    hashing: Hashing,
    spill: Spill,
}

impl Blobs {
    /// A blob that arrives plain. Dropping it keeps nothing.
    pub(crate) fn receive(&self, digest: &Digest) -> Incoming {
        let spill = Spill { expected_len: digest.len, ..Spill::new(self) };
        Incoming { hashing: Hashing::new(digest), spill }
    }

    /// A blob that arrives as a zstd frame. Dropping it keeps nothing.
    pub(crate) fn receive_packed(&self, digest: &Digest) -> StoreResult<IncomingPacked> {
        Ok(IncomingPacked {
            hashing: Hashing::new(digest),
            spill: Spill::new(self),
            inflater: new_inflater()?,
        })
    }
}

impl Incoming {
    /// Bytes that were written.
    pub(crate) fn len(&self) -> u64 {
        self.spill.len
    }

    /// The next bytes. Fails with `Mismatch` if they are too many.
    pub(crate) fn write(&mut self, bytes: &[u8]) -> StoreResult<()> {
        self.hashing.update(bytes)?;
        self.spill.write(bytes)
    }

    /// Names the blob. Fails with `Mismatch` if the bytes have another digest.
    pub(crate) fn finish(self) -> StoreResult<()> {
        let digest = self.hashing.digest;
        self.hashing.finish()?;
        if digest.len == 0 {
            return Ok(());
        }
        self.spill.commit(&digest, Form::Plain)
    }
}

/// A blob that arrives compressed. It is kept so if that saves a tenth.
#[derive(Debug)]
pub(crate) struct IncomingPacked {
    hashing: Hashing,
    spill: Spill,
    inflater: Inflater,
}

impl IncomingPacked {
    /// Compressed bytes that were written.
    pub(crate) fn len(&self) -> u64 {
        self.spill.len
    }

    /// The next compressed bytes. Fails with `Mismatch` if they are no zstd frame with a window of
    /// at most 8 MiB, or hold more bytes than the digest says.
    pub(crate) fn write(&mut self, packed: &[u8]) -> StoreResult<()> {
        self.spill.write(packed)?;
        // An incompressible blob grows by 1/256 at most. What is longer is no compression.
        if self.spill.len > self.hashing.digest.len + self.hashing.digest.len / 8 + 4096 {
            return Err(StoreError::Mismatch);
        }
        let mut rest = Bytes::copy_from_slice(packed);
        let Self { hashing, inflater, .. } = self;
        inflate(inflater, &mut rest, hashing, Hashing::update)
    }

    /// Names the blob. Fails with `Mismatch` if the bytes have another digest, or the frame does not
    /// end.
    pub(crate) fn finish(self) -> StoreResult<()> {
        let Self { hashing, spill, inflater } = self;
        let digest = hashing.digest;
        hashing.finish()?;
        if !inflater.is_between_frames() {
            return Err(StoreError::Mismatch);
        }
        if digest.len == 0 {
            return Ok(());
        }
        if saves_enough(spill.len, digest.len) {
            return spill.commit(&digest, Form::Zstd);
        }
        // It saves too little, so every read would inflate for nothing.
        let mut plain = spill.blobs.receive(&digest);
        let mut inflater = new_inflater()?;
        let mut offset = 0;
        while offset < spill.len {
            let mut packed = spill.read(offset, PIECE_BYTES)?;
            offset += packed.len() as u64;
            inflate(&mut inflater, &mut packed, &mut plain, Incoming::write)?;
        }
        drop(spill);
        plain.finish()
    }
}

/// Whether a blob of `len` bytes is kept as `packed` bytes.
pub(super) fn saves_enough(packed: u64, len: u64) -> bool {
    packed <= len - len / SAVED_PART && packed < len
}

pub(super) fn new_inflater() -> StoreResult<Inflater> {
    Inflater::new().map_err(|error| StoreError::disk("create a decoder")(io::Error::other(error)))
}

/// Inflates all of `packed`. The output of a step is bounded, so a bomb ends at the digest's length.
fn inflate<T>(
    inflater: &mut Inflater,
    packed: &mut Bytes,
    to: &mut T,
    mut write: impl FnMut(&mut T, &[u8]) -> StoreResult<()>,
) -> StoreResult<()> {
    loop {
        let step = inflater.next(packed, PIECE_BYTES as u64).ok();
        match step.ok_or(StoreError::Mismatch)? {
            Some(piece) => write(to, &piece)?,
            None => return Ok(()),
        }
    }
}

impl Blobs {
    /// Puts blobs that are in memory, the short ones in one group. The results are in their order.
    pub(crate) fn put_all(&self, blobs: &[(Digest, Bytes)]) -> Vec<StoreResult<()>> {
        let inline_max = self.core.options().inline_bytes_max;
        let mut results = Vec::with_capacity(blobs.len());
        let (mut ops, mut places) = (Vec::new(), Vec::new());
        for (place, (digest, bytes)) in blobs.iter().enumerate() {
            let is_right = Digest::of(digest.function, bytes) == *digest;
            results.push(if !is_right {
                Err(StoreError::Mismatch)
            } else if bytes.is_empty() {
                Ok(())
            } else if bytes.len() > inline_max {
                self.put_long(digest, bytes)
            } else {
                let key = self.key(digest);
                let content = Content::Bytes(bytes.clone());
                ops.push(Op::Put { key, form: Form::Plain as u8, size: digest.len, content });
                places.push(place);
                Ok(())
            });
        }
        for (place, result) in places.into_iter().zip(self.commit(ops)) {
            if let Some(slot) = results.get_mut(place) {
                *slot = result;
            }
        }
        results
    }

    /// Puts a blob that is too long for a record. Its hash is known to be right.
    fn put_long(&self, digest: &Digest, bytes: &[u8]) -> StoreResult<()> {
        let mut spill = Spill::new(self);
        spill.write(bytes)?;
        spill.commit(digest, Form::Plain)
    }
}
