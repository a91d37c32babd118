//! Writing to Azure Blob Storage: [`AzureWriter`].
//!
//! | file | idea |
//! |---|---|
//! | `description` | the headers that describe a new blob |
//! | `blocks` | an upload in parts: uncommitted blocks, and their ids |
//! | `document` | the XML documents |
//! | `refused` | what a refused write means |
//! | `copying` | a copy within the container |
//! | `deleting`, `listing` | deleting and listing blobs |
//! | `unfinished` | the list of unfinished uploads |
//! | `bucket` | making and removing the container |
//!
//! The service compares a checksum of each request's body, and keeps none of them. It compares no
//! checksum of a whole that was uploaded in parts.
//!
//! Source: the REST API reference of Azure Blob Storage, version 2023-11-03.

mod blocks;
mod bucket;
mod copying;
mod deleting;
mod description;
mod document;
#[cfg(fuzzing)]
pub(in crate::remote) mod fuzzed;
mod listing;
mod refused;
mod unfinished;

use std::sync::Arc;

use async_trait::async_trait;
use http::{HeaderMap, HeaderName, HeaderValue, Method, header};
use tidegate_core::checksum::{Checksum, ChecksumAlgorithm, Coverage, StoredChecksum};

use super::accepted_checksums::AcceptedChecksums;
use super::azure_authorize::AzureAuthorize;
use super::object_client::{ObjectAnswer, ObjectClient, ObjectRequest, Refusal};
use super::response::{self, Dialect};
use super::write::{
    Bucket, CompleteRequest, CopySource, Guarantee, LastPart, MetadataNames, PartOrder,
    PartProfile, Payload, Precondition, StoredPart, Upload, UploadPage, UploadPart, UploadState,
    Write, WriteOptions, WriteProfile, Written,
};
use super::{PageToken, Version, blob_headers, key, tag_document};
use crate::budget::Budget;
use crate::error::{Error, ErrorKind, Operation, Result};

/// The version of the interface, as `object_store` requests it.
pub(super) const VERSION: &str = "2023-11-03";

const PUT_BYTES_MAX: u64 = 5_000 << 20;
const BLOCK_BYTES_MAX: u64 = 4_000 << 20;
const BLOCKS_MAX: u32 = 50_000;

/// The checksums that the service compares, the preferred one first.
const CHECKSUMS: &[ChecksumAlgorithm] = &[ChecksumAlgorithm::Crc64Nvme, ChecksumAlgorithm::Md5];

/// Writes the blobs of one container.
#[derive(Clone, Debug)]
pub(super) struct AzureWriter {
    client: ObjectClient,
    authorize: Arc<AzureAuthorize>,
    /// The customer's key, for requests that need it.
    encryption: HeaderMap,
    accepted: Arc<AcceptedChecksums>,
    /// Describe each new blob, in addition to the options of its write.
    of_blobs: HeaderMap,
}

impl AzureWriter {
    /// `encryption` has the headers of the customer's key, `of_blobs` those that describe each new
    /// blob.
    pub(super) fn new(
        client: ObjectClient,
        authorize: Arc<AzureAuthorize>,
        encryption: HeaderMap,
        of_blobs: HeaderMap,
    ) -> Self {
        let accepted = Arc::new(AcceptedChecksums::new(CHECKSUMS).or_failing());
        Self { client, authorize, encryption, accepted, of_blobs }
    }

    fn error(&self, kind: ErrorKind, blob: &str, message: impl Into<String>) -> Error {
        Error::new(kind, Operation::Write, self.client.target(blob), message)
    }

    fn invalid(&self, blob: &str, message: impl Into<String>) -> Error {
        self.error(ErrorKind::Invalid, blob, message)
    }

    /// Refuses a name that the service would normalise, and so take for another one.
    fn check_name(&self, blob: &str) -> Result<()> {
        let unsupported = |flaw| self.error(ErrorKind::Unsupported, blob, flaw);
        key::path(blob).map(drop).map_err(unsupported)
    }

    /// The headers of a condition on the target.
    fn condition(&self, blob: &str, precondition: &Precondition) -> Result<HeaderMap> {
        let mut headers = HeaderMap::new();
        match precondition {
            Precondition::None => {}
            Precondition::Absent => {
                headers.insert(header::IF_NONE_MATCH, HeaderValue::from_static("*"));
            }
            Precondition::Version(Version::ETag(tag)) => {
                let value = HeaderValue::try_from(tag).map_err(|error| {
                    self.invalid(blob, "the version makes no header").caused_by(error)
                })?;
                headers.insert(header::IF_MATCH, value);
            }
            Precondition::Version(other) => {
                let message =
                    format!("a write here is conditional on an entity tag, not on {other}");
                return Err(self.invalid(blob, message));
            }
        }
        Ok(headers)
    }

    /// The header by which the service verifies a body. It has CRCs in little-endian order.
    fn checksum(&self, blob: &str, checksum: Option<&Checksum>) -> Result<HeaderMap> {
        let mut headers = HeaderMap::new();
        let Some(checksum) = checksum else { return Ok(headers) };
        let (name, value) = match checksum.algorithm() {
            ChecksumAlgorithm::Crc64Nvme => {
                (HeaderName::from_static("x-ms-content-crc64"), little_endian(checksum))
            }
            ChecksumAlgorithm::Md5 => {
                (HeaderName::from_static("content-md5"), checksum.to_base64())
            }
            other => {
                let message = format!("the remote verifies no {other}");
                return Err(self.error(ErrorKind::Unsupported, blob, message));
            }
        };
        let value = HeaderValue::try_from(value)
            .map_err(|error| self.invalid(blob, "the checksum makes no header").caused_by(error))?;
        headers.insert(name, value);
        Ok(headers)
    }

    /// The new version that a response names. Its checksums are of the request's body.
    fn version(answer: &ObjectAnswer) -> Option<Version> {
        response::info(&answer.head, Dialect::Azure, None).version
    }

    /// The error of a refused write.
    fn refused(&self, blob: &str, options: &WriteOptions, refusal: Refusal) -> Error {
        refused::explain(refusal, &options.precondition, &self.client.target(blob))
    }

    /// Sends a request with a payload. A refusal of its checksum is remembered.
    async fn send_payload(
        &self,
        blob: &str,
        options: &WriteOptions,
        request: ObjectRequest<'_>,
        payload: &Payload,
    ) -> Result<ObjectAnswer> {
        let headers = self.checksum(blob, payload.checksum())?;
        let headers = headers.into_iter().chain(self.encryption.clone());
        let headers = headers.filter_map(|(name, value)| Some((name?, value))).collect();
        let request = request.headers(headers).payload(payload);
        let algorithm = payload.checksum().map(Checksum::algorithm);
        match self.client.send(&request).await {
            Ok(answer) => {
                self.accepted.accept(algorithm);
                Ok(answer)
            }
            Err(refusal) if self.accepted.is_refused(algorithm, &refusal) => {
                Err(self.accepted.explain(algorithm, refusal))
            }
            Err(refusal) => Err(self.refused(blob, options, refusal)),
        }
    }
}

/// Base64 of a CRC's bytes in reverse order.
fn little_endian(checksum: &Checksum) -> String {
    let mut bytes = checksum.as_bytes().to_vec();
    bytes.reverse();
    Checksum::new(checksum.algorithm(), &bytes).map(|sum| sum.to_base64()).unwrap_or_default()
}

#[async_trait]
impl Write for AzureWriter {
    fn blob_headers(&self) -> Vec<(String, String)> {
        blob_headers::pairs(&self.of_blobs)
    }

    fn write_profile(&self, _precondition: &Precondition) -> WriteProfile {
        let checksums: Vec<ChecksumAlgorithm> = self.accepted.now().into_iter().collect();
        let parts = PartProfile {
            order: PartOrder::Any,
            bytes_max: BLOCK_BYTES_MAX,
            count_max: BLOCKS_MAX,
            last: LastPart::Alone,
            checksums: checksums.clone(),
            is_removed: false,
            ..PartProfile::any()
        };
        let blob_bytes_max = u64::from(BLOCKS_MAX) * BLOCK_BYTES_MAX;
        WriteProfile {
            blob_bytes_max,
            put_bytes_max: PUT_BYTES_MAX,
            put_checksums: checksums,
            parts: Some(parts),
            absent: Guarantee::Atomic,
            version: Guarantee::Atomic,
            copy_bytes_max: Some(blob_bytes_max),
            copy_describes: false,
            copy_guarantee: Guarantee::Atomic,
            metadata: MetadataNames::Identifiers,
            keeps_tags: true,
            decompresses: false,
        }
    }

    async fn put(&self, blob: &str, payload: &Payload, options: &WriteOptions) -> Result<Written> {
        self.check_name(blob)?;
        let request = ObjectRequest::new(Method::PUT, Operation::Write, blob)
            .headers(HeaderMap::from_iter([(
                HeaderName::from_static("x-ms-blob-type"),
                HeaderValue::from_static("BlockBlob"),
            )]))
            .headers(self.description(blob, options)?)
            .headers(self.condition(blob, &options.precondition)?);
        let answer = self.send_payload(blob, options, request, payload).await?;
        let verified = payload.checksum().cloned();
        let checksums = verified
            .map(|checksum| StoredChecksum { checksum, coverage: Coverage::FullObject })
            .into_iter()
            .collect();
        Ok(Written { version: Self::version(&answer), checksums })
    }

    async fn landed(&self, blob: &str, options: &WriteOptions) -> Result<Option<Written>> {
        let Some(mark) = &options.mark else { return Ok(None) };
        let request = ObjectRequest::new(Method::HEAD, Operation::Stat, blob)
            .headers(self.encryption.clone());
        match self.client.send(&request).await {
            Ok(answer) => {
                let is_ours = answer.head.text(description::MARK) == Some(mark);
                let info = response::info(&answer.head, Dialect::Azure, None);
                let checksums = info.checksums.into_iter().filter(StoredChecksum::is_verifiable);
                let checksums = checksums.collect();
                Ok(is_ours.then_some(Written { version: info.version, checksums }))
            }
            Err(refusal) if refusal.status() == Some(404) => Ok(None),
            Err(refusal) => Err(refusal.into()),
        }
    }

    /// Sends one block that is not used. It shows whether the service accepts the checksum and the
    /// credentials, and it makes the upload known to [`Write::parts`] before its first part.
    async fn begin(&self, blob: &str, options: &WriteOptions) -> Result<Upload> {
        self.begin_blocks(blob, options).await
    }

    fn part_profile(&self, upload: &Upload) -> Option<PartProfile> {
        let mut profile = self.write_profile(&upload.options.precondition).parts?;
        profile.checksums = blocks::algorithm(upload).into_iter().collect();
        Some(profile)
    }

    async fn part(&self, upload: &Upload, part: &UploadPart) -> Result<StoredPart> {
        self.store_block(upload, part).await
    }

    async fn parts(&self, upload: &Upload) -> Result<UploadState> {
        self.list_blocks(upload).await
    }

    async fn complete(&self, upload: &Upload, request: &CompleteRequest) -> Result<Written> {
        self.commit_blocks(upload, request).await
    }

    /// Does nothing: Azure has no such request. It removes uncommitted blocks a week after the last
    /// one, or when any upload to the same name is committed.
    async fn abort(&self, _upload: &Upload) -> Result<()> {
        Ok(())
    }

    async fn uploads(
        &self,
        prefix: &str,
        from: Option<&PageToken>,
        _budget: &Budget,
    ) -> Result<UploadPage> {
        self.list_uploads(prefix, from).await
    }

    async fn tags(&self, blob: &str, version: Option<&Version>) -> Result<Vec<(String, String)>> {
        let mut request =
            ObjectRequest::new(Method::GET, Operation::Stat, blob).query("comp", "tags");
        if let Some(Version::VersionId(id)) = version {
            request = request.query("versionid", id.as_str());
        }
        let answer = self.client.send(&request).await?;
        tag_document::read(&answer.text, &self.client.target(blob))
    }

    fn bucket(&self) -> Option<Bucket> {
        Some(self.client.bucket())
    }

    async fn copy(
        &self,
        source: &CopySource,
        blob: &str,
        options: &WriteOptions,
    ) -> Result<Written> {
        self.copy_blob(source, blob, options).await
    }
}

#[cfg(test)]
mod tests {
    use tidegate_core::checksum::Checksummer;

    use super::*;

    #[test]
    fn a_crc_is_sent_in_little_endian_order() {
        // Azure's own client gives ae8b14860a799888 for these bytes.
        let sum = Checksummer::of(ChecksumAlgorithm::Crc64Nvme, b"123456789").unwrap();
        assert_eq!(sum.hex(), "ae8b14860a799888");
        assert_eq!(little_endian(&sum), "iJh5CoYUi64=");
    }
}
