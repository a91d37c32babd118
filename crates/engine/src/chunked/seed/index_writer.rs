//! [`IndexWriter`]: writes the index of a file in bounded memory, for any number of chunks.
//!
//! The index gets its name only when it is complete, and replaces an older index. It has the read
//! permissions of its file.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufReader, BufWriter, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use tidegate_core::checksum::{ChecksumAlgorithm, Checksummer};
use tidegate_core::digest::Digest;

use super::index::{MAGIC, RECORD_BYTES, SUFFIX, path_of};
use crate::names::hidden_name;
use crate::sink::file::access::{Access, PRIVATE_MODE};

const BUFFER_BYTES: usize = 256 << 10;

/// An index that is being written. If it is dropped before [`Self::finish`], its file is removed.
#[derive(Debug)]
pub(super) struct IndexWriter {
    file: BufWriter<File>,
    path: PathBuf,
    /// The temporary name, until it is complete.
    new: PathBuf,
    /// The position of the number of chunks in the index.
    count_at: u64,
    count: u64,
}

/// Writes the index of `file`, whose path is `seed`. Blocks.
pub(super) fn save(seed: &Path, file: &File, header: &[u8], chunks: &[Digest]) -> io::Result<()> {
    let mut index = IndexWriter::begin(seed, header)?;
    index.append(chunks)?;
    index.finish(file)
}

impl IndexWriter {
    /// Starts the index of `seed` with this header. All methods block.
    pub(super) fn begin(seed: &Path, header: &[u8]) -> io::Result<Self> {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let path = path_of(seed).filter(|_| !header.is_empty());
        let path = path.ok_or_else(|| io::Error::from(io::ErrorKind::Unsupported))?;
        let unique = COUNT.fetch_add(1, Ordering::Relaxed);
        // The name of the index may already have the maximum length, so nothing is appended to it.
        let suffix = format!("{SUFFIX}-{}-{unique}", std::process::id());
        let new = path.with_file_name(hidden_name(seed.file_name().unwrap_or_default(), &suffix));
        let mut options = OpenOptions::new();
        let options = options.read(true).write(true).create_new(true).mode(PRIVATE_MODE);
        let file = BufWriter::with_capacity(BUFFER_BYTES, options.open(&new)?);
        let count_at = (MAGIC.len() + 4 + header.len()) as u64;
        let mut index = Self { file, path, new, count_at, count: 0 };
        let header_bytes = u32::try_from(header.len()).map_err(io::Error::other)?;
        index.file.write_all(&MAGIC)?;
        index.file.write_all(&header_bytes.to_le_bytes())?;
        index.file.write_all(header)?;
        index.file.write_all(&index.count.to_le_bytes())?;
        Ok(index)
    }

    /// The final name.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Appends the next chunks.
    pub(super) fn append(&mut self, chunks: &[Digest]) -> io::Result<()> {
        for chunk in chunks {
            let mut record = [0; RECORD_BYTES];
            record[..32].copy_from_slice(&chunk.hash);
            record[32..].copy_from_slice(&chunk.len.to_le_bytes());
            self.file.write_all(&record)?;
        }
        self.count += chunks.len() as u64;
        Ok(())
    }

    /// Completes the index. `file` is the file that was cut; the index gets its permissions.
    pub(super) fn finish(mut self, file: &File) -> io::Result<()> {
        self.file.flush()?;
        self.file.get_ref().write_all_at(&self.count.to_le_bytes(), self.count_at)?;
        let seal = self.seal()?;
        self.file.write_all(&seal)?;
        self.file.flush()?;
        Access::of_file(file)?.without_running().give(self.file.get_ref())?;
        fs::rename(&self.new, &self.path)
    }

    /// Hashes everything written so far. Leaves the position at the end.
    fn seal(&mut self) -> io::Result<Vec<u8>> {
        let mut hasher = Checksummer::new(ChecksumAlgorithm::Blake3).map_err(io::Error::other)?;
        let mut input = BufReader::with_capacity(BUFFER_BYTES, self.file.get_ref());
        input.seek(SeekFrom::Start(0))?;
        let mut bytes = vec![0; BUFFER_BYTES];
        loop {
            match input.read(&mut bytes) {
                Ok(0) => return Ok(hasher.finish().as_bytes().to_vec()),
                Ok(count) => hasher.update(&bytes[..count]),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }
}

impl Drop for IndexWriter {
    fn drop(&mut self) {
        // A complete index has been renamed, so this finds no file. Errors are ignored, because
        // there is no better reaction.
        let _ = fs::remove_file(&self.new);
    }
}
