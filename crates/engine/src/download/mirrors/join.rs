//! How mirrors join a download: the first one that answers leads, the others are asked in the meantime,
//! and what they say is compared.

use std::sync::Arc;
use std::time::Duration;

use tidegate_core::checksum::StoredChecksum;
use tokio::time::{Instant, timeout_at};

use super::agree::{self, Claim};
use super::ask::{self, Answer};
use super::{Mirror, MirrorState, Mirrors, ShardedDownloadOptions};
use crate::error::{Error, Result};
use crate::read::Known;
use crate::remote::{BlobInfo, Location};
use crate::transfer::attempt::Calls;

/// How long the transfer waits for the descriptions of the other mirrors, after the first one has
/// answered. Later answers join while it runs. With 1 s, mirrors on other continents are compared
/// before the first byte is used, and a dead mirror costs a short wait.
const SETTLE_MAX: Duration = Duration::from_secs(1);

/// How long the first mirror may take to answer if another one has answered. Longer than a slow
/// server takes, and shorter than the timeout of a connection to a host that is down (10 s).
const LEAD_PATIENCE: Duration = Duration::from_secs(3);

const SERVES_NO_RANGES: &str = "it serves no ranges, or names no version or length: it can only be \
                                used alone";

impl Mirrors {
    /// Makes the first usable mirror the leading one; `None` if all have failed.
    pub(in crate::download) fn choose_lead(&mut self) -> Option<Arc<Location>> {
        let first = |is_wanted: fn(&Mirror) -> bool| self.all.iter().position(is_wanted);
        self.lead = first(|mirror| mirror.may_join() && !mirror.is_late)
            .or_else(|| first(Mirror::may_join))
            .or_else(|| first(|mirror| matches!(mirror.state, MirrorState::Reserve(_))))?;
        self.all.get(self.lead).map(|mirror| Arc::clone(&mirror.location))
    }

    /// Drops the leading mirror, which delivered nothing. Returns the error if it is the only one.
    pub(in crate::download) fn drop_lead(&mut self, error: Error) -> Option<Error> {
        if !self.are_several() {
            return Some(error);
        }
        self.set_failed(self.lead, &error);
        // The next one should be one that answers.
        while let Some(joined) = self.asking.try_join_next() {
            if let Ok(answer) = joined {
                self.note(answer);
            }
        }
        None
    }

    /// Waits until the leading mirror is late: another one has answered, and some time has passed.
    /// Then that one should lead. Cancel-safe.
    pub(in crate::download) async fn lead_is_late(&mut self) {
        tokio::time::sleep(LEAD_PATIENCE).await;
        let lead = self.lead;
        let has_answered = |(index, mirror): (usize, &Mirror)| {
            index != lead && mirror.may_join() && mirror.info.is_some()
        };
        while !self.all.iter().enumerate().any(has_answered) {
            if let Some(answer) = self.answered().await {
                self.note(answer);
            }
        }
    }

    /// Lets another mirror lead. The leading one may join later.
    pub(in crate::download) fn give_way(&mut self) {
        if let Some(mirror) = self.all.get_mut(self.lead) {
            mirror.is_late = true;
        }
    }

    /// The leading mirror was late before, and no other one can lead.
    pub(in crate::download) fn has_given_way(&self) -> bool {
        self.all.get(self.lead).is_some_and(|mirror| mirror.is_late)
    }

    /// Asks the mirrors that have not been asked, but not the leading one.
    pub(in crate::download) fn ask(&mut self, options: &ShardedDownloadOptions, calls: &Calls) {
        let lead = self.lead;
        for (index, mirror) in self.all.iter_mut().enumerate().filter(|(index, _)| *index != lead) {
            if matches!(mirror.state, MirrorState::Unknown) && !mirror.is_asked {
                mirror.is_asked = true;
                let location = Arc::clone(&mirror.location);
                self.asking.spawn(ask::ask(index, location, options.clone(), calls.clone()));
            }
        }
    }

    /// Notes the first response of the leading mirror. `is_single`: one request must deliver
    /// everything. Returns whether the mirror may lead.
    pub(in crate::download) fn opened(&mut self, info: &BlobInfo, is_single: bool) -> bool {
        let lead = self.lead;
        let has_others =
            self.all.iter().enumerate().any(|(index, m)| index != lead && m.may_join());
        let Some(mirror) = self.all.get_mut(lead) else { return false };
        mirror.info = Some(info.clone());
        if is_single && has_others {
            mirror.state = MirrorState::Reserve(SERVES_NO_RANGES);
            return false;
        }
        mirror.state = MirrorState::Ready(Known::of(info));
        if is_single {
            self.keep_in_reserve(SERVES_NO_RANGES);
        }
        true
    }

    /// Waits for the descriptions of the others for a short time, and compares them. Returns whether
    /// the leading mirror may still lead.
    ///
    /// Fails with `Integrity` if the mirrors contradict each other and no majority decides.
    pub(in crate::download) async fn settle(
        &mut self,
        options: &ShardedDownloadOptions,
    ) -> Result<bool> {
        if !self.are_several() {
            return Ok(true);
        }
        let until = Instant::now() + SETTLE_MAX;
        while let Ok(Some(joined)) = timeout_at(until, self.asking.join_next()).await {
            // A task that panicked has no answer; its message is on standard error.
            if let Ok(answer) = joined {
                self.note(answer);
            }
        }
        self.compare(options)?;
        Ok(self.all.get(self.lead).is_some_and(Mirror::is_ready))
    }

    /// Handles an answer that came while the transfer runs.
    pub(in crate::download) fn on_answer(
        &mut self,
        answer: Option<Answer>,
        options: &ShardedDownloadOptions,
    ) -> Result<()> {
        if let Some(answer) = answer {
            self.note(answer);
        }
        self.compare(options)?;
        if self.is_gone() { Err(self.all_failed()) } else { Ok(()) }
    }

    fn note(&mut self, answer: Answer) {
        let Some(mirror) = self.all.get_mut(answer.index) else { return };
        if answer.index == self.lead || !matches!(mirror.state, MirrorState::Unknown) {
            return;
        }
        match answer.description {
            Err(error) => self.set_failed(answer.index, &error),
            Ok(description) => {
                let info = description.info;
                let is_pinned = info.version.is_some() && info.len_bytes.is_some();
                if description.ignores_ranges || !is_pinned {
                    mirror.state = MirrorState::Reserve(SERVES_NO_RANGES);
                }
                mirror.info = Some(info);
            }
        }
    }

    /// Compares the descriptions of all that have answered. Those that agree are ready.
    fn compare(&mut self, options: &ShardedDownloadOptions) -> Result<()> {
        let lead = self.lead;
        let order = std::iter::once(lead).chain((0..self.all.len()).filter(|i| *i != lead));
        // Bytes of a mirror that failed later are in the target, too.
        let counts = |index: usize, mirror: &Mirror| {
            let delivers = mirror.may_join() || mirror.delivered_bytes() > 0;
            mirror.info.is_some() && (index == lead || delivers)
        };
        let indexes: Vec<usize> = order
            .filter(|index| self.all.get(*index).is_some_and(|mirror| counts(*index, mirror)))
            .collect();
        let claims: Vec<Claim<'_>> = indexes
            .iter()
            .filter_map(|index| self.all.get(*index))
            .filter_map(|m| m.info.as_ref().map(|info| Claim { name: m.name(), info }))
            .collect();
        let odd = agree::odd_ones(&claims, &options.expected)?;
        for (index, error) in odd {
            if let Some(index) = indexes.get(index) {
                self.set_failed(*index, &error);
            }
        }
        for mirror in &mut self.all {
            if let (MirrorState::Unknown, Some(info)) = (&mirror.state, &mirror.info) {
                mirror.state = MirrorState::Ready(Known::of(info));
            }
        }
        Ok(())
    }

    /// A checksum of the whole blob that another ready mirror declares.
    pub(in crate::download) fn declared(&self) -> Vec<StoredChecksum> {
        let ready = self.all.iter().filter(|mirror| mirror.is_ready());
        let mut infos = ready.filter_map(|mirror| mirror.info.as_ref());
        let declares = |info: &&BlobInfo| agree::verifiable(info).next().is_some();
        infos
            .find(declares)
            .map_or_else(Vec::new, |info| agree::verifiable(info).cloned().collect())
    }

    /// Waits for the next answer; `None` if the task of a question has ended without one.
    /// Cancel-safe.
    pub(in crate::download) async fn answered(&mut self) -> Option<Answer> {
        match self.asking.join_next().await {
            Some(joined) => joined.ok(),
            None => std::future::pending().await,
        }
    }
}
