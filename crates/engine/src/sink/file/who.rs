//! Names of users and processes, for messages: the user with a number, and the process that holds a
//! lock.
//!
//! Information that is not available is left out. Name services are not queried, because they may
//! be slow. A user who is not in `/etc/passwd` is shown by number.

use std::fs;
use std::fs::File;
use std::os::unix::fs::MetadataExt;

/// The name of the user with this number.
pub(super) fn user(id: u32) -> String {
    let accounts = fs::read("/etc/passwd").unwrap_or_default();
    let name = user_in(&String::from_utf8_lossy(&accounts), id);
    name.map_or_else(|| format!("user {id}"), |name| format!("user {name}"))
}

fn user_in(accounts: &str, id: u32) -> Option<String> {
    accounts.lines().find_map(|line| {
        let mut fields = line.split(':');
        let (name, number) = (fields.next()?, fields.nth(1)?);
        (number.parse() == Ok(id) && !name.is_empty()).then(|| plain(name))
    })
}

/// The process that has locked `file` with `flock`, if the system reports it.
pub(super) fn locker(file: &File) -> Option<Locker> {
    let found = file.metadata().ok()?;
    let locks = fs::read_to_string("/proc/locks").ok()?;
    let holder = holders(&locks, found.ino()).into_iter().find(|holder| holder.holds(&found))?;
    let process = holder.process;
    let command = fs::read(format!("/proc/{process}/comm")).unwrap_or_default();
    let owner = fs::metadata(format!("/proc/{process}")).ok()?.uid();
    Some(Locker { process, command: plain(String::from_utf8_lossy(&command).trim()), owner })
}

/// The process that has locked a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Locker {
    process: u32,
    command: String,
    owner: u32,
}

impl Locker {
    /// The error message for a run that finds the file locked.
    pub(super) fn message(&self) -> String {
        let Self { process, command, .. } = self;
        let owner = user(self.owner);
        if *process == std::process::id() {
            return "another run in this process is writing this target".to_owned();
        }
        if command == "tidegate" {
            return format!("another run is writing this target: process {process} of {owner}");
        }
        format!("its part file is locked by process {process} ({command}) of {owner}")
    }
}

/// A process with a lock on some file of an inode.
#[derive(Debug, PartialEq, Eq)]
struct Holder {
    process: u32,
    /// Major and minor number.
    device: (u32, u32),
}

/// The processes that hold a lock by `flock` on a file with this inode, on any device.
fn holders(locks: &str, inode: u64) -> Vec<Holder> {
    let holder = |line: &str| {
        // "1: FLOCK  ADVISORY  WRITE 1234 08:01:5678 0 EOF"; a waiting process has "->" as second
        // field.
        let mut fields = line.split_ascii_whitespace().skip(1);
        let (kind, process) = (fields.next()?, fields.nth(2)?.parse().ok()?);
        let mut place = fields.next()?.split(':');
        let mut number = || u32::from_str_radix(place.next()?, 16).ok();
        let device = (number()?, number()?);
        let is_this = kind == "FLOCK" && place.next()?.parse() == Ok(inode) && process != 0;
        is_this.then_some(Holder { process, device })
    };
    locks.lines().filter_map(holder).collect()
}

impl Holder {
    /// Whether the process has this file open. The device of a lock can differ from the one that
    /// `stat` reports (btrfs, overlays), so the open files are compared. Only root may inspect
    /// other users' processes; if that is refused, the device is compared.
    fn holds(&self, file: &fs::Metadata) -> bool {
        let Ok(descriptors) = fs::read_dir(format!("/proc/{}/fd", self.process)) else {
            return is_device(self.device, file);
        };
        descriptors.flatten().any(|entry| {
            fs::metadata(entry.path())
                .is_ok_and(|open| (open.dev(), open.ino()) == (file.dev(), file.ino()))
        })
    }
}

/// Whether the file is on the device with these numbers.
#[cfg(target_os = "linux")]
fn is_device(numbers: (u32, u32), file: &fs::Metadata) -> bool {
    let device = file.dev();
    numbers == (rustix::fs::major(device), rustix::fs::minor(device))
}

/// Other systems have no list of locks.
#[cfg(not(target_os = "linux"))]
fn is_device(_numbers: (u32, u32), _file: &fs::Metadata) -> bool {
    false
}

/// Text of another process in a message: one line, no control characters.
fn plain(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).take(64).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_has_the_name_of_the_first_account() {
        let accounts =
            "root:x:0:0:r:/root:/bin/sh\n# x\nann\x1b[1m:x:7:7::/:/bin/sh\nbob:x:7:7::/:\n";
        assert_eq!(user_in(accounts, 0).as_deref(), Some("root"));
        assert_eq!(user_in(accounts, 7).as_deref(), Some("ann[1m"));
        assert_eq!(user_in(accounts, 8), None);
    }

    #[test]
    fn holders_of_a_lock_are_found_and_those_who_wait_are_not() {
        let locks = "1: FLOCK  ADVISORY  WRITE 1234 08:01:5678 0 EOF\n\
                     1: -> FLOCK  ADVISORY  WRITE 99 08:01:5678 0 EOF\n\
                     2: POSIX  ADVISORY  WRITE 77 08:01:5678 0 EOF\n\
                     3: FLOCK  ADVISORY  WRITE 0 00:1f:5678 0 EOF\n\
                     4: FLOCK  ADVISORY  READ 55 00:1f:15678 0 EOF\n\
                     garbage\n";
        assert_eq!(holders(locks, 5678), [Holder { process: 1234, device: (8, 1) }]);
        assert_eq!(holders(locks, 15678), [Holder { process: 55, device: (0, 31) }]);
        assert!(holders("", 1).is_empty());
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn our_own_lock_names_this_process() {
        let file = tempfile::tempfile().unwrap();
        assert_eq!(locker(&file), None);
        rustix::fs::flock(&file, rustix::fs::FlockOperation::LockExclusive).unwrap();
        let Some(locker) = locker(&file) else { return };
        assert_eq!(locker.process, std::process::id());
        assert!(locker.message().contains("another run in this process"));
        let other = Locker { process: 1, command: "x".to_owned(), owner: u32::MAX };
        assert!(other.message().ends_with("process 1 (x) of user 4294967295"));
    }
}
