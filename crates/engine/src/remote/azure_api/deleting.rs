//! Deleting a blob.

use async_trait::async_trait;
use http::{HeaderValue, Method, header};

use super::AzureWriter;
use crate::error::{Error, ErrorKind, Operation, Result};
use crate::remote::object_client::ObjectRequest;
use crate::remote::write::Guarantee;
use crate::remote::{Delete, DeleteProfile, DeleteRequest, Version};

#[async_trait]
impl Delete for AzureWriter {
    fn delete_profile(&self) -> DeleteProfile {
        DeleteProfile::single(Guarantee::Atomic)
    }

    /// A blob with snapshots is not deleted, because its snapshots would have to be deleted, too.
    async fn delete(&self, request: &DeleteRequest) -> Result<()> {
        self.check_name(&request.blob)?;
        let target = self.client.target(&request.blob);
        let error = |kind, message: &str| Error::new(kind, Operation::Delete, &*target, message);
        let mut sent = ObjectRequest::new(Method::DELETE, Operation::Delete, &request.blob);
        match &request.version {
            None => {}
            Some(Version::VersionId(id)) => sent = sent.query("versionid", id.as_str()),
            Some(Version::ETag(tag)) => {
                let value = HeaderValue::try_from(tag).map_err(|cause| {
                    error(ErrorKind::Invalid, "the entity tag makes no header").caused_by(cause)
                })?;
                sent.headers.insert(header::IF_MATCH, value);
            }
            Some(other) => {
                let message = format!("a delete here cannot be limited to {other}");
                return Err(error(ErrorKind::Unsupported, &message));
            }
        }
        match self.client.send(&sent).await {
            Ok(_) => Ok(()),
            Err(refusal) => match (refusal.status(), refusal.code()) {
                (Some(404), code) if code != "ContainerNotFound" => Ok(()),
                (_, code) if code.starts_with("Lease") => {
                    Err(error(ErrorKind::NoAccess, "another client holds a lease on the blob"))
                }
                (_, "SnapshotsPresent") => Err(error(ErrorKind::NoAccess, "it has snapshots")
                    .with_hint("delete its snapshots first")),
                (Some(412), _) if self.is_absent(&request.blob).await? => Ok(()),
                (Some(412), _) => Err(error(ErrorKind::Changed, "it has another version")),
                _ => Err(refusal.into()),
            },
        }
    }
}

impl AzureWriter {
    /// Whether there is no such blob: for a condition, the service then gives the status of a blob
    /// that differs.
    async fn is_absent(&self, blob: &str) -> Result<bool> {
        let request = ObjectRequest::new(Method::HEAD, Operation::Stat, blob)
            .headers(self.encryption.clone());
        match self.client.send(&request).await {
            Ok(_) => Ok(false),
            Err(refusal) if refusal.status() == Some(404) => Ok(true),
            Err(refusal) => Err(refusal.into()),
        }
    }
}
