//! A copy by Google Cloud Storage: the method `objects.rewrite` of the JSON interface.
//!
//! A copy to another location or storage class takes several calls. Each response but the last has a
//! token, by which the next call goes on.

use http::{HeaderMap, HeaderName, Method};
use serde::Deserialize;
use tidegate_core::retry::RetryClass;

use super::GcsWriter;
use super::address::{self, JsonBucket};
use super::resource::Resource;
use super::session::json_type;
use crate::error::{Error, ErrorKind, Operation, Result};
use crate::remote::Version;
use crate::remote::object_client::{ObjectRequest, Refusal, encoded};
use crate::remote::write::{CopySource, Payload, WriteOptions, Written};

/// What the service says of a copy.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Rewritten {
    done: bool,
    rewrite_token: Option<String>,
    resource: Option<Resource>,
}

impl GcsWriter {
    pub(super) async fn rewrite(
        &self,
        source: &CopySource,
        blob: &str,
        options: &WriteOptions,
    ) -> Result<Written> {
        let (mut description, parameters) = self.described(blob, options)?;
        description.remove("name");
        // Without a description the copy has that of its source.
        let text = if options.describes() {
            serde_json::Value::from(description).to_string()
        } else {
            String::new()
        };
        let payload = Payload::from_bytes(text.into_bytes());
        let generation = self.generation(blob, &options.precondition)?;
        let mut token = None;
        loop {
            let mut request = ObjectRequest::new(Method::POST, Operation::Write, blob)
                .headers(address::plain())
                .headers(self.json.source_key())
                .headers(json_type())
                .payload(&payload)
                .elsewhere(JsonBucket::signed(self.json.rewrite(source, blob)));
            for (name, value) in &parameters {
                let name = match *name {
                    "predefinedAcl" => "destinationPredefinedAcl",
                    "kmsKeyName" => "destinationKmsKeyName",
                    other => other,
                };
                request = request.query(name, value.as_str());
            }
            if let Some(generation) = &generation {
                request = request.query("ifGenerationMatch", generation.as_str());
            }
            match &source.version {
                None => {}
                Some(Version::Generation(generation)) => {
                    request = request.query("sourceGeneration", generation.as_str());
                }
                Some(other) => {
                    let message = format!("a copy cannot be pinned to {other}");
                    let error = self.error(Operation::Write, blob, message);
                    return Err(error.into_kind(ErrorKind::Invalid));
                }
            }
            if let Some(token) = token.take() {
                request = request.query("rewriteToken", token);
            }
            let answer = match self.xml.client().send(&request).await {
                Ok(answer) => answer,
                Err(refusal) => return Err(self.not_rewritten(source, blob, options, refusal)),
            };
            let unclear = || {
                let message = "the response says neither that the copy is done nor how it goes on";
                self.error(Operation::Write, blob, message).retryable(RetryClass::Now)
            };
            let Ok(rewritten) = serde_json::from_slice::<Rewritten>(&answer.text) else {
                return Err(unclear());
            };
            if rewritten.done {
                return Ok(rewritten.resource.unwrap_or_default().written());
            }
            token = Some(rewritten.rewrite_token.ok_or_else(unclear)?);
        }
    }

    fn not_rewritten(
        &self,
        source: &CopySource,
        blob: &str,
        options: &WriteOptions,
        refusal: Refusal,
    ) -> Error {
        let of_source = |kind, message: &str| {
            let target = match &source.bucket {
                None => self.xml.client().target(&source.blob),
                Some(bucket) => format!("gs://{bucket}/{}", source.blob),
            };
            Error::new(kind, Operation::Read, target, message)
                .caused_by(refusal.error.without_cause())
        };
        match refusal.status() {
            // A generation that was replaced is not found, or does not match.
            Some(404) if source.version.is_some() => {
                of_source(ErrorKind::Changed, "the source has another version, or is gone")
            }
            Some(404) => of_source(ErrorKind::NotFound, "there is no such blob to copy"),
            _ => self.xml.refused(blob, options, refusal),
        }
    }
}

impl JsonBucket {
    /// The address of a copy.
    fn rewrite(&self, source: &CopySource, blob: &str) -> String {
        let of = |bucket: &str, blob: &str| {
            format!("b/{}/o/{}", encoded(bucket), encoded(blob).replace('/', "%2F"))
        };
        let from = of(source.bucket.as_deref().unwrap_or(&self.name), &source.blob);
        format!("{}/storage/v1/{from}/rewriteTo/{}", self.base, of(&self.name, blob))
    }

    /// The customer's key of the source, which is that of the copy.
    fn source_key(&self) -> HeaderMap {
        let keys = self.encryption.iter().filter_map(|(name, value)| {
            let rest = name.as_str().strip_prefix("x-goog-encryption-")?;
            let name = HeaderName::try_from(format!("x-goog-copy-source-encryption-{rest}"));
            Some((name.ok()?, value.clone()))
        });
        keys.collect()
    }
}
