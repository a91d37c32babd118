//! Standard input, output and error as the parent passed them to this process. A closed stream is
//! an error, and a stream that is not ready is waited for.
//!
//! Why closed streams need care: before `main`, Rust's runtime opens `/dev/null` in place of each
//! closed standard stream. Writes to it are lost without an error: `tidegate cat URL >&-` would
//! report success and deliver nothing. Afterwards such a stream looks the same as a `/dev/null`
//! from the parent, which several programs open for reading and writing in the same way. So the
//! dynamic linker calls a function that checks the streams before that, and before `main`.
//!
//! Why waiting: the parent may have set `O_NONBLOCK` on a pipe, for every process that shares it.

use std::fs::{File, Metadata};
use std::io::{self, IsTerminal, Write};
use std::os::fd::{AsFd, BorrowedFd};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use tidegate::{Error, ErrorKind, Operation, Result};

/// The name of standard output in errors.
pub(crate) const OUTPUT: &str = "standard output";

/// A file for writing. A write waits until the file takes bytes.
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

/// The metadata of standard output, if it is open.
pub(crate) fn output_metadata() -> Option<Metadata> {
    output().ok()?.0.metadata().ok()
}

/// Whether standard output is a terminal.
pub(crate) fn output_is_terminal() -> bool {
    io::stdout().is_terminal()
}

/// Writes to standard output. If the reader has closed the pipe, the error's cause says so.
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

/// Fails if standard input is closed.
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

/// Waits until `fd` takes bytes or fails; the next write returns the failure.
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

    /// One bit for each stream.
    static CLOSED: AtomicU8 = AtomicU8::new(0);

    /// Called before `main`, and so before Rust's runtime replaces closed streams.
    // SAFETY: ELF's initialisation array holds pointers to functions that return nothing and need
    // no arguments. They are called once, while the process has one thread. `look` is such a
    // function: it queries the kernel about two descriptors, stores a number, and uses nothing that
    // Rust's runtime has yet to set up.
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

/// On other systems this is not known.
#[cfg(not(target_os = "linux"))]
mod closed {
    pub(super) fn is_closed(_: std::os::fd::RawFd) -> bool {
        false
    }
}
