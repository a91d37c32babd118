//! The bytes of a blob while it arrives.

use std::sync::Arc;

use bytes::Bytes;
use futures_util::{Stream, StreamExt as _, stream};
use tidegate::Budget;
use tidegate::remote::Body;
use tidegate::store::BlobStore as _;
use tidegate_core::digest::Digest;
use tokio::sync::watch;

use super::flight::{FlightState, stopped};
use super::{FillError, Flight};
use crate::serve::error::ServeError;
use crate::store::{LocalStore, StagedReader};

/// Bytes that are read at a time.
const PIECE_BYTES: u64 = 256 << 10;

/// What a follower needs.
pub(in crate::serve) struct FollowState {
    pub(in crate::serve) flight: Arc<Flight>,
    pub(in crate::serve) store: LocalStore,
    pub(in crate::serve) budget: Budget,
    /// The first byte and the end of what is wanted; `u64::MAX` for the blob's end.
    pub(in crate::serve) range: std::ops::Range<u64>,
    /// Deliver bytes that were written and not verified, also the last ones.
    pub(in crate::serve) takes_unverified: bool,
}

/// What comes next.
enum Next {
    Staged(StagedReader, usize),
    Stored(Digest),
    End,
}

struct Following {
    wanted: FollowState,
    watched: watch::Receiver<FlightState>,
    stored: Option<Body>,
}

/// The bytes of a blob: from its staged file while it arrives, then from the store. Ends with an error
/// if the fill fails.
pub(in crate::serve) fn follow(
    wanted: FollowState,
) -> impl Stream<Item = Result<Bytes, ServeError>> + Send {
    let watched = wanted.flight.watch();
    let following = Following { wanted, watched, stored: None };
    stream::try_unfold(following, |mut following| async move {
        Ok(following.piece().await?.map(|piece| (piece, following)))
    })
}

impl Following {
    async fn piece(&mut self) -> Result<Option<Bytes>, ServeError> {
        let start = self.wanted.range.start;
        if self.stored.is_none() {
            match self.next().await? {
                Next::End => return Ok(None),
                Next::Staged(reader, len) => {
                    let read = tokio::task::spawn_blocking(move || reader.read(start, len)).await;
                    // It panics only if the runtime shuts down.
                    let read = read.map_err(|_ended| ServeError::Fill(stopped()))?;
                    let piece = read.map_err(|error| ServeError::Store(unreadable(error)))?;
                    self.wanted.range.start += piece.len() as u64;
                    return Ok(Some(piece));
                }
                Next::Stored(digest) => {
                    let budget = &self.wanted.budget;
                    self.stored = Some(self.wanted.store.get(&digest, start, budget).await?);
                }
            }
        }
        let left = self.wanted.range.end - start;
        let Some(stored) = self.stored.as_mut().filter(|_| left > 0) else { return Ok(None) };
        let Some(mut piece) = stored.next().await.transpose()? else { return Ok(None) };
        piece.truncate(usize::try_from(left).unwrap_or(usize::MAX));
        self.wanted.range.start += piece.len() as u64;
        Ok(Some(piece))
    }

    async fn next(&mut self) -> Result<Next, Arc<FillError>> {
        let range = self.wanted.range.clone();
        let takes_unverified = self.wanted.takes_unverified;
        if range.is_empty() {
            return Ok(Next::End);
        }
        let readable = move |state: &FlightState| {
            let is_early = takes_unverified && state.reader.is_some();
            let readable = if is_early { state.written } else { state.readable() };
            readable.min(range.end)
        };
        let start = self.wanted.range.start;
        let is_next = |state: &FlightState| state.outcome.is_some() || readable(state) > start;
        let Ok(state) = self.watched.wait_for(is_next).await else { return Err(stopped()) };
        match (&state.outcome, &state.reader) {
            (Some(Err(error)), _) => Err(Arc::clone(error)),
            (Some(Ok(digest)), _) => Ok(Next::Stored(*digest)),
            (None, Some(reader)) => {
                let len = (readable(&state) - start).min(PIECE_BYTES);
                Ok(Next::Staged(reader.clone(), usize::try_from(len).unwrap_or(usize::MAX)))
            }
            (None, None) => Err(stopped()),
        }
    }
}

fn unreadable(error: crate::store::StoreError) -> tidegate::Error {
    let message = "the blob cannot be read while it is fetched";
    tidegate::Error::new(tidegate::ErrorKind::Storage, tidegate::Operation::Read, "a file", message)
        .caused_by(error)
}
