//! The folder of bazel-remote 2.
//!
//! | path | what it is |
//! |---|---|
//! | `cas.v2/ab/HASH-SIZE-RANDOM` | a blob with a head, see `casblob` |
//! | `cas.v2/ab/HASH-RANDOM.v1` | a blob, plain |
//! | `ac.v2/ab/HASH-RANDOM` | an action result |
//! | `raw.v2/ab/HASH-RANDOM` | a value that was not checked |
//!
//! HASH is in SHA-256. Blobs come first, because an action result is stored only if everything that it
//! needs is there. bazel-remote has no instances; results get the one that the caller names. For
//! gRPC, the name of a result has the length of its action, which is that of the blob with this hash; a
//! result whose action is not among the blobs is found over HTTP alone.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use tidegate::{Error, ErrorKind, Operation, Result};
use tidegate_core::checksum::Checksum;
use tidegate_core::digest::DigestFunction;

use super::casblob::CasBlob;
use crate::store::closure::UnknownFields;
use crate::store::{ActionName, ActionPut, BlobHash, CachedPut, LocalStore};

/// No action result is longer.
const RESULT_BYTES_MAX: u64 = 64 << 20;

/// What was imported.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ImportCounts {
    /// Blobs.
    pub blobs: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Action results and values.
    pub results: u64,
    /// Results that need a blob which is not there.
    pub incomplete: u64,
    /// Files that are damaged, or no files of bazel-remote.
    pub skipped: u64,
}

/// Imports the folder of a bazel-remote that does not run. `progress` gets the counts after each
/// file.
///
/// Fails with `NotFound` if it is none, and with the error of the store if that fails or is full.
pub async fn import_bazel_remote(
    folder: &Path,
    store: &LocalStore,
    instance: &str,
    mut progress: impl FnMut(&ImportCounts),
) -> Result<ImportCounts> {
    if !folder.join("cas.v2").is_dir() {
        let message = "there is no folder cas.v2 in it";
        let target = folder.display().to_string();
        return Err(Error::new(ErrorKind::NotFound, Operation::Read, target, message)
            .with_hint("name the folder that bazel-remote 2 had as its --dir"));
    }
    let mut counts = ImportCounts::default();
    for kind in [FileKind::Blob, FileKind::Result, FileKind::Value] {
        let root = folder.join(kind.folder());
        let folders = list(&root).await?;
        for folder in folders {
            for path in list(&folder).await? {
                match kind {
                    FileKind::Blob => import_blob(&path, store, &mut counts).await?,
                    _ => import_result(&path, store, instance, &mut counts).await?,
                }
                progress(&counts);
            }
        }
    }
    Ok(counts)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FileKind {
    Blob,
    Result,
    Value,
}

impl FileKind {
    const fn folder(self) -> &'static str {
        match self {
            Self::Blob => "cas.v2",
            Self::Result => "ac.v2",
            Self::Value => "raw.v2",
        }
    }
}

/// The entries of a folder in the order of their names; none if there is no such folder.
async fn list(folder: &Path) -> Result<Vec<PathBuf>> {
    let shown = folder.display().to_string();
    let folder = folder.to_owned();
    let listed = blocking(move || {
        let entries = match fs::read_dir(&folder) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(error),
        };
        let mut paths = entries.map(|entry| Ok(entry?.path())).collect::<io::Result<Vec<_>>>()?;
        paths.sort();
        Ok(paths)
    });
    listed.await.map_err(|error| unreadable(&shown, error))
}

/// The hash of a file's name, and whether the file has no head.
fn hash_of(path: &Path) -> Option<(BlobHash, bool)> {
    let name = path.file_name()?.to_str()?;
    let (name, is_plain) = name.strip_suffix(".v1").map_or((name, false), |name| (name, true));
    let (hash, _) = name.split_once('-')?;
    let function = DigestFunction::Sha256;
    let hash = Checksum::from_hex(function.algorithm(), hash).ok()?;
    Some((BlobHash { function, hash: hash.as_bytes().try_into().ok()? }, is_plain))
}

async fn import_blob(path: &Path, store: &LocalStore, counts: &mut ImportCounts) -> Result<()> {
    let Some((name, is_plain)) = hash_of(path) else {
        counts.skipped += 1;
        return Ok(());
    };
    if store.find_by_hash(name).await?.is_some() {
        return Ok(());
    }
    let opened = path.to_owned();
    let opened = blocking(move || {
        let file = File::open(opened)?;
        if is_plain { Ok(CasBlob::plain(file)) } else { CasBlob::open(file) }
    });
    let Ok(mut blob) = opened.await else {
        counts.skipped += 1;
        return Ok(());
    };
    let mut writer = store.begin_by_hash(name);
    loop {
        let read = blocking(move || Ok((blob.next_piece()?, blob))).await;
        let Ok((piece, rest)) = read else {
            counts.skipped += 1;
            return Ok(());
        };
        let Some(piece) = piece else { break };
        writer = writer.write(piece).await?;
        blob = rest;
    }
    match writer.finish().await {
        Ok(digest) => {
            counts.blobs += 1;
            counts.bytes += digest.len;
            Ok(())
        }
        Err(error) if error.kind() == ErrorKind::Integrity => {
            counts.skipped += 1;
            Ok(())
        }
        Err(error) => Err(error),
    }
}

async fn import_result(
    path: &Path,
    store: &LocalStore,
    instance: &str,
    counts: &mut ImportCounts,
) -> Result<()> {
    let read = path.to_owned();
    let read = blocking(move || {
        if fs::metadata(&read)?.len() > RESULT_BYTES_MAX {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        fs::read(&read)
    });
    let (Some((name, _)), Ok(bytes)) = (hash_of(path), read.await) else {
        counts.skipped += 1;
        return Ok(());
    };
    let bytes = Bytes::from(bytes);
    let mut is_stored = false;
    if let Some(action) = store.find_by_hash(name).await? {
        let name = ActionName { instance, action };
        let put = store.put_action(&name, bytes.clone(), UnknownFields::Skip).await?;
        is_stored = put == ActionPut::Stored;
    }
    let key = name.with_len(0).checksum().hex();
    let value = ["", "ac", name.function.name(), instance, &key].join("\0");
    let Some(writer) = store.begin_value(value.as_bytes()) else {
        counts.skipped += 1;
        return Ok(());
    };
    match writer.write(bytes).await?.finish_cached(name.function).await? {
        CachedPut::Opaque | CachedPut::Result => is_stored = true,
        CachedPut::Incomplete(_) => {}
        CachedPut::Refused(_) => counts.skipped += 1,
    }
    if is_stored {
        counts.results += 1;
    } else {
        counts.incomplete += 1;
    }
    Ok(())
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    tokio::task::spawn_blocking(work).await.unwrap_or_else(|error| Err(io::Error::other(error)))
}

fn unreadable(target: &str, error: io::Error) -> Error {
    Error::new(ErrorKind::Storage, Operation::Read, target, "the folder cannot be read")
        .caused_by(error)
}

#[cfg(test)]
mod tests {
    use prost::Message as _;
    use tidegate_core::digest::Digest;
    use tidegate_reapi::digest::to_proto;
    use tidegate_reapi::v2;
    use tidegate_reapi::zstd::unpack;

    use super::*;
    use crate::store::StoreOptions;

    const CHUNK: usize = 1 << 20;

    fn sha256(bytes: &[u8]) -> Digest {
        Digest::of(DigestFunction::Sha256, bytes)
    }

    /// A file with a head, as bazel-remote writes it.
    fn casblob(bytes: &[u8], compression: u8) -> Vec<u8> {
        let chunks: Vec<Vec<u8>> = match compression {
            1 => bytes.chunks(CHUNK).map(|chunk| zstd::bulk::compress(chunk, 1).unwrap()).collect(),
            _ => vec![bytes.to_vec()],
        };
        let count = chunks.len() as u64 + 1;
        let mut offset = 29 + 8 * count;
        let mut file = Vec::new();
        file.extend(0x184D_2A50_u32.to_le_bytes());
        file.extend(u32::try_from(21 + 8 * count).unwrap().to_le_bytes());
        file.extend((bytes.len() as u64).to_le_bytes());
        file.push(compression);
        file.extend(u32::try_from(CHUNK).unwrap().to_le_bytes());
        file.extend(count.to_le_bytes());
        for chunk in &chunks {
            file.extend(offset.to_le_bytes());
            offset += chunk.len() as u64;
        }
        file.extend(offset.to_le_bytes());
        for chunk in &chunks {
            file.extend(chunk);
        }
        assert!(compression != 1 || unpack(&chunks[0], CHUNK.min(bytes.len()) as u64).is_ok());
        file
    }

    fn put(folder: &Path, kind: &str, name: &str, bytes: &[u8]) {
        let folder = folder.join(kind).join(&name[..2]);
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join(name), bytes).unwrap();
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_folder_is_imported_and_what_is_damaged_is_left_out() {
        let folder = tempfile::tempdir().unwrap();
        let other = folder.path().join("other");
        let text = |seed: u32, len: u32| -> Vec<u8> {
            (0..len).map(|at| ((at / 7) * seed).to_le_bytes()[1]).collect()
        };
        let (packed, identity, plain) = (text(3, 2_500_000), text(5, 70_000), text(7, 1000));
        let (broken, action) = (text(9, 300_000), text(11, 200));
        let blob = |bytes: &[u8], compression: u8| {
            let digest = sha256(bytes);
            let name = format!("{}-{}-1234", digest.checksum().hex(), digest.len);
            put(&other, "cas.v2", &name, &casblob(bytes, compression));
        };
        blob(&packed, 1);
        blob(&identity, 0);
        blob(&action, 1);
        put(&other, "cas.v2", &format!("{}-99.v1", sha256(&plain).checksum().hex()), &plain);
        let name = format!("{}-{}-1", sha256(&broken).checksum().hex(), broken.len());
        let mut damaged = casblob(&broken, 1);
        let last = damaged.len() - 5;
        damaged[last] ^= 1;
        put(&other, "cas.v2", &name, &damaged);
        put(&other, "cas.v2", "ab-no-hash", b"x");
        let result = |output: &[u8]| {
            let stdout_digest = Some(to_proto(&sha256(output)));
            v2::ActionResult { stdout_digest, ..Default::default() }.encode_to_vec()
        };
        let key = sha256(&action).checksum().hex();
        put(&other, "ac.v2", &format!("{key}-5"), &result(&packed));
        let incomplete = sha256(b"incomplete").checksum().hex();
        put(&other, "ac.v2", &format!("{incomplete}-5"), &result(b"not there"));
        let raw = sha256(b"raw").checksum().hex();
        put(&other, "raw.v2", &format!("{raw}-5"), b"\xffany value");

        let options = StoreOptions::new(512 << 20);
        let store = LocalStore::open(&folder.path().join("own"), options).await.unwrap();
        let counts = import_bazel_remote(&other, &store, "main", |_| {}).await.unwrap();
        let bytes = (packed.len() + identity.len() + plain.len() + action.len()) as u64;
        let expected = ImportCounts { blobs: 4, bytes, results: 2, incomplete: 1, skipped: 2 };
        assert_eq!(counts, expected);
        for bytes in [&packed, &identity, &plain] {
            assert!(store.has(&sha256(bytes)).await.unwrap());
        }
        assert!(!store.has(&sha256(&broken)).await.unwrap());
        let name = ActionName { instance: "main", action: sha256(&action) };
        assert_eq!(store.action(&name).await.unwrap().unwrap(), result(&packed));
        let value = format!("\0ac\0sha256\0main\0{raw}");
        assert!(store.value(value.as_bytes()).await.unwrap().is_some());
        // A second time adds nothing.
        let again = import_bazel_remote(&other, &store, "main", |_| {}).await.unwrap();
        assert_eq!((again.blobs, again.results), (0, 2));
        assert!(import_bazel_remote(folder.path(), &store, "", |_| {}).await.is_err());
    }
}
