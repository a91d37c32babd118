//! Making and removing the container.
//!
//! The service removes a container with everything in it. So the container is listed first: blobs,
//! their snapshots and versions, and blocks of unfinished uploads.
//!
//! Source: "Create Container" and "Delete Container" of the REST API reference.

use async_trait::async_trait;
use http::Method;

use super::AzureWriter;
use crate::error::{Error, ErrorKind, Operation, Result};
use crate::remote::object_client::ObjectRequest;
use crate::remote::{BucketOptions, Buckets, MadeBucket};

/// What a container that is not empty may have. An account with a hierarchy has no versions, and
/// refuses to list them.
const LISTED: [&str; 2] = ["snapshots,uncommittedblobs,versions", "snapshots,uncommittedblobs"];

const GOING: &str = "the container is being removed";
const GOING_HINT: &str = "run the same command again in a minute";

#[async_trait]
impl Buckets for AzureWriter {
    /// A container is where its account is, and belongs to the account: there are no others.
    async fn make(&self, options: &BucketOptions) -> Result<MadeBucket> {
        let error = |kind, message| self.bucket_error(Operation::MakeBucket, kind, message);
        if options.region.is_some() {
            let message = "a container is where its account is, and takes no region";
            return Err(error(ErrorKind::Invalid, message));
        }
        let request = ObjectRequest::of_bucket(Method::PUT, Operation::MakeBucket)
            .query("restype", "container");
        let Err(refusal) = self.client.send(&request).await else { return Ok(MadeBucket::New) };
        match refusal.code() {
            "ContainerAlreadyExists" => Ok(MadeBucket::AlreadyYours),
            "ContainerBeingDeleted" => Err(error(ErrorKind::Remote, GOING).with_hint(GOING_HINT)),
            "InvalidResourceName" | "OutOfRangeInput" => {
                Err(error(ErrorKind::Invalid, "no container can have this name")
                    .with_hint("use 3 to 63 lower-case letters, digits and single dashes"))
            }
            _ => Err(refusal.into()),
        }
    }

    async fn remove(&self) -> Result<()> {
        let error = |kind, message| self.bucket_error(Operation::RemoveBucket, kind, message);
        let missing = || error(ErrorKind::NotFound, "there is no such container");
        match self.is_empty().await {
            Ok(true) => {}
            Ok(false) => {
                let container = self.client.prefix().trim_start_matches("az://").to_owned();
                return Err(error(ErrorKind::NotEmpty, "the container is not empty").with_hint(
                    format!(
                        "delete its blobs first, also snapshots and versions: there is no recursive \
                         delete here, but `az storage blob delete-batch --source {container}` \
                         deletes all blobs"
                    ),
                ));
            }
            Err(error) if error.kind() == ErrorKind::NotFound => return Err(missing()),
            Err(error) => return Err(error),
        }
        let request = ObjectRequest::of_bucket(Method::DELETE, Operation::RemoveBucket)
            .query("restype", "container");
        let Err(refusal) = self.client.send(&request).await else { return Ok(()) };
        Err(match (refusal.status(), refusal.code()) {
            (Some(404), _) => missing(),
            (_, "ContainerBeingDeleted") => error(ErrorKind::Remote, GOING).with_hint(GOING_HINT),
            (_, code) if code.starts_with("Lease") => {
                error(ErrorKind::NoAccess, "another client holds a lease on the container")
            }
            _ => refusal.error,
        })
    }
}

impl AzureWriter {
    fn bucket_error(&self, operation: Operation, kind: ErrorKind, message: &str) -> Error {
        Error::new(kind, operation, self.client.prefix(), message)
    }

    /// Whether nothing is in the container. A page may be empty although there are more.
    async fn is_empty(&self) -> Result<bool> {
        let mut include = LISTED[0];
        let mut from = None;
        loop {
            let page = match self.blobs("", from.as_ref(), 1, Some(("include", include))).await {
                Err(error) if error.kind() == ErrorKind::Remote && include == LISTED[0] => {
                    include = LISTED[1];
                    continue;
                }
                outcome => outcome?,
            };
            match page.next_marker {
                _ if !page.blobs.blobs.is_empty() => return Ok(false),
                None => return Ok(true),
                Some(next) => from = Some(crate::remote::PageToken::new(next)),
            }
        }
    }
}
