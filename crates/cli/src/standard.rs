//! Standard input, output and error as this process was given them: what was closed is an error,
//! and what is not ready is waited for.
//!
//! Why closed streams need care: before `main`, the runtime of Rust opens `/dev/null` in the place of
//! each standard stream that is closed. What is written there is gone, without an error: `tidegate cat
//! URL >&-` would be a success that delivered nothing. Afterwards such a stream cannot be told from a
//! `/dev/null` of the parent's, which several programs open for reading and writing just so. So the
//! streams are looked at before that, by a function that the dynamic linker calls before `main`.
//!
//! Why waiting: the parent may have set `O_NONBLOCK` on a pipe, for every process that shares it.

use std::fs::{File, Metadata};
use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use tidegate::{Error, ErrorKind, Operation, Result};

/// What errors call standard output.
pub(crate) const OUTPUT: &str = "standard output";

/// A file to write to that is waited for until it takes bytes.
#[derive(Debug)]
pub(crate) struct Patient<T>(T);

/// Standard output, without the line buffer that the standard library puts before it.
pub(crate) fn output() -> Result<Patient<File>> {
    if closed::is_closed(rustix::stdio::raw_stdout()) {
        return Err(Error::new(ErrorKind::Storage, Operation::Write, OUTPUT, "it is closed")
            .with_hint("redirect it to a file, a pipe or /dev/null"));
    }
    let fd = io::stdout().as_fd().try_clone_to_owned().map_err(unwritten)?;
    Ok(Patient(File::from(fd)))
}

/// What standard output is, where there is one.
pub(crate) fn output_metadata() -> Option<Metadata> {
    output().ok()?.0.metadata().ok()
}

/// Writes to standard output. That its reader has gone away can be told by the error's cause.
pub(crate) fn print(bytes: &[u8]) -> Result<()> {
    output()?.write_all(bytes).map_err(unwritten)
}

/// Writes a line to standard error.
pub(crate) fn tell(line: &str) -> Result<()> {
    let line = format!("{line}\n");
    Patient(io::stderr().lock()).write_all(line.as_bytes()).map_err(|error| {
        let message = "it cannot be written";
        Error::new(ErrorKind::Storage, Operation::Write, "standard error", message).caused_by(error)
    })
}

/// Fails where there is no standard input.
pub(crate) fn check_input() -> Result<()> {
    if closed::is_closed(rustix::stdio::raw_stdin()) {
        let name = "standard input";
        return Err(Error::new(ErrorKind::Storage, Operation::Read, name, "it is closed")
            .with_hint("redirect it from a file or a pipe"));
    }
    Ok(())
}

fn unwritten(error: io::Error) -> Error {
    Error::new(ErrorKind::Storage, Operation::Write, OUTPUT, "it cannot be written")
        .caused_by(error)
}

impl<T: Write + AsFd> Patient<T> {
    fn patiently<R>(&mut self, mut act: impl FnMut(&mut T) -> io::Result<R>) -> io::Result<R> {
        loop {
            match act(&mut self.0) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    wait(self.0.as_fd())?;
                }
                done => return done,
            }
        }
    }
}

impl<T: Write + AsFd> Write for Patient<T> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.patiently(|inner| inner.write(bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.patiently(T::flush)
    }
}

/// Waits until `fd` takes bytes, or fails, which the next write tells.
fn wait(fd: BorrowedFd<'_>) -> io::Result<()> {
    match poll(&mut [PollFd::new(&fd, PollFlags::OUT)], None) {
        Ok(_) | Err(Errno::INTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Which standard streams were closed when the process began.
#[cfg(target_os = "linux")]
mod closed {
    use std::os::fd::RawFd;
    use std::sync::atomic::{AtomicU8, Ordering};

    use rustix::io::{Errno, fcntl_getfd};
    use rustix::stdio::{raw_stdin, raw_stdout, stdin, stdout};

    /// A bit for each.
    static CLOSED: AtomicU8 = AtomicU8::new(0);

    /// Called before `main`, and so before the runtime of Rust fills the gaps.
    // SAFETY: ELF's initialisation array holds pointers to functions that take nothing that they need
    // and return nothing, and that are called once, on the one thread that there is. `look` is such a
    // function: it asks the kernel about two descriptors, stores a number, and uses nothing that the
    // runtime of Rust has yet to set up.
    #[used]
    #[expect(unsafe_code, reason = "no other place runs before the runtime of Rust")]
    #[unsafe(link_section = ".init_array")]
    static LOOK: extern "C" fn() = look;

    extern "C" fn look() {
        for (raw, fd) in [(raw_stdin(), stdin()), (raw_stdout(), stdout())] {
            if fcntl_getfd(fd) == Err(Errno::BADF) {
                CLOSED.fetch_or(bit(raw), Ordering::Relaxed);
            }
        }
    }

    fn bit(fd: RawFd) -> u8 {
        1 << (fd & 7)
    }

    pub(super) fn is_closed(fd: RawFd) -> bool {
        CLOSED.load(Ordering::Relaxed) & bit(fd) != 0
    }
}

/// Elsewhere it is not known.
#[cfg(not(target_os = "linux"))]
mod closed {
    pub(super) fn is_closed(_: std::os::fd::RawFd) -> bool {
        false
    }
}
