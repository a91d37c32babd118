//! Writing a blob whose bytes are all there.

use bytes::Bytes;
use object_store::path::Path;
use object_store::{Attribute, Attributes, PutMode, PutOptions, PutPayload, PutResult, TagSet};
use tidegate::remote::{MetadataNames, Precondition, WriteOptions};
use tidegate::{ErrorKind, Location, OnFailure, UploadSource};

use crate::place::Place;
use crate::{failure, meta};

/// Stores `payload` as the blob at `path`.
pub(crate) async fn put(
    place: &Place,
    path: &Path,
    payload: PutPayload,
    options: &PutOptions,
) -> object_store::Result<PutResult> {
    let at = place.locate(path);
    let mut write = description(&at, path, &options.attributes, &options.tags)?;
    write.precondition = match &options.mode {
        PutMode::Overwrite => Precondition::None,
        PutMode::Create => Precondition::Absent,
        PutMode::Update(update) if update.e_tag.is_none() && update.version.is_none() => {
            return Err(failure::generic("an update needs the entity tag or the version"));
        }
        PutMode::Update(update) => {
            let Some(version) = place.replaced(update) else {
                let source = "no blob here can have this version".into();
                return Err(object_store::Error::Precondition { path: path.to_string(), source });
            };
            Precondition::Version(version)
        }
    };
    upload(place, path, payload.into(), write).await
}

/// Uploads bytes in one request, or in parts if there are many.
pub(crate) async fn upload(
    place: &Place,
    path: &Path,
    bytes: Bytes,
    write: WriteOptions,
) -> object_store::Result<PutResult> {
    let is_update = matches!(write.precondition, Precondition::Version(_));
    let at = place.locate(path);
    let upload = place.client().upload(UploadSource::bytes(bytes), &at);
    match upload.write(write).on_failure(OnFailure::Abort).await {
        Ok(report) => Ok(meta::of_written(report.version())),
        Err(error) if is_update && error.kind() == ErrorKind::Unsupported => {
            Err(failure::not_implemented(format!("`PutMode::Update` at {}", place.display())))
        }
        Err(error) => Err(failure::of(path, error)),
    }
}

/// The options of a write: what the blob is described as.
///
/// Fails with `NotImplemented` for an attribute that the remote does not keep.
pub(crate) fn description(
    at: &Location,
    path: &Path,
    attributes: &Attributes,
    tags: &TagSet,
) -> object_store::Result<WriteOptions> {
    let mut write = WriteOptions::default();
    let remote = at.write().map_err(|error| failure::of(path, error))?;
    let profile = remote.write_profile(&Precondition::None);
    for (attribute, value) in attributes {
        let value = value.to_string();
        match attribute {
            _ if profile.metadata == MetadataNames::None => {
                return Err(no_attribute(attribute, at));
            }
            Attribute::ContentType => write.content_type = Some(value),
            Attribute::ContentEncoding => write.content_encoding = Some(value),
            Attribute::CacheControl => write.cache_control = Some(value),
            Attribute::StorageClass => write.storage_class = Some(value),
            Attribute::Metadata(name) => write.metadata.push((name.to_string(), value)),
            Attribute::ContentDisposition => {
                write.headers.push((header(at, "content-disposition"), value));
            }
            Attribute::ContentLanguage => {
                write.headers.push((header(at, "content-language"), value));
            }
            _ => return Err(no_attribute(attribute, at)),
        }
    }
    // As `object_store` has it, a remote without tags ignores them.
    if at.remote.scheme() == "s3" || at.remote.scheme() == "az" {
        let tags = url::form_urlencoded::parse(tags.encoded().as_bytes());
        write.tags = tags.into_owned().collect();
    }
    Ok(write)
}

/// The name of a header that describes a blob. Azure has its own for those of a request's body.
pub(crate) fn header(at: &Location, name: &str) -> String {
    if at.remote.scheme() == "az" { format!("x-ms-blob-{name}") } else { name.to_owned() }
}

fn no_attribute(attribute: &Attribute, at: &Location) -> object_store::Error {
    let display = at.display();
    failure::not_implemented(format!("the attribute {attribute:?} of {display}"))
}
