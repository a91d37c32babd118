//! An upload in parts: begin, store a part, list the parts, complete, abort.
//!
//! The id of an upload has the algorithm of its checksums before the service's own id, because a
//! later process must compute the same one: `crc64nvme:ID`.
//!
//! A service may answer the second `complete` of an upload with success (Amazon), or say that there
//! is no such upload (`MinIO`). So [`XmlWriter::list_parts`] looks at the object itself if the upload
//! is unknown: it is ours if it has the upload's mark.

use http::{HeaderMap, HeaderValue, Method};
use tidegate_core::checksum::{ChecksumAlgorithm, Coverage, StoredChecksum};

use super::document::{self, BegunUpload, Made, PartsPage};
use super::refused::{NO_UPLOAD, RACED};
use super::{PARTS_MAX, XmlDialect, XmlWriter};
use crate::error::{Error, ErrorKind, Operation, Result};
use crate::remote::Version;
use crate::remote::object_client::{ObjectRequest, Refusal, Runner};
use crate::remote::write::{
    CompleteRequest, PartNumber, Payload, StoredPart, Upload, UploadId, UploadPart, UploadState,
    Write, WriteOptions, Written,
};

/// The algorithm of an upload without checksums.
const NONE: &str = "none";

/// The algorithm of an upload's checksums.
pub(super) fn algorithm(upload: &Upload) -> Option<ChecksumAlgorithm> {
    let (name, _) = upload.id.as_str().split_once(':')?;
    let known = [ChecksumAlgorithm::Crc64Nvme, ChecksumAlgorithm::Crc32c, ChecksumAlgorithm::Md5];
    known.into_iter().find(|algorithm| algorithm.name() == name)
}

/// The service's own id of an upload.
pub(super) fn id(upload: &Upload) -> &str {
    let id = upload.id.as_str();
    id.split_once(':').map_or(id, |(_, id)| id)
}

/// An id with the algorithm before it.
pub(super) fn with_algorithm(id: &str, algorithm: Option<ChecksumAlgorithm>) -> UploadId {
    UploadId::new(format!("{}:{id}", algorithm.map_or(NONE, ChecksumAlgorithm::name)))
}

impl XmlWriter {
    pub(in crate::remote) async fn begin_multipart(
        &self,
        blob: &str,
        options: &WriteOptions,
    ) -> Result<std::result::Result<Upload, Refusal>> {
        let target = self.client.target(blob);
        loop {
            let algorithm = self.accepted.now();
            let request = ObjectRequest::new(Method::POST, Operation::Write, blob)
                .query("uploads", "")
                .headers(self.description(blob, options)?)
                .headers(self.whole_type(algorithm));
            match self.send(&request).await {
                Ok(answer) => {
                    let begun: BegunUpload =
                        document::read(&answer.text, Operation::Write, &target)?;
                    let id = with_algorithm(&begun.upload_id, algorithm);
                    return Ok(Ok(Upload::new(blob, id, options)));
                }
                // The request has no body, so it can be sent again at once.
                Err(refusal) if self.accepted.is_refused(algorithm, &refusal) => {
                    let _ = self.accepted.explain(algorithm, refusal);
                }
                Err(refusal) => return Ok(Err(refusal)),
            }
        }
    }

    /// The headers by which the service keeps a checksum of the whole object.
    fn whole_type(&self, algorithm: Option<ChecksumAlgorithm>) -> HeaderMap {
        let mut headers = HeaderMap::new();
        if let Some(name) = algorithm.and_then(|algorithm| self.dialect.whole_name(algorithm)) {
            headers.insert("x-amz-checksum-algorithm", HeaderValue::from_static(name));
            headers.insert("x-amz-checksum-type", HeaderValue::from_static("FULL_OBJECT"));
        }
        headers
    }

    pub(super) async fn store_part(
        &self,
        upload: &Upload,
        part: &UploadPart,
    ) -> Result<StoredPart> {
        let number = part.number.to_string();
        let request = ObjectRequest::new(Method::PUT, Operation::Write, &upload.blob)
            .query("partNumber", number)
            .query("uploadId", id(upload))
            .headers(self.checksum(&upload.blob, part.payload.checksum())?)
            .payload(&part.payload);
        let answer = match self.send(&request).await {
            Ok(answer) => answer,
            Err(refusal) => {
                let Upload { blob, options, .. } = upload;
                return Err(self.refused_payload(blob, options, &part.payload, refusal));
            }
        };
        let mut stored = StoredPart::new(part.number, part.payload.len_bytes());
        let etag = answer.head.text("etag").map(str::to_owned);
        stored.tag = Some(etag.ok_or_else(|| {
            let message = format!("the response to part {} has no entity tag", part.number);
            Error::new(
                ErrorKind::Remote,
                Operation::Write,
                self.client.target(&upload.blob),
                message,
            )
        })?);
        // Some imitations repeat the checksum of the request and compare nothing.
        Ok(stored)
    }

    pub(super) async fn list_parts(&self, upload: &Upload) -> Result<UploadState> {
        let target = self.client.target(&upload.blob);
        let mut parts: Vec<StoredPart> = Vec::new();
        let mut marker = String::new();
        loop {
            let mut request = ObjectRequest::new(Method::GET, Operation::Stat, &upload.blob)
                .query("uploadId", id(upload));
            if !marker.is_empty() {
                request = request.query("part-number-marker", marker.as_str());
            }
            let answer = match self.send(&request).await {
                Ok(answer) => answer,
                Err(refusal) => return self.without_upload(upload, refusal).await,
            };
            let page: PartsPage = document::read(&answer.text, Operation::Stat, &target)?;
            let contradicts = |message: &str| {
                Error::new(ErrorKind::Remote, Operation::Stat, &*target, message)
                    .with_hint("abort the upload and begin it anew")
            };
            for listed in &page.parts {
                let number = PartNumber::new(listed.part_number);
                let Some(number) = number.filter(|number| number.get() <= PARTS_MAX) else {
                    return Err(contradicts("the list of parts has an impossible number"));
                };
                let mut part = StoredPart::new(number, listed.size);
                part.tag.clone_from(&listed.etag);
                part.checksum = listed.checksum();
                parts.push(part);
            }
            let last = parts.iter().map(|part| part.number.get()).max().unwrap_or_default();
            match page.next_part_number_marker.filter(|_| page.is_truncated) {
                // Without progress the list would never end.
                Some(next) if next == marker || page.parts.is_empty() => {
                    return Err(contradicts("the list of parts repeats itself"));
                }
                Some(next) => marker = next,
                None if page.is_truncated => marker = last.to_string(),
                None => break,
            }
            if parts.len() > PARTS_MAX as usize {
                return Err(contradicts("the list of parts is longer than an upload can be"));
            }
        }
        parts.sort_by_key(|part| part.number);
        // An implementation may list a part once for each time it was stored; the last one counts.
        parts.reverse();
        parts.dedup_by_key(|part| part.number);
        parts.reverse();
        Ok(UploadState::Parts(parts))
    }

    /// The state of an upload whose list of parts was refused.
    async fn without_upload(&self, upload: &Upload, refusal: Refusal) -> Result<UploadState> {
        if matches!(refusal.status(), Some(405 | 501)) {
            let message = "the remote does not list the parts of an upload";
            let target = self.client.target(&upload.blob);
            return Err(Error::new(ErrorKind::Unsupported, Operation::Stat, target, message)
                .caused_by(refusal.error));
        }
        if refusal.code() != NO_UPLOAD && refusal.status() != Some(404) {
            return Err(self.refused(&upload.blob, &upload.options, refusal));
        }
        match self.landed(&upload.blob, &upload.options).await? {
            Some(written) => Ok(UploadState::Completed(written)),
            None => Err(self.refused(&upload.blob, &upload.options, refusal)),
        }
    }

    pub(super) async fn complete_multipart(
        &self,
        upload: &Upload,
        request: &CompleteRequest,
    ) -> Result<Written> {
        match self.try_complete(upload, request, None).await? {
            Ok(written) => Ok(written),
            Err(refusal) => Err(self.not_completed(upload, refusal).await),
        }
    }

    /// Sends the request that completes an upload, as one of a race if there is one.
    pub(super) async fn try_complete(
        &self,
        upload: &Upload,
        request: &CompleteRequest,
        runner: Option<&Runner>,
    ) -> Result<std::result::Result<Written, Refusal>> {
        let len_bytes: u64 = request.parts.iter().map(|part| part.len_bytes).sum();
        if len_bytes != request.len_bytes {
            // Several services would make a blob of the parts that are named.
            let message =
                format!("expected {} bytes, but the parts have {len_bytes}", request.len_bytes);
            return Err(self.invalid(&upload.blob, message));
        }
        let algorithm = algorithm(upload);
        let name = algorithm.and_then(|algorithm| self.dialect.whole_name(algorithm));
        let payload = Payload::from_bytes(document::completion(request, name).into_bytes());
        let mut headers = self.condition(&upload.blob, &upload.options.precondition)?;
        if name.is_some()
            && let Some(checksum) = &request.checksum
        {
            headers.extend(self.checksum(&upload.blob, Some(checksum))?);
            headers.insert("x-amz-checksum-type", HeaderValue::from_static("FULL_OBJECT"));
            headers.insert("x-amz-mp-object-size", HeaderValue::from(request.len_bytes));
        }
        let sent = ObjectRequest::new(Method::POST, Operation::Commit, &upload.blob)
            .query("uploadId", id(upload))
            .headers(headers)
            .payload(&payload)
            .in_race(runner);
        let answer = match self.send(&sent).await {
            Ok(answer) => answer,
            Err(refusal) => return Ok(Err(refusal)),
        };
        let target = self.client.target(&upload.blob);
        let made: Made = document::read(&answer.text, Operation::Commit, &target)?;
        let mut written = self.written(&answer);
        // Google's own version is a generation, which only a look at the object names.
        let etag = made.etag.as_deref().filter(|_| self.dialect == XmlDialect::S3);
        if let Some(etag) = etag.and_then(Version::from_etag) {
            written.version.get_or_insert(etag);
        }
        if let Some(checksum) = made.checksum() {
            written.checksums.push(StoredChecksum { checksum, coverage: Coverage::FullObject });
        }
        Ok(Ok(written))
    }

    /// The error of an upload that was not completed. After a race on a conditional completion S3
    /// wants all parts anew, so the upload is aborted.
    async fn not_completed(&self, upload: &Upload, refusal: Refusal) -> Error {
        if refusal.code() == RACED
            && let Err(error) = self.abort_multipart(upload).await
        {
            tracing::warn!(%error, "an upload that cannot be completed stays behind");
        }
        self.refused(&upload.blob, &upload.options, refusal)
    }

    pub(super) async fn abort_multipart(&self, upload: &Upload) -> Result<()> {
        let request = ObjectRequest::new(Method::DELETE, Operation::Delete, &upload.blob)
            .query("uploadId", id(upload));
        match self.client.send(&request).await {
            Ok(_) => Ok(()),
            Err(refusal) if refusal.status() == Some(404) => Ok(()),
            Err(refusal) => Err(self.refused(&upload.blob, &upload.options, refusal)),
        }
    }
}
