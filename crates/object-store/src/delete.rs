//! Deleting, as many blobs in one request as the remote takes.

use std::sync::Arc;

use futures_util::stream::{self, BoxStream};
use futures_util::{StreamExt, TryStreamExt};
use object_store::path::Path;
use tidegate::remote::DeleteRequest;
use tidegate::{Operation, RetryClass};

use crate::attempts::Attempts;
use crate::failure;
use crate::place::Place;

/// Blobs of one request; no remote takes more.
const BATCH_MAX: usize = 1000;

/// Requests in flight for one stream.
const REQUESTS_MAX: usize = 8;

/// Deletes the blobs at `paths`, and gives their paths back in the same order. A blob that is missing
/// counts as deleted.
pub(crate) fn delete(
    place: &Arc<Place>,
    paths: BoxStream<'static, object_store::Result<Path>>,
) -> BoxStream<'static, object_store::Result<Path>> {
    let place = Arc::clone(place);
    let batch = match place.locate(&Path::default()).delete() {
        Ok(remote) => remote.delete_profile().batch_max.clamp(1, BATCH_MAX),
        // Each path gets the error.
        Err(_) => 1,
    };
    let deleted = paths.try_chunks(batch).map(move |chunk| {
        let place = Arc::clone(&place);
        async move {
            // The paths before a failed one are deleted, too.
            let (paths, failed) = match chunk {
                Ok(paths) => (paths, None),
                Err(stream::TryChunksError(paths, error)) => (paths, Some(error)),
            };
            let mut results = batch_of(&place, paths).await;
            results.extend(failed.map(Err));
            stream::iter(results)
        }
    });
    deleted.buffered(REQUESTS_MAX).flatten().boxed()
}

async fn batch_of(place: &Place, paths: Vec<Path>) -> Vec<object_store::Result<Path>> {
    let attempts = place.attempts(place.budget());
    let (mut deleted, mut rest) = (Vec::with_capacity(paths.len()), paths);
    if rest.len() > 1 {
        let batch = std::mem::take(&mut rest);
        for (path, outcome) in batch.iter().zip(in_one_request(place, &attempts, &batch).await) {
            // The request failed, or the remote refused this one blob for now.
            deleted.push(match outcome {
                Some(Ok(())) => Ok(path.clone()),
                Some(Err(error)) if *error.retry() == RetryClass::Never => {
                    Err(failure::of(path, error))
                }
                _ => alone(place, &attempts, path).await,
            });
        }
    }
    for path in &rest {
        deleted.push(alone(place, &attempts, path).await);
    }
    deleted
}

/// The outcome for each of `paths`; `None` if there was no response.
async fn in_one_request(
    place: &Place,
    attempts: &Attempts,
    paths: &[Path],
) -> Vec<Option<tidegate::Result<()>>> {
    let at = place.locate(&Path::default());
    let requests: Vec<_> = paths.iter().map(|path| request(place, path)).collect();
    let what = attempts.of(Operation::Delete, at.display(), 0);
    let outcomes = attempts.make(what, || async { Ok(at.delete()?.delete_all(&requests).await) });
    let mut outcomes = outcomes.await.unwrap_or_default().into_iter();
    paths.iter().map(|_| outcomes.next()).collect()
}

async fn alone(place: &Place, attempts: &Attempts, path: &Path) -> object_store::Result<Path> {
    let (at, request) = (place.locate(path), request(place, path));
    let what = attempts.of(Operation::Delete, at.display(), 0);
    let outcome = attempts.make(what, || async { at.delete()?.delete(&request).await });
    outcome.await.map(|()| path.clone()).map_err(|error| failure::of(path, error))
}

fn request(place: &Place, path: &Path) -> DeleteRequest {
    DeleteRequest { blob: place.key(path), version: None }
}
