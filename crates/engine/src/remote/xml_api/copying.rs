//! A copy by S3 itself: of an object in one request, or of a range of it as a part of an upload.
//!
//! A copy in one request has at most 5 GiB. Above that each part is a copy of a range ("Copying an
//! object using multipart upload" in the S3 user guide).

use std::ops::Range;

use http::{HeaderMap, HeaderName, HeaderValue, Method};

use super::document::{self, BegunUpload, Made};
use super::{XmlDialect, XmlWriter, multipart};
use crate::error::{Error, ErrorKind, Operation, Result};
use crate::remote::object_client::{ObjectRequest, Refusal, encoded};
use crate::remote::write::{CopySource, PartNumber, StoredPart, Upload, WriteOptions, Written};
use crate::remote::{Version, tag_document};

/// What names of headers begin with if they hold a customer's key.
const KEY: &str = "x-amz-server-side-encryption-customer-";

impl XmlWriter {
    pub(super) async fn copy_object(
        &self,
        source: &CopySource,
        blob: &str,
        options: &WriteOptions,
    ) -> Result<Written> {
        let mut headers = self.description(blob, options)?;
        for (name, is_replaced) in [
            ("x-amz-metadata-directive", options.describes()),
            ("x-amz-tagging-directive", !options.tags.is_empty()),
        ] {
            if is_replaced {
                headers.insert(name, HeaderValue::from_static("REPLACE"));
            }
        }
        let request = ObjectRequest::new(Method::PUT, Operation::Write, blob)
            .headers(headers)
            .headers(self.condition(blob, &options.precondition)?)
            .headers(self.source(source)?);
        let answer = match self.send(&request).await {
            Ok(answer) => answer,
            Err(refusal) => return Err(self.not_copied(source, blob, options, refusal)),
        };
        let target = self.client.target(blob);
        let made: Made = document::read(&answer.text, Operation::Write, &target)?;
        let mut written = self.written(&answer);
        written.version =
            written.version.or_else(|| made.etag.as_deref().and_then(Version::from_etag));
        Ok(written)
    }

    /// Begins an upload that names no checksum: the service then chooses one of the whole by itself.
    /// Services differ on what a copied part of an upload with checksums is: `MinIO` takes none, and
    /// versitygw returns the checksum of the whole source for each.
    pub(super) async fn begin_without_checksums(
        &self,
        blob: &str,
        options: &WriteOptions,
    ) -> Result<Upload> {
        let request = ObjectRequest::new(Method::POST, Operation::Write, blob)
            .query("uploads", "")
            .headers(self.description(blob, options)?);
        let answer = match self.send(&request).await {
            Ok(answer) => answer,
            Err(refusal) => return Err(self.refused(blob, options, refusal)),
        };
        let target = self.client.target(blob);
        let begun: BegunUpload = document::read(&answer.text, Operation::Write, &target)?;
        Ok(Upload::new(blob, multipart::with_algorithm(&begun.upload_id, None), options))
    }

    pub(super) async fn copy_range(
        &self,
        upload: &Upload,
        number: PartNumber,
        source: &CopySource,
        range: Range<u64>,
    ) -> Result<StoredPart> {
        let Upload { blob, options, .. } = upload;
        let bytes = format!("bytes={}-{}", range.start, range.end.saturating_sub(1));
        let bytes = self.value(&source.blob, bytes)?;
        let request = ObjectRequest::new(Method::PUT, Operation::Write, blob)
            .query("partNumber", number.to_string())
            .query("uploadId", multipart::id(upload))
            .headers(self.source(source)?)
            .headers(HeaderMap::from_iter([(
                HeaderName::from_static("x-amz-copy-source-range"),
                bytes,
            )]));
        let answer = match self.send(&request).await {
            Ok(answer) => answer,
            Err(refusal) => return Err(self.not_copied(source, blob, options, refusal)),
        };
        let target = self.client.target(blob);
        let made: Made = document::read(&answer.text, Operation::Write, &target)?;
        let tag = made.etag.ok_or_else(|| {
            let message = format!("the response to the copy of part {number} has no entity tag");
            Error::new(ErrorKind::Remote, Operation::Write, target, message)
        })?;
        let mut part = StoredPart::new(number, range.end - range.start);
        part.tag = Some(tag);
        Ok(part)
    }

    pub(super) async fn read_tags(
        &self,
        blob: &str,
        version: Option<&Version>,
    ) -> Result<Vec<(String, String)>> {
        if self.dialect.tags().is_none() {
            let message = "the remote keeps no tags";
            return Err(self.invalid(blob, message).into_kind(ErrorKind::Unsupported));
        }
        let mut request =
            ObjectRequest::new(Method::GET, Operation::Stat, blob).query("tagging", "");
        if let Some(Version::VersionId(id)) = version {
            request = request.query("versionId", id.as_str());
        }
        let answer = self.send(&request).await?;
        tag_document::read(&answer.text, &self.client.target(blob))
    }

    fn not_copied(
        &self,
        source: &CopySource,
        blob: &str,
        options: &WriteOptions,
        refusal: Refusal,
    ) -> Error {
        let of_source = |kind, message: &str| {
            Error::new(kind, Operation::Read, self.shown(source), message)
                .caused_by(refusal.error.without_cause())
        };
        if let Some(archived) = refusal.archived() {
            let error = archived.error(Operation::Read, &self.shown(source));
            return error.caused_by(refusal.error.without_cause());
        }
        match (refusal.status(), refusal.code()) {
            (Some(412), _) if source.version.is_some() => {
                of_source(ErrorKind::Changed, "the source has another version")
            }
            (_, "NoSuchKey" | "NoSuchVersion") => {
                of_source(ErrorKind::NotFound, "there is no such blob to copy")
            }
            // The limit of a service that imitates S3 can be lower than Amazon's.
            (_, "InvalidRequest") if refusal.text.contains("copy source is larger") => {
                of_source(ErrorKind::Unsupported, "it is too long for a copy in one request")
            }
            (Some(501), _) => of_source(ErrorKind::Unsupported, "the remote does not copy it"),
            _ => self.refused(blob, options, refusal),
        }
    }

    /// The source in messages.
    fn shown(&self, source: &CopySource) -> String {
        match &source.bucket {
            None => self.client.target(&source.blob),
            Some(bucket) => format!("s3://{bucket}/{}", source.blob),
        }
    }

    fn value(&self, blob: &str, value: String) -> Result<HeaderValue> {
        HeaderValue::try_from(value)
            .map_err(|error| self.invalid(blob, "it makes no header").caused_by(error))
    }

    /// The headers that name the source of a copy.
    fn source(&self, source: &CopySource) -> Result<HeaderMap> {
        debug_assert_eq!(self.dialect, XmlDialect::S3, "Google's copies are in JSON");
        let own = self.client.bucket().name;
        let bucket = source.bucket.as_deref().unwrap_or(&own);
        let mut place = format!("/{bucket}/{}", encoded(&source.blob));
        let mut headers = HeaderMap::new();
        match &source.version {
            None => {}
            Some(Version::ETag(etag)) => {
                let etag = self.value(&source.blob, etag.clone())?;
                headers.insert("x-amz-copy-source-if-match", etag);
            }
            Some(Version::VersionId(id)) => {
                place.push_str("?versionId=");
                place.push_str(&encoded(id));
            }
            Some(other) => {
                let message = format!("a copy cannot be pinned to {other}");
                return Err(self.invalid(&source.blob, message));
            }
        }
        headers.insert("x-amz-copy-source", self.value(&source.blob, place)?);
        // The source is encrypted with the same key.
        for (name, value) in &self.client.headers() {
            let Some(rest) = name.as_str().strip_prefix(KEY) else { continue };
            let name = format!("x-amz-copy-source-server-side-encryption-customer-{rest}");
            if let Ok(name) = HeaderName::try_from(name) {
                headers.insert(name, value.clone());
            }
        }
        Ok(headers)
    }
}
