//! Files of large values: one each, under an internal number.
//!
//! | file | idea |
//! |---|---|
//! | `staged` | a file that is being written and that no record names yet |
//! | `stored` | a file that a record names: reads with checked CRCs |
//! | `buffers` | the memory of pieces that are read |
//! | `numbers` | which numbers are in use, and which files must be removed |
//!
//! A file is its value, then the CRC32C of each 64 KiB of the value. Its record has the CRC32C of
//! those CRCs. Its path is `files/` with the number's low 12 bits as a folder.

mod buffers;
mod numbers;
mod staged;
mod stored;

pub(crate) use buffers::ReadBuffers;
pub(crate) use numbers::{Files, SavedFiles, Unsynced};
pub use staged::StagedFile;
pub(crate) use stored::FileDescription;
pub use stored::StoredFile;

/// The folder of the folders of files.
pub(crate) const FOLDER: &str = "files";

/// Folders, so that none has many files: with 8 million files each has 2,000.
const FOLDERS: u64 = 4096;

pub(crate) fn folder(number: u64) -> String {
    format!("{FOLDER}/{:03x}", number % FOLDERS)
}

pub(crate) fn path(number: u64) -> String {
    format!("{}/{number:016x}", folder(number))
}
