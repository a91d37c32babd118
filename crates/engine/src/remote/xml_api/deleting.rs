//! Deleting an object.

use async_trait::async_trait;
use http::{HeaderValue, Method};

use super::{XmlDialect, XmlWriter, dialect};
use crate::error::{Error, ErrorKind, Operation, Result};
use crate::remote::object_client::ObjectRequest;
use crate::remote::write::Guarantee;
use crate::remote::{Delete, DeleteProfile, DeleteRequest, Version};

#[async_trait]
impl Delete for XmlWriter {
    /// A generation of Google and a version id of S3 name one object each. An entity tag is a
    /// condition, which few services of S3 keep.
    fn delete_profile(&self) -> DeleteProfile {
        DeleteProfile::single(Guarantee::Atomic)
    }

    async fn delete(&self, request: &DeleteRequest) -> Result<()> {
        let target = self.client.target(&request.blob);
        let mut sent = ObjectRequest::new(Method::DELETE, Operation::Delete, &request.blob);
        match (&request.version, self.dialect) {
            (None, _) => {}
            (Some(Version::VersionId(id)), XmlDialect::S3) => {
                sent = sent.query("versionId", id.as_str());
            }
            (Some(Version::Generation(generation)), XmlDialect::Gcs) => {
                let value = HeaderValue::try_from(generation).map_err(|error| {
                    self.invalid(&request.blob, "the generation makes no header").caused_by(error)
                })?;
                sent.headers.insert(dialect::IF_GENERATION, value);
            }
            (Some(other), _) => {
                let message = format!("a delete here cannot be limited to {other}");
                return Err(Error::new(ErrorKind::Unsupported, Operation::Delete, target, message));
            }
        }
        match self.client.send(&sent).await {
            Ok(_) => Ok(()),
            Err(refusal) if refusal.status() == Some(404) && refusal.code() != "NoSuchBucket" => {
                Ok(())
            }
            Err(refusal) if refusal.status() == Some(412) => {
                let message = "it has another version";
                Err(Error::new(ErrorKind::Changed, Operation::Delete, target, message))
            }
            Err(refusal) => Err(refusal.into()),
        }
    }
}
