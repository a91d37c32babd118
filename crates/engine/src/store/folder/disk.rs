//! [`Disk`]: the folder's files, and reading and writing them. All calls block.
//!
//! ```text
//! ROOT/.incoming/...               files that are being written
//! ROOT/sha256/ab/cd/HASH-LEN       a blob; `abcd` are the first digits of its hash
//! ROOT/sha256/ab/cd/HASH-LEN.chunks   the manifest of a blob
//! ```

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read as _};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use bytes::{Bytes, BytesMut};
use tidegate_core::digest::Digest;

use super::incoming::{self, Incoming};
use super::manifest_file;
use crate::error::{Error, ErrorKind, Operation, Result};
use crate::store::Manifest;
use crate::store::verify::Verifier;

/// Size of one frame of a body, and of one read.
pub(super) const FRAME_BYTES: usize = 256 << 10;

/// Bytes hashed in one call, so that a cancelled `get` ends soon: about 50 ms.
const STEP_BYTES: u64 = 64 << 20;

/// Maximum length of a manifest's text: 800,000 chunks, which are 400 GiB in chunks of 512 KiB.
pub(super) const MANIFEST_BYTES_MAX: u64 = 64 << 20;

/// The files of one store.
#[derive(Debug)]
pub(super) struct Disk {
    root: PathBuf,
    incoming: PathBuf,
}

/// A blob's file during its verification.
#[derive(Debug)]
pub(super) struct Checking {
    file: File,
    verifier: Verifier,
    /// The bytes, if they fit into one frame.
    whole: Option<Bytes>,
}

/// A blob's file after a step of its verification.
pub(super) enum Checked {
    /// More bytes remain to be verified.
    More(Checking),
    /// The file matches its digest; with its bytes, if they fit into one frame.
    Right(File, Option<Bytes>),
}

/// A manifest's file. Files are replaced, never changed, so its length stays what it was.
#[derive(Debug)]
pub(super) struct ManifestText {
    file: File,
    len: u64,
}

impl ManifestText {
    /// In bytes.
    pub(super) fn len(&self) -> u64 {
        self.len
    }

    /// The text, at most as long as [`Self::len`].
    fn text(&self) -> impl BufRead {
        BufReader::new((&self.file).take(self.len.min(MANIFEST_BYTES_MAX)))
    }
}

impl Disk {
    /// Opens the files in `root`. Creates the folder if it does not exist.
    pub(super) fn open(root: &Path) -> io::Result<Self> {
        std::fs::create_dir_all(root)?;
        let root = root.canonicalize()?;
        let incoming = root.join(".incoming");
        std::fs::create_dir_all(&incoming)?;
        incoming::clean(&incoming)?;
        Ok(Self { root, incoming })
    }

    pub(super) fn root(&self) -> &Path {
        &self.root
    }

    fn path(&self, digest: &Digest, suffix: &str) -> PathBuf {
        let hash = digest.checksum().hex();
        let (first, second) = (hash.get(..2).unwrap_or(""), hash.get(2..4).unwrap_or(""));
        let name = format!("{hash}-{}{suffix}", digest.len);
        self.root.join(digest.function.name()).join(first).join(second).join(name)
    }

    fn blob(&self, digest: &Digest) -> PathBuf {
        self.path(digest, "")
    }

    fn manifest(&self, digest: &Digest) -> PathBuf {
        self.path(digest, ".chunks")
    }

    /// Whether the blob has its own file; does not read its bytes.
    pub(super) fn has_file(&self, digest: &Digest) -> bool {
        let found = std::fs::metadata(self.blob(digest));
        found.is_ok_and(|found| found.is_file() && found.len() == digest.len)
    }

    /// Whether the blob has a file, or a manifest whose chunks all have files.
    pub(super) fn has(&self, digest: &Digest) -> Result<bool> {
        if digest.len == 0 || self.has_file(digest) {
            return Ok(true);
        }
        let Some(opened) = self.open_manifest(digest)? else { return Ok(false) };
        let mut has_all = true;
        let scanned = manifest_file::scan(digest, opened.text(), |chunk| {
            has_all = has_all && self.has_file(&chunk);
        });
        if scanned.map_err(|error| self.unreadable(digest, error))?.is_none() {
            // A damaged manifest is removed, so that the blob can be registered again.
            drop(self.damaged_manifest(digest));
            return Ok(false);
        }
        Ok(has_all)
    }

    /// Creates a file for a blob that has none.
    pub(super) fn create(&self, digest: &Digest) -> Result<Incoming> {
        Incoming::create(&self.incoming).map_err(|error| self.unwritable(digest, error))
    }

    pub(super) fn write(
        &self,
        digest: &Digest,
        incoming: &mut Incoming,
        bytes: &[u8],
    ) -> Result<()> {
        incoming.write(bytes).map_err(|error| self.unwritable(digest, error))
    }

    /// Gives the verified file its name.
    pub(super) fn commit(&self, digest: &Digest, incoming: Incoming) -> Result<()> {
        incoming.commit(&self.blob(digest)).map_err(|error| self.unwritable(digest, error))
    }

    /// Opens the blob's file for verification; `None` if it has none.
    pub(super) fn begin_check(&self, digest: &Digest) -> Result<Option<Checking>> {
        let file = match File::open(self.blob(digest)) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(self.unreadable(digest, error)),
        };
        Ok(Some(Checking { file, verifier: Verifier::new(digest), whole: None }))
    }

    /// Verifies up to [`STEP_BYTES`] more. A file that does not match its digest is removed, so
    /// that the blob can be put again: `Integrity`.
    pub(super) fn check(&self, digest: &Digest, mut checking: Checking) -> Result<Checked> {
        let mut stepped = 0;
        let mut buffer = BytesMut::new();
        while stepped < STEP_BYTES {
            let left = digest.len.saturating_sub(checking.verifier.seen_bytes());
            // Reads one byte more than expected: a longer file is damaged, too.
            let len = usize::try_from(left).unwrap_or(usize::MAX).min(FRAME_BYTES - 1) + 1;
            buffer.resize(len, 0);
            let read = checking.file.read(&mut buffer);
            let read = match read {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                read => read.map_err(|error| self.unreadable(digest, error))?,
            };
            if read == 0 {
                let Checking { file, verifier, whole } = checking;
                return match verifier.finish() {
                    Ok(()) => Ok(Checked::Right(file, whole)),
                    Err(message) => Err(self.damaged(digest, &self.blob(digest), message)),
                };
            }
            let bytes = buffer.get(..read).unwrap_or_default();
            let is_first = checking.verifier.seen_bytes() == 0;
            checking.verifier.update(bytes);
            if checking.verifier.seen_bytes() > digest.len {
                let message = format!("expected {} bytes, got more", digest.len);
                return Err(self.damaged(digest, &self.blob(digest), message));
            }
            if is_first && read as u64 == digest.len {
                checking.whole = Some(buffer.split_to(read).freeze());
            }
            stepped += read as u64;
        }
        Ok(Checked::More(checking))
    }

    /// A frame of a verified file.
    pub(super) fn read(&self, digest: &Digest, file: &File, offset: u64) -> Result<Bytes> {
        let left = usize::try_from(digest.len - offset).unwrap_or(usize::MAX);
        let mut frame = BytesMut::zeroed(left.min(FRAME_BYTES));
        let read = file.read_exact_at(&mut frame, offset);
        read.map_err(|error| self.unreadable(digest, error))?;
        Ok(frame.freeze())
    }

    /// Hashes a chunk's bytes into `whole`; `false` if it has no file.
    pub(super) fn add_chunk(&self, chunk: &Digest, whole: &mut Verifier) -> Result<bool> {
        let Some(Checking { mut file, .. }) = self.begin_check(chunk)? else { return Ok(false) };
        let mut buffer = BytesMut::zeroed(FRAME_BYTES);
        loop {
            match file.read(&mut buffer) {
                Ok(0) => return Ok(true),
                Ok(read) => whole.update(buffer.get(..read).unwrap_or_default()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(self.unreadable(chunk, error)),
            }
        }
    }

    /// Opens the blob's manifest; `None` if it has none.
    pub(super) fn open_manifest(&self, digest: &Digest) -> Result<Option<ManifestText>> {
        let opened = File::open(self.manifest(digest)).and_then(|file| {
            let len = file.metadata()?.len();
            Ok(ManifestText { file, len })
        });
        match opened {
            Ok(text) => Ok(Some(text)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(self.unreadable(digest, error)),
        }
    }

    /// Reads the blob's manifest. A damaged one is removed: `Integrity`.
    pub(super) fn read_manifest(&self, digest: &Digest, opened: &ManifestText) -> Result<Manifest> {
        let manifest = manifest_file::decode(digest, opened.text());
        let manifest = manifest.map_err(|error| self.unreadable(digest, error))?;
        manifest.ok_or_else(|| self.damaged_manifest(digest))
    }

    fn damaged_manifest(&self, digest: &Digest) -> Error {
        self.damaged(digest, &self.manifest(digest), "its manifest is damaged".to_owned())
    }

    pub(super) fn write_manifest(&self, blob: &Digest, text: &str) -> Result<()> {
        let written = Incoming::create(&self.incoming).and_then(|mut incoming| {
            incoming.write(text.as_bytes())?;
            incoming.commit(&self.manifest(blob))
        });
        written.map_err(|error| self.unwritable(blob, error))
    }

    fn damaged(&self, digest: &Digest, path: &Path, message: String) -> Error {
        // If the removal fails, the next reader reports the same error.
        let removed = std::fs::remove_file(path);
        let error = self.error(ErrorKind::Integrity, Operation::Read, digest, message);
        match removed {
            Ok(()) => error.with_hint("the damaged file was removed; put the blob again"),
            Err(_) => error.with_hint(format!("remove {}", path.display())),
        }
    }

    fn unreadable(&self, digest: &Digest, error: io::Error) -> Error {
        let message = "the file cannot be read";
        self.error(ErrorKind::Storage, Operation::Read, digest, message).caused_by(error)
    }

    fn unwritable(&self, digest: &Digest, error: io::Error) -> Error {
        let message = "the file cannot be written";
        self.error(ErrorKind::Storage, Operation::Write, digest, message).caused_by(error)
    }

    fn error(
        &self,
        kind: ErrorKind,
        operation: Operation,
        digest: &Digest,
        message: impl Into<String>,
    ) -> Error {
        Error::new(kind, operation, format!("{digest} in {}", self.root.display()), message)
    }
}
