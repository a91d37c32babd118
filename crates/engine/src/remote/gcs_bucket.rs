//! [`GcsBucket`]: making and removing a bucket of Google Cloud Storage, by the JSON interface.
//!
//! Source: the reference of "Buckets: insert", "list" and "delete".

use std::fmt;

use async_trait::async_trait;
use http::{HeaderMap, HeaderValue, Method, header};
use serde::Deserialize;
use serde_json::json;

use super::buckets::{BucketOptions, Buckets, MadeBucket};
use super::object_client::{ObjectClient, ObjectRequest, OtherAddress, Refusal, Secret, encoded};
use super::write::Payload;
use crate::error::{Error, ErrorKind, Operation, Result};

/// The variable that names the project, as for Google's own libraries.
const PROJECT: &str = "GOOGLE_CLOUD_PROJECT";

/// See the module docs.
pub(super) struct GcsBucket {
    pub(super) client: ObjectClient,
    /// The service's URL, without a slash at its end.
    pub(super) base: String,
    pub(super) name: String,
}

impl fmt::Debug for GcsBucket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GcsBucket").field("name", &self.name).finish_non_exhaustive()
    }
}

/// The buckets of a project whose names begin alike.
#[derive(Debug, Default, Deserialize)]
struct BucketList {
    #[serde(default)]
    items: Vec<ListedBucket>,
}

#[derive(Debug, Deserialize)]
struct ListedBucket {
    name: String,
}

#[async_trait]
impl Buckets for GcsBucket {
    async fn make(&self, options: &BucketOptions) -> Result<MadeBucket> {
        let variable = || std::env::var(PROJECT).ok().filter(|project| !project.is_empty());
        let project = options.project.clone().or_else(variable).ok_or_else(|| {
            self.error(Operation::MakeBucket, ErrorKind::Invalid, "a bucket needs a project")
                .with_hint(format!("set `BucketOptions::project`, or {PROJECT}"))
        })?;
        let mut description = json!({ "name": self.name });
        if let (Some(region), Some(fields)) = (&options.region, description.as_object_mut()) {
            fields.insert("location".to_owned(), region.as_str().into());
        }
        let payload = Payload::from_bytes(description.to_string());
        let request = self
            .request(Method::POST, Operation::MakeBucket, "")
            .query("project", project.as_str())
            .headers(headers())
            .payload(&payload);
        let Err(refusal) = self.client.send(&request).await else { return Ok(MadeBucket::New) };
        match refusal.status() {
            Some(409) if self.is_ours(&project, &refusal).await => Ok(MadeBucket::AlreadyYours),
            Some(409) => {
                let message = "another project has a bucket of this name";
                Err(self
                    .error(Operation::MakeBucket, ErrorKind::AlreadyExists, message)
                    .with_hint("choose another name: names are unique across all projects"))
            }
            Some(400) => {
                let message = "the service does not take this name, location or project";
                Err(self
                    .error(Operation::MakeBucket, ErrorKind::Invalid, message)
                    .caused_by(refusal.error))
            }
            _ => Err(refusal.into()),
        }
    }

    async fn remove(&self) -> Result<()> {
        let name = encoded(&self.name);
        let request = self
            .request(Method::DELETE, Operation::RemoveBucket, &format!("/{name}"))
            .headers(headers());
        let Err(refusal) = self.client.send(&request).await else { return Ok(()) };
        Err(match refusal.status() {
            Some(404) => {
                self.error(Operation::RemoveBucket, ErrorKind::NotFound, "there is no such bucket")
            }
            // The service answers 409, and fake-gcs-server 412.
            Some(409 | 412) => {
                let bucket = self.client.prefix();
                self.error(Operation::RemoveBucket, ErrorKind::NotEmpty, "the bucket is not empty")
                    .with_hint(format!(
                        "delete its objects first, also old versions: there is no recursive delete \
                         here, but `gcloud storage rm --recursive {bucket}` deletes the bucket \
                         with everything in it"
                    ))
            }
            _ => refusal.error,
        })
    }
}

impl GcsBucket {
    fn error(&self, operation: Operation, kind: ErrorKind, message: &str) -> Error {
        Error::new(kind, operation, self.client.prefix(), message)
    }

    fn request(&self, method: Method, operation: Operation, below: &str) -> ObjectRequest<'static> {
        let url = format!("{}/storage/v1/b{below}", self.base.trim_end_matches('/'));
        let address = OtherAddress { url: Secret(url), is_signed: true, accepted: None };
        ObjectRequest::of_bucket(method, operation).elsewhere(address)
    }

    /// Whether a bucket that is there belongs to the project. The service says so in its refusal to
    /// the account that made the bucket. A list of the project's buckets shows it to others.
    async fn is_ours(&self, project: &str, refusal: &Refusal) -> bool {
        if refusal.text.contains("you already own it") {
            return true;
        }
        let request = self
            .request(Method::GET, Operation::MakeBucket, "")
            .query("project", project)
            .query("prefix", self.name.as_str())
            .headers(headers());
        let Ok(answer) = self.client.send(&request).await else { return false };
        let list: BucketList = serde_json::from_slice(&answer.text).unwrap_or_default();
        list.items.iter().any(|bucket| bucket.name == self.name)
    }
}

/// Headers of a request of the JSON interface: nothing may be compressed.
fn headers() -> HeaderMap {
    HeaderMap::from_iter([
        (header::ACCEPT_ENCODING, HeaderValue::from_static("identity")),
        (header::CONTENT_TYPE, HeaderValue::from_static("application/json")),
    ])
}
