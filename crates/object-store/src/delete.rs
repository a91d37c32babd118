//! Deleting: one request for each blob, several at once.

use std::sync::Arc;

use futures_util::StreamExt;
use futures_util::stream::BoxStream;
use object_store::path::Path;

use crate::failure;
use crate::place::Place;

/// Requests in flight for one stream, as far as the budget allows: 1,000 blobs at 20 ms each take
/// less than two seconds.
const REQUESTS_MAX: usize = 16;

/// Deletes the blobs at `paths`, and gives their paths back in the same order. A blob that is missing
/// counts as deleted.
pub(crate) fn delete(
    place: &Arc<Place>,
    paths: BoxStream<'static, object_store::Result<Path>>,
) -> BoxStream<'static, object_store::Result<Path>> {
    let place = Arc::clone(place);
    let deleted = paths.map(move |path| {
        let place = Arc::clone(&place);
        async move {
            let path = path?;
            let deleted = place.client().delete(&place.locate(&path)).await;
            deleted.map_err(|error| failure::of(&path, error))?;
            Ok(path)
        }
    });
    deleted.buffered(REQUESTS_MAX).boxed()
}
