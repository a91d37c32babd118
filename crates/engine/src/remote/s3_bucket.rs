//! [`S3Bucket`]: making and removing a bucket of S3.
//!
//! In the region us-east-1, making a bucket that the caller has already is a success of the service.
//! So the bucket is looked for first.
//!
//! Amazon makes a bucket at the endpoint of its own region. So a region of the caller's choice changes
//! the endpoint, unless the caller gave one.
//!
//! Source: the API reference of `CreateBucket`, `DeleteBucket` and `HeadBucket`.

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use http::Method;
use quick_xml::escape::escape;
use tidegate_core::retry::RetryClass;

use super::buckets::{BucketOptions, Buckets, MadeBucket};
use super::object_client::{ObjectClient, ObjectRequest, Refusal};
use super::s3_authorize::S3Authorize;
use super::write::Payload;
use crate::error::{Error, ErrorKind, Operation, Result};

/// The region that a request names by naming none.
const FIRST_REGION: &str = "us-east-1";

/// See the module docs.
#[derive(Debug)]
pub(super) struct S3Bucket {
    pub(super) client: ObjectClient,
    pub(super) authorize: S3Authorize,
    /// Whether the endpoint is Amazon's own, which differs by region.
    pub(super) is_regional: bool,
}

#[async_trait]
impl Buckets for S3Bucket {
    async fn make(&self, options: &BucketOptions) -> Result<MadeBucket> {
        let region = options.region.as_deref().unwrap_or(&self.authorize.region);
        let client = self.client_in(region);
        let was_there = is_there(&client).await?;
        let payload = Payload::from_bytes(document(region));
        let request = ObjectRequest::of_bucket(Method::PUT, Operation::MakeBucket);
        match client.send(&request.payload(&payload)).await {
            Ok(_) if was_there => Ok(MadeBucket::AlreadyYours),
            Ok(_) => Ok(MadeBucket::New),
            Err(refusal) if refusal.code() == "BucketAlreadyOwnedByYou" => {
                Ok(MadeBucket::AlreadyYours)
            }
            Err(refusal) => Err(self.not_made(refusal)),
        }
    }

    async fn remove(&self) -> Result<()> {
        let request = ObjectRequest::of_bucket(Method::DELETE, Operation::RemoveBucket);
        let Err(refusal) = self.client.send(&request).await else { return Ok(()) };
        Err(match (refusal.status(), refusal.code()) {
            (_, "BucketNotEmpty") => {
                let bucket = self.client.prefix();
                self.error(Operation::RemoveBucket, ErrorKind::NotEmpty, "the bucket is not empty")
                    .with_hint(format!(
                        "delete its objects first, also old versions and delete markers: there is \
                         no recursive delete here, but `aws s3 rm --recursive {bucket}` deletes \
                         the present versions"
                    ))
            }
            (Some(404), _) => {
                self.error(Operation::RemoveBucket, ErrorKind::NotFound, "there is no such bucket")
            }
            (_, "OperationAborted") => self
                .error(Operation::RemoveBucket, ErrorKind::Remote, BUSY)
                .retryable(RetryClass::Now),
            _ => refusal.error,
        })
    }
}

const BUSY: &str = "another request for the bucket is in progress";

impl S3Bucket {
    fn error(&self, operation: Operation, kind: ErrorKind, message: &str) -> Error {
        Error::new(kind, operation, self.client.prefix(), message)
    }

    /// The client at the endpoint of a region.
    fn client_in(&self, region: &str) -> ObjectClient {
        if !self.is_regional || region == self.authorize.region {
            return self.client.clone();
        }
        let of_region = |region: &str| format!("s3.{region}.amazonaws.com");
        let base =
            self.authorize.base.replace(&of_region(&self.authorize.region), &of_region(region));
        let region = region.to_owned();
        self.client.clone().at(Arc::new(S3Authorize { base, region, ..self.authorize.clone() }))
    }

    fn not_made(&self, refusal: Refusal) -> Error {
        let error = |kind, message| self.error(Operation::MakeBucket, kind, message);
        match refusal.code() {
            "BucketAlreadyExists" => {
                error(ErrorKind::AlreadyExists, "another account has a bucket of this name")
                    .with_hint("choose another name: names are unique across all accounts")
            }
            "InvalidBucketName" => error(ErrorKind::Invalid, "no bucket can have this name")
                .with_hint(
                    "use 3 to 63 lower-case letters, digits, dots and dashes, as S3's rules say",
                ),
            "InvalidLocationConstraint" | "IllegalLocationConstraintException" => {
                error(ErrorKind::Invalid, "the service does not take this region")
                    .with_hint("check the region, and that the endpoint is one of this region")
            }
            "OperationAborted" => error(ErrorKind::Remote, BUSY).retryable(RetryClass::Now),
            _ => refusal.error,
        }
    }
}

/// Whether there is a bucket of the name that the caller may use.
async fn is_there(client: &ObjectClient) -> Result<bool> {
    let request = ObjectRequest::of_bucket(Method::HEAD, Operation::MakeBucket);
    match client.send(&request).await {
        Ok(_) => Ok(true),
        // Whether the caller may make the bucket is another question.
        Err(refusal) if refusal.status().is_some_and(|status| status < 500) => Ok(false),
        Err(refusal) => Err(refusal.into()),
    }
}

/// The body of the request, which is empty for the first region.
fn document(region: &str) -> Bytes {
    if region == FIRST_REGION {
        return Bytes::new();
    }
    let text = format!(
        "<CreateBucketConfiguration xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">\
         <LocationConstraint>{}</LocationConstraint></CreateBucketConfiguration>",
        escape(region)
    );
    Bytes::from(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_first_region_is_not_named() {
        assert!(document("us-east-1").is_empty());
        let text = document("eu-<west>-1");
        let text = str::from_utf8(&text).unwrap();
        assert!(text.contains("<LocationConstraint>eu-&lt;west&gt;-1<"), "{text}");
    }
}
