//! Copying: at the remote if it can, else through this process.

use object_store::CopyMode;
use object_store::path::Path;
use tidegate::remote::{CopySource, Precondition, WriteOptions};
use tidegate::{Error, ErrorKind, Location, OnFailure, Operation, UploadSource};

use crate::place::Place;
use crate::{failure, put};

/// The slowest copy that a remote is given time for, in bytes a second.
const REMOTE_BYTES_PER_S_MIN: u64 = 8 << 20;

/// Copies the blob at `source` to `target`.
pub(crate) async fn copy(
    place: &Place,
    source: &Path,
    target: &Path,
    mode: CopyMode,
) -> object_store::Result<()> {
    let of_source = |error| failure::of_read(place.is_local(), source, error);
    let (from, to) = (place.locate(source), place.locate(target));
    let info = place.client().stat(&from).await.map_err(of_source)?;
    let precondition = match mode {
        CopyMode::Overwrite => Precondition::None,
        CopyMode::Create => Precondition::Absent,
    };
    let options = WriteOptions::when(precondition);
    let len = info.len_bytes.unwrap_or_default();
    let copied = at_remote(place, &from, &to, len, &options).await;
    match copied {
        Ok(()) => return Ok(()),
        Err(error) if error.kind() == ErrorKind::Unsupported => {}
        // A source that went away since it was looked at is missing; a target cannot be.
        Err(error) if error.kind() == ErrorKind::NotFound => return Err(of_source(error)),
        Err(error) => return Err(failure::of(target, error)),
    }
    let mut options = options;
    options.content_type = info.content_type;
    options.content_encoding = info.content_encoding;
    options.cache_control = info.cache_control;
    options.metadata = info.metadata;
    for (name, value) in [
        ("content-disposition", info.content_disposition),
        ("content-language", info.content_language),
    ] {
        options.headers.extend(value.map(|value| (put::header(&to, name), value)));
    }
    let channel = place.client().read(&from).open().map_err(of_source)?;
    let upload = place.client().upload(UploadSource::stream(Box::pin(channel)), &to);
    let upload = upload.write(options).expected_bytes(len).on_failure(OnFailure::Abort);
    upload.await.map(drop).map_err(|error| failure::of(target, error))
}

async fn at_remote(
    place: &Place,
    from: &Location,
    to: &Location,
    len: u64,
    options: &WriteOptions,
) -> tidegate::Result<()> {
    let profile = to.write()?.write_profile(&options.precondition);
    if profile.copy_bytes_max.is_none_or(|max| len > max) {
        let message = "the remote does not copy a blob of this length";
        return Err(Error::new(ErrorKind::Unsupported, Operation::Write, to.display(), message));
    }
    let source = CopySource { blob: from.blob.clone(), version: None };
    let attempts = place.attempts(place.budget());
    let mut what = attempts.of(Operation::Write, to.display(), 0);
    what.response_ms_max += len.saturating_mul(1000) / REMOTE_BYTES_PER_S_MIN;
    let call = || async { to.write()?.copy(&source, &to.blob, options).await };
    attempts.make(what, call).await.map(drop)
}
