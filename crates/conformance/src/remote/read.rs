//! Promises of remotes that can be read.

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::TryStreamExt;
use tidegate::remote::{OpenRequest, Opened, Version};
use tidegate::{Budget, ByteRange, ErrorKind, Location};

use super::checksum;
use super::suite::{Outcome, Report, ensure, failed, worked};

/// A blob and its bytes.
#[derive(Clone, Debug)]
pub struct Stored {
    /// The location of the blob.
    pub location: Location,
    /// The bytes of the blob.
    pub bytes: Bytes,
}

/// A place with blobs to read.
#[async_trait]
pub trait ReadPlace: Sync {
    /// Its blobs: one of 0 bytes, one of 1 byte, and longer ones.
    fn blobs(&self) -> Vec<Stored>;

    /// A location without a blob.
    fn absent(&self) -> Location;

    /// Gives this blob other bytes, without using the remote. Returns `false` if the place cannot
    /// do that.
    async fn replace(&self, blob: &Stored, bytes: Bytes) -> bool;
}

/// Checks every promise of [`tidegate::remote::Read`].
pub async fn read_suite(place: &dyn ReadPlace) -> Report {
    let mut report = Report::default();
    report.add("stat and open name the blob's length and one version", facts(place).await);
    report.add("every range brings exactly its bytes", ranges(place).await);
    report.add("beyond the end nothing is delivered", beyond_end(place).await);
    report.add("a blob that is not there is NotFound", absent(place).await);
    report.add("what is pinned to the version that stat names is read", pinned(place).await);
    report.add("a version of a foreign kind is Invalid", foreign(place).await);
    report.add("a checksum that the remote names is that of the bytes", checksums(place).await);
    report.add("a body may be dropped early, and the blob read again", dropped(place).await);
    report.add("a selection tells two blobs apart", selections(place).await);
    // Last, because it changes the blobs.
    report.add("a blob that was replaced is not read by its old version", replaced(place).await);
    report
}

fn whole() -> OpenRequest {
    OpenRequest { range: ByteRange::All, version: None }
}

async fn open(location: &Location, request: &OpenRequest) -> tidegate::Result<Opened> {
    location.remote.open(&location.blob, request, &Budget::default()).await
}

/// All bytes of a response.
async fn bytes_of(opened: Opened) -> Result<Bytes, String> {
    let frames: Vec<Bytes> = worked("the body", opened.body.try_collect().await)?;
    Ok(frames.concat().into())
}

async fn facts(place: &dyn ReadPlace) -> Outcome {
    let blobs = place.blobs();
    for len in [0, 1] {
        let is_there = blobs.iter().any(|blob| blob.bytes.len() == len);
        ensure!(is_there, "the place has no blob of {len} bytes to check");
    }
    ensure!(blobs.len() > 2, "the place has too few blobs to check");
    for Stored { location, bytes } in blobs {
        let stat = worked("stat", location.remote.stat(&location.blob).await)?;
        let expected = Some(bytes.len() as u64);
        ensure!(stat.len_bytes == expected, "stat names {:?} bytes", stat.len_bytes);
        let opened = worked("open", open(&location, &whole()).await)?;
        let len = opened.info.len_bytes;
        ensure!(len.is_none_or(|len| Some(len) == expected), "open names {len:?} bytes");
        let (one, other) = (&stat.version, &opened.info.version);
        ensure!(one == other, "stat names {one:?}, open names {other:?}");
    }
    Ok(())
}

async fn ranges(place: &dyn ReadPlace) -> Outcome {
    for Stored { location, bytes } in place.blobs() {
        let len = bytes.len() as u64;
        let middle = len / 2;
        let mut asked = vec![ByteRange::All, ByteRange::From(0)];
        if len > 0 {
            asked.extend([
                ByteRange::Bounded(0..1),
                ByteRange::Bounded(0..len),
                ByteRange::Bounded(len - 1..len),
                ByteRange::Bounded(middle..len.min(middle + 1000)),
                ByteRange::Bounded(middle..len + 1000),
                ByteRange::From(middle),
                ByteRange::From(len - 1),
                ByteRange::Last(1),
                ByteRange::Last(len.min(77)),
                ByteRange::Last(len + 5),
            ]);
        }
        for range in asked {
            let request = OpenRequest { range: range.clone(), version: None };
            let opened = worked(&format!("open of {range:?} of {len}"), {
                open(&location, &request).await
            })?;
            let wanted = range.resolve(len).map_err(|error| error.to_string())?;
            let (start, end, is_whole) = (opened.start, opened.end, opened.whole);
            let found = bytes_of(opened).await?;
            let until = start + found.len() as u64;
            ensure!(
                is_whole && start == 0 || start == wanted.start,
                "{range:?} of {len} begins at {start}"
            );
            ensure!(
                end.is_none_or(|end| end == until),
                "{range:?} of {len} promises to end at {end:?}, and ends at {until}"
            );
            ensure!(
                until >= wanted.end && until <= len,
                "{range:?} of {len} brings {start}..{until}"
            );
            let expected = bytes.slice(to_usize(start)..to_usize(until));
            ensure!(found == expected, "{range:?} of {len} brings other bytes");
        }
    }
    Ok(())
}

async fn beyond_end(place: &dyn ReadPlace) -> Outcome {
    for Stored { location, bytes } in place.blobs() {
        let len = bytes.len() as u64;
        for range in [ByteRange::From(len + 1), ByteRange::Bounded(len + 10..len + 20)] {
            let request = OpenRequest { range: range.clone(), version: None };
            match open(&location, &request).await {
                Err(error) if error.kind() == ErrorKind::OutOfRange => {}
                Err(error) => return Err(format!("{range:?} of {len}: {}", error.chain())),
                // A server that ignores ranges.
                Ok(opened) if opened.whole => {}
                Ok(opened) => {
                    let found = bytes_of(opened).await?;
                    ensure!(found.is_empty(), "{range:?} of {len} brings {} bytes", found.len());
                }
            }
        }
    }
    Ok(())
}

async fn absent(place: &dyn ReadPlace) -> Outcome {
    let location = place.absent();
    let stat = location.remote.stat(&location.blob).await;
    failed("stat", stat, &[ErrorKind::NotFound])?;
    failed("open", open(&location, &whole()).await, &[ErrorKind::NotFound])
}

async fn pinned(place: &dyn ReadPlace) -> Outcome {
    for Stored { location, bytes } in place.blobs() {
        let stat = worked("stat", location.remote.stat(&location.blob).await)?;
        let Some(version) = stat.version else { continue };
        worked("check_version", location.remote.check_version(&version))?;
        let again = location.remote.stat_version(&location.blob, &version).await;
        let again = worked("stat_version", again)?.version;
        ensure!(again.as_ref() == Some(&version), "expected {version}, got {again:?}");
        let range = if bytes.is_empty() { ByteRange::All } else { ByteRange::From(0) };
        let request = OpenRequest { range, version: Some(version.clone()) };
        let opened = worked("open", open(&location, &request).await)?;
        let named = opened.info.version.clone();
        ensure!(named.as_ref() == Some(&version), "expected {version}, got {named:?}");
        ensure!(bytes_of(opened).await? == bytes, "other bytes");
        // The same through a location of that version.
        let at = worked("at", location.at(version))?;
        ensure!(
            bytes_of(worked("open", open(&at, &whole()).await)?).await? == bytes,
            "other bytes"
        );
    }
    Ok(())
}

async fn foreign(place: &dyn ReadPlace) -> Outcome {
    let all = [
        Version::Digest("sha256/00/0".to_owned()),
        Version::FileStamp("1-2".to_owned()),
        Version::Generation("not a number".to_owned()),
        Version::ETag("W/\"weak\"".to_owned()),
    ];
    let Some(blob) = place.blobs().into_iter().next_back() else { return Ok(()) };
    let location = blob.location;
    let mut refused = 0;
    for version in all {
        let Err(error) = location.remote.check_version(&version) else { continue };
        refused += 1;
        ensure!(error.kind() == ErrorKind::Invalid, "{version}: {}", error.chain());
        let request = OpenRequest { range: ByteRange::All, version: Some(version.clone()) };
        failed("open", open(&location, &request).await, &[ErrorKind::Invalid])?;
        let stat = location.remote.stat_version(&location.blob, &version).await;
        failed("stat_version", stat, &[ErrorKind::Invalid])?;
    }
    ensure!(refused > 2, "only {refused} kinds of versions are refused");
    Ok(())
}

async fn checksums(place: &dyn ReadPlace) -> Outcome {
    for Stored { location, bytes } in place.blobs() {
        let stat = worked("stat", location.remote.stat(&location.blob).await)?;
        for stored in stat.checksums.iter().filter(|stored| stored.is_verifiable()) {
            let actual = checksum(stored.checksum.algorithm(), &bytes);
            ensure!(actual == stored.checksum, "stat names {}, expected {actual}", stored.checksum);
        }
    }
    Ok(())
}

async fn dropped(place: &dyn ReadPlace) -> Outcome {
    for Stored { location, bytes } in place.blobs() {
        let mut opened = worked("open", open(&location, &whole()).await)?;
        worked("the first frame", opened.body.try_next().await)?;
        drop(opened);
        let found = bytes_of(worked("open", open(&location, &whole()).await)?).await?;
        ensure!(found == bytes, "other bytes after an early end");
    }
    Ok(())
}

async fn selections(place: &dyn ReadPlace) -> Outcome {
    let blobs = place.blobs();
    let of = |location: &Location| location.remote.selection(&location.blob);
    for (index, one) in blobs.iter().enumerate() {
        let Some(selection) = of(&one.location) else { continue };
        ensure!(of(&one.location) == Some(selection.clone()), "one blob has two selections");
        for other in &blobs[index + 1..] {
            let (one, other) = (&one.location, &other.location);
            ensure!(
                of(other) != Some(selection.clone()),
                "{one:?} and {other:?} have one selection"
            );
        }
    }
    Ok(())
}

async fn replaced(place: &dyn ReadPlace) -> Outcome {
    for blob in place.blobs() {
        let location = &blob.location;
        let stat = worked("stat", location.remote.stat(&location.blob).await)?;
        let Some(version) = stat.version else { continue };
        let other = super::content(blob.bytes.len() + 10, 99);
        if !place.replace(&blob, other.clone()).await {
            return Ok(());
        }
        let is_object = matches!(version, Version::Generation(_) | Version::VersionId(_));
        // Such a version is an object of its own, which no longer exists.
        let kinds: &[ErrorKind] = match is_object {
            true => &[ErrorKind::Changed, ErrorKind::NotFound],
            false => &[ErrorKind::Changed],
        };
        let stat = location.remote.stat_version(&location.blob, &version).await;
        failed("stat_version", stat, kinds)?;
        let request = OpenRequest { range: ByteRange::From(0), version: Some(version) };
        failed("open", open(location, &request).await, kinds)?;
        let found = bytes_of(worked("open", open(location, &whole()).await)?).await?;
        ensure!(found == other, "the new bytes are not read");
    }
    Ok(())
}

fn to_usize(offset: u64) -> usize {
    usize::try_from(offset).unwrap_or(usize::MAX)
}
