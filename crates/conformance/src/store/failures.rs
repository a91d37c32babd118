//! Puts that must fail, or that are dropped: the store keeps none of their bytes.

use std::time::Duration;

use tidegate::Digest;
use tidegate::store::BlobStore;

use super::bed::{Bed, InPieces, Stopping};
use super::{Outcome, ensure};

/// Lengths of one piece and of several.
const LENS: [usize; 2] = [1_000, 1_500_000];

pub(super) async fn wrong_bytes<S: BlobStore + ?Sized>(bed: &Bed<'_, S>) -> Outcome {
    for len in LENS {
        let (digest, bytes) = bed.blob(len);
        let (_, other) = bed.blob(len);
        let put = bed.put_source(digest, InPieces(other, 100_000)).await;
        ensure(put.is_err(), || format!("{len} wrong bytes were taken"))?;
        bed.expect_none(&digest).await?;
        // The store then takes the right bytes.
        bed.put(digest, &bytes).await?;
        bed.expect(&digest, &bytes).await?;
    }
    // A right prefix under a digest with a greater length.
    let (digest, bytes) = bed.blob(1_000);
    let longer = Digest { len: 2_000, ..digest };
    let put = bed.put_source(longer, InPieces([&*bytes, &*bytes].concat().into(), 100)).await;
    ensure(put.is_err(), || "a digest with another length was taken".to_owned())?;
    bed.expect_none(&digest).await
}

pub(super) async fn short_source<S: BlobStore + ?Sized>(bed: &Bed<'_, S>) -> Outcome {
    for len in LENS {
        let (digest, bytes) = bed.blob(len);
        let put = bed.put_source(digest, InPieces(bytes.slice(..len - 1), 100_000)).await;
        ensure(put.is_err(), || format!("{} of {len} bytes were taken", len - 1))?;
        bed.expect_none(&digest).await?;
    }
    Ok(())
}

pub(super) async fn failing_source<S: BlobStore + ?Sized>(bed: &Bed<'_, S>) -> Outcome {
    for len in LENS {
        let (digest, bytes) = bed.blob(len);
        let source = Stopping { bytes: bytes.slice(..len / 2), hangs: false };
        let put = bed.put_source(digest, source).await;
        ensure(put.is_err(), || format!("a failed source of {len} bytes was taken"))?;
        bed.expect_none(&digest).await?;
    }
    Ok(())
}

pub(super) async fn dropped<S: BlobStore + ?Sized>(bed: &Bed<'_, S>) -> Outcome {
    for len in LENS {
        let (digest, bytes) = bed.blob(len);
        let source = Stopping { bytes: bytes.slice(..len / 2), hangs: true };
        let put = bed.put_source(digest, source);
        let ended = tokio::time::timeout(Duration::from_millis(200), put).await;
        ensure(ended.is_err(), || "a put ended before its source did".to_owned())?;
        bed.expect_none(&digest).await?;
        // Leftovers of the first put do not block the second.
        bed.put(digest, &bytes).await?;
        bed.expect(&digest, &bytes).await?;
    }
    Ok(())
}
