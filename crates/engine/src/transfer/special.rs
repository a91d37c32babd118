//! Devices and pipes as targets: they take bytes in order, and are not replaced.
//!
//! A pipe can be opened for writing only when a process has it open for reading. A thread that
//! blocks in `open` cannot be cancelled. So this opens the pipe without blocking, and tries again
//! until it succeeds or the download is cancelled. The wait has no bound: the user who names a pipe
//! decides which process reads it, and when.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::Path;
use std::time::Duration;

use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::io::Errno;
use tokio_util::sync::CancellationToken;

use super::blocking::blocking;
use crate::error::{Error, ErrorKind, Operation, Result};

/// Time between two tries to open a pipe: short enough not to be noticed, long enough to cost
/// little.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// Result of one look at a path.
enum Look {
    /// Neither a character device nor a pipe.
    Other,
    Open(File),
    /// A pipe that no process reads.
    Unread,
}

/// Opens the device or pipe at `path` for writing; `None` if there is neither. Waits until a
/// process reads the pipe.
pub(super) async fn open(path: &Path, cancel: &CancellationToken) -> Result<Option<File>> {
    let mut is_logged = false;
    loop {
        let looked_at = path.to_path_buf();
        match blocking(move || look(&looked_at)).await? {
            Look::Other => return Ok(None),
            Look::Open(file) => return Ok(Some(file)),
            Look::Unread => {}
        }
        if !is_logged {
            tracing::debug!(pipe = %path.display(), "waiting for a process that reads the pipe");
            is_logged = true;
        }
        tokio::select! {
            biased;
            () = cancel.cancelled() => {
                let (kind, name) = (ErrorKind::Cancelled, path.display().to_string());
                let message = "it was cancelled before a process read the pipe";
                return Err(Error::new(kind, Operation::Write, name, message));
            }
            () = tokio::time::sleep(LOOK_EVERY) => {}
        }
    }
}

fn look(path: &Path) -> Result<Look> {
    let failed = |error: io::Error| {
        let name = path.display().to_string();
        Error::new(ErrorKind::Storage, Operation::Write, name, "it cannot be opened")
            .caused_by(error)
    };
    let Ok(found) = fs::metadata(path) else { return Ok(Look::Other) };
    if !found.file_type().is_char_device() && !found.file_type().is_fifo() {
        return Ok(Look::Other);
    }
    let flags = (OFlags::NONBLOCK | OFlags::NOCTTY).bits().cast_signed();
    let file = match OpenOptions::new().write(true).custom_flags(flags).open(path) {
        Ok(file) => file,
        Err(error)
            if found.file_type().is_fifo()
                && error.raw_os_error() == Some(Errno::NXIO.raw_os_error()) =>
        {
            return Ok(Look::Unread);
        }
        Err(error) => return Err(failed(error)),
    };
    if file.metadata().map_err(failed)?.is_file() {
        // A regular file took its place just now: it is replaced, not written over.
        return Ok(Look::Other);
    }
    // From here on writes block until the reader reads; the sink has a thread for that.
    let flags = fcntl_getfl(&file).map_err(|error| failed(error.into()))?;
    fcntl_setfl(&file, flags & !OFlags::NONBLOCK).map_err(|error| failed(error.into()))?;
    Ok(Look::Open(file))
}
