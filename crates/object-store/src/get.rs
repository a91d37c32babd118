//! Reading. A read of bytes is one request, which also answers the conditions: they are compared with
//! the description of exactly the version whose bytes follow.

use futures_util::{StreamExt, stream};
use object_store::path::Path;
use object_store::{GetOptions, GetRange, GetResult, GetResultPayload, ObjectMeta};
use tidegate::ByteRange;
use tidegate::remote::BlobInfo;

use crate::place::Place;
use crate::{failure, meta};

/// Reads the blob at `path`.
pub(crate) async fn get(
    place: &Place,
    path: &Path,
    options: &GetOptions,
) -> object_store::Result<GetResult> {
    let failed = |error| failure::of_read(place.is_local(), path, error);
    if let Some(range) = &options.range {
        range.is_valid().map_err(failure::generic)?;
    }
    let mut at = place.locate(path);
    if let Some(version) = &options.version {
        at = at.at(place.version(version)).map_err(failed)?;
    }
    // A range of no bytes cannot be asked for.
    if options.head || matches!(options.range, Some(GetRange::Suffix(0))) {
        let info = place.client().stat(&at).await.map_err(failed)?;
        let described = described(path, &info)?;
        options.check_preconditions(&described)?;
        let range = match &options.range {
            Some(range) => range.as_range(described.size).map_err(failure::generic)?,
            None => 0..described.size,
        };
        return Ok(GetResult {
            payload: GetResultPayload::Stream(stream::empty().boxed()),
            attributes: meta::attributes(&info),
            extensions: object_store::Extensions::default(),
            meta: described,
            range,
        });
    }
    let asked = match &options.range {
        None => ByteRange::All,
        Some(GetRange::Bounded(range)) => ByteRange::Bounded(range.clone()),
        Some(GetRange::Offset(start)) => ByteRange::From(*start),
        Some(GetRange::Suffix(count)) => ByteRange::Last(*count),
    };
    let mut channel = place.client().read(&at).range(asked).open().map_err(failed)?;
    let mut info = channel.info().await.map_err(failed)?.clone();
    info.len_bytes = channel.len_bytes().or(info.len_bytes);
    let described = described(path, &info)?;
    options.check_preconditions(&described)?;
    let range = match &options.range {
        Some(range) => range.as_range(described.size).map_err(failure::generic)?,
        None => 0..described.size,
    };
    let (path, is_local) = (path.clone(), place.is_local());
    // The stream ends with its first error. The channel could go on, but no caller expects it.
    let bytes = stream::try_unfold(channel, move |mut channel| {
        let path = path.clone();
        async move {
            let next = channel.next().await;
            let next = next.map_err(|error| failure::of_read(is_local, &path, error))?;
            Ok(next.map(|bytes| (bytes, channel)))
        }
    });
    Ok(GetResult {
        payload: GetResultPayload::Stream(bytes.boxed()),
        attributes: meta::attributes(&info),
        extensions: object_store::Extensions::default(),
        meta: described,
        range,
    })
}

/// The description of a blob. Without a length it cannot be one.
pub(crate) fn described(path: &Path, info: &BlobInfo) -> object_store::Result<ObjectMeta> {
    let Some(size) = info.len_bytes else {
        return Err(failure::generic(format!("the remote does not say how long {path} is")));
    };
    Ok(meta::of(path, info, size))
}
