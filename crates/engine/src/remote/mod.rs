//! Remotes: places that hold blobs, and the abilities of each.
//!
//! | trait | ability | implemented by |
//! |---|---|---|
//! | [`Read`] | facts about a blob, a range of its bytes | every remote |
//! | [`Write`] | a blob in one request, or in parts; copies | `file`, `s3`, `gcs`, `azure`, `http` |
//! | [`List`] | the blobs under a prefix | `file`, `s3`, `gcs`, `azure` |
//! | [`Delete`] | deleting a blob | `file`, `s3`, `gcs`, `azure`, `http` |
//! | [`Presign`] | URLs that allow one request | `s3`, `gcs`, `azure` |
//! | [`Buckets`] | making and removing the bucket | `s3`, `gcs`, `azure` |
//!
//! [`Remote`] is the handle that gives access to these abilities. [`Location`] has a handle and a
//! blob's name: [`Location::write`], [`Location::list`] and the like fail with `Unsupported` if the
//! remote lacks the ability. So this error has one wording and one place.
//!
//! Every network remote sends its requests through one `transport::Transport`.
//!
//! A caller's additions to requests belong in one of two places. Settings for all requests to a
//! remote (extra headers, the project that pays, a customer's key) are in [`RemoteOptions`]. The
//! setting for one blob is its [`Version`], which [`Location::at`] pins. Each remote turns its own
//! kinds of version into preconditions, and refuses the other kinds.

#[cfg(any(feature = "gcs", feature = "s3", feature = "azure"))]
mod blob_headers;
mod buckets;
#[cfg(feature = "_transport")]
mod by_url;
mod delete;
mod file;
#[cfg(all(fuzzing, feature = "gcs", feature = "s3", feature = "azure"))]
pub(crate) mod fuzzed;
mod list;
pub(crate) mod local;
mod locate;
mod location;
mod pinned;
mod presign;
mod read;
mod selection;
#[cfg(any(feature = "gcs", feature = "s3"))]
mod token_service;
mod version;
mod write;

#[cfg(any(feature = "gcs", feature = "s3", feature = "azure"))]
mod accepted_checksums;
#[cfg(any(feature = "gcs", feature = "s3", feature = "azure"))]
mod archive;
#[cfg(feature = "azure")]
mod azure;
#[cfg(feature = "azure")]
mod azure_api;
#[cfg(feature = "azure")]
mod azure_authorize;
#[cfg(feature = "azure")]
mod azure_presign;
#[cfg(any(feature = "gcs", feature = "s3"))]
mod credential_cache;
#[cfg(any(feature = "gcs", feature = "s3"))]
mod credential_program;
#[cfg(any(feature = "gcs", feature = "s3", feature = "azure"))]
mod credentials;
#[cfg(any(feature = "gcs", feature = "s3", feature = "azure"))]
mod customer_key;
#[cfg(feature = "_transport")]
mod extra_headers;
#[cfg(feature = "gcs")]
mod gcs;
#[cfg(feature = "gcs")]
mod gcs_account;
#[cfg(feature = "gcs")]
mod gcs_authorize;
#[cfg(feature = "gcs")]
mod gcs_bucket;
#[cfg(feature = "gcs")]
mod gcs_external;
#[cfg(feature = "gcs")]
mod gcs_presign;
#[cfg(feature = "gcs")]
mod gcs_session;
#[cfg(feature = "http")]
mod http;
#[cfg(any(feature = "gcs", feature = "s3", feature = "azure"))]
mod key;
#[cfg(any(feature = "http", feature = "reapi"))]
mod netrc;
#[cfg(feature = "_transport")]
mod network;
#[cfg(any(feature = "gcs", feature = "s3", feature = "azure"))]
mod object;
#[cfg(any(feature = "gcs", feature = "s3", feature = "azure"))]
mod object_abilities;
#[cfg(any(feature = "gcs", feature = "s3", feature = "azure"))]
mod object_client;
#[cfg(any(feature = "gcs", feature = "s3", feature = "azure"))]
mod object_presign;
#[cfg(any(feature = "gcs", feature = "s3", feature = "azure"))]
mod object_request;
#[cfg(feature = "reapi")]
pub mod reapi;
#[cfg(any(feature = "gcs", feature = "s3", feature = "azure"))]
mod refusal;
#[cfg(feature = "_http1")]
mod response;
#[cfg(feature = "s3")]
mod s3;
#[cfg(feature = "s3")]
mod s3_authorize;
#[cfg(feature = "s3")]
mod s3_bucket;
#[cfg(feature = "s3")]
mod s3_parts;
#[cfg(feature = "s3")]
mod s3_presign;
#[cfg(feature = "s3")]
mod s3_process;
#[cfg(feature = "s3")]
mod s3_profile;
#[cfg(feature = "s3")]
mod s3_redirect;
#[cfg(feature = "s3")]
mod s3_role;
#[cfg(feature = "s3")]
mod s3_role_source;
#[cfg(feature = "s3")]
mod s3_sources;
#[cfg(any(feature = "gcs", feature = "s3", feature = "azure"))]
mod tag_document;
#[cfg(any(feature = "gcs", feature = "s3"))]
mod xml_api;
#[cfg(any(feature = "gcs", feature = "s3", feature = "azure"))]
mod xml_document;

pub use buckets::{BucketOptions, Buckets, MadeBucket};
#[cfg(feature = "_transport")]
pub use by_url::OptionsByUrl;
#[cfg(any(feature = "gcs", feature = "s3", feature = "azure"))]
pub use customer_key::CustomerKey;
pub use delete::{Delete, DeleteProfile, DeleteRequest};
#[cfg(feature = "_transport")]
pub use extra_headers::ExtraHeaders;
pub(crate) use file::stamp as file_stamp;
pub use list::{
    List, ListEntry, ListPage, ListPages, ListProfile, ListRequest, PageToken, Unlisted,
};
pub use locate::RemoteOptions;
pub(crate) use locate::Remotes;
pub use location::Location;
pub(crate) use location::Stored;
#[cfg(any(feature = "http", feature = "reapi"))]
pub use netrc::Netrc;
pub use presign::{Presign, PresignMethod, PresignRequest, PresignedUrl};
pub use read::{BlobDescription, BlobInfo, Body, OpenRequest, Opened, Read, UploadedPart};
pub use selection::Selection;
pub use version::Version;
pub use write::{
    Bucket, CompleteRequest, CopySource, Guarantee, LastPart, MetadataNames, PartNumber, PartOrder,
    PartProfile, Payload, Precondition, StoredPart, UnfinishedUpload, Upload, UploadId, UploadPage,
    UploadPart, UploadState, Write, WriteOptions, WriteProfile, WriteWay, Written,
};

/// A place that holds blobs: the handle that gives access to its abilities.
///
/// Every remote can be read, so [`Read`] is its supertrait. The methods return `None` for an
/// ability that the remote lacks. They send no request.
pub trait Remote: Read {
    /// The name of this kind of remote in errors: the scheme of its URLs, such as `s3`.
    fn scheme(&self) -> &str;

    /// The ability to store blobs.
    fn as_write(&self) -> Option<&dyn Write> {
        None
    }

    /// The ability to list blobs.
    fn as_list(&self) -> Option<&dyn List> {
        None
    }

    /// The ability to delete blobs.
    fn as_delete(&self) -> Option<&dyn Delete> {
        None
    }

    /// The ability to sign URLs.
    fn as_presign(&self) -> Option<&dyn Presign> {
        None
    }

    /// The ability to make and remove the bucket that this remote is.
    fn as_buckets(&self) -> Option<&dyn Buckets> {
        None
    }
}
