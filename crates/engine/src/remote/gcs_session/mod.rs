//! Writing to Google Cloud Storage: [`GcsWriter`].
//!
//! The XML interface stores parts in parallel, but checks no precondition for them, and needs a
//! permission of its own. A resumable session of the JSON interface checks a precondition, and takes
//! one part after another. So an upload in parts is a session if it has a precondition, or if the
//! service refused the other kind. The refusal is remembered.
//!
//! The emulator fake-gcs-server has only the JSON interface for writing. That is noticed in its
//! refusal, and remembered, too.
//!
//! | file | idea |
//! |---|---|
//! | `address` | the addresses of the JSON interface; the address of a session |
//! | `session` | an upload as a session |
//! | `kept` | how much of an upload the service has |
//! | `resource` | the description of an object in JSON |
//! | `rewrite` | a copy by the service |
//! | `simple` | a put and a delete by the JSON interface |
//!
//! Sources: "Resumable uploads" and the reference of the JSON API of Google Cloud Storage.

mod address;
#[cfg(fuzzing)]
pub(in crate::remote) mod fuzzed;
mod kept;
mod resource;
mod rewrite;
mod session;
mod simple;

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use tidegate_core::checksum::ChecksumAlgorithm;

pub(super) use self::address::JsonBucket;
use super::object_client::Refusal;
use super::write::{
    Bucket, CompleteRequest, CopySource, LastPart, PartOrder, PartProfile, Payload, Precondition,
    StoredPart, Upload, UploadId, UploadPage, UploadPart, UploadState, Write, WriteOptions,
    WriteProfile, Written,
};
use super::xml_api::XmlWriter;
use super::{
    Delete, DeleteProfile, DeleteRequest, List, ListPages, ListProfile, ListRequest, PageToken,
};
use crate::budget::Budget;
use crate::error::{Error, ErrorKind, Operation, Result};

/// A part of a session has a multiple of this, except the last.
const GRANULE_BYTES: u64 = 256 << 10;

/// The longest object.
const BLOB_BYTES_MAX: u64 = 5 << 40;

/// Writes the objects of one bucket.
#[derive(Clone, Debug)]
pub(super) struct GcsWriter {
    xml: XmlWriter,
    json: JsonBucket,
    known: Arc<Known>,
}

/// What the service's refusals have shown.
#[derive(Debug, Default)]
struct Known {
    /// Uploads in parts by the XML interface are refused.
    no_multipart: AtomicBool,
    /// The XML interface does not write.
    no_xml: AtomicBool,
    /// How many bytes of an upload a service has that does not tell, by the upload's id.
    silent: Mutex<HashMap<UploadId, u64>>,
}

impl Known {
    fn silent(&self) -> MutexGuard<'_, HashMap<UploadId, u64>> {
        self.silent.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl GcsWriter {
    pub(super) fn new(xml: XmlWriter, json: JsonBucket) -> Self {
        Self { xml, json, known: Arc::default() }
    }

    fn error(&self, operation: Operation, blob: &str, message: impl Into<String>) -> Error {
        Error::new(ErrorKind::Remote, operation, self.xml.client().target(blob), message)
    }

    fn has_no_xml(&self) -> bool {
        self.known.no_xml.load(Ordering::Relaxed)
    }

    fn needs_session(&self, precondition: &Precondition) -> bool {
        *precondition != Precondition::None
            || self.has_no_xml()
            || self.known.no_multipart.load(Ordering::Relaxed)
    }

    /// Whether a write was refused because there is no XML interface; remembered.
    fn is_not_xml(&self, refusal: &Refusal) -> bool {
        let found = match refusal.status() {
            Some(400) => refusal.text.contains("uploadType"),
            Some(404 | 405 | 501) => refusal.code().is_empty(),
            _ => false,
        };
        if found {
            tracing::debug!("the remote writes by its JSON interface only");
            self.known.no_xml.store(true, Ordering::Relaxed);
        }
        found
    }
}

/// The parts of a session.
fn session_profile() -> PartProfile {
    PartProfile {
        order: PartOrder::InOrder,
        bytes_min: GRANULE_BYTES,
        bytes_max: BLOB_BYTES_MAX,
        bytes_multiple: GRANULE_BYTES,
        last: LastPart::WithComplete,
        whole_checksums: vec![ChecksumAlgorithm::Crc32c],
        is_listed: false,
        ..PartProfile::any()
    }
}

#[async_trait]
impl Write for GcsWriter {
    fn blob_headers(&self) -> Vec<(String, String)> {
        self.xml.blob_headers()
    }

    fn write_profile(&self, precondition: &Precondition) -> WriteProfile {
        let mut profile = self.xml.write_profile(precondition);
        if self.needs_session(precondition) {
            profile.parts = Some(session_profile());
        }
        profile
    }

    async fn put(&self, blob: &str, payload: &Payload, options: &WriteOptions) -> Result<Written> {
        if self.has_no_xml() {
            return self.put_simply(blob, payload, options).await;
        }
        match self.xml.send_put(blob, payload, options, None).await? {
            Ok(answer) => Ok(self.xml.written(&answer)),
            Err(refusal) if self.is_not_xml(&refusal) => {
                self.put_simply(blob, payload, options).await
            }
            Err(refusal) => Err(self.xml.refused_payload(blob, options, payload, refusal)),
        }
    }

    async fn landed(&self, blob: &str, options: &WriteOptions) -> Result<Option<Written>> {
        self.xml.landed(blob, options).await
    }

    async fn begin(&self, blob: &str, options: &WriteOptions) -> Result<Upload> {
        if self.needs_session(&options.precondition) {
            return self.begin_session(blob, options).await;
        }
        let refusal = match self.xml.begin_multipart(blob, options).await? {
            Ok(upload) => return Ok(upload),
            Err(refusal) => refusal,
        };
        if !self.is_not_xml(&refusal) && !matches!(refusal.status(), Some(403 | 405 | 501)) {
            return Err(self.xml.refused(blob, options, refusal));
        }
        let upload = self.begin_session(blob, options).await?;
        tracing::debug!("the remote refuses uploads in parallel parts");
        self.known.no_multipart.store(true, Ordering::Relaxed);
        Ok(upload)
    }

    fn part_profile(&self, upload: &Upload) -> Option<PartProfile> {
        match address::session(&upload.id) {
            Some(_) => Some(session_profile()),
            None => self.xml.part_profile(upload),
        }
    }

    async fn part(&self, upload: &Upload, part: &UploadPart) -> Result<StoredPart> {
        match address::session(&upload.id) {
            Some(session) => self.send_part(upload, session, part).await,
            None => self.xml.part(upload, part).await,
        }
    }

    async fn parts(&self, upload: &Upload) -> Result<UploadState> {
        match address::session(&upload.id) {
            Some(session) => self.state_of_session(upload, session).await,
            None => self.xml.parts(upload).await,
        }
    }

    async fn complete(&self, upload: &Upload, request: &CompleteRequest) -> Result<Written> {
        match address::session(&upload.id) {
            Some(session) => self.complete_session(upload, session, request).await,
            None => self.xml.complete(upload, request).await,
        }
    }

    async fn abort(&self, upload: &Upload) -> Result<()> {
        match address::session(&upload.id) {
            Some(session) => self.abort_session(upload, session).await,
            None => self.xml.abort(upload).await,
        }
    }

    /// Sessions are not listed: the service has no request for it.
    async fn uploads(
        &self,
        prefix: &str,
        from: Option<&PageToken>,
        budget: &Budget,
    ) -> Result<UploadPage> {
        self.xml.uploads(prefix, from, budget).await
    }

    fn bucket(&self) -> Option<Bucket> {
        self.xml.bucket()
    }

    async fn copy(
        &self,
        source: &CopySource,
        blob: &str,
        options: &WriteOptions,
    ) -> Result<Written> {
        self.rewrite(source, blob, options).await
    }
}

impl List for GcsWriter {
    fn list_profile(&self) -> ListProfile {
        self.xml.list_profile()
    }

    fn list(&self, request: &ListRequest, budget: &Budget) -> ListPages {
        self.xml.list(request, budget)
    }
}

#[async_trait]
impl Delete for GcsWriter {
    fn delete_profile(&self) -> DeleteProfile {
        self.xml.delete_profile()
    }

    async fn delete(&self, request: &DeleteRequest) -> Result<()> {
        match self.xml.try_delete(request).await? {
            Ok(()) => Ok(()),
            // Without an XML interface, the status says nothing about the object.
            Err(refusal) if refusal.status() == Some(404) && refusal.code().is_empty() => {
                self.delete_simply(request).await
            }
            Err(refusal) => self.xml.not_deleted(request, refusal).await,
        }
    }
}
