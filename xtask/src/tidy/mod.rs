//! The tidy rules: what the style guide asks for and no lint checks.
//!
//! Each rule is a file in `rules`, with its reason. A rule lists its findings in a [`Tree`] of
//! files. Some rules have a [`Ratchet`]: a checked-in count for each folder, file or name, which
//! may fall and never rise. A rule without one allows no finding.

mod ratchet;
mod rules;
mod tree;

use std::fmt;
use std::path::{Path, PathBuf};

pub use self::ratchet::Ratchet;
pub use self::rules::RULES;
pub use self::tree::{File, Tree};

/// Findings printed in full for one key. More would hide the other keys.
const SHOWN_MAX: usize = 12;

/// One rule.
#[derive(Debug)]
pub struct Rule {
    /// The rule's name, and the name of its file of counts.
    pub name: &'static str,
    /// Why the rule exists, in one sentence.
    pub reason: &'static str,
    /// Lists the violations in the order of the files.
    pub find: fn(&Tree) -> Vec<Finding>,
    /// Whether counts of findings are checked in.
    pub ratchet: bool,
}

/// One violation of a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The unit of counting: a folder, a file, a name.
    pub key: String,
    /// How much this finding adds to the count of its key.
    pub weight: usize,
    /// A path, with a line if the finding has one: `crates/core/src/range.rs:12`.
    pub place: String,
    /// The violation and how to repair it.
    pub message: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.message)
    }
}

impl Rule {
    /// The counts that are checked in for this rule.
    pub fn allowed(&self, root: &Path) -> std::io::Result<Ratchet> {
        if self.ratchet { Ratchet::read(root, self.name) } else { Ok(Ratchet::default()) }
    }

    /// The message if the tree violates this rule.
    pub fn failure(&self, root: &Path, tree: &Tree) -> std::io::Result<Option<String>> {
        let findings = (self.find)(tree);
        let allowed = self.allowed(root)?;
        let lines = self.complaints(&allowed, &findings);
        Ok((!lines.is_empty())
            .then(|| format!("tidy rule {}: {}\n  {}", self.name, self.reason, lines.join("\n  "))))
    }

    /// A line for each finding above the allowed count, and for each count that is too high.
    fn complaints(&self, allowed: &Ratchet, findings: &[Finding]) -> Vec<String> {
        let actual = Ratchet::of(findings);
        let mut lines = Vec::new();
        for (key, count, count_max) in actual.compare(allowed) {
            if count < count_max {
                lines.push(format!(
                    "{key}: the count fell from {count_max} to {count}; lower it: cargo xtask tidy --update"
                ));
                continue;
            }
            if self.ratchet {
                lines.push(format!(
                    "{key}: {count}, allowed {count_max}; all of them: cargo xtask tidy --list"
                ));
            }
            let of_key = findings.iter().filter(|finding| finding.key == key);
            lines.extend(of_key.take(SHOWN_MAX).map(ToString::to_string));
        }
        lines
    }
}

/// The root of the repository.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

#[cfg(test)]
mod tests {
    use super::*;

    const RULE: Rule =
        Rule { name: "rule", reason: "because", find: |_| Vec::new(), ratchet: true };

    fn findings(count: usize) -> Vec<Finding> {
        let finding = |at| Finding {
            key: "src".into(),
            weight: 1,
            place: format!("src/a.rs:{at}"),
            message: "wrong".into(),
        };
        (0..count).map(finding).collect()
    }

    #[test]
    fn the_allowed_count_passes_and_no_other_does() {
        let allowed = Ratchet::of(&findings(2));
        assert!(RULE.complaints(&allowed, &findings(2)).is_empty());
        let risen = RULE.complaints(&allowed, &findings(3));
        assert!(risen[0].contains("src: 3, allowed 2"), "{risen:?}");
        assert_eq!(risen[1], "src/a.rs:0: wrong");
        for fewer in [0, 1] {
            let fallen = RULE.complaints(&allowed, &findings(fewer));
            assert!(fallen[0].contains("--update"), "{fallen:?}");
        }
    }

    #[test]
    fn without_counts_one_finding_fails() {
        assert!(RULE.complaints(&Ratchet::default(), &[]).is_empty());
        assert_eq!(RULE.complaints(&Ratchet::default(), &findings(1)).len(), 2);
    }
}
