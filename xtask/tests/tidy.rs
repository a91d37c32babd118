//! The repository obeys its tidy rules. Examples of good and bad code are in the file of each rule.
//!
//! | promise | test |
//! |---|---|
//! | no Rust file has more than 450 lines | `file_length` |
//! | no function is exempt from Clippy's limit of 70 lines | `function_length` |
//! | counts of words that the style guide rules out never rise | `plain_words` |
//! | all process-wide state is in a list, with reasons | `statics` |
//! | no mark of unfinished work | `todos` |
//! | no two types of the engine share a name | `type_names` |
//! | every rule has a test here | `every_rule_has_a_test` |

#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]

use xtask::tidy::{self, RULES, Tree};

/// The rules that have a test below.
const TESTED: &[&str] =
    &["file_length", "function_length", "plain_words", "statics", "todos", "type_names"];

fn obeys(name: &str) {
    let rule = RULES.iter().find(|rule| rule.name == name).unwrap();
    let root = tidy::root();
    let failure = rule.failure(&root, &Tree::read(&root).unwrap()).unwrap();
    assert!(failure.is_none(), "{}", failure.unwrap_or_default());
}

#[test]
fn file_length() {
    obeys("file_length");
}

#[test]
fn function_length() {
    obeys("function_length");
}

#[test]
fn plain_words() {
    obeys("plain_words");
}

#[test]
fn statics() {
    obeys("statics");
}

#[test]
fn todos() {
    obeys("todos");
}

#[test]
fn type_names() {
    obeys("type_names");
}

#[test]
fn every_rule_has_a_test() {
    assert!(RULES.iter().map(|rule| rule.name).eq(TESTED.iter().copied()));
}
