//! What is said about the mirrors at the end.

use super::{Mirror, MirrorState, Mirrors};
use crate::error::{Error, ErrorKind, Operation};
use crate::report::MirrorReport;

const NO_ANSWER: &str = "it did not answer in time";

impl Mirrors {
    /// The error that names every mirror with its reason.
    pub(in crate::download) fn all_failed(&self) -> Error {
        let failures = self.all.iter().filter_map(|mirror| match &mirror.state {
            MirrorState::Failed { kind, reason } => Some((*kind, mirror.name(), reason.as_str())),
            MirrorState::Reserve(why) => Some((ErrorKind::Unsupported, mirror.name(), *why)),
            MirrorState::Unknown => Some((ErrorKind::Timeout, mirror.name(), NO_ANSWER)),
            MirrorState::Ready(_) => None,
        });
        let failures: Vec<_> = failures.collect();
        let is_temporary = |kind: &ErrorKind| {
            use ErrorKind::{Exhausted, Remote, Throttled, Timeout, Transport};
            matches!(kind, Exhausted | Remote | Throttled | Timeout | Transport)
        };
        let first = failures.first().map_or(ErrorKind::Remote, |(kind, ..)| *kind);
        let is_any_temporary = failures.iter().any(|(kind, ..)| is_temporary(kind));
        let kind = if is_any_temporary { ErrorKind::Exhausted } else { first };
        let reasons: Vec<String> =
            failures.iter().map(|(_, name, reason)| format!("{name}: {reason}")).collect();
        let message = format!("all {} mirrors failed: {}", self.all.len(), reasons.join("; "));
        let error = Error::new(kind, Operation::Download, self.own_name(), message);
        let has_bytes = self.all.iter().any(|mirror| mirror.delivered_bytes() > 0);
        if is_any_temporary && !has_bytes {
            return error
                .with_hint("check the URLs and the network, then run the same command again");
        }
        error
    }

    /// The error of a blob whose checksum differs, with the mirrors that its bytes came from.
    pub(in crate::download) fn explain_mismatch(&self, error: Error) -> Error {
        let used = self.all.iter().filter(|mirror| mirror.delivered_bytes() > 0);
        let used: Vec<String> = used
            .map(|mirror| format!("{} ({} bytes)", mirror.name(), mirror.delivered_bytes()))
            .collect();
        if used.len() < 2 {
            return error;
        }
        let message = format!(
            "the bytes of {} mirrors together do not match the checksum: {}",
            used.len(),
            used.join(", ")
        );
        Error::new(ErrorKind::Integrity, Operation::Verify, self.own_name(), message)
            .caused_by(error)
            .with_hint("one of the mirrors has other bytes: try each of them alone")
    }

    fn own_name(&self) -> &str {
        self.all.first().map_or("", Mirror::name)
    }

    /// What each mirror did, if there are several.
    pub(in crate::download) fn report(&self) -> Vec<MirrorReport> {
        if !self.are_several() {
            return Vec::new();
        }
        let reports = self.all.iter().map(|mirror| MirrorReport {
            location: mirror.name().to_owned(),
            bytes: mirror.delivered_bytes(),
            unused: match &mirror.state {
                MirrorState::Ready(_) => None,
                MirrorState::Unknown => Some(NO_ANSWER.to_owned()),
                MirrorState::Reserve(why) => Some((*why).to_owned()),
                MirrorState::Failed { reason, .. } => Some(reason.clone()),
            },
        });
        reports.collect()
    }
}
