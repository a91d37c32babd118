//! The remote that the server imitates: differences between the clouds, behind one trait.

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

/// The remote that the server imitates.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Flavour {
    /// A plain HTTP origin.
    #[default]
    Http,
    /// Google Cloud Storage's XML API: `/{bucket}/{object}`, `?generation=`.
    Gcs,
    /// S3, path style: `/{bucket}/{key}`, `?versionId=`.
    S3,
    /// Azure Blob with the paths of its emulator: `/{account}/{container}/{blob}`.
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

/// A blob whose fields are to be written.
#[derive(Debug)]
pub(crate) struct View<'a> {
    pub(crate) blob: &'a Blob,
    pub(crate) sums: &'a Sums,
    /// Whether the response is about the whole blob and not about a range of it.
    pub(crate) whole: bool,
    pub(crate) request: &'a Request,
    pub(crate) options: &'a ServerOptions,
}

/// The reason why the response has no blob.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Problem {
    NoSuchBucket,
    NoSuchKey,
    NoSuchVersion,
    /// A write that must not replace a blob finds one. Only Azure has a code of its own for it.
    BlobExists,
    /// An error with a code of the flavour.
    Coded(Coded),
    /// Any other status.
    Status(u16),
}

impl Problem {
    pub(crate) fn status(self) -> u16 {
        match self {
            Self::NoSuchBucket | Self::NoSuchKey | Self::NoSuchVersion => 404,
            Self::BlobExists => 409,
            Self::Coded(coded) => coded.status,
            Self::Status(code) => code,
        }
    }
}

/// A status, and the code and message of its error document.
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

/// The behaviour of a flavour.
pub(crate) trait Dialect: Sync {
    /// The requested range.
    fn range<'a>(&self, request: &'a Request) -> Option<&'a str> {
        request.field("range")
    }

    /// Whether HEAD honours a range; RFC 9110 defines it only for GET.
    fn ranges_on_head(&self) -> bool {
        false
    }

    /// The uploaded part that a request asks for, from 1 on.
    fn part_number<'a>(&self, _request: &'a Request) -> Option<&'a str> {
        None
    }

    /// The version that a request names.
    fn selector(&self, _request: &Request) -> Selector {
        Selector::Latest
    }

    /// Preconditions beyond those of HTTP.
    fn precondition(&self, _request: &Request, _blob: &Blob) -> Verdict {
        Verdict::Proceed
    }

    /// The fields of a customer's key, if the flavour has such keys.
    fn key_fields(&self) -> Option<KeyFields> {
        None
    }

    /// The error for a key that does not match; `None` if the flavour responds as usual.
    fn key_problem(&self, _found: KeyMatch, _request: &Request) -> Option<Coded> {
        None
    }

    /// The error if the requester must pay and does not say so.
    fn payer_problem(&self, _request: &Request) -> Option<Coded> {
        None
    }

    /// The error for the bytes of a blob that is in an archive, if the flavour has archives.
    fn archive_problem(&self) -> Option<Coded> {
        None
    }

    /// Whether the server decodes stored `gzip` for this request.
    fn decodes(&self, _request: &Request) -> bool {
        false
    }

    /// Whether `Last-Modified` is sent.
    fn dated(&self, _options: &ServerOptions) -> bool {
        true
    }

    /// How many path segments name the bucket; 0 if there are no buckets.
    fn bucket_segments(&self) -> usize;

    /// The checksums that [`Dialect::describe`] needs.
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

/// `text` with XML's reserved characters escaped.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
