//! Preconditions of writes: which fields have one, and when it is compared with what is there.
//!
//! A condition that counts is compared under the lock of the store, together with the write. The
//! option `Racing` compares it before, as stores do that look first and write later.

use std::{collections::HashMap, time::Duration};

use tokio::sync::watch;

use super::{
    call::{Call, Stop, refuse},
    options::Preconditions,
};
use crate::{
    blob::Blob,
    flavour::{Flavour, Problem},
};

/// How long a racing write waits for another one. Two writers of one test meet within milliseconds.
const RACE_WAIT: Duration = Duration::from_secs(1);

/// What must be there for a write to happen.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Condition {
    /// Nothing may be there.
    absent: bool,
    /// An object with this `ETag` (or any, if `*`) must be there.
    etag: Option<String>,
    /// No object with this `ETag` may be there.
    other_etag: Option<String>,
    /// An object of this generation must be there; 0 means that none may be there.
    generation: Option<u64>,
    metageneration: Option<u64>,
}

/// When a request's condition is evaluated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Moment {
    /// At a write of one request.
    Put,
    /// When an upload in parts is completed.
    Complete,
}

impl Condition {
    /// The condition of a request.
    pub(crate) fn of(call: &Call<'_>) -> Result<Self, Stop> {
        let is_gcs = call.origin.options.flavour == Flavour::Gcs;
        let number = |names: [&str; 2]| {
            let field = call.field(names[0]).or_else(|| call.parameter(names[1]));
            let number = field.filter(|_| is_gcs).map(str::parse).transpose();
            number.map_err(|_error| refuse(400, "InvalidArgument", "A generation is a number."))
        };
        let other = call.field("if-none-match");
        if call.origin.options.flavour == Flavour::S3 && other.is_some_and(|value| value != "*") {
            let message = "A header you provided implies functionality that is not implemented";
            return Err(refuse(501, "NotImplemented", message));
        }
        Ok(Self {
            absent: other == Some("*"),
            etag: call.field("if-match").map(str::to_owned),
            other_etag: other.filter(|value| *value != "*").map(str::to_owned),
            generation: number(["x-goog-if-generation-match", "ifGenerationMatch"])?,
            metageneration: number(["x-goog-if-metageneration-match", "ifMetagenerationMatch"])?,
        })
    }

    pub(crate) fn is_any(&self) -> bool {
        *self != Self::default()
    }

    /// Compares the condition with what is there.
    pub(crate) fn check(&self, flavour: Flavour, there: Option<&Blob>) -> Result<(), Problem> {
        let failed = Problem::Status(412);
        let tagged = |tags: &str, blob: &Blob| {
            let etag = blob.etag();
            tags == "*" || tags.split(',').any(|tag| tag.trim().trim_matches('"') == etag)
        };
        if self.absent && there.is_some() {
            return Err(if flavour == Flavour::Azure { Problem::BlobExists } else { failed });
        }
        if let Some(tags) = &self.etag {
            match there {
                // AWS answers 404, other stores 412.
                None if flavour == Flavour::S3 => return Err(Problem::NoSuchKey),
                Some(blob) if tagged(tags, blob) => {}
                _ => return Err(failed),
            }
        }
        if let (Some(tags), Some(blob)) = (&self.other_etag, there)
            && tagged(tags, blob)
        {
            return Err(failed);
        }
        let generation = there.map_or(0, |blob| blob.version);
        let metageneration = u64::from(there.is_some());
        let differs = |wanted: Option<u64>, found| wanted.is_some_and(|wanted| wanted != found);
        if differs(self.generation, generation) || differs(self.metageneration, metageneration) {
            return Err(failed);
        }
        Ok(())
    }

    /// The condition that the write itself has to keep, after those that are ignored or were
    /// already evaluated.
    pub(crate) async fn settle(
        self,
        call: &Call<'_>,
        path: &str,
        moment: Moment,
    ) -> Result<Self, Stop> {
        match (call.options().preconditions, moment) {
            (Preconditions::Kept, _) | (Preconditions::IgnoredAtComplete, Moment::Put) => Ok(self),
            (Preconditions::Ignored | Preconditions::IgnoredAtComplete, _) => Ok(Self::default()),
            (Preconditions::Racing, _) if self.is_any() => {
                let there = call.origin.store.find(path, &crate::store::Selector::Latest);
                self.check(call.origin.options.flavour, there.as_ref())?;
                call.origin.races.meet(path).await;
                Ok(Self::default())
            }
            (Preconditions::Racing, _) => Ok(self),
        }
    }
}

/// The writers that have looked and have not written yet, by path.
#[derive(Debug, Default)]
pub(crate) struct Races(watch::Sender<HashMap<String, Race>>);

#[derive(Debug, Default, Clone, Copy)]
struct Race {
    arrived: u64,
    waiting: u64,
}

impl Races {
    /// Waits for another writer at this path, unless one already waits.
    async fn meet(&self, path: &str) {
        let mut mine = None;
        self.0.send_modify(|races| {
            let race = races.entry(path.to_owned()).or_default();
            race.arrived += 1;
            if race.waiting == 0 {
                race.waiting += 1;
                mine = Some(race.arrived);
            }
        });
        let Some(mine) = mine else { return };
        let mut races = self.0.subscribe();
        let met = races.wait_for(|races| races.get(path).is_some_and(|race| race.arrived > mine));
        // Without a second writer, the first one goes on alone.
        let _ = tokio::time::timeout(RACE_WAIT, met).await;
        self.0.send_modify(|races| {
            if let Some(race) = races.get_mut(path) {
                race.waiting -= 1;
            }
        });
    }
}
