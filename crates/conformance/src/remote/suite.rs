//! The result of a suite: the promises that were kept, and those that were broken.

use std::fmt;

/// The result of a check: an error gives the promised and the actual outcome.
pub(crate) type Outcome = Result<(), String>;

/// A promise that was not kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Broken {
    /// The promise that every remote must keep.
    pub promise: &'static str,
    /// What this remote did.
    pub found: String,
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "promise: {}\n  found: {}", self.promise, self.found)
    }
}

/// The result of a suite.
#[derive(Clone, Debug, Default)]
#[must_use = "the checks fail only if the result is read"]
pub struct Report {
    /// Promises that were kept.
    pub kept: Vec<&'static str>,
    /// Promises that were not.
    pub broken: Vec<Broken>,
}

impl Report {
    pub(crate) fn add(&mut self, promise: &'static str, outcome: Outcome) {
        match outcome {
            Ok(()) => self.kept.push(promise),
            Err(found) => self.broken.push(Broken { promise, found }),
        }
    }

    pub(crate) fn extend(&mut self, other: Self) {
        self.kept.extend(other.kept);
        self.broken.extend(other.broken);
    }

    /// Checks that every promise was kept. `remote` names what was tested.
    ///
    /// # Panics
    ///
    /// If a promise is broken, with all broken promises; and if nothing was checked.
    pub fn assert_kept(&self, remote: &str) {
        let broken: Vec<String> = self.broken.iter().map(ToString::to_string).collect();
        let count = broken.len();
        assert!(broken.is_empty(), "{remote}: {count} broken\n{}", broken.join("\n"));
        assert!(!self.kept.is_empty(), "{remote}: nothing was checked");
    }
}

/// Ends a check if a condition does not hold.
macro_rules! ensure {
    ($condition:expr, $($text:tt)+) => {
        if !$condition {
            return Err(format!($($text)+));
        }
    };
}
pub(super) use ensure;

/// The value of a call that must succeed; otherwise an error that names the call.
pub(super) fn worked<T>(call: &str, result: tidegate::Result<T>) -> Result<T, String> {
    result.map_err(|error| format!("{call} failed: {}", error.chain()))
}

/// Checks that a call failed with an error of one of these kinds.
pub(super) fn failed<T>(
    call: &str,
    result: tidegate::Result<T>,
    kinds: &[tidegate::ErrorKind],
) -> Outcome {
    match result {
        Ok(_) => Err(format!("{call} succeeded, expected {kinds:?}")),
        Err(error) if kinds.contains(&error.kind()) => Ok(()),
        Err(error) => {
            Err(format!("{call}: expected {kinds:?}, got {:?}: {}", error.kind(), error.chain()))
        }
    }
}
