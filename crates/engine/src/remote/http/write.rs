//! Writing a blob by `PUT`, and deleting one.
//!
//! A server of plain HTTP promises little, so little is asked of it:
//! - It checks no checksum of a body. A caller that wants certainty reads the blob again.
//! - Several servers ignore `If-Match` and `If-None-Match`, and answer success. So no condition is
//!   sent. [`Precondition::Absent`] is kept by a `MOVE` from a temporary name, see `dav`.
//! - Several store a `PUT` with `Content-Range` as the whole blob. So there are no parts.

use async_trait::async_trait;
use http::{HeaderMap, HeaderName, HeaderValue, Method, header};
use url::Url;

use super::client::{Change, Changed};
use super::{HttpRemote, shown};
use crate::error::{Error, ErrorKind, Operation, Result};
use crate::remote::response;
use crate::remote::write::{
    Guarantee, Payload, Precondition, Write, WriteOptions, WriteProfile, Written,
};
use crate::remote::{Delete, DeleteProfile, DeleteRequest, Version};
use crate::transport::ResponseHead;

#[async_trait]
impl Write for HttpRemote {
    /// Servers look and then rename: of 24 writers that raced at Apache 2.4, two won. Whether the
    /// server has `MOVE` is not known before it was asked: then `put` fails with `Unsupported`.
    fn write_profile(&self, _precondition: &Precondition) -> WriteProfile {
        WriteProfile { absent: Guarantee::Checked, ..WriteProfile::put_only() }
    }

    async fn put(&self, blob: &str, payload: &Payload, options: &WriteOptions) -> Result<Written> {
        check_name(blob, Operation::Write)?;
        let headers = headers(blob, options)?;
        match &options.precondition {
            Precondition::None => self.put_at(blob, payload, headers).await,
            Precondition::Absent => self.put_absent(blob, payload, headers).await,
            Precondition::Version(_) => {
                let message = "servers of HTTP do not check the version that is replaced";
                Err(Error::new(ErrorKind::Unsupported, Operation::Write, shown(blob), message))
            }
        }
    }
}

impl HttpRemote {
    async fn put_at(&self, blob: &str, payload: &Payload, headers: HeaderMap) -> Result<Written> {
        let reached = self.send_put(blob, blob, payload, headers).await?;
        Ok(Written { version: version(&reached.head), ..Written::default() })
    }

    /// Stores a blob at an address, and says where. Errors name the blob.
    pub(super) async fn send_put(
        &self,
        blob: &str,
        address: &str,
        payload: &Payload,
        headers: HeaderMap,
    ) -> Result<Changed> {
        let change = Change {
            headers,
            payload: Some(payload),
            ..Change::new(Method::PUT, Operation::Write)
        };
        let reached = self.client.change(self.client.first(address)?, &change).await?;
        match reached.head.status.as_u16() {
            200 | 201 | 204 => Ok(reached),
            409 if self.exists(address).await? => {
                let message = "a blob of that name is already there, and the server replaces none";
                Err(Error::new(ErrorKind::AlreadyExists, Operation::Write, shown(blob), message))
            }
            _ => Err(refused(&reached.head, &shown(blob))),
        }
    }

    /// Whether there is a blob of this name; an unclear response counts as no.
    pub(super) async fn exists(&self, blob: &str) -> Result<bool> {
        let change = Change::new(Method::HEAD, Operation::Stat);
        let reached = self.client.change(self.client.first(blob)?, &change).await?;
        Ok(reached.head.status.is_success())
    }
}

#[async_trait]
impl Delete for HttpRemote {
    fn delete_profile(&self) -> DeleteProfile {
        DeleteProfile::single(Guarantee::None)
    }

    async fn delete(&self, request: &DeleteRequest) -> Result<()> {
        let (blob, target) = (&request.blob, shown(&request.blob));
        check_name(blob, Operation::Delete)?;
        if request.version.is_some() {
            let message = "servers of HTTP do not check the version that is deleted";
            return Err(Error::new(ErrorKind::Unsupported, Operation::Delete, target, message));
        }
        let mut change = Change::new(Method::DELETE, Operation::Delete);
        if !has_query(blob) {
            // `WebDAV` deletes a folder with everything in it, unless the depth forbids it.
            change.headers.insert("depth", HeaderValue::from_static("0"));
        }
        let reached = self.client.change(self.client.first(blob)?, &change).await?;
        match reached.head.status.as_u16() {
            200 | 202 | 204 | 404 | 410 => Ok(()),
            // Below a file there is nothing, say nginx and Apache.
            400 | 409 if !self.exists(blob).await? => Ok(()),
            405 | 501 => {
                let message = format!("the server does not delete ({})", reached.head.status);
                Err(Error::new(ErrorKind::Unsupported, Operation::Delete, target, message))
            }
            _ => Err(response::refusal(&reached.head, Operation::Delete, &target, false)),
        }
    }
}

/// Refuses the name of a folder.
fn check_name(blob: &str, operation: Operation) -> Result<()> {
    let is_folder = Url::parse(blob).is_ok_and(|url| url.path().ends_with('/'));
    if is_folder {
        let message = "the address is the one of a folder";
        return Err(Error::new(ErrorKind::Invalid, operation, shown(blob), message)
            .with_hint("add the name of a file"));
    }
    Ok(())
}

pub(super) fn has_query(blob: &str) -> bool {
    Url::parse(blob).is_ok_and(|url| url.query().is_some())
}

/// Whether a URL has a shared access signature for a blob of Azure. The service requires that a `PUT`
/// names the kind of the blob.
fn is_signed_for_azure(blob: &str) -> bool {
    Url::parse(blob).is_ok_and(|url| {
        let has = |name: &str| url.query_pairs().any(|(key, _)| key == name);
        ["sv", "sr", "sp", "sig"].into_iter().all(has)
    })
}

/// The headers that the caller asks for, and those that the address requires.
fn headers(blob: &str, options: &WriteOptions) -> Result<HeaderMap> {
    let mut headers = HeaderMap::new();
    if is_signed_for_azure(blob) {
        headers.insert("x-ms-blob-type", HeaderValue::from_static("BlockBlob"));
    }
    let content_type =
        options.content_type.iter().map(|kind| (header::CONTENT_TYPE.as_str(), kind));
    let own = options.headers.iter().map(|(name, value)| (name.as_str(), value));
    for (name, value) in content_type.chain(own) {
        let malformed = || {
            let message = format!("{name:?} and its value make no header");
            Error::new(ErrorKind::Invalid, Operation::Write, shown(blob), message)
        };
        let key = HeaderName::try_from(name).map_err(|error| malformed().caused_by(error))?;
        let value = HeaderValue::try_from(value).map_err(|error| malformed().caused_by(error))?;
        headers.insert(key, value);
    }
    Ok(headers)
}

/// The version of what was stored, if the server names it.
pub(super) fn version(head: &ResponseHead) -> Option<Version> {
    head.text("etag").and_then(Version::from_etag)
}

/// The error of a refused `PUT`.
pub(super) fn refused(head: &ResponseHead, target: &str) -> Error {
    let status = head.status;
    let error = |kind, message: String| Error::new(kind, Operation::Write, target, message);
    match status.as_u16() {
        401 => response::refusal(head, Operation::Write, target, false)
            .with_hint("give a user and a password in the URL or in ~/.netrc, or a header"),
        403 => response::refusal(head, Operation::Write, target, false)
            .with_hint("the server does not let you write here, or a signed URL has expired"),
        405 | 501 => error(
            ErrorKind::Unsupported,
            format!("the server does not store files at this address ({status})"),
        ),
        404 | 409 => error(
            ErrorKind::NotFound,
            format!("there is no such folder, or a folder has the name ({status})"),
        )
        .with_hint("create the folder at the server first"),
        412 => error(ErrorKind::Changed, format!("the server refuses to replace it ({status})")),
        413 => error(ErrorKind::Invalid, format!("it is too long for the server ({status})"))
            .with_hint("the server's configuration limits the length of a request"),
        423 => error(ErrorKind::NoAccess, format!("another client has locked it ({status})")),
        507 => error(ErrorKind::Storage, format!("the server has no space left ({status})")),
        301..=303 => error(
            ErrorKind::Unsupported,
            format!("the server redirects the upload elsewhere ({status})"),
        )
        .with_hint("give the address that it redirects to"),
        200..=299 => error(
            ErrorKind::Remote,
            format!("the server does not say that it stored it ({status})"),
        ),
        _ => response::refusal(head, Operation::Write, target, false),
    }
}
