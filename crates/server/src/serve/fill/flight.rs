//! [`Flight`]: the state of one fill, which its followers watch.

use std::sync::Arc;

use tidegate_core::digest::Digest;
use tokio::sync::watch;

use super::{FillError, HELD_BACK_BYTES};
use crate::store::StagedReader;

/// How a fill ended: the digest of the blob, which is in the store.
pub(in crate::serve) type FlightOutcome = Result<Digest, Arc<FillError>>;

/// What is known of a blob before its bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::serve) struct Description {
    /// The length in bytes, if the remote says it.
    pub(in crate::serve) len: Option<u64>,
    /// The entity tag, quotes included.
    pub(in crate::serve) tag: Option<String>,
    /// The media type at the remote.
    pub(in crate::serve) content_type: Option<String>,
    /// The coding of the bytes at the remote.
    pub(in crate::serve) content_encoding: Option<String>,
    /// How the request was answered, as in RFC 9211, for example `hit`.
    pub(in crate::serve) cache_status: &'static str,
}

/// The state of one fill.
#[derive(Clone, Debug, Default)]
pub(super) struct FlightState {
    pub(super) description: Option<Arc<Description>>,
    /// Reads the bytes that were written; `None` while they are few.
    pub(super) reader: Option<StagedReader>,
    pub(super) written: u64,
    pub(super) outcome: Option<FlightOutcome>,
}

impl FlightState {
    /// The end of the bytes that may be delivered before the blob is verified.
    pub(super) fn readable(&self) -> u64 {
        if self.reader.is_none() {
            return 0;
        }
        let len = self.description.as_ref().and_then(|description| description.len);
        match len {
            Some(len) => self.written.min(len.saturating_sub(HELD_BACK_BYTES)),
            None => self.written.saturating_sub(HELD_BACK_BYTES),
        }
    }
}

/// One fill. Its task changes the state; followers watch it.
#[derive(Debug, Default)]
pub(in crate::serve) struct Flight {
    state: watch::Sender<FlightState>,
}

impl Flight {
    /// Says what is known of the blob.
    pub(in crate::serve) fn describe(&self, description: Description) {
        self.state.send_modify(|state| state.description = Some(Arc::new(description)));
    }

    /// Says how many bytes were written.
    pub(super) fn wrote(&self, written: u64, reader: Option<StagedReader>) {
        self.state.send_modify(|state| {
            state.written = written;
            state.reader = reader;
        });
    }

    /// Ends the fill. The first outcome stays.
    pub(super) fn end(&self, outcome: FlightOutcome) {
        self.state.send_if_modified(|state| {
            let is_first = state.outcome.is_none();
            state.outcome.get_or_insert(outcome);
            is_first
        });
    }

    pub(super) fn watch(&self) -> watch::Receiver<FlightState> {
        self.state.subscribe()
    }

    /// Waits for the description, or the failure. Cancel-safe.
    pub(in crate::serve) async fn described(&self) -> Result<Arc<Description>, Arc<FillError>> {
        let mut watched = self.watch();
        let is_known = |state: &FlightState| state.description.is_some() || state.outcome.is_some();
        // The sender lives as long as this.
        let Ok(state) = watched.wait_for(is_known).await else { return Err(stopped()) };
        match (&state.outcome, &state.description) {
            (Some(Err(error)), _) => Err(Arc::clone(error)),
            (_, Some(description)) => Ok(Arc::clone(description)),
            _ => Err(stopped()),
        }
    }

    /// Waits until the blob is in the store. Cancel-safe.
    pub(in crate::serve) async fn ended(&self) -> FlightOutcome {
        let mut watched = self.watch();
        let ended = watched.wait_for(|state| state.outcome.is_some()).await;
        ended.ok().and_then(|state| state.outcome.clone()).unwrap_or_else(|| Err(stopped()))
    }

    /// Waits until the bytes before `end` were written, or the fill has ended. Cancel-safe.
    pub(in crate::serve) async fn written(&self, end: u64) -> Result<(), Arc<FillError>> {
        let mut watched = self.watch();
        let is_there = |state: &FlightState| {
            state.outcome.is_some() || state.written >= end && state.reader.is_some()
        };
        let Ok(state) = watched.wait_for(is_there).await else { return Err(stopped()) };
        match &state.outcome {
            Some(Err(error)) => Err(Arc::clone(error)),
            _ => Ok(()),
        }
    }
}

pub(super) fn stopped() -> Arc<FillError> {
    Arc::new(FillError::Stopped)
}
