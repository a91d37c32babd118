//! Devices and pipes as targets: they take bytes in order, and are not replaced.
//!
//! A pipe can be opened once somebody reads it. A thread that waits for that in `open` cannot be
//! called back; so the pipe is opened without waiting, again and again, until it can be, or nobody
//! wants it any more. There is no bound to it: whoever names a pipe knows who is going to read it, and
//! when.

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

/// Between two looks whether somebody reads a pipe: too short to be noticed, too long to cost much.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// What one look at a path found.
enum Look {
    /// No device and no pipe.
    Other,
    Open(File),
    /// A pipe that nobody reads.
    Unread,
}

/// The device or pipe that has this name, to be written to; `None` where there is something else, or
/// nothing. Waits for whoever reads a pipe.
pub(super) async fn open(path: &Path, cancel: &CancellationToken) -> Result<Option<File>> {
    let mut is_told = false;
    loop {
        let looked_at = path.to_path_buf();
        match blocking(move || look(&looked_at)).await? {
            Look::Other => return Ok(None),
            Look::Open(file) => return Ok(Some(file)),
            Look::Unread => {}
        }
        if !is_told {
            tracing::debug!(pipe = %path.display(), "waiting for whoever reads the pipe");
            is_told = true;
        }
        tokio::select! {
            biased;
            () = cancel.cancelled() => {
                let (kind, name) = (ErrorKind::Cancelled, path.display().to_string());
                let message = "it was cancelled before anybody read the pipe";
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
        // Put in its place just now: to be replaced, not written over.
        return Ok(Look::Other);
    }
    // Writing waits for the reader, in a thread of its own.
    let flags = fcntl_getfl(&file).map_err(|error| failed(error.into()))?;
    fcntl_setfl(&file, flags & !OFlags::NONBLOCK).map_err(|error| failed(error.into()))?;
    Ok(Look::Open(file))
}
