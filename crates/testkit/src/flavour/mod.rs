//! Whose manners the server has: what differs between the clouds, behind one trait.

mod azure;
mod gcs;
mod http;
mod s3;

use crate::{
    blob::Blob,
    checksums::{Kind, Sums},
    conditional::Verdict,
    customer_key::{KeyFields, KeyMatch},
    head::Head,
    options::ServerOptions,
    request::Request,
    store::Selector,
};

/// Which remote the server is taken for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Flavour {
    /// A plain HTTP origin.
    #[default]
    Http,
    /// Google Cloud Storage's XML API: `/{bucket}/{object}`, `?generation=`.
    Gcs,
    /// S3, path style: `/{bucket}/{key}`, `?versionId=`.
    S3,
    /// Azure Blob as its emulator names things: `/{account}/{container}/{blob}`.
    Azure,
}

impl Flavour {
    pub(crate) fn dialect(self) -> &'static dyn Dialect {
        match self {
            Self::Http => &http::Http,
            Self::Gcs => &gcs::Gcs,
            Self::S3 => &s3::S3,
            Self::Azure => &azure::Azure,
        }
    }
}

/// A blob as it is about to be described.
#[derive(Debug)]
pub(crate) struct View<'a> {
    pub(crate) blob: &'a Blob,
    pub(crate) sums: &'a Sums,
    /// Whether the answer is about the whole blob and not about a range of it.
    pub(crate) whole: bool,
    pub(crate) request: &'a Request,
    pub(crate) options: &'a ServerOptions,
}

/// Why there is no blob in the answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Problem {
    NoSuchBucket,
    NoSuchKey,
    NoSuchVersion,
    /// A failure that the flavour has words of its own for.
    Coded(Coded),
    /// Any other status.
    Status(u16),
}

impl Problem {
    pub(crate) fn status(self) -> u16 {
        match self {
            Self::NoSuchBucket | Self::NoSuchKey | Self::NoSuchVersion => 404,
            Self::Coded(coded) => coded.status,
            Self::Status(code) => code,
        }
    }
}

/// A status, and what the error document says to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Coded {
    pub(crate) status: u16,
    pub(crate) code: &'static str,
    pub(crate) message: &'static str,
}

/// An error document and the fields that go with it.
#[derive(Debug)]
pub(crate) struct Document {
    pub(crate) content_type: &'static str,
    pub(crate) body: String,
    /// Name and value of a field that repeats the code.
    pub(crate) field: Option<(&'static str, &'static str)>,
}

/// What is peculiar to a flavour.
pub(crate) trait Dialect: Sync {
    /// The range that a request asks for.
    fn range<'a>(&self, request: &'a Request) -> Option<&'a str> {
        request.field("range")
    }

    /// Whether a range counts on HEAD too; RFC 9110 defines it for GET alone.
    fn ranges_on_head(&self) -> bool {
        false
    }

    /// Which version a request names.
    fn selector(&self, _request: &Request) -> Selector {
        Selector::Latest
    }

    /// Preconditions beyond those of HTTP.
    fn precondition(&self, _request: &Request, _blob: &Blob) -> Verdict {
        Verdict::Proceed
    }

    /// The fields in which a customer's key comes, if the flavour knows such keys.
    fn key_fields(&self) -> Option<KeyFields> {
        None
    }

    /// What is said to a key that does not fit; `None` where the answer is given all the same.
    fn key_problem(&self, _found: KeyMatch, _request: &Request) -> Option<Coded> {
        None
    }

    /// What is said where the requester must pay and does not say so.
    fn payer_problem(&self, _request: &Request) -> Option<Coded> {
        None
    }

    /// Whether stored `gzip` is taken off for this request.
    fn decodes(&self, _request: &Request) -> bool {
        false
    }

    /// Whether `Last-Modified` is sent.
    fn dated(&self, _options: &ServerOptions) -> bool {
        true
    }

    /// How many path segments name the bucket; 0 if there are no buckets.
    fn bucket_segments(&self) -> usize;

    /// The checksums that [`Dialect::describe`] will want.
    fn kinds(&self, blob: &Blob, options: &ServerOptions) -> Vec<Kind>;

    /// Adds the flavour's own fields.
    fn describe(&self, view: &View<'_>, head: &mut Head);

    /// The flavour's error document.
    fn document(&self, problem: Problem, request: &Request) -> Document;
}

/// An XML error document with this root's children.
fn xml(code: &'static str, message: &str) -> String {
    format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n\
         <Error><Code>{code}</Code><Message>{message}</Message></Error>"
    )
}

/// `text` with what XML reserves escaped.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
