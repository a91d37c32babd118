//! No marks of unfinished work.

use crate::tidy::{Finding, Rule, Tree};

pub(super) const RULE: Rule = Rule {
    name: "todos",
    reason: "unfinished work is an issue with an owner, not a comment that stays",
    find,
    ratchet: false,
};

/// Whole words. Each is written in two parts, so that this file contains none.
const MARKS: &[&str] = &[
    concat!("TO", "DO"),
    concat!("FIX", "ME"),
    concat!("X", "XX"),
    concat!("HA", "CK"),
    concat!("todo", "!"),
    concat!("unimplemented", "!"),
];

fn find(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in &tree.files {
        for (number, line) in (1..).zip(file.text.lines()) {
            for mark in MARKS.iter().filter(|mark| has_word(line, mark)) {
                findings.push(Finding {
                    key: file.path.clone(),
                    weight: 1,
                    place: format!("{}:{number}", file.path),
                    message: format!("`{mark}`: finish it, or open an issue and remove the mark"),
                });
            }
        }
    }
    findings
}

/// Whether a line has the word with no letter, digit or `_` next to it.
fn has_word(line: &str, word: &str) -> bool {
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    line.match_indices(word).any(|(at, _)| {
        let after = &line[at + word.len()..];
        !line[..at].ends_with(is_part) && (word.ends_with('!') || !after.starts_with(is_part))
    })
}

#[cfg(test)]
mod tests {
    use super::super::tree;
    use super::*;

    #[test]
    fn each_mark_is_found() {
        for mark in MARKS {
            let found = find(&tree("a.rs", &format!("fn a() {{\n    // {mark}: later\n}}\n")));
            assert_eq!((found.len(), found[0].place.as_str()), (1, "a.rs:2"), "{mark}");
        }
    }

    #[test]
    fn parts_of_other_words_are_no_marks() {
        let template = format!("mktemp case.{}", "X".repeat(6));
        assert!(find(&tree("run", &template)).is_empty());
        assert!(find(&tree("a.rs", "let autodoc = todos(hackney);\n")).is_empty());
    }
}
