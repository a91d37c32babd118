//! [`UserKey`]: the secret that distinguishes journals of this user's own runs from bytes that a
//! server sent. All functions block.
//!
//! The key is the file `key` in the state folder: 32 random bytes, created on first use, mode 0600
//! in a folder of mode 0700. Two processes that create it at the same time end with the same key.
//! Each writes a file of its own and links it to the name, which succeeds only for the first. Then
//! both read the file with that name.
//!
//! # Invariants
//!
//! - The key is used only if no user except this one and root can have read or written it.
//! - The key, and the values that it is derived from, appear in no `Debug` output and in no error.
//! - An existing key is never replaced: that would make the user's part files useless.

use std::fmt;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::OFlags;

use super::StateFolder;
use super::access::PRIVATE_MODE;
use super::who;

const KEY_BYTES: usize = 32;

/// For its owner alone.
const FOLDER_MODE: u32 = 0o700;

const OTHERS_BITS: u32 = 0o077;
const OTHERS_WRITE_BITS: u32 = 0o022;

/// A whole keyed hash.
pub(crate) type Tag = [u8; KEY_BYTES];

/// 32 bytes that only this user has.
#[derive(Clone)]
pub(crate) struct UserKey([u8; KEY_BYTES]);

/// Why there is no key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum NoKey {
    /// The caller wants no key.
    Declined,
    /// No key can be created.
    Unavailable(String),
    /// There is a key, but it is not used.
    Refused(String),
}

impl fmt::Debug for UserKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("UserKey(..)")
    }
}

impl fmt::Display for NoKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Declined => f.write_str("no state folder is used"),
            Self::Unavailable(why) | Self::Refused(why) => f.write_str(why),
        }
    }
}

impl UserKey {
    /// The key in `folder`; created if there is none.
    pub(crate) fn load(folder: &StateFolder) -> Result<Self, NoKey> {
        if *folder == StateFolder::none() {
            return Err(NoKey::Declined);
        }
        let Some(folder) = folder.path() else {
            let why = "neither XDG_STATE_HOME nor a home folder is known".to_owned();
            return Err(NoKey::Unavailable(why));
        };
        let path = folder.join("key");
        match read(&folder, &path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            found => return settle(&path, found),
        }
        make(&folder, &path).map_err(|error| {
            NoKey::Unavailable(format!("{} cannot be made: {error}", path.display()))
        })?;
        settle(&path, read(&folder, &path))
    }

    /// The keyed hash of `bytes` in a domain. Hashes of one domain cannot be used in another.
    pub(crate) fn tag(&self, domain: &'static str, bytes: &[u8]) -> Tag {
        let mut hasher = blake3::Hasher::new_keyed(&self.0);
        hasher.update(&(domain.len() as u64).to_le_bytes());
        hasher.update(domain.as_bytes());
        hasher.update(bytes);
        *hasher.finalize().as_bytes()
    }

    #[cfg(test)]
    pub(crate) fn of_test(byte: u8) -> Self {
        Self([byte; KEY_BYTES])
    }
}

/// The key, or why it is not used.
type Found = io::Result<Result<UserKey, String>>;

fn settle(path: &Path, found: Found) -> Result<UserKey, NoKey> {
    match found {
        Ok(Ok(key)) => Ok(key),
        Ok(Err(flaw)) => Err(NoKey::Refused(format!("{} {flaw}", path.display()))),
        Err(error) => Err(NoKey::Refused(format!("{} cannot be read: {error}", path.display()))),
    }
}

/// Reads the key, if no other user can have written or read it.
fn read(folder: &Path, path: &Path) -> Found {
    // A FIFO or device with this name must not block the open.
    let flags = (OFlags::NONBLOCK | OFlags::NOCTTY).bits().cast_signed();
    let mut file = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    let (found, above) = (file.metadata()?, fs::metadata(folder)?);
    let user = rustix::process::geteuid().as_raw();
    let flaw = if !found.is_file() {
        Some("is not a regular file".to_owned())
    } else if found.uid() != user {
        Some(format!("is owned by {}", who::user(found.uid())))
    } else if found.mode() & OTHERS_BITS != 0 {
        Some("may be used by others: its mode must be 0600".to_owned())
    } else if above.uid() != user && above.uid() != 0 {
        Some(format!("is in a folder that is owned by {}", who::user(above.uid())))
    } else if above.mode() & OTHERS_WRITE_BITS != 0 {
        Some("is in a folder that others may write to".to_owned())
    } else {
        None
    };
    if let Some(flaw) = flaw {
        return Ok(Err(flaw));
    }
    let mut key = [0; KEY_BYTES];
    let is_whole = file.read_exact(&mut key).is_ok() && matches!(file.read(&mut [0]), Ok(0));
    Ok(if is_whole {
        Ok(UserKey(key))
    } else {
        Err(format!("is not {KEY_BYTES} bytes long; remove it, and a new one is made"))
    })
}

/// Links a new key to the name, unless there is one already.
fn make(folder: &Path, path: &Path) -> io::Result<()> {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    make_folder(folder)?;
    let mut key = [0; KEY_BYTES];
    let mut unique = [0; 8];
    getrandom::fill(&mut key).map_err(io::Error::other)?;
    getrandom::fill(&mut unique).map_err(io::Error::other)?;
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    let new = folder.join(format!(
        ".key-{}-{count}-{:016x}",
        std::process::id(),
        u64::from_le_bytes(unique)
    ));
    let mut options = OpenOptions::new();
    let mut file = options.write(true).create_new(true).mode(PRIVATE_MODE).open(&new)?;
    let named = write_key(&mut file, &key).and_then(|()| name(&new, path));
    let _ = fs::remove_file(&new);
    match named {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        named => named,
    }
}

/// Syncs the key, so that a crash of the machine leaves a whole key or none.
fn write_key(file: &mut File, key: &[u8]) -> io::Result<()> {
    file.write_all(key)?;
    file.sync_all()
}

/// Gives a file a name that no other file has.
fn name(new: &Path, path: &Path) -> io::Result<()> {
    match fs::hard_link(new, path) {
        Ok(()) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Err(error),
        // A file system without hard links.
        Err(error) => rename_new(new, path).map_err(|_unsupported| error),
    }
}

#[cfg(target_os = "linux")]
fn rename_new(new: &Path, path: &Path) -> io::Result<()> {
    use rustix::fs::{CWD, RenameFlags, renameat_with};
    Ok(renameat_with(CWD, new, CWD, path, RenameFlags::NOREPLACE)?)
}

#[cfg(not(target_os = "linux"))]
fn rename_new(_new: &Path, _path: &Path) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Creates the folder and its missing parents, for this user alone. Refuses if the nearest existing
/// parent belongs to another user, as when root runs a command with the home folder of its caller.
fn make_folder(folder: &Path) -> io::Result<()> {
    let Some(existing) = folder.ancestors().find(|above| above.exists()) else {
        return Err(io::ErrorKind::NotFound.into());
    };
    let owner = fs::metadata(existing)?.uid();
    if owner != 0 && owner != rustix::process::geteuid().as_raw() {
        let message = format!("{} is owned by {}", existing.display(), who::user(owner));
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, message));
    }
    DirBuilder::new().recursive(true).mode(FOLDER_MODE).create(folder)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, chown};
    use std::path::PathBuf;

    use super::*;

    struct Bed(tempfile::TempDir);

    impl Bed {
        fn new() -> Self {
            Self(tempfile::tempdir().unwrap())
        }

        fn state(&self) -> PathBuf {
            self.0.path().join("state/tidegate")
        }

        fn key(&self) -> PathBuf {
            self.state().join("key")
        }

        fn load(&self) -> Result<UserKey, NoKey> {
            UserKey::load(&StateFolder::at(self.state()))
        }

        #[track_caller]
        fn refuses(&self, text: &str) {
            let before = fs::read(self.key()).unwrap();
            match self.load() {
                Err(NoKey::Refused(why)) => assert!(why.contains(text), "{why}"),
                other => panic!("{other:?}"),
            }
            assert_eq!(fs::read(self.key()).unwrap(), before, "it is not replaced");
        }
    }

    fn set_mode(path: &Path, mode: u32) {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn it_is_made_once_for_its_owner_alone() {
        let bed = Bed::new();
        let first = bed.load().unwrap();
        assert_eq!(first.0, bed.load().unwrap().0);
        assert_eq!(fs::read(bed.key()).unwrap(), first.0);
        let mode = |path: &Path| fs::metadata(path).unwrap().mode() & 0o7777;
        assert_eq!((mode(&bed.key()), mode(&bed.state())), (0o600, 0o700));
        assert_eq!(fs::read_dir(bed.state()).unwrap().count(), 1, "nothing else is left");
        assert_ne!(first.0, Bed::new().load().unwrap().0);
        assert_eq!(format!("{first:?}"), "UserKey(..)");
    }

    #[test]
    fn all_who_make_it_at_once_have_the_same() {
        for _ in 0..20 {
            let bed = Bed::new();
            let start = std::sync::Barrier::new(8);
            let keys: Vec<_> = std::thread::scope(|scope| {
                let load = || {
                    start.wait();
                    bed.load().unwrap().0
                };
                let threads: Vec<_> = (0..8).map(|_| scope.spawn(load)).collect();
                threads.into_iter().map(|thread| thread.join().unwrap()).collect()
            });
            assert!(keys.iter().all(|key| *key == keys[0]));
            assert_eq!(fs::read_dir(bed.state()).unwrap().count(), 1, "nothing else is left");
        }
    }

    #[test]
    fn what_others_may_have_touched_is_refused() {
        let bed = Bed::new();
        bed.load().unwrap();
        for mode in [0o640, 0o604, 0o620, 0o601] {
            set_mode(&bed.key(), mode);
            bed.refuses("its mode must be 0600");
        }
        set_mode(&bed.key(), 0o600);
        for mode in [0o770, 0o777, 0o1777, 0o702] {
            set_mode(&bed.state(), mode);
            bed.refuses("folder that others may write to");
        }
        set_mode(&bed.state(), 0o755);
        bed.load().unwrap();
        // Only root may give files away.
        if chown(bed.key(), Some(4321), None).is_ok() {
            bed.refuses("is owned by user 4321");
        }
    }

    #[test]
    fn what_is_no_key_is_refused() {
        let bed = Bed::new();
        bed.load().unwrap();
        for bytes in [&[][..], &[7; 31], &[7; 33]] {
            fs::write(bed.key(), bytes).unwrap();
            bed.refuses("is not 32 bytes long");
        }
        fs::remove_file(bed.key()).unwrap();
        fs::create_dir(bed.key()).unwrap();
        assert!(matches!(bed.load(), Err(NoKey::Refused(_))));
    }

    #[test]
    fn where_none_can_be_made_there_is_none() {
        let bed = Bed::new();
        fs::write(bed.0.path().join("state"), b"a file").unwrap();
        assert!(matches!(bed.load(), Err(NoKey::Unavailable(_) | NoKey::Refused(_))));
        assert_eq!(UserKey::load(&StateFolder::none()).unwrap_err(), NoKey::Declined);
    }

    /// Such as `sudo` with the caller's home.
    #[test]
    fn it_is_not_made_in_the_home_of_another() {
        let bed = Bed::new();
        if chown(bed.0.path(), Some(4321), None).is_err() {
            return;
        }
        match bed.load() {
            Err(NoKey::Unavailable(why)) => assert!(why.contains("owned by user 4321"), "{why}"),
            other => panic!("{other:?}"),
        }
        assert_eq!(fs::read_dir(bed.0.path()).unwrap().count(), 0);
    }

    #[test]
    fn uses_do_not_share_hashes() {
        let key = UserKey::of_test(1);
        assert_eq!(key.tag("a", b"bc"), key.tag("a", b"bc"));
        assert_ne!(key.tag("a", b"bc"), key.tag("ab", b"c"));
        assert_ne!(key.tag("a", b"bc"), UserKey::of_test(2).tag("a", b"bc"));
    }
}
