//! Promises of remotes that store blobs: whole blobs and copies. For parts see
//! [`super::parts_suite`].

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::{StreamExt, stream};
use tidegate::remote::{CopySource, Payload, Precondition, Write, WriteOptions};
use tidegate::{Error, ErrorKind, Location, Operation};
use tokio::sync::Notify;

use super::suite::{Outcome, Report, ensure, failed, worked};
use super::{Place, checksum, content, write_conditions};

/// Leftovers may be removed in the background: the suite waits this long for it.
const REMOVAL_WAIT_MAX: Duration = Duration::from_secs(5);

/// Checks every promise of [`tidegate::remote::Write`] about whole blobs and copies.
pub async fn write_suite(place: &dyn Place) -> Report {
    let mut report = Report::default();
    report.add("a put stores exactly its bytes, of any length", lengths(place).await);
    report.add("a put names the version that is then read", versions(place).await);
    report.add("a put replaces what has the name", replaces(place).await);
    report
        .add("a put that its checksum refutes is Integrity and stores nothing", sums(place).await);
    report.add("a put whose source fails stores nothing", source_fails(place).await);
    report.add("a put that is dropped stores nothing, and leaves nothing", dropped(place).await);
    write_conditions::add(&mut report, place).await;
    report.add("a copy has the bytes of its source", copies(place).await);
    report.add("nothing but blobs is left behind", clean(place).await);
    report
}

pub(super) async fn put(
    location: &Location,
    bytes: &Bytes,
    options: &WriteOptions,
) -> tidegate::Result<tidegate::remote::Written> {
    let payload = Payload::from_bytes(bytes.clone());
    location.write()?.put(&location.blob, &payload, options).await
}

/// Compares a blob with the expected bytes, without using the remote.
pub(super) async fn expect(place: &dyn Place, name: &str, expected: Option<&Bytes>) -> Outcome {
    let found = place.get(name).await;
    let len = |bytes: Option<&Bytes>| bytes.map(Bytes::len);
    ensure!(
        found.as_ref() == expected,
        "{name}: expected {:?} bytes, found {:?}, or other ones",
        len(expected),
        len(found.as_ref())
    );
    Ok(())
}

/// Checks that only blobs are in the place, at once or after `REMOVAL_WAIT_MAX`.
pub(super) async fn clean(place: &dyn Place) -> Outcome {
    let mut left = place.leftovers().await;
    let began = tokio::time::Instant::now();
    while !left.is_empty() && began.elapsed() < REMOVAL_WAIT_MAX {
        tokio::time::sleep(Duration::from_millis(20)).await;
        left = place.leftovers().await;
    }
    ensure!(left.is_empty(), "left behind: {left:?}");
    Ok(())
}

async fn lengths(place: &dyn Place) -> Outcome {
    for len in [0, 1, 1000, 3 << 20] {
        let bytes = content(len, len as u64);
        let name = format!("lengths/deep/er/{len}");
        let at = place.at(&name);
        worked("put", put(&at, &bytes, &WriteOptions::default()).await)?;
        expect(place, &name, Some(&bytes)).await?;
    }
    let bytes = content(5000, 5);
    let frames = bytes.chunks(7).map(Bytes::copy_from_slice).collect();
    let reopened = source(bytes.clone(), 5000);
    for (name, payload) in [("frames", Payload::from_frames(frames)), ("reopened", reopened)] {
        let at = place.at(name);
        let writing = worked("write", at.write())?;
        // Twice, as a retry does.
        for _ in 0..2 {
            let options = WriteOptions::default();
            worked("put", writing.put(&at.blob, &payload, &options).await)?;
            expect(place, name, Some(&bytes)).await?;
        }
    }
    Ok(())
}

/// A source that delivers these bytes in small frames and reports `len` as their length.
fn source(bytes: Bytes, len: u64) -> Payload {
    Payload::reopened(len, move || {
        let frames: Vec<_> =
            bytes.chunks(999).map(|frame| Ok(Bytes::copy_from_slice(frame))).collect();
        Box::pin(stream::iter(frames))
    })
}

async fn versions(place: &dyn Place) -> Outcome {
    let at = place.at("versions");
    for seed in [1, 2] {
        let written = put(&at, &content(1000, seed), &WriteOptions::default()).await;
        let written = worked("put", written)?;
        let stat = worked("stat", at.remote.stat(&at.blob).await)?;
        ensure!(
            written.version.is_none() || written.version == stat.version,
            "put names {:?}, stat {:?}",
            written.version,
            stat.version
        );
    }
    Ok(())
}

async fn replaces(place: &dyn Place) -> Outcome {
    let (long, short) = (content(100_000, 1), content(10, 2));
    for bytes in [&long, &short, &long] {
        worked("put", put(&place.at("replaces"), bytes, &WriteOptions::default()).await)?;
        expect(place, "replaces", Some(bytes)).await?;
    }
    Ok(())
}

async fn sums(place: &dyn Place) -> Outcome {
    let (old, new) = (content(100, 1), content(200_000, 2));
    place.put("sums", old.clone()).await;
    let at = place.at("sums");
    let writing = worked("write", at.write())?;
    let options = WriteOptions::default();
    let offered = || writing.write_profile(&options.precondition).put_checksums;
    let mut left = offered();
    while let Some(algorithm) = left.pop() {
        let wrong = checksum(algorithm, b"other bytes");
        let payload = Payload::from_bytes(new.clone());
        let refuted = writing.put(&at.blob, &payload.clone().with_checksum(wrong), &options).await;
        // The remote turned out not to know this algorithm, and offers another one.
        if refuted.as_ref().is_err_and(|error| error.kind() == ErrorKind::Unsupported)
            && !offered().contains(&algorithm)
        {
            expect(place, "sums", Some(&old)).await?;
            left = offered();
            continue;
        }
        failed(&format!("put with a wrong {algorithm}"), refuted, &[ErrorKind::Integrity])?;
        expect(place, "sums", Some(&old)).await?;
        let right = payload.with_checksum(checksum(algorithm, &new));
        worked("put", writing.put(&at.blob, &right, &options).await)?;
        expect(place, "sums", Some(&new)).await?;
        place.put("sums", old.clone()).await;
    }
    clean(place).await
}

/// The same payload, with the checksum of other bytes if the remote verifies one. Some servers store
/// what arrived of a request that breaks off; only a checksum prevents that.
fn summed(writing: &dyn Write, payload: Payload) -> Payload {
    let sums = writing.write_profile(&Precondition::None).put_checksums;
    match sums.first() {
        Some(algorithm) => payload.with_checksum(checksum(*algorithm, b"the whole source")),
        None => payload,
    }
}

async fn source_fails(place: &dyn Place) -> Outcome {
    let old = content(100, 1);
    place.put("source", old.clone()).await;
    let at = place.at("source");
    let writing = worked("write", at.write())?;
    let broken = Payload::reopened(3 << 20, || {
        let kind = ErrorKind::Storage;
        let error = Error::new(kind, Operation::Read, "the source", "it cannot be read");
        Box::pin(stream::iter([Ok(content(2 << 20, 3)), Err(error)]))
    });
    let (long, short) = (source(content(5000, 2), 4999), source(content(5000, 2), 5001));
    let changed = ErrorKind::Changed;
    for (payload, kind) in [(broken, ErrorKind::Storage), (long, changed), (short, changed)] {
        let payload = summed(writing, payload);
        let result = writing.put(&at.blob, &payload, &WriteOptions::default()).await;
        failed("put of a source that fails", result, &[kind])?;
        expect(place, "source", Some(&old)).await?;
        let options = WriteOptions::default();
        let absent = place.at("source-absent");
        let result = writing.put(&absent.blob, &payload, &options).await;
        failed("put of a source that fails", result, &[kind])?;
        expect(place, "source-absent", None).await?;
    }
    clean(place).await
}

async fn dropped(place: &dyn Place) -> Outcome {
    let old = content(100, 1);
    place.put("dropped", old.clone()).await;
    let at = place.at("dropped");
    let writing = worked("write", at.write())?;
    let waits = Arc::new(Notify::new());
    let theirs = Arc::clone(&waits);
    let endless = Payload::reopened(9 << 20, move || {
        let waits = Arc::clone(&theirs);
        // Polled after the first bytes, which are being sent then.
        let rest = stream::once(async move {
            waits.notify_one();
            std::future::pending().await
        });
        Box::pin(stream::iter([Ok(content(4 << 20, 2))]).chain(rest))
    });
    let endless = summed(writing, endless);
    let options = WriteOptions::default();
    tokio::select! {
        _ = writing.put(&at.blob, &endless, &options) => {
            return Err("a put ended before its source did".to_owned());
        }
        () = waits.notified() => {}
    }
    clean(place).await?;
    expect(place, "dropped", Some(&old)).await
}

async fn copies(place: &dyn Place) -> Outcome {
    let bytes = content(300_000, 1);
    place.put("copies/source", bytes.clone()).await;
    let (source, target) = (place.at("copies/source"), place.at("copies/target"));
    let writing: &dyn Write = worked("write", target.write())?;
    let options = WriteOptions::default();
    if writing.write_profile(&options.precondition).copy_bytes_max.is_none() {
        let from = CopySource::new(&source.blob);
        let copied = writing.copy(&from, &target.blob, &options).await;
        return failed("a copy that the profile rules out", copied, &[ErrorKind::Unsupported]);
    }
    let version = worked("stat", source.remote.stat(&source.blob).await)?.version;
    for version in [None, version.clone()] {
        let from = CopySource::new(&source.blob).at(version);
        worked("copy", writing.copy(&from, &target.blob, &options).await)?;
        expect(place, "copies/target", Some(&bytes)).await?;
    }
    let absent = CopySource::new(place.at("copies/absent").blob);
    let copied = writing.copy(&absent, &target.blob, &options).await;
    failed("copy of what is not there", copied, &[ErrorKind::NotFound])?;
    place.put("copies/source", content(300_001, 2)).await;
    if version.is_some() {
        let from = CopySource::new(&source.blob).at(version);
        let copied = writing.copy(&from, &target.blob, &options).await;
        failed("copy of an old version", copied, &[ErrorKind::Changed])?;
    }
    expect(place, "copies/target", Some(&bytes)).await
}
