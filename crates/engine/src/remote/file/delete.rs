//! Deleting local files: [`Delete`] for [`FileRemote`].
//!
//! A symbolic link is deleted itself, not its target. Folders stay, even if they are empty: other
//! processes may be about to write into them.

use std::fs;
use std::path::Path;

use async_trait::async_trait;

use super::staged::is_absent;
use super::{FileRemote, stamp};
use crate::error::{Error, ErrorKind, Operation, Result};
use crate::names::is_reserved;
use crate::offload::offload;
use crate::remote::Read;
use crate::remote::delete::{Delete, DeleteProfile, DeleteRequest};
use crate::remote::write::Guarantee;
use crate::sink::file::target::storage_error;

#[async_trait]
impl Delete for FileRemote {
    fn delete_profile(&self) -> DeleteProfile {
        // No file system unlinks by version, so the stamp is compared immediately before.
        DeleteProfile::single(Guarantee::Checked)
    }

    async fn delete(&self, request: &DeleteRequest) -> Result<()> {
        if let Some(version) = &request.version {
            self.check_version(version)?;
        }
        let theirs = request.clone();
        offload(Operation::Delete, &request.blob, move || delete(&theirs)).await
    }
}

fn delete(request: &DeleteRequest) -> Result<()> {
    let (blob, path) = (&request.blob, Path::new(&request.blob));
    let failed = |error| storage_error(Operation::Delete, blob, error);
    let refuse = |message| Err(Error::new(ErrorKind::Invalid, Operation::Delete, blob, message));
    if path.file_name().is_some_and(is_reserved) {
        return refuse("the name is reserved for part files");
    }
    let found = match fs::symlink_metadata(path) {
        Err(error) if is_absent(&error) => return Ok(()),
        found => found.map_err(failed)?,
    };
    if !found.is_file() && !found.is_symlink() {
        return refuse("it is not a regular file");
    }
    if let Some(version) = &request.version {
        // The stamp of the link's target, because reading reports that version.
        let now = fs::metadata(path).map_err(failed)?;
        version.expect(Some(&stamp(&now)), Operation::Delete, blob)?;
    }
    match fs::remove_file(path) {
        Err(error) if !is_absent(&error) => Err(failed(error)),
        _ => Ok(()),
    }
}
