//! Reading. A read of bytes is one request, which also answers the conditions: they are compared with
//! the description of exactly the version whose bytes follow.

use std::ops::Range;

use bytes::Bytes;
use futures_util::{StreamExt, stream};
use object_store::path::Path;
use object_store::{GetOptions, GetRange, GetResult, GetResultPayload, ObjectMeta};
use tidegate::read::ReadChannel;
use tidegate::remote::BlobInfo;
use tidegate::{ByteRange, ErrorKind, Location, Result};

use crate::place::Place;
use crate::{failure, meta};

/// How often a read of a blob that is replaced meanwhile begins. Each costs its writers a write.
const OPENINGS_MAX: u32 = 16;

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
        let range = range_of(options, described.size)?;
        return Ok(GetResult {
            payload: GetResultPayload::Stream(stream::empty().boxed()),
            attributes: meta::attributes(&info),
            extensions: object_store::Extensions::default(),
            meta: described,
            range,
        });
    }
    let mut tries = 1;
    let Opened { channel, info, first } = loop {
        match Opened::open(place, &at, options).await {
            // The blob was replaced between two requests, and no byte has been delivered: the new
            // one is as good.
            Err(error)
                if error.kind() == ErrorKind::Changed
                    && options.version.is_none()
                    && tries < OPENINGS_MAX =>
            {
                tries += 1;
            }
            opened => break opened.map_err(failed)?,
        }
    };
    let described = described(path, &info)?;
    options.check_preconditions(&described)?;
    let range = range_of(options, described.size)?;
    let (path, is_local) = (path.clone(), place.is_local());
    // The stream ends with its first error. The channel could go on, but no caller expects it.
    let rest = stream::try_unfold(channel, move |mut channel| {
        let path = path.clone();
        async move {
            let next = channel.next().await;
            let next = next.map_err(|error| failure::of_read(is_local, &path, error))?;
            Ok(next.map(|bytes| (bytes, channel)))
        }
    });
    Ok(GetResult {
        payload: GetResultPayload::Stream(stream::iter(first.map(Ok)).chain(rest).boxed()),
        attributes: meta::attributes(&info),
        extensions: object_store::Extensions::default(),
        meta: described,
        range,
    })
}

/// A read whose first bytes have arrived.
struct Opened {
    channel: ReadChannel,
    info: BlobInfo,
    first: Option<Bytes>,
}

impl Opened {
    async fn open(place: &Place, at: &Location, options: &GetOptions) -> Result<Self> {
        let asked = match &options.range {
            None => ByteRange::All,
            Some(GetRange::Bounded(range)) => ByteRange::Bounded(range.clone()),
            Some(GetRange::Offset(start)) => ByteRange::From(*start),
            Some(GetRange::Suffix(count)) => ByteRange::Last(*count),
        };
        let mut channel = place.client().read(at).range(asked).open()?;
        let mut info = channel.info().await?.clone();
        // The request for the checksums may have ended the first response. The next one may find
        // that the blob was replaced, and only here can that be repaired.
        let first = channel.next().await?;
        info.len_bytes = channel.len_bytes().or(info.len_bytes);
        Ok(Self { channel, info, first })
    }
}

/// The bytes of the blob that the options ask for.
fn range_of(options: &GetOptions, size: u64) -> object_store::Result<Range<u64>> {
    match &options.range {
        Some(range) => range.as_range(size).map_err(failure::generic),
        None => Ok(0..size),
    }
}

/// The description of a blob. Without a length it cannot be one.
pub(crate) fn described(path: &Path, info: &BlobInfo) -> object_store::Result<ObjectMeta> {
    let Some(size) = info.len_bytes else {
        return Err(failure::generic(format!("the remote does not say how long {path} is")));
    };
    Ok(meta::of(path, info, size))
}
