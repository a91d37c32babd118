//! Cases for whole blobs: missing, get, put.

use std::collections::HashSet;

use bytes::Bytes;
use futures_util::future::join_all;
use tidegate::store::BlobStore;
use tidegate::{Digest, ErrorKind};

use super::bed::{Bed, InPieces};
use super::{Outcome, ensure};

/// So long that every store moves it in several pieces, and that it does not fit into a batch of
/// the Remote Execution API.
const LARGE_BYTES: usize = 20_000_003;

/// Digests in one call of `missing`: more than fit into one message of a server with a limit of 16
/// KiB.
const MANY: usize = 2_000;

pub(super) async fn is_there_after_its_put<S: BlobStore + ?Sized>(bed: &Bed<'_, S>) -> Outcome {
    for len in [10, 1_000, (256 << 10) - 1, 256 << 10, (256 << 10) + 1, 3_000_000] {
        let (digest, bytes) = bed.blob(len);
        bed.expect_none(&digest).await?;
        bed.put(digest, &bytes).await?;
        bed.expect(&digest, &bytes).await?;
        // To put it again also succeeds.
        bed.put(digest, &bytes).await?;
        bed.expect(&digest, &bytes).await?;
    }
    Ok(())
}

pub(super) async fn empty<S: BlobStore + ?Sized>(bed: &Bed<'_, S>) -> Outcome {
    let digest = bed.digest(&[]);
    bed.expect(&digest, &Bytes::new()).await?;
    bed.put(digest, &Bytes::new()).await?;
    bed.expect(&digest, &Bytes::new()).await
}

pub(super) async fn offsets<S: BlobStore + ?Sized>(bed: &Bed<'_, S>) -> Outcome {
    for len in [1_000, 2_000_000] {
        let (digest, bytes) = bed.blob(len);
        bed.put(digest, &bytes).await?;
        for offset in [0, 1, len / 2, len - 1, len] {
            let got = bed.get(&digest, offset as u64).await.map_err(|error| error.chain())?;
            let message = || format!("{len} bytes from offset {offset}: got other bytes");
            ensure(got == bytes.slice(offset..), message)?;
        }
    }
    Ok(())
}

pub(super) async fn unknown<S: BlobStore + ?Sized>(bed: &Bed<'_, S>) -> Outcome {
    let (digest, bytes) = bed.blob(1_000);
    bed.expect_none(&digest).await?;
    match bed.get(&digest, 500).await {
        Err(error) if error.kind() == ErrorKind::NotFound => {}
        Err(error) => return Err(format!("expected NotFound, got {}", error.chain())),
        Ok(_) => return Err("got bytes of an unknown blob".to_owned()),
    }
    // The same hash with another length is another blob.
    bed.put(digest, &bytes).await?;
    let longer = Digest { len: 1_001, ..digest };
    match bed.get(&longer, 0).await {
        Ok(got) if got.len() == 1_001 => Err("got a blob that cannot be".to_owned()),
        _ => Ok(()),
    }
}

pub(super) async fn missing_among_many<S: BlobStore + ?Sized>(bed: &Bed<'_, S>) -> Outcome {
    let mut asked = Vec::new();
    let mut expected = HashSet::new();
    for index in 0..MANY {
        let (digest, bytes) = bed.blob(100);
        if index % 400 == 7 {
            bed.put(digest, &bytes).await?;
        } else {
            expected.insert(digest);
        }
        asked.push(digest);
    }
    let missing = bed.store.missing(&asked).await.map_err(|error| error.chain())?;
    let count = missing.len();
    let missing: HashSet<Digest> = missing.into_iter().collect();
    ensure(missing.len() == count, || "a missing blob was named twice".to_owned())?;
    let counts = || format!("expected {} missing blobs, got {count}", expected.len());
    ensure(missing == expected, counts)?;
    let none = bed.store.missing(&[]).await.map_err(|error| error.chain())?;
    ensure(none.is_empty(), || "of no blobs some are missing".to_owned())
}

pub(super) async fn large<S: BlobStore + ?Sized>(bed: &Bed<'_, S>) -> Outcome {
    let (digest, bytes) = bed.blob(LARGE_BYTES);
    let put = bed.put_source(digest, InPieces(bytes.clone(), 100_003)).await;
    put.map_err(|error| error.chain())?;
    bed.expect(&digest, &bytes).await?;
    let offset = LARGE_BYTES - 1_234_567;
    let got = bed.get(&digest, offset as u64).await.map_err(|error| error.chain())?;
    ensure(got == bytes.slice(offset..), || "its end is other bytes".to_owned())
}

pub(super) async fn equal_puts_at_once<S: BlobStore + ?Sized>(bed: &Bed<'_, S>) -> Outcome {
    for len in [1_000, 1_500_000] {
        let (digest, bytes) = bed.blob(len);
        let puts = (0..8)
            .map(|index| bed.put_source(digest, InPieces(bytes.clone(), 10_000 + index * 7_000)));
        for put in join_all(puts).await {
            put.map_err(|error| error.chain())?;
        }
        bed.expect(&digest, &bytes).await?;
    }
    Ok(())
}

pub(super) async fn different_puts_at_once<S: BlobStore + ?Sized>(bed: &Bed<'_, S>) -> Outcome {
    let blobs: Vec<(Digest, Bytes)> = (0..16).map(|index| bed.blob(100_000 + index)).collect();
    for put in join_all(blobs.iter().map(|(digest, bytes)| bed.put(*digest, bytes))).await {
        put?;
    }
    for found in join_all(blobs.iter().map(|(digest, bytes)| bed.expect(digest, bytes))).await {
        found?;
    }
    Ok(())
}

pub(super) async fn identity<S: BlobStore + ?Sized>(bed: &Bed<'_, S>) -> Outcome {
    let identity = bed.store.identity().into_owned();
    ensure(!identity.is_empty(), || "it has none".to_owned())?;
    let (digest, bytes) = bed.blob(10);
    bed.put(digest, &bytes).await?;
    let again = bed.store.identity();
    ensure(identity == again, || format!("it was {identity:?}, and is {again:?}"))
}
