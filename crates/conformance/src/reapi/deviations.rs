//! [`Deviations`]: what a server does differently, and why. The lists of servers of others are in
//! `deviations` of this crate.

use std::collections::BTreeMap;

use crate::remote::{Broken, Report};

/// The promises that a server does not keep, with reasons: a JSON object of sentences.
#[derive(Clone, Debug, Default)]
pub struct Deviations(BTreeMap<String, String>);

impl Deviations {
    /// Reads the object. Fails if it is not one of strings, or a reason is empty.
    pub fn from_json(json: &str) -> Result<Self, String> {
        let reasons: BTreeMap<String, String> =
            serde_json::from_str(json).map_err(|error| error.to_string())?;
        match reasons.iter().find(|(_, reason)| reason.trim().is_empty()) {
            Some((promise, _)) => Err(format!("no reason for the deviation '{promise}'")),
            None => Ok(Self(reasons)),
        }
    }

    /// The report without the deviations. A deviation that the server does not show is broken, so
    /// that the list stays true.
    pub fn apply(&self, mut report: Report) -> Report {
        let mut unseen = self.0.clone();
        report.broken.retain(|broken| unseen.remove(broken.promise).is_none());
        report.broken.extend(unseen.into_keys().map(|promise| Broken {
            promise: "a listed deviation is one of the server",
            found: format!("it keeps, or was not asked for: {promise}"),
        }));
        report
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report() -> Report {
        let mut report = Report::default();
        report.add("kept", Ok(()));
        report.add("broken", Err("other".to_owned()));
        report
    }

    #[test]
    fn a_list_of_deviations_stays_true() {
        let applied = |json| Deviations::from_json(json).unwrap().apply(report()).broken;
        assert_eq!(applied("{}").len(), 1);
        assert_eq!(applied(r#"{"broken": "a reason"}"#), []);
        assert_eq!(applied(r#"{"broken": "a reason", "kept": "a reason"}"#).len(), 1);
        assert!(Deviations::from_json(r#"{"broken": " "}"#).is_err());
        assert!(Deviations::from_json("[]").is_err());
    }
}
