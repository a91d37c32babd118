//! Downloads into memory and into an ordered output.

use std::io::Write;
use std::sync::{Arc, Mutex};

use tidegate::{Durability, Report, Target};
use tidegate_testkit::hostile::Delivered;

use super::choice::{Choice, named};
use super::play::Outcome;
use super::stage::Stage;
use crate::call::{DownloadOptions, download};

/// The options that the seed chooses.
pub(crate) fn options(choice: &Choice) -> DownloadOptions {
    DownloadOptions {
        window: Some(choice.window),
        shard_bytes_min: Some(choice.shard_bytes),
        shard_bytes_max: Some(choice.shard_bytes),
        range: (choice.wanted != tidegate_testkit::hostile::Wanted::All).then(|| choice.range()),
        durability: Durability::None,
        expected: choice.expected().into_iter().collect(),
        retry: choice.retry(),
        budget: Stage::budget(),
        ..DownloadOptions::default()
    }
}

/// The delivered bytes with the report's facts.
pub(crate) fn delivered(
    choice: &Choice,
    report: &Report,
    bytes: Vec<u8>,
) -> Result<Outcome, String> {
    if report.bytes != bytes.len() as u64 {
        return Err(format!("{} bytes are reported of {}", report.bytes, bytes.len()));
    }
    if report.verified.checksums().is_empty() && report.verified.reason().is_none() {
        return Err("nothing is verified, and no reason given".to_owned());
    }
    let verified = report.verified.checksums().iter();
    let verified = verified.map(|sum| (sum.algorithm().name().to_owned(), sum.as_bytes().to_vec()));
    let (named, verified) = (named(report.version()), verified.collect());
    Ok(Outcome::Delivered(Delivered { named, verified, ..bare(choice, bytes) }))
}

/// Delivered bytes without a report.
pub(crate) fn bare(choice: &Choice, bytes: Vec<u8>) -> Delivered {
    Delivered {
        wanted: choice.wanted.clone(),
        pinned: choice.pinned.clone(),
        given: choice.given.iter().cloned().collect(),
        bytes,
        named: None,
        verified: Vec::new(),
    }
}

pub(crate) async fn memory(stage: &Stage<'_>) -> Result<Outcome, String> {
    let location = match stage.locate() {
        Ok(location) => location,
        Err(error) => return Ok(Outcome::Failed(error.chain())),
    };
    match download(&location, Target::Memory, &options(&stage.choice)).await {
        Ok(report) => {
            let bytes = report.memory.as_ref().ok_or("no memory is reported")?.to_vec();
            delivered(&stage.choice, &report, bytes)
        }
        Err(error) => Ok(Outcome::Failed(error.chain())),
    }
}

/// The written bytes, in order.
#[derive(Clone, Default)]
struct Written(Arc<Mutex<Vec<u8>>>);

impl Write for Written {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

pub(crate) async fn ordered(stage: &Stage<'_>) -> Result<Outcome, String> {
    let location = match stage.locate() {
        Ok(location) => location,
        Err(error) => return Ok(Outcome::Failed(error.chain())),
    };
    let written = Written::default();
    let target = Target::Writer { writer: Box::new(written.clone()), name: "output".to_owned() };
    match download(&location, target, &options(&stage.choice)).await {
        Ok(report) => {
            let bytes = written.0.lock().unwrap().clone();
            delivered(&stage.choice, &report, bytes)
        }
        Err(error) => Ok(Outcome::Failed(error.chain())),
    }
}
