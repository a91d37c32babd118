//! A put and a delete by the JSON interface, for an emulator without the XML interface.

use bytes::Bytes;
use futures_util::{StreamExt, stream};
use http::{HeaderMap, HeaderValue, Method, header};
use tidegate_core::checksum::{Checksum, ChecksumAlgorithm};
use tidegate_core::retry::RetryClass;
use uuid::Uuid;

use super::GcsWriter;
use super::address::{self, JsonBucket};
use super::session::differs;
use crate::error::{Error, ErrorKind, Operation, Result};
use crate::remote::object_client::ObjectRequest;
use crate::remote::write::{Payload, WriteOptions, Written};
use crate::remote::{DeleteRequest, Version};

impl GcsWriter {
    /// Stores a whole object: its description and its bytes in one body.
    pub(super) async fn put_simply(
        &self,
        blob: &str,
        payload: &Payload,
        options: &WriteOptions,
    ) -> Result<Written> {
        let (mut description, parameters) = self.described(blob, options)?;
        if let Some((name, sum)) = payload.checksum().and_then(declared) {
            description.insert(name.to_owned(), sum.into());
        }
        let boundary = Uuid::new_v4().simple().to_string();
        let description = serde_json::Value::from(description).to_string();
        let content_type = options.content_type.as_deref();
        let body = related(&boundary, &description, content_type, payload);
        let kind = format!("multipart/related; boundary={boundary}");
        let kind = HeaderValue::try_from(kind).map_err(|error| {
            self.error(Operation::Write, blob, "it makes no header").caused_by(error)
        })?;
        let mut request = ObjectRequest::new(Method::POST, Operation::Write, blob)
            .query("uploadType", "multipart")
            .headers(address::plain())
            .headers(HeaderMap::from_iter([(header::CONTENT_TYPE, kind)]))
            .payload(&body)
            .elsewhere(JsonBucket::signed(self.json.uploads.clone()));
        for (name, value) in parameters {
            request = request.query(name, value);
        }
        if let Some(generation) = self.generation(blob, &options.precondition)? {
            request = request.query("ifGenerationMatch", generation);
        }
        match self.xml.client().send(&request).await {
            Ok(answer) => Ok(self.resource(blob, Operation::Write, &answer)?.written()),
            Err(refusal) if refusal.status() == Some(400) && differs(&refusal) => {
                let message = "the remote computed another checksum";
                Err(self
                    .error(Operation::Write, blob, message)
                    .into_kind(ErrorKind::Integrity)
                    .retryable(RetryClass::Now))
            }
            Err(refusal) => Err(self.xml.refused(blob, options, refusal)),
        }
    }

    pub(super) async fn delete_simply(&self, request: &DeleteRequest) -> Result<()> {
        let target = self.xml.client().target(&request.blob);
        let mut sent = ObjectRequest::new(Method::DELETE, Operation::Delete, &request.blob)
            .headers(address::plain())
            .elsewhere(JsonBucket::signed(self.json.object(&request.blob)));
        if let Some(Version::Generation(generation)) = &request.version {
            sent = sent.query("ifGenerationMatch", generation.as_str());
        }
        match self.xml.client().send(&sent).await {
            Ok(_) => Ok(()),
            Err(refusal) if refusal.status() == Some(404) => Ok(()),
            Err(refusal) if refusal.status() == Some(412) => {
                let message = "it has another version";
                Err(Error::new(ErrorKind::Changed, Operation::Delete, target, message))
            }
            Err(refusal) => Err(refusal.into()),
        }
    }
}

/// A checksum as a description names it.
fn declared(sum: &Checksum) -> Option<(&'static str, String)> {
    match sum.algorithm() {
        ChecksumAlgorithm::Crc32c => Some(("crc32c", sum.to_base64())),
        ChecksumAlgorithm::Md5 => Some(("md5Hash", sum.to_base64())),
        _ => None,
    }
}

/// The body of a request that has a description before the bytes. The emulator believes the media
/// type of the bytes over the description.
fn related(
    boundary: &str,
    description: &str,
    content_type: Option<&str>,
    payload: &Payload,
) -> Payload {
    let content_type = content_type.unwrap_or("application/octet-stream");
    let before = Bytes::from(format!(
        "--{boundary}\r\nContent-Type: application/json; charset=UTF-8\r\n\r\n{description}\r\n\
         --{boundary}\r\nContent-Type: {content_type}\r\n\r\n"
    ));
    let after = Bytes::from(format!("\r\n--{boundary}--\r\n"));
    let len_bytes = payload.len_bytes() + before.len() as u64 + after.len() as u64;
    let payload = payload.clone();
    Payload::reopened(len_bytes, move || {
        let before = stream::iter([Ok(before.clone())]);
        Box::pin(before.chain(payload.open()).chain(stream::iter([Ok(after.clone())])))
    })
}
