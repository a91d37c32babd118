//! The pipeline of an upload as [`Units`] of the driver: loads wait for memory, cuts and timers are
//! events.

use super::super::cutting::{Cut, SourceCutter};
use super::{BlobQuery, EndedCall, GrantedLoad, Pipeline, UploadEvent};
use crate::error::{Error, Result};
use crate::transfer::driver::{Flight, UnitFuture, Units};

impl Units for Pipeline {
    type Granted = GrantedLoad;
    type Ended = Result<EndedCall>;
    type Event = UploadEvent;
    type Error = Error;

    fn advance(&mut self, flight: &mut Flight<Self::Ended>) {
        let has_lingered = std::mem::take(&mut self.has_lingered);
        self.ask(has_lingered);
        self.begun.drain(..).for_each(|begun| flight.push(begun));
    }

    fn next(&mut self, flight: &mut Flight<Self::Ended>) -> Option<UnitFuture<GrantedLoad>> {
        self.next_load(flight)
    }

    fn start(&mut self, granted: GrantedLoad, flight: &mut Flight<Self::Ended>) {
        let GrantedLoad { load, permit } = granted;
        self.start_sending(flight, load, permit, None);
    }

    fn ended(&mut self, ended: Self::Ended) -> Result<()> {
        self.on_ended(ended?);
        Ok(())
    }

    async fn event(&mut self, _in_flight: usize) -> UploadEvent {
        let has_room = self.has_room();
        let due = self.missing_query.due().map(|due| self.transfer.at(due));
        // CANCEL: a cut that is not ready stays in `cutting`.
        tokio::select! {
            biased;
            cut = next_cut(&mut self.cutting, has_room) => UploadEvent::Cut(cut),
            () = tokio::time::sleep_until(due.unwrap_or_else(tokio::time::Instant::now)),
                if due.is_some() => UploadEvent::Lingered,
        }
    }

    fn on_event(&mut self, event: UploadEvent, _flight: &mut Flight<Self::Ended>) -> Result<()> {
        match event {
            UploadEvent::Cut(cut) => self.cut(cut?),
            UploadEvent::Lingered => self.has_lingered = true,
        }
        Ok(())
    }

    fn is_over(&self, _in_flight: usize) -> bool {
        // If nothing had to be sent, the store likely has the blob: its response then saves
        // registering.
        let is_awaited = self.delivered_chunks == 0 && self.blob_query != BlobQuery::None;
        self.is_present || (self.cutting.is_none() && self.ledger.open() == 0 && !is_awaited)
    }

    fn cancelled(&self) -> Error {
        self.transfer.calls.register.cancelled()
    }
}

async fn next_cut(cutting: &mut Option<SourceCutter>, has_room: bool) -> Result<Cut> {
    match cutting {
        Some(cutting) if has_room => cutting.next().await,
        _ => std::future::pending().await,
    }
}
