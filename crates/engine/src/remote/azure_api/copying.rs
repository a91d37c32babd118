//! A copy within the container, by the service.

use std::time::Duration;

use http::{HeaderMap, HeaderName, HeaderValue, Method};
use tokio::time::sleep;

use super::AzureWriter;
use crate::error::{ErrorKind, Operation, Result};
use crate::remote::Version;
use crate::remote::object_client::{ObjectAnswer, ObjectRequest, encoded};
use crate::remote::refusal;
use crate::remote::response::Dialect;
use crate::remote::write::{CopySource, WriteOptions, Written};

/// Within an account a copy is usually complete with its response. Otherwise the service is asked
/// again after a delay that doubles.
const DELAY_MIN: Duration = Duration::from_millis(200);
const DELAY_MAX: Duration = Duration::from_secs(10);

impl AzureWriter {
    /// The copy has the source's media type and coding. It also has the source's metadata unless
    /// the options have metadata or a mark.
    pub(super) async fn copy_blob(
        &self,
        source: &CopySource,
        blob: &str,
        options: &WriteOptions,
    ) -> Result<Written> {
        self.check_name(blob)?;
        self.check_name(&source.blob)?;
        let mut headers = self.metadata(blob, options)?;
        let description = self.description(blob, options)?;
        let is_described = !headers.is_empty() || options.mark.is_some();
        for (name, value) in description {
            let Some(name) = name else { continue };
            let is_kept = matches!(name.as_str(), "x-ms-access-tier" | "x-ms-tags");
            if is_kept || (is_described && name.as_str() == super::description::MARK) {
                headers.insert(name, value);
            }
        }
        let request = ObjectRequest::new(Method::PUT, Operation::Write, blob)
            .headers(headers)
            .headers(self.condition(blob, &options.precondition)?)
            .headers(self.source(source).await?);
        let answer = match self.client.send(&request).await {
            Ok(answer) => answer,
            Err(refusal) => {
                let code = refusal.code();
                if matches!(code, "SourceConditionNotMet" | "CannotVerifyCopySource")
                    && source.version.is_some()
                {
                    let message = "the source has another version";
                    return Err(self.error(ErrorKind::Changed, &source.blob, message));
                }
                if let Some(archived) = refusal.archived() {
                    let target = match &source.bucket {
                        None => self.client.target(&source.blob),
                        Some(container) => format!("az://{container}/{}", source.blob),
                    };
                    return Err(archived.error(Operation::Read, &target));
                }
                return Err(self.refused(blob, options, refusal));
            }
        };
        let answer = self.wait_for_copy(blob, options, answer).await?;
        Ok(Written { version: Self::version(&answer), ..Written::default() })
    }

    async fn wait_for_copy(
        &self,
        blob: &str,
        options: &WriteOptions,
        mut answer: ObjectAnswer,
    ) -> Result<ObjectAnswer> {
        let mut delay = DELAY_MIN;
        let id = answer.head.text("x-ms-copy-id").map(str::to_owned);
        loop {
            match answer.head.text("x-ms-copy-status") {
                Some("pending") => {}
                Some("success") | None => return Ok(answer),
                Some(_) => {
                    let message = "the remote gave the copy up";
                    return Err(self.error(ErrorKind::Remote, blob, message));
                }
            }
            sleep(delay).await;
            delay = (delay * 2).min(DELAY_MAX);
            let request = ObjectRequest::new(Method::HEAD, Operation::Stat, blob);
            answer = match self.client.send(&request).await {
                Ok(answer) => answer,
                Err(refusal) => return Err(self.refused(blob, options, refusal)),
            };
            if answer.head.text("x-ms-copy-id") != id.as_deref() {
                let message = "another write to the same name replaced the copy";
                return Err(self.error(ErrorKind::Changed, blob, message));
            }
        }
    }

    /// The headers that name the source of a copy.
    async fn source(&self, source: &CopySource) -> Result<HeaderMap> {
        let target = self.client.target(&source.blob);
        let token = self.authorize.query_of_source().await;
        let mut query = token.map_err(|error| refusal::unsent(Dialect::Azure, &target, error))?;
        let mut condition = None;
        match &source.version {
            None => {}
            Some(Version::ETag(tag)) => condition = Some(tag.clone()),
            Some(Version::VersionId(id)) => {
                let separator = if query.is_empty() { '?' } else { '&' };
                query.push(separator);
                query.push_str("versionid=");
                query.push_str(&encoded(id));
            }
            Some(other) => {
                let message = format!("a copy cannot be pinned to {other}");
                return Err(self.invalid(&source.blob, message));
            }
        }
        let own = self.client.base();
        let container = match (&source.bucket, own.rsplit_once('/')) {
            (Some(other), Some((account, _))) => format!("{account}/{}", encoded(other)),
            _ => own.to_owned(),
        };
        let url = format!("{container}/{}{query}", encoded(&source.blob));
        let mut headers = HeaderMap::new();
        let names = ["x-ms-copy-source", "x-ms-source-if-match"];
        for (name, value) in names.into_iter().zip([Some(url), condition]) {
            let Some(value) = value else { continue };
            let mut value = HeaderValue::try_from(value).map_err(|error| {
                self.invalid(&source.blob, "it makes no header").caused_by(error)
            })?;
            // The URL may have a token in it.
            value.set_sensitive(true);
            headers.insert(HeaderName::from_static(name), value);
        }
        Ok(headers)
    }
}
