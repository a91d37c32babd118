//! A copy within the bucket, by one request of the service.

use http::{HeaderMap, HeaderName, HeaderValue, Method};

use super::document::{self, Made};
use super::{XmlDialect, XmlWriter};
use crate::error::{Error, ErrorKind, Operation, Result};
use crate::remote::Version;
use crate::remote::object_client::{ObjectAnswer, ObjectRequest, Refusal, encoded};
use crate::remote::write::{CopySource, WriteOptions, Written};

impl XmlWriter {
    pub(super) async fn copy_object(
        &self,
        source: &CopySource,
        blob: &str,
        options: &WriteOptions,
    ) -> Result<Written> {
        match self.send_copy(source, blob, options).await? {
            Ok(answer) => self.copied(blob, options, &answer),
            Err(refusal) => Err(self.not_copied(source, blob, options, refusal)),
        }
    }

    pub(in crate::remote) async fn send_copy(
        &self,
        source: &CopySource,
        blob: &str,
        options: &WriteOptions,
    ) -> Result<std::result::Result<ObjectAnswer, Refusal>> {
        let request = ObjectRequest::new(Method::PUT, Operation::Write, blob)
            .headers(self.description(blob, options)?)
            .headers(self.condition(blob, &options.precondition)?)
            .headers(self.source(source)?);
        Ok(self.client.send(&request).await)
    }

    pub(in crate::remote) fn not_copied(
        &self,
        source: &CopySource,
        blob: &str,
        options: &WriteOptions,
        refusal: Refusal,
    ) -> Error {
        if refusal.status() == Some(412) && source.version.is_some() {
            let changed = "the source has another version";
            return self.invalid(&source.blob, changed).into_kind(ErrorKind::Changed);
        }
        if let Some(archived) = refusal.archived() {
            let target = self.client.target(&source.blob);
            return archived
                .error(Operation::Read, &target)
                .caused_by(refusal.error.without_cause());
        }
        self.refused(blob, options, refusal)
    }

    /// The result of a copy, whose response can have a refusal in its body.
    pub(in crate::remote) fn copied(
        &self,
        blob: &str,
        options: &WriteOptions,
        answer: &ObjectAnswer,
    ) -> Result<Written> {
        if let Some(refusal) = self.client.refusal_in_body(answer, Operation::Write, blob) {
            return Err(self.refused(blob, options, refusal));
        }
        let target = self.client.target(blob);
        let made: Made = document::read(&answer.text, Operation::Write, &target)?;
        let mut written = self.written(answer);
        written.version =
            written.version.or_else(|| made.etag.as_deref().and_then(Version::from_etag));
        Ok(written)
    }

    /// The headers that name the source of a copy.
    fn source(&self, source: &CopySource) -> Result<HeaderMap> {
        let bucket = self.client.prefix().split_once("://").map_or("", |(_, bucket)| bucket);
        let mut place = format!("/{bucket}/{}", encoded(&source.blob));
        let (copy, tag) = match self.dialect {
            XmlDialect::S3 => ("x-amz-copy-source", "x-amz-copy-source-if-match"),
            XmlDialect::Gcs => ("x-goog-copy-source", "x-goog-copy-source-if-match"),
        };
        let mut condition = None;
        match &source.version {
            None => {}
            Some(Version::ETag(etag)) => condition = Some((tag, etag.clone())),
            Some(Version::VersionId(id)) => {
                place.push_str("?versionId=");
                place.push_str(&encoded(id));
            }
            Some(Version::Generation(generation)) if self.dialect == XmlDialect::Gcs => {
                condition = Some(("x-goog-copy-source-if-generation-match", generation.clone()));
            }
            Some(other) => {
                let message = format!("a copy cannot be pinned to {other}");
                return Err(self.invalid(&source.blob, message));
            }
        }
        let mut headers = HeaderMap::new();
        for (name, value) in [(copy, place)].into_iter().chain(condition) {
            let value = HeaderValue::try_from(value).map_err(|error| {
                self.invalid(&source.blob, "it makes no header").caused_by(error)
            })?;
            headers.insert(HeaderName::from_static(name), value);
        }
        Ok(headers)
    }
}
