//! An upload as a session: begin, send a part, ask for the state, complete, abort.
//!
//! Each request says where its bytes belong, and each response how many bytes the service has. It
//! may have fewer than were sent; the rest is sent again as long as that makes progress.

use futures_util::StreamExt;
use http::{HeaderMap, HeaderValue, Method, header};
use tidegate_core::checksum::{Checksum, ChecksumAlgorithm};
use tidegate_core::retry::RetryClass;

use super::address::{self, JsonBucket, Session};
use super::kept::{content_range, kept};
use super::resource::{self, Resource};
use super::{BLOB_BYTES_MAX, GcsWriter};
use crate::error::{Error, ErrorKind, Operation, Result};
use crate::remote::object_client::{ObjectAnswer, ObjectRequest, OtherAddress, Refusal};
use crate::remote::write::{
    CompleteRequest, Payload, Precondition, StoredPart, Upload, UploadPart, UploadState, Write,
    WriteOptions, Written,
};
use crate::remote::{Body, Version};

/// The description of an object in JSON, and parameters of the request that makes it.
type Described = (serde_json::Map<String, serde_json::Value>, Vec<(&'static str, String)>);

/// The status of a session that was cancelled.
const CANCELLED: u16 = 499;

/// Bytes of an object, and where they belong.
#[derive(Clone, Copy)]
struct Sent<'a> {
    offset: u64,
    payload: &'a Payload,
    /// The length of the object, with its last bytes.
    total: Option<u64>,
    checksum: Option<&'a Checksum>,
}

/// How a request of a session ended.
enum Outcome {
    /// The service has this many bytes.
    Kept(u64),
    Completed(ObjectAnswer),
}

impl GcsWriter {
    pub(super) async fn begin_session(&self, blob: &str, options: &WriteOptions) -> Result<Upload> {
        let (mut description, parameters) = self.described(blob, options)?;
        description.remove("name");
        let description = serde_json::Value::from(description).to_string();
        let payload = Payload::from_bytes(description.into_bytes());
        let mut request = ObjectRequest::new(Method::POST, Operation::Write, blob)
            .query("uploadType", "resumable")
            .query("name", blob)
            .headers(address::plain())
            .headers(json_type())
            .payload(&payload)
            .elsewhere(JsonBucket::signed(self.json.uploads.clone()));
        for (name, value) in parameters {
            request = request.query(name, value);
        }
        if let Some(generation) = self.generation(blob, &options.precondition)? {
            request = request.query("ifGenerationMatch", generation);
        }
        let answer = match self.xml.client().send(&request).await {
            Ok(answer) => answer,
            Err(refusal) => return Err(self.xml.refused(blob, options, refusal)),
        };
        // The service sends no text, its emulator does.
        let tells_state = answer.text.trim_ascii().is_empty();
        let location = answer.head.text("location").unwrap_or_default();
        let id = self.json.upload_id(location, tells_state).ok_or_else(|| {
            self.error(Operation::Write, blob, "the response names no address of the upload")
                .retryable(RetryClass::Now)
        })?;
        if !tells_state {
            self.known.silent().insert(id.clone(), 0);
        }
        Ok(Upload::new(blob, id, options))
    }

    /// The description of a new object, and the parameters of its request.
    pub(super) fn described(&self, blob: &str, options: &WriteOptions) -> Result<Described> {
        let unsupported = |message: String| {
            self.error(Operation::Write, blob, message).into_kind(ErrorKind::Unsupported)
        };
        if !options.tags.is_empty() {
            return Err(unsupported("the remote keeps no tags".to_owned()));
        }
        let own = WriteOptions { headers: options.headers.clone(), ..WriteOptions::default() };
        let headers = self.xml.description(blob, &own)?;
        let mut description = resource::description(blob, options);
        let parameters = resource::add_headers(&mut description, &headers).map_err(|name| {
            unsupported(format!("the remote takes no header {name} with this upload"))
        })?;
        Ok((description, parameters))
    }

    /// The generation that a write requires: 0 for none.
    pub(super) fn generation(
        &self,
        blob: &str,
        precondition: &Precondition,
    ) -> Result<Option<String>> {
        match precondition {
            Precondition::None => Ok(None),
            Precondition::Absent => Ok(Some("0".to_owned())),
            Precondition::Version(Version::Generation(generation)) => Ok(Some(generation.clone())),
            Precondition::Version(other) => {
                let message =
                    format!("a write here is conditional on a generation, not on {other}");
                Err(self.error(Operation::Write, blob, message).into_kind(ErrorKind::Invalid))
            }
        }
    }

    /// Where the session of an upload is. The id may come from a journal.
    fn place(&self, upload: &Upload, session: Session<'_>) -> Result<OtherAddress> {
        self.json.at(session).ok_or_else(|| {
            let message = "the upload belongs to another host";
            self.error(Operation::Write, &upload.blob, message).into_kind(ErrorKind::Invalid)
        })
    }

    pub(super) async fn send_part(
        &self,
        upload: &Upload,
        session: Session<'_>,
        part: &UploadPart,
    ) -> Result<StoredPart> {
        let len_bytes = part.payload.len_bytes();
        if part.offset.checked_add(len_bytes).is_none_or(|end| end > BLOB_BYTES_MAX) {
            let error = self.error(Operation::Write, &upload.blob, "it is too long for the remote");
            return Err(error.into_kind(ErrorKind::Invalid));
        }
        let sent =
            Sent { offset: part.offset, payload: &part.payload, total: None, checksum: None };
        match self.send_all(upload, session, sent, Operation::Write).await? {
            Outcome::Kept(_) => Ok(StoredPart::new(part.number, len_bytes)),
            Outcome::Completed(_) => {
                let message = "the upload was completed before its last part";
                Err(self.error(Operation::Write, &upload.blob, message))
            }
        }
    }

    /// Sends bytes until the service has all of them.
    async fn send_all(
        &self,
        upload: &Upload,
        session: Session<'_>,
        sent: Sent<'_>,
        operation: Operation,
    ) -> Result<Outcome> {
        let end = sent.offset.saturating_add(sent.payload.len_bytes());
        let mut offset = sent.offset;
        loop {
            let rest = rest(sent.payload, offset - sent.offset);
            let piece = Sent { offset, payload: &rest, ..sent };
            let kept = match self.send_once(upload, session, piece, operation).await? {
                Outcome::Completed(answer) => {
                    self.known.silent().remove(&upload.id);
                    return Ok(Outcome::Completed(answer));
                }
                Outcome::Kept(kept) => kept,
            };
            if let Some(known) = self.known.silent().get_mut(&upload.id) {
                *known = kept;
            }
            let error = |message: String| self.error(operation, &upload.blob, message);
            if kept > end {
                let message = format!("the remote has {kept} bytes, but {end} bytes were sent");
                return Err(error(message));
            }
            if kept == end && sent.total.is_none() {
                return Ok(Outcome::Kept(kept));
            }
            if kept < sent.offset {
                let message =
                    format!("the remote has {kept} bytes, and had {} before", sent.offset);
                return Err(error(message));
            }
            if kept <= offset {
                let message = format!("the remote has {kept} of {end} bytes");
                return Err(error(message).retryable(RetryClass::Now));
            }
            offset = kept;
        }
    }

    async fn send_once(
        &self,
        upload: &Upload,
        session: Session<'_>,
        sent: Sent<'_>,
        operation: Operation,
    ) -> Result<Outcome> {
        let Upload { blob, options, .. } = upload;
        let mut headers = self.json.encryption.clone();
        headers.extend(address::plain());
        let range = content_range(sent.offset, sent.payload.len_bytes(), sent.total);
        let hash = sent.checksum.map(|sum| format!("crc32c={}", sum.to_base64()));
        for (name, value) in [("content-range", Some(range)), ("x-goog-hash", hash)] {
            let Some(value) = value else { continue };
            let value = HeaderValue::try_from(value).map_err(|error| {
                self.error(operation, blob, "it makes no header").caused_by(error)
            })?;
            headers.insert(name, value);
        }
        let request = ObjectRequest::new(Method::PUT, operation, blob)
            .headers(headers)
            .payload(sent.payload)
            .elsewhere(self.place(upload, session)?);
        match self.xml.client().send(&request).await {
            Ok(answer) if answer.head.status.as_u16() == 308 => {
                let range = answer.head.text("range");
                let kept = kept(range).ok_or_else(|| {
                    self.error(operation, blob, "the response does not say how much was kept")
                })?;
                Ok(Outcome::Kept(kept))
            }
            Ok(answer) => Ok(Outcome::Completed(answer)),
            Err(refusal) => Err(match refusal.status() {
                Some(404 | 410 | CANCELLED) => self.unknown(blob, &refusal),
                Some(400) if sent.checksum.is_some() && differs(&refusal) => {
                    let message = "the remote computed another checksum of the whole";
                    self.error(operation, blob, message).into_kind(ErrorKind::Integrity)
                }
                _ => self.xml.refused(blob, options, refusal),
            }),
        }
    }

    /// The object that a response describes. A success without one proves nothing: the caller asks
    /// again.
    pub(super) fn resource(
        &self,
        blob: &str,
        operation: Operation,
        answer: &ObjectAnswer,
    ) -> Result<Resource> {
        Resource::read(&answer.text).ok_or_else(|| {
            self.error(operation, blob, "the response describes no object")
                .retryable(RetryClass::Now)
        })
    }

    fn unknown(&self, blob: &str, refusal: &Refusal) -> Error {
        let message =
            "the remote does not know the upload: it was completed, aborted or has expired";
        self.error(Operation::Write, blob, message)
            .into_kind(ErrorKind::NotFound)
            .caused_by(refusal.error.without_cause())
    }

    pub(super) async fn state_of_session(
        &self,
        upload: &Upload,
        session: Session<'_>,
    ) -> Result<UploadState> {
        let nothing = Payload::from_frames(Vec::new());
        let asked = Sent { offset: 0, payload: &nothing, total: None, checksum: None };
        if let Some(kept) = self.known.silent().get(&upload.id) {
            return Ok(UploadState::Prefix(*kept));
        }
        let unknown = if session.tells_state {
            match self.send_once(upload, session, asked, Operation::Stat).await {
                Ok(Outcome::Kept(kept)) => return Ok(UploadState::Prefix(kept)),
                Ok(Outcome::Completed(answer)) => {
                    let resource = self.resource(&upload.blob, Operation::Stat, &answer)?;
                    return Ok(UploadState::Completed(resource.written()));
                }
                Err(error) if error.kind() == ErrorKind::NotFound => error,
                Err(error) => return Err(error),
            }
        } else {
            let message = "the remote cannot say how much of the upload it has";
            self.error(Operation::Stat, &upload.blob, message).into_kind(ErrorKind::NotFound)
        };
        match self.landed(&upload.blob, &upload.options).await? {
            Some(written) => Ok(UploadState::Completed(written)),
            None => Err(unknown),
        }
    }

    pub(super) async fn complete_session(
        &self,
        upload: &Upload,
        session: Session<'_>,
        request: &CompleteRequest,
    ) -> Result<Written> {
        let blob = &upload.blob;
        let nothing = Payload::from_frames(Vec::new());
        let (offset, payload) = match &request.last {
            Some(last) => (last.offset, &last.payload),
            None => (request.len_bytes, &nothing),
        };
        let total = request.len_bytes;
        // A session that another process began may name no parts.
        let before: u64 = request.parts.iter().map(|part| part.len_bytes).sum();
        let is_gap = !request.parts.is_empty() && before != offset;
        let end = offset.checked_add(payload.len_bytes());
        if is_gap || end != Some(total) || total > BLOB_BYTES_MAX {
            let message = format!("the parts do not add up to the length of {total} bytes");
            let error = self.error(Operation::Commit, blob, message);
            return Err(error.into_kind(ErrorKind::Invalid));
        }
        let is_verified = |sum: &&Checksum| sum.algorithm() == ChecksumAlgorithm::Crc32c;
        let checksum = request.checksum.as_ref().filter(is_verified);
        let sent = Sent { offset, payload, total: Some(total), checksum };
        let answer = match self.send_all(upload, session, sent, Operation::Commit).await? {
            Outcome::Completed(answer) => answer,
            Outcome::Kept(kept) => {
                let message = format!("the remote has {kept} of {total} bytes");
                return Err(self.error(Operation::Commit, blob, message));
            }
        };
        let resource = self.resource(blob, Operation::Commit, &answer)?;
        let written = resource.written();
        // An emulator may not compare what the service compares.
        let differs = |sum: &Checksum| {
            let mut known = written.checksums.iter().map(|known| &known.checksum);
            known.any(|known| known.algorithm() == sum.algorithm() && known != sum)
        };
        let is_other_len = resource.len_bytes().is_some_and(|len_bytes| len_bytes != total);
        if is_other_len || checksum.is_some_and(differs) {
            let message = format!("the remote made other bytes than the {total} that were sent");
            let error = self.error(Operation::Commit, blob, message);
            return Err(error.into_kind(ErrorKind::Integrity));
        }
        Ok(written)
    }

    pub(super) async fn abort_session(&self, upload: &Upload, session: Session<'_>) -> Result<()> {
        self.known.silent().remove(&upload.id);
        let request = ObjectRequest::new(Method::DELETE, Operation::Delete, &upload.blob)
            .headers(address::plain())
            .elsewhere(self.place(upload, session)?);
        match self.xml.client().send(&request).await {
            Ok(_) => Ok(()),
            Err(refusal) if matches!(refusal.status(), Some(404 | 410 | CANCELLED)) => Ok(()),
            Err(refusal) => Err(self.xml.refused(&upload.blob, &upload.options, refusal)),
        }
    }
}

pub(super) fn json_type() -> HeaderMap {
    HeaderMap::from_iter([(
        header::CONTENT_TYPE,
        HeaderValue::from_static("application/json; charset=UTF-8"),
    )])
}

/// Whether a refusal says that a checksum differs.
pub(super) fn differs(refusal: &Refusal) -> bool {
    let text = refusal.text.to_ascii_lowercase();
    ["crc32c", "md5", "checksum", "x-goog-hash"].iter().any(|name| text.contains(name))
}

/// The payload without its first bytes.
fn rest(payload: &Payload, skipped: u64) -> Payload {
    if skipped == 0 {
        return payload.clone();
    }
    let whole = payload.clone();
    Payload::reopened(payload.len_bytes().saturating_sub(skipped), move || skip(&whole, skipped))
}

fn skip(payload: &Payload, mut skipped: u64) -> Body {
    let frames = payload.open().map(move |frame| {
        let mut frame = frame?;
        let len = usize::try_from(skipped).unwrap_or(usize::MAX).min(frame.len());
        skipped -= len as u64;
        Ok(frame.split_off(len))
    });
    Box::pin(frames)
}
