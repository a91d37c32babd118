//! Copying: by the provider if it can, else through this process.

use object_store::CopyMode;
use object_store::path::Path;
use tidegate::remote::{Precondition, WriteOptions};
use tidegate::{ErrorKind, OnFailure, UploadSource};

use crate::failure;
use crate::place::Place;

/// Copies the blob at `source` to `target`.
pub(crate) async fn copy(
    place: &Place,
    source: &Path,
    target: &Path,
    mode: CopyMode,
) -> object_store::Result<()> {
    let options = WriteOptions::when(match mode {
        CopyMode::Overwrite => Precondition::None,
        CopyMode::Create => Precondition::Absent,
    });
    let (from, to) = (place.locate(source), place.locate(target));
    let copied = place.client().upload(UploadSource::blob(&from), &to);
    match copied.write(options).on_failure(OnFailure::Abort).await {
        Ok(_) => Ok(()),
        // Only the source can be missing.
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::Invalid) => {
            Err(failure::of_read(place.is_local(), source, error))
        }
        Err(error) => Err(failure::of(target, error)),
    }
}
