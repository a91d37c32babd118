//! Writing by the XML interface that S3 and Google Cloud Storage share: [`XmlWriter`].
//!
//! | file | idea |
//! |---|---|
//! | `dialect` | the header names of the two services |
//! | `document` | the XML documents |
//! | `refused` | what a refused write means |
//! | `proved` | which conditions the service keeps when writers race |
//! | `race` | the race that proves it |
//! | `multipart` | an upload in parts |
//! | `unfinished` | the list of unfinished uploads |
//! | `copying` | a copy within the bucket |
//! | `deleting`, `listing` | deleting and listing objects |
//!
//! Sources: the API reference of Amazon S3; "XML API multipart uploads" and the reference of headers
//! of Google Cloud Storage.

mod copying;
mod deleting;
mod dialect;
mod document;
#[cfg(fuzzing)]
pub(in crate::remote) mod fuzzed;
mod listing;
mod multipart;
mod proved;
mod race;
mod refused;
mod unfinished;

use std::ops::Range;
use std::sync::Arc;

use async_trait::async_trait;
use http::{HeaderMap, HeaderName, HeaderValue, Method, header};
use tidegate_core::checksum::{Checksum, ChecksumAlgorithm, StoredChecksum};

pub(super) use self::dialect::XmlDialect;
use self::proved::ProvedConditions;
use super::accepted_checksums::AcceptedChecksums;
use super::object_client::{ObjectAnswer, ObjectClient, ObjectRequest, Refusal, Runner};
use super::write::{
    Bucket, CompleteRequest, CopySource, Guarantee, LastPart, MetadataNames, PartNumber, PartOrder,
    PartProfile, Payload, Precondition, StoredPart, Upload, UploadPage, UploadPart, UploadState,
    Write, WriteOptions, WriteProfile, WriteWay, Written,
};
use super::{PageToken, Version};
use super::{blob_headers, response};
use crate::budget::Budget;
use crate::error::{Error, ErrorKind, Operation, Result};

/// One request stores at most 5 GiB, in one piece or as one part.
const PUT_BYTES_MAX: u64 = 5 << 30;
const PART_BYTES_MIN: u64 = 5 << 20;
const PARTS_MAX: u32 = 10_000;

/// Writes the objects of one bucket.
#[derive(Clone, Debug)]
pub(super) struct XmlWriter {
    client: ObjectClient,
    dialect: XmlDialect,
    accepted: Arc<AcceptedChecksums>,
    proved: Arc<ProvedConditions>,
    /// Describe each new object, in addition to the options of its write.
    of_blobs: HeaderMap,
}

impl XmlWriter {
    pub(super) fn new(client: ObjectClient, dialect: XmlDialect) -> Self {
        let accepted = Arc::new(AcceptedChecksums::new(dialect.checksums()));
        Self { client, dialect, accepted, proved: Arc::default(), of_blobs: HeaderMap::new() }
    }

    /// Adds these headers to the description of each new object.
    pub(super) fn describing(self, of_blobs: HeaderMap) -> Self {
        Self { of_blobs, ..self }
    }

    /// Trusts that the service keeps conditions when writers race.
    #[cfg(feature = "s3")]
    pub(super) fn trusting(self) -> Self {
        Self { proved: Arc::new(ProvedConditions::trusted()), ..self }
    }

    #[cfg(feature = "gcs")]
    pub(super) fn client(&self) -> &ObjectClient {
        &self.client
    }

    fn invalid(&self, blob: &str, message: impl Into<String>) -> Error {
        Error::new(ErrorKind::Invalid, Operation::Write, self.client.target(blob), message)
    }

    /// The headers that describe a new object.
    pub(super) fn description(&self, blob: &str, options: &WriteOptions) -> Result<HeaderMap> {
        let mut headers = HeaderMap::new();
        let mut add = |name: &str, value: &str| -> Result<()> {
            let malformed = |what: &str| self.invalid(blob, format!("{name:?} is no {what}"));
            let key = HeaderName::try_from(name)
                .map_err(|error| malformed("name of a header").caused_by(error))?;
            let value = HeaderValue::from_str(value)
                .map_err(|error| malformed("header with a valid value").caused_by(error))?;
            headers.insert(key, value);
            Ok(())
        };
        for (name, value) in [
            (header::CONTENT_TYPE, &options.content_type),
            (header::CONTENT_ENCODING, &options.content_encoding),
            (header::CACHE_CONTROL, &options.cache_control),
        ] {
            if let Some(value) = value {
                add(name.as_str(), value)?;
            }
        }
        let dialect = self.dialect;
        if let Some(class) = &options.storage_class {
            add(dialect.storage_class(), class)?;
        }
        if !options.tags.is_empty() {
            let Some(name) = dialect.tags() else {
                let message = "the remote keeps no tags";
                return Err(self.invalid(blob, message).into_kind(ErrorKind::Unsupported));
            };
            add(name, &dialect::tagging(&options.tags))?;
        }
        for (name, value) in &options.metadata {
            add(&format!("{}{name}", dialect.metadata()), value)?;
        }
        if let Some((name, value)) = options.modified.and_then(|time| dialect.modified(time)) {
            add(&format!("{}{name}", dialect.metadata()), &value)?;
        }
        if let Some(mark) = &options.mark {
            add(&format!("{}{}", dialect.metadata(), dialect::MARK), mark)?;
        }
        for (name, value) in &options.headers {
            add(name, value)?;
        }
        for (name, value) in &self.of_blobs {
            headers.insert(name, value.clone());
        }
        Ok(headers)
    }

    /// The headers of a condition on the target.
    fn condition(&self, blob: &str, precondition: &Precondition) -> Result<HeaderMap> {
        let mut headers = HeaderMap::new();
        let (name, value) = match (precondition, self.dialect) {
            (Precondition::None, _) => return Ok(headers),
            (Precondition::Absent, XmlDialect::S3) => (header::IF_NONE_MATCH, "*".to_owned()),
            (Precondition::Version(Version::ETag(tag)), XmlDialect::S3) => {
                (header::IF_MATCH, tag.clone())
            }
            (Precondition::Absent, XmlDialect::Gcs) => (dialect::IF_GENERATION, "0".to_owned()),
            (Precondition::Version(Version::Generation(generation)), XmlDialect::Gcs) => {
                (dialect::IF_GENERATION, generation.clone())
            }
            (Precondition::Version(other), dialect) => {
                let wanted = dialect.version();
                let message = format!("a write here is conditional on {wanted}, not on {other}");
                return Err(self.invalid(blob, message));
            }
        };
        let value = HeaderValue::try_from(value)
            .map_err(|error| self.invalid(blob, "the version makes no header").caused_by(error))?;
        headers.insert(name, value);
        Ok(headers)
    }

    /// The header by which the service verifies a body.
    fn checksum(&self, blob: &str, checksum: Option<&Checksum>) -> Result<HeaderMap> {
        let mut headers = HeaderMap::new();
        let Some(checksum) = checksum else { return Ok(headers) };
        let Some((name, value)) = self.dialect.checksum(checksum) else {
            let message = format!("the remote verifies no {}", checksum.algorithm());
            return Err(self.invalid(blob, message).into_kind(ErrorKind::Unsupported));
        };
        let value = HeaderValue::try_from(value)
            .map_err(|error| self.invalid(blob, "the checksum makes no header").caused_by(error))?;
        headers.insert(name, value);
        Ok(headers)
    }

    /// The new version and the checksums that a response names.
    pub(super) fn written(&self, answer: &ObjectAnswer) -> Written {
        let info = response::info(&answer.head, self.dialect.of_responses(), None);
        Written { version: info.version, checksums: verifiable(info.checksums) }
    }

    /// Sends a request whose response has a body only as its description. A refusal can come in the
    /// body of a success: S3 does so once it has begun to answer, and proxies before it at any time.
    async fn send(
        &self,
        request: &ObjectRequest<'_>,
    ) -> std::result::Result<ObjectAnswer, Refusal> {
        let answer = self.client.send(request).await?;
        let key = request.key.unwrap_or_default();
        match self.client.refusal_in_body(&answer, request.operation, key) {
            Some(refusal) => Err(refusal),
            None => Ok(answer),
        }
    }

    /// Sends a whole blob, as one of a race if there is one.
    pub(super) async fn send_put(
        &self,
        blob: &str,
        payload: &Payload,
        options: &WriteOptions,
        runner: Option<&Runner>,
    ) -> Result<std::result::Result<ObjectAnswer, Refusal>> {
        let request = ObjectRequest::new(Method::PUT, Operation::Write, blob)
            .headers(self.description(blob, options)?)
            .headers(self.condition(blob, &options.precondition)?)
            .headers(self.checksum(blob, payload.checksum())?)
            .payload(payload)
            .in_race(runner);
        Ok(self.send(&request).await)
    }

    /// The error of a refused write.
    pub(super) fn refused(&self, blob: &str, options: &WriteOptions, refusal: Refusal) -> Error {
        refused::explain(refusal, &options.precondition, &self.client.target(blob))
    }

    /// The error of a refused write of this payload; a refusal of its checksum is remembered.
    pub(super) fn refused_payload(
        &self,
        blob: &str,
        options: &WriteOptions,
        payload: &Payload,
        refusal: Refusal,
    ) -> Error {
        let algorithm = payload.checksum().map(Checksum::algorithm);
        if self.accepted.is_refused(algorithm, &refusal) {
            return self.accepted.explain(algorithm, refusal);
        }
        self.refused(blob, options, refusal)
    }
}

/// Checksums that the service reports of the whole object.
fn verifiable(checksums: Vec<StoredChecksum>) -> Vec<StoredChecksum> {
    checksums.into_iter().filter(StoredChecksum::is_verifiable).collect()
}

#[async_trait]
impl Write for XmlWriter {
    fn blob_headers(&self) -> Vec<(String, String)> {
        blob_headers::pairs(&self.of_blobs)
    }

    fn write_profile(&self, precondition: &Precondition) -> WriteProfile {
        let checksums: Vec<ChecksumAlgorithm> = self.accepted.now().into_iter().collect();
        let whole = |algorithm: &ChecksumAlgorithm| self.dialect.verifies_whole(*algorithm);
        let whole_checksums = checksums.iter().copied().filter(whole).collect();
        let parts = PartProfile {
            order: PartOrder::Any,
            bytes_min: PART_BYTES_MIN,
            bytes_max: PUT_BYTES_MAX,
            is_equal: self.dialect.needs_equal_parts(self.client.base()),
            count_max: PARTS_MAX,
            last: LastPart::Alone,
            checksums: checksums.clone(),
            whole_checksums,
            copies: self.dialect == XmlDialect::S3,
            ..PartProfile::any()
        };
        // Google checks no condition at any request of a multipart upload.
        let is_conditional = *precondition != Precondition::None;
        let parts = (self.dialect == XmlDialect::S3 || !is_conditional).then_some(parts);
        WriteProfile {
            blob_bytes_max: self.dialect.blob_bytes_max(),
            put_bytes_max: PUT_BYTES_MAX,
            put_checksums: checksums,
            parts,
            absent: Guarantee::Atomic,
            version: Guarantee::Atomic,
            copy_bytes_max: Some(self.dialect.copy_bytes_max()),
            copy_describes: true,
            // Few imitations of S3 know conditions on a copy; most ignore them. A copy in parts has
            // them where every upload in parts has them.
            copy_guarantee: match self.dialect {
                XmlDialect::S3 => Guarantee::None,
                XmlDialect::Gcs => Guarantee::Atomic,
            },
            metadata: MetadataNames::Any,
            keeps_tags: self.dialect.tags().is_some(),
            decompresses: self.dialect.decompresses(),
        }
    }

    async fn prove(
        &self,
        blob: &str,
        options: &WriteOptions,
        way: WriteWay,
    ) -> Result<Option<String>> {
        self.proved.prove(self, blob, options, way).await
    }

    async fn put(&self, blob: &str, payload: &Payload, options: &WriteOptions) -> Result<Written> {
        match self.send_put(blob, payload, options, None).await? {
            Ok(answer) => Ok(self.written(&answer)),
            Err(refusal) => Err(self.refused_payload(blob, options, payload, refusal)),
        }
    }

    async fn landed(&self, blob: &str, options: &WriteOptions) -> Result<Option<Written>> {
        let Some(mark) = &options.mark else { return Ok(None) };
        let request = ObjectRequest::new(Method::HEAD, Operation::Stat, blob)
            .headers(self.dialect.asks_for_checksums());
        match self.client.send(&request).await {
            Ok(answer) => {
                let name = format!("{}{}", self.dialect.metadata(), dialect::MARK);
                let is_ours = answer.head.text(&name) == Some(mark);
                Ok(is_ours.then(|| self.written(&answer)))
            }
            Err(refusal) if refusal.status() == Some(404) => Ok(None),
            Err(refusal) => Err(refusal.into()),
        }
    }

    async fn begin(&self, blob: &str, options: &WriteOptions) -> Result<Upload> {
        let begun = self.begin_multipart(blob, options).await?;
        begun.map_err(|refusal| self.refused(blob, options, refusal))
    }

    fn part_profile(&self, upload: &Upload) -> Option<PartProfile> {
        let mut profile = self.write_profile(&upload.options.precondition).parts?;
        let algorithm = multipart::algorithm(upload);
        profile.checksums = algorithm.into_iter().collect();
        profile.whole_checksums.retain(|whole| Some(*whole) == algorithm);
        Some(profile)
    }

    async fn part(&self, upload: &Upload, part: &UploadPart) -> Result<StoredPart> {
        self.store_part(upload, part).await
    }

    async fn parts(&self, upload: &Upload) -> Result<UploadState> {
        self.list_parts(upload).await
    }

    async fn complete(&self, upload: &Upload, request: &CompleteRequest) -> Result<Written> {
        self.complete_multipart(upload, request).await
    }

    async fn abort(&self, upload: &Upload) -> Result<()> {
        self.abort_multipart(upload).await
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
        self.read_tags(blob, version).await
    }

    fn bucket(&self) -> Option<Bucket> {
        Some(self.client.bucket())
    }

    async fn begin_copies(&self, blob: &str, options: &WriteOptions) -> Result<Upload> {
        self.begin_without_checksums(blob, options).await
    }

    async fn copy_part(
        &self,
        upload: &Upload,
        number: PartNumber,
        source: &CopySource,
        range: Range<u64>,
    ) -> Result<StoredPart> {
        self.copy_range(upload, number, source, range).await
    }

    async fn copy(
        &self,
        source: &CopySource,
        blob: &str,
        options: &WriteOptions,
    ) -> Result<Written> {
        self.copy_object(source, blob, options).await
    }
}
