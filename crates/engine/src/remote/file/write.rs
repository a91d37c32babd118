//! Writing local files: [`Write`] for [`FileRemote`].
//!
//! A put and a copy write a [`StagedFile`]; parts go to an [`UploadFolder`]. Both are next to the
//! target, so that the rename at the end stays within one file system.
//!
//! [`Precondition::Absent`] is atomic: the rename fails if the name exists. No file system has such
//! a rename for [`Precondition::Version`]: the stamp is compared immediately before it.

use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;
use tidegate_core::checksum::{ChecksumAlgorithm, Coverage, StoredChecksum};
use tokio_util::sync::CancellationToken;

use super::receive::receive;
use super::staged::{Place, StagedFile};
use super::upload::{PARTS_MAX, UploadFolder};
use super::{FileRemote, changed, stamp, walk};
use crate::budget::Budget;
use crate::error::{Error, ErrorKind, Operation, Result};
use crate::offload::offload;
use crate::remote::local::LocalFile;
use crate::remote::write::{
    CompleteRequest, CopySource, Guarantee, PartProfile, Payload, Precondition, StoredPart, Upload,
    UploadPage, UploadPart, UploadState, Write, WriteOptions, WriteProfile, Written,
};
use crate::remote::{PageToken, Read};
use crate::sink::file::target::storage_error;

/// Bytes copied between two checks for cancellation.
const COPY_BYTES: u64 = 64 << 20;

/// Checksums that are computed here, the cheapest first.
const CHECKSUMS: [ChecksumAlgorithm; 6] = [
    ChecksumAlgorithm::Crc32c,
    ChecksumAlgorithm::Crc64Nvme,
    ChecksumAlgorithm::Crc32,
    ChecksumAlgorithm::Blake3,
    ChecksumAlgorithm::Sha256,
    ChecksumAlgorithm::Md5,
];

#[async_trait]
impl Write for FileRemote {
    fn write_profile(&self, _precondition: &Precondition) -> WriteProfile {
        WriteProfile {
            put_checksums: CHECKSUMS.to_vec(),
            parts: Some(PartProfile {
                count_max: PARTS_MAX,
                checksums: CHECKSUMS.to_vec(),
                whole_checksums: CHECKSUMS.to_vec(),
                ..PartProfile::any()
            }),
            absent: Guarantee::Atomic,
            version: Guarantee::Checked,
            copy_bytes_max: Some(u64::MAX),
            copy_guarantee: Guarantee::Atomic,
            ..WriteProfile::put_only()
        }
    }

    async fn put(&self, blob: &str, payload: &Payload, options: &WriteOptions) -> Result<Written> {
        let WriteOptions { precondition, durability, .. } = self.checked(options)?;
        let (name, theirs) = (blob.to_owned(), precondition.clone());
        let staged = offload(Operation::Write, blob, move || {
            StagedFile::create(Place::prepare(&name, &theirs)?)
        })
        .await?;
        receive(&staged.file, 0, payload, blob).await?;
        let commit = move || staged.commit(&precondition, durability);
        let mut written = offload(Operation::Commit, blob, commit).await?;
        written.checksums.extend(payload.checksum().map(|checksum| StoredChecksum {
            checksum: checksum.clone(),
            coverage: Coverage::FullObject,
        }));
        Ok(written)
    }

    async fn begin(&self, blob: &str, options: &WriteOptions) -> Result<Upload> {
        let options = self.checked(options)?;
        let name = blob.to_owned();
        offload(Operation::Write, blob, move || UploadFolder::create(&name, &options)).await
    }

    async fn part(&self, upload: &Upload, part: &UploadPart) -> Result<StoredPart> {
        let (number, offset) = (part.number, part.offset);
        let theirs = upload.clone();
        let (folder, data) = offload(Operation::Write, &upload.blob, move || {
            let folder = UploadFolder::open(&theirs)?;
            let data = Arc::new(folder.begin_part(number)?);
            Ok((folder, data))
        })
        .await?;
        let crc = receive(&data, offset, &part.payload, &upload.blob).await?;
        let durability = upload.options.durability;
        offload(Operation::Write, &upload.blob, move || {
            folder.record(number, offset, &crc, &data, durability)
        })
        .await
    }

    async fn parts(&self, upload: &Upload) -> Result<UploadState> {
        let theirs = upload.clone();
        let parts = move || UploadFolder::open(&theirs)?.parts().map(UploadState::Parts);
        offload(Operation::Stat, &upload.blob, parts).await
    }

    async fn complete(&self, upload: &Upload, request: &CompleteRequest) -> Result<Written> {
        let (theirs, request) = (upload.clone(), request.clone());
        let stop = CancellationToken::new();
        let _guard = stop.clone().drop_guard();
        offload(Operation::Commit, &upload.blob, move || {
            UploadFolder::open(&theirs)?.complete(&theirs, &request, &stop)
        })
        .await
    }

    async fn abort(&self, upload: &Upload) -> Result<()> {
        let theirs = upload.clone();
        offload(Operation::Delete, &upload.blob, move || UploadFolder::remove(&theirs)).await
    }

    async fn uploads(
        &self,
        prefix: &str,
        from: Option<&PageToken>,
        budget: &Budget,
    ) -> Result<UploadPage> {
        let (name, from, budget) = (prefix.to_owned(), from.cloned(), budget.clone());
        let page = move || walk::uploads(&name, from.as_ref(), &budget);
        offload(Operation::List, prefix, page).await
    }

    /// Uses the system call that lets file systems share blocks, if they can.
    async fn copy(
        &self,
        source: &CopySource,
        blob: &str,
        options: &WriteOptions,
    ) -> Result<Written> {
        let options = self.checked(options)?;
        if let Some(version) = &source.version {
            self.check_version(version)?;
        }
        let (source, name) = (source.clone(), blob.to_owned());
        let stop = CancellationToken::new();
        let _guard = stop.clone().drop_guard();
        offload(Operation::Write, blob, move || copy(&source, &name, &options, &stop)).await
    }
}

impl FileRemote {
    /// The options, if they are valid for this remote.
    fn checked(&self, options: &WriteOptions) -> Result<WriteOptions> {
        if let Precondition::Version(version) = &options.precondition {
            self.check_version(version)?;
        }
        Ok(options.clone())
    }
}

fn copy(
    source: &CopySource,
    blob: &str,
    options: &WriteOptions,
    stop: &CancellationToken,
) -> Result<Written> {
    let path = Path::new(&source.blob);
    let LocalFile::Regular(file, metadata) = LocalFile::open(path, Operation::Read)? else {
        let message = "it is a stream, which is not copied";
        return Err(Error::new(ErrorKind::Unsupported, Operation::Read, &source.blob, message));
    };
    let version = stamp(&metadata);
    if source.version.as_ref().is_some_and(|asked| *asked != version) {
        return Err(changed(path));
    }
    let staged = StagedFile::create(Place::prepare(blob, &options.precondition)?)?;
    let failed = |error| storage_error(Operation::Write, blob, error);
    let mut copied = 0;
    loop {
        if stop.is_cancelled() {
            let message = "the copy is no longer wanted";
            return Err(Error::new(ErrorKind::Cancelled, Operation::Write, blob, message));
        }
        let mut next = io::Read::take(&file, COPY_BYTES);
        match io::copy(&mut next, &mut &*staged.file).map_err(failed)? {
            0 => break,
            count => copied += count,
        }
    }
    let now = file.metadata().map_err(failed)?;
    if copied != metadata.size() || version != stamp(&now) {
        return Err(changed(path));
    }
    staged.commit(&options.precondition, options.durability)
}
