//! [`Intake`]: what the engine downloads, into a staged file of the store.

use std::io::{self, Write};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tidegate::Error;
use tidegate_core::digest::{Digest, DigestFunction};

use super::Flight;
use crate::store::{LocalStore, UnnamedWriter};

/// The bytes of a fill on their way into the store. The engine's thread writes a clone of it.
#[derive(Clone, Debug)]
pub(super) struct Intake {
    flight: Arc<Flight>,
    parts: Arc<Mutex<Parts>>,
}

#[derive(Debug)]
struct Parts {
    writer: Option<UnnamedWriter>,
    /// Why the store took no more bytes: the engine keeps only a text.
    failure: Option<Error>,
}

impl Intake {
    pub(super) fn new(store: &LocalStore, expected: Option<Digest>, flight: Arc<Flight>) -> Self {
        let function = expected.map_or(DigestFunction::Sha256, |digest| digest.function);
        let writer = Some(store.begin_unnamed(function, expected));
        Self { flight, parts: Arc::new(Mutex::new(Parts { writer, failure: None })) }
    }

    /// Why the store took no more bytes.
    pub(super) fn take_failure(&self) -> Option<Error> {
        self.parts().failure.take()
    }

    /// Takes the blob, which has arrived.
    pub(super) fn take(&self) -> Option<UnnamedWriter> {
        self.parts().writer.take()
    }

    fn parts(&self) -> MutexGuard<'_, Parts> {
        self.parts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Write for Intake {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut parts = self.parts();
        let Some(writer) = &mut parts.writer else { return Err(io::ErrorKind::BrokenPipe.into()) };
        if let Err(error) = writer.write(bytes) {
            let text = error.chain();
            parts.writer = None;
            parts.failure = Some(error);
            return Err(io::Error::other(text));
        }
        let (written, reader) = (writer.len(), writer.reader());
        drop(parts);
        self.flight.wrote(written, reader);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
