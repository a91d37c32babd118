//! [`RealDisk`]: a folder of this machine.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;

use rustix::fs::{FallocateFlags, fallocate, fdatasync};
use rustix::io::{Errno, ReadWriteFlags, preadv2, pwritev};

use super::{Disk, DiskFile, OpenMode};

/// Files that one call syncs at a time. A disk's queue gains little beyond that.
const SYNCS_MAX: usize = 8;

/// The most pieces that the kernel accepts in one call (`IOV_MAX` on Linux).
const PIECES_MAX: usize = 1024;

/// A folder of this machine.
#[derive(Debug)]
pub struct RealDisk {
    root: PathBuf,
}

impl RealDisk {
    /// The disk below the folder `root`. Creates the folder if it does not exist.
    pub fn open(root: impl Into<PathBuf>) -> io::Result<Self> {
        let root = root.into();
        std::fs::create_dir_all(&root)?;
        Ok(Self { root })
    }

    /// The folder.
    pub fn root(&self) -> &Path {
        &self.root
    }

    fn path(&self, path: &str) -> PathBuf {
        if path.is_empty() { self.root.clone() } else { self.root.join(path) }
    }
}

impl Disk for RealDisk {
    fn open(&self, path: &str, mode: OpenMode) -> io::Result<Arc<dyn DiskFile>> {
        let mut options = OpenOptions::new();
        options.read(true);
        match mode {
            OpenMode::Read => {}
            OpenMode::Write => {
                options.write(true);
            }
            OpenMode::Create => {
                options.write(true).create(true).truncate(true);
            }
        }
        Ok(Arc::new(RealFile(options.open(self.path(path))?)))
    }

    fn create_folder(&self, path: &str) -> io::Result<()> {
        match std::fs::create_dir(self.path(path)) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
            outcome => outcome,
        }
    }

    fn sync_folder(&self, path: &str) -> io::Result<()> {
        File::open(self.path(path))?.sync_all()
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        std::fs::rename(self.path(from), self.path(to))
    }

    fn unlink(&self, path: &str) -> io::Result<()> {
        std::fs::remove_file(self.path(path))
    }

    fn list(&self, folder: &str) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in std::fs::read_dir(self.path(folder))? {
            // The store gives its files names in ASCII only. Other names are not its own.
            if let Ok(name) = entry?.file_name().into_string() {
                names.push(name);
            }
        }
        Ok(names)
    }

    fn boot_id(&self) -> String {
        let read = std::fs::read_to_string("/proc/sys/kernel/random/boot_id");
        read.map(|id| id.trim().to_owned()).unwrap_or_default()
    }

    fn sync_files(&self, files: &[Arc<dyn DiskFile>]) -> Vec<io::Result<()>> {
        if let [file] = files {
            return vec![file.sync()];
        }
        let mut results = Vec::with_capacity(files.len());
        for some in files.chunks(SYNCS_MAX) {
            thread::scope(|scope| {
                let syncs: Vec<_> = some.iter().map(|file| scope.spawn(|| file.sync())).collect();
                results.extend(syncs.into_iter().map(|sync| {
                    sync.join().unwrap_or_else(|_| Err(io::Error::other("a sync panicked")))
                }));
            });
        }
        results
    }
}

#[derive(Debug)]
struct RealFile(File);

impl DiskFile for RealFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let mut read = 0;
        while read < buffer.len() {
            match self.0.read_at(&mut buffer[read..], offset + read as u64) {
                Ok(0) => break,
                Ok(more) => read += more,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(read)
    }

    fn read_cached_at(&self, buffer: &mut [u8], offset: u64) -> bool {
        let len = buffer.len();
        let mut pieces = [io::IoSliceMut::new(buffer)];
        // It fails, or returns less, at a page that is not in the cache; it also fails on a file
        // system that cannot tell.
        preadv2(&self.0, &mut pieces, offset, ReadWriteFlags::NOWAIT) == Ok(len)
    }

    fn write_at(&self, pieces: &[io::IoSlice<'_>], mut offset: u64) -> io::Result<()> {
        for some in pieces.chunks(PIECES_MAX) {
            let mut owned: Vec<io::IoSlice<'_>> =
                some.iter().map(|piece| io::IoSlice::new(piece)).collect();
            let mut rest = owned.as_mut_slice();
            while rest.iter().any(|piece| !piece.is_empty()) {
                match pwritev(&self.0, rest, offset) {
                    Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                    Ok(written) => {
                        offset += written as u64;
                        io::IoSlice::advance_slices(&mut rest, written);
                    }
                    Err(Errno::INTR) => {}
                    Err(error) => return Err(error.into()),
                }
            }
        }
        Ok(())
    }

    fn allocate(&self, len: u64) -> io::Result<()> {
        match fallocate(&self.0, FallocateFlags::empty(), 0, len) {
            // The file system cannot reserve space. The length alone is enough to work.
            Err(Errno::OPNOTSUPP | Errno::NOSYS) => self.0.set_len(len),
            outcome => Ok(outcome?),
        }
    }

    fn sync(&self) -> io::Result<()> {
        Ok(fdatasync(&self.0)?)
    }

    fn byte_len(&self) -> io::Result<u64> {
        Ok(self.0.metadata()?.len())
    }
}
