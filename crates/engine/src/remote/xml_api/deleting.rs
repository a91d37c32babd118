//! Deleting an object.

use async_trait::async_trait;
use http::{HeaderValue, Method};

use super::{XmlDialect, XmlWriter, dialect};
use crate::error::{Error, ErrorKind, Operation, Result};
use crate::remote::object_client::{ObjectRequest, Refusal};
use crate::remote::write::Guarantee;
use crate::remote::{Delete, DeleteProfile, DeleteRequest, Version};

#[async_trait]
impl Delete for XmlWriter {
    /// A generation of Google is a condition. Few services of S3 keep a condition on an entity tag;
    /// a version id of S3 names an object by itself, and deleting it leaves a newer one.
    fn delete_profile(&self) -> DeleteProfile {
        DeleteProfile::single(match self.dialect {
            XmlDialect::S3 => Guarantee::None,
            XmlDialect::Gcs => Guarantee::Atomic,
        })
    }

    async fn delete(&self, request: &DeleteRequest) -> Result<()> {
        match self.try_delete(request).await? {
            Ok(()) => Ok(()),
            Err(refusal) => self.not_deleted(request, refusal).await,
        }
    }
}

impl XmlWriter {
    /// Sends the request of a delete.
    pub(in crate::remote) async fn try_delete(
        &self,
        request: &DeleteRequest,
    ) -> Result<std::result::Result<(), Refusal>> {
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
                let target = self.client.target(&request.blob);
                let message = format!("a delete here cannot be limited to {other}");
                return Err(Error::new(ErrorKind::Unsupported, Operation::Delete, target, message));
            }
        }
        Ok(self.client.send(&sent).await.map(drop))
    }

    /// The result of a refused delete: a blob that is missing counts as deleted.
    pub(in crate::remote) async fn not_deleted(
        &self,
        request: &DeleteRequest,
        refusal: Refusal,
    ) -> Result<()> {
        match refusal.status() {
            Some(404) if refusal.code() != "NoSuchBucket" => Ok(()),
            // Google gives this status also if there is no object.
            Some(412) if self.is_absent(&request.blob).await? => Ok(()),
            Some(412) => {
                let target = self.client.target(&request.blob);
                let message = "it has another version";
                Err(Error::new(ErrorKind::Changed, Operation::Delete, target, message))
            }
            _ => Err(refusal.into()),
        }
    }

    async fn is_absent(&self, blob: &str) -> Result<bool> {
        let request = ObjectRequest::new(Method::HEAD, Operation::Stat, blob);
        match self.client.send(&request).await {
            Ok(_) => Ok(false),
            Err(refusal) if refusal.status() == Some(404) => Ok(true),
            Err(refusal) => Err(refusal.into()),
        }
    }
}
