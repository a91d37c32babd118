//! Counts that may fall and never rise. Each rule has a text file `xtask/ratchet/RULE.txt` with a
//! key and its count on each line. The lines are sorted, so that branches merge by lines.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::Finding;

/// The count of each key. A key without findings is absent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ratchet(BTreeMap<String, usize>);

impl Ratchet {
    /// Adds up findings.
    pub fn of(findings: &[Finding]) -> Self {
        let mut counts = BTreeMap::new();
        for finding in findings {
            *counts.entry(finding.key.clone()).or_default() += finding.weight;
        }
        Self(counts)
    }

    /// Reads the counts of a rule. A missing file allows no finding.
    pub fn read(root: &Path, rule: &str) -> std::io::Result<Self> {
        let path = path(root, rule);
        match std::fs::read_to_string(&path) {
            Ok(text) => Self::parse(&text).ok_or_else(|| {
                std::io::Error::other(format!("{}: a line is not `KEY COUNT`", path.display()))
            }),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Self::default()),
            Err(error) => Err(error),
        }
    }

    /// Writes the counts of a rule.
    pub fn write(&self, root: &Path, rule: &str) -> std::io::Result<()> {
        std::fs::write(path(root, rule), self.text())
    }

    /// For each key, the lower of this count and the actual one.
    #[must_use]
    pub fn lower(&self, actual: &Self) -> Self {
        let lowered = self.0.iter().map(|(key, count)| (key.clone(), *count.min(&actual.get(key))));
        Self(lowered.filter(|(_, count)| *count > 0).collect())
    }

    /// Every key whose count differs, with its count here and its count there.
    pub(super) fn compare(&self, allowed: &Self) -> Vec<(String, usize, usize)> {
        let mut keys: Vec<_> = self.0.keys().chain(allowed.0.keys()).collect();
        keys.sort();
        keys.dedup();
        let counts = keys.into_iter().map(|key| (key.clone(), self.get(key), allowed.get(key)));
        counts.filter(|(_, count, count_max)| count != count_max).collect()
    }

    fn get(&self, key: &str) -> usize {
        self.0.get(key).copied().unwrap_or_default()
    }

    fn parse(text: &str) -> Option<Self> {
        let lines = text.lines().filter(|line| !line.is_empty());
        let entry = |line: &str| {
            let (key, count) = line.rsplit_once(' ')?;
            Some((key.to_owned(), count.parse().ok()?))
        };
        lines.map(entry).collect::<Option<_>>().map(Self)
    }

    fn text(&self) -> String {
        let lines: Vec<_> = self.0.iter().map(|(key, count)| format!("{key} {count}\n")).collect();
        lines.concat()
    }
}

fn path(root: &Path, rule: &str) -> PathBuf {
    root.join("xtask/ratchet").join(rule).with_extension("txt")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ratchet(text: &str) -> Ratchet {
        Ratchet::parse(text).unwrap()
    }

    #[test]
    fn text_is_read_as_written() {
        let text = "crates/engine/src 12\ndocs 3\n";
        assert_eq!(ratchet(text).text(), text);
        assert_eq!(Ratchet::parse("docs\n"), None);
        assert_eq!(Ratchet::parse("docs many\n"), None);
    }

    #[test]
    fn an_update_lowers_and_never_raises() {
        let actual = ratchet("fallen 1\nrisen 9\nsame 3\nnew 1\n");
        let updated = ratchet("fallen 2\nrisen 4\nsame 3\ngone 5\n").lower(&actual);
        assert_eq!(updated, ratchet("fallen 1\nrisen 4\nsame 3\n"));
    }
}
