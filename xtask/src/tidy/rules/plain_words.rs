//! Words that the style guide rules out: indirect subjects, metaphors, chained relative clauses.
//!
//! The rule counts words in comments, messages, documents and names, because readers see all of
//! them. It splits names at capitals and underscores. It ignores line breaks, so that it also finds
//! a phrase that is broken over two lines.

use std::collections::HashMap;

use crate::tidy::{Finding, Rule, Tree};

pub(super) const RULE: Rule = Rule {
    name: "plain_words",
    reason: "readers are engineers in a hurry, many not native speakers: subject, verb, object, and the field's standard term",
    find,
    ratchet: true,
};

/// This folder contains the words themselves.
const FOLDER_SKIPPED: &str = "xtask/src/tidy/";
/// The maximum number of folders in a key: `crates/engine/src/chunked`.
const FOLDERS_MAX: usize = 4;

const NAME_THE_ACTOR: &str = "name the actor: the writer, the leader, the caller";
const STANDARD_TERM: &str = "write the field's standard term";
const SHORT_SENTENCE: &str = "make it a sentence of its own";

/// The words that are ruled out, in all their forms, and the advice for each.
const WORDS: &[(&[&str], &str)] = &[
    (&["whoever"], NAME_THE_ACTOR),
    (&["nobody"], "name the actor, with a plain negation: no caller, no other task"),
    (&["somebody"], NAME_THE_ACTOR),
    (&["anybody", "everybody"], NAME_THE_ACTOR),
    (&["trouble", "troubles"], "error, failure, fault"),
    (&["duty", "duties"], "leader, task, or what is to be done"),
    (&["doubt", "doubts"], "verification, or what is not known"),
    (&["hear", "hears", "heard"], "wait for, receive"),
    (&["pour", "pours", "poured", "pouring"], "stream, copy"),
    (&["blame", "blames", "blamed"], "error context, cause"),
    (&["company"], STANDARD_TERM),
    (&["way up", "way down"], "upload, download"),
    (&["told"], "say who gives what: the caller passes, the server reports"),
    (&["so many"], "name the number"),
    (&["for want of"], "without"),
    (&["to be had"], "available"),
    (&["of which"], SHORT_SENTENCE),
    (&["such as are"], SHORT_SENTENCE),
    (&["no say in"], "does not affect"),
    (&["need not be"], "may, can"),
];

fn find(tree: &Tree) -> Vec<Finding> {
    let phrases = phrases();
    let files = tree.files.iter().filter(|file| !file.path.starts_with(FOLDER_SKIPPED));
    let mut findings = Vec::new();
    for file in files {
        let words = words(&file.text);
        for (at, (number, first)) in words.iter().enumerate() {
            for (later, instead) in phrases.get(first.as_str()).into_iter().flatten() {
                let next = words[at + 1..].iter().map(|(_, word)| word.as_str());
                if next.take(later.len()).eq(later.iter().copied()) {
                    findings.push(Finding {
                        key: folder(&file.path).to_owned(),
                        weight: 1,
                        place: format!("{}:{number}", file.path),
                        message: format!(
                            "\"{}\": {instead}",
                            [&[first.as_str()], &later[..]].concat().join(" ")
                        ),
                    });
                }
            }
        }
    }
    findings
}

/// Phrases by their first word: the later words and the advice. Few words of a text are a first
/// word, so most need only one lookup.
type Phrases = HashMap<&'static str, Vec<(Vec<&'static str>, &'static str)>>;

fn phrases() -> Phrases {
    let mut phrases = Phrases::new();
    for (forms, instead) in WORDS {
        for form in *forms {
            let (first, later) = form.split_once(' ').unwrap_or((form, ""));
            let later = later.split_whitespace().collect();
            phrases.entry(first).or_default().push((later, *instead));
        }
    }
    phrases
}

/// The words of a text in lower case, each with its line.
fn words(text: &str) -> Vec<(usize, String)> {
    let mut words = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        let mut word = String::new();
        let mut was_lower = false;
        for c in line.chars().chain([' ']) {
            let ends = !c.is_alphabetic() || (was_lower && c.is_uppercase());
            if ends && !word.is_empty() {
                words.push((number, std::mem::take(&mut word)));
            }
            if c.is_alphabetic() {
                word.extend(c.to_lowercase());
            }
            was_lower = c.is_lowercase();
        }
    }
    words
}

/// The first folders of a path; `.` for the root's own files.
fn folder(path: &str) -> &str {
    let Some((folder, _)) = path.rsplit_once('/') else { return "." };
    match folder.match_indices('/').nth(FOLDERS_MAX - 1) {
        Some((end, _)) => &folder[..end],
        None => folder,
    }
}

#[cfg(test)]
mod tests {
    use super::super::tree;
    use super::*;

    fn found(text: &str) -> Vec<String> {
        let findings = find(&tree("crates/engine/src/a/b/c.rs", text));
        findings.into_iter().map(|finding| format!("{finding}")).collect()
    }

    #[test]
    fn every_form_is_found() {
        for form in WORDS.iter().flat_map(|(forms, _)| *forms) {
            let found = found(&format!("// The reader, {form}, waits.\n"));
            assert_eq!(found.len(), 1, "{form}");
            assert!(found[0].contains(&format!("\"{form}\"")), "{found:?}");
        }
    }

    #[test]
    fn names_and_broken_phrases_are_found() {
        assert_eq!(found("struct LeaderDuty;\n").len(), 1);
        assert_eq!(found("fn hear_from(nobody: u8) {}\n").len(), 2);
        let broken = found("    /// A list, some of\n    /// which are empty.\n");
        assert!(broken[0].starts_with("crates/engine/src/a/b/c.rs:1: \"of which\""), "{broken:?}");
    }

    #[test]
    fn plain_words_and_parts_of_words_are_not() {
        assert!(found("// Undoubtedly, followers wait, of course; accompany them.\n").is_empty());
        assert!(found("fn shear(Needy: NotBeing) {}\n").is_empty());
        assert!(found("// The writer holds a permit.\nstruct DownloadState;\n").is_empty());
    }

    #[test]
    fn a_count_is_of_a_folder() {
        assert_eq!(folder("README.md"), ".");
        assert_eq!(folder("docs/a.md"), "docs");
        assert_eq!(folder("crates/engine/src/lib.rs"), "crates/engine/src");
        assert_eq!(
            folder("crates/engine/src/chunked/download/run.rs"),
            "crates/engine/src/chunked"
        );
        assert_eq!(folder("crates/engine/src/chunked/mod.rs"), "crates/engine/src/chunked");
    }
}
