//! The rules, one a file.

mod file_length;
mod function_length;
mod plain_words;
mod statics;
mod todos;
mod type_names;

use super::Rule;

/// All of them.
pub const RULES: &[Rule] = &[
    file_length::RULE,
    function_length::RULE,
    plain_words::RULE,
    statics::RULE,
    todos::RULE,
    type_names::RULE,
];

/// A tree of one file, for the examples.
#[cfg(test)]
fn tree(path: &str, text: &str) -> super::Tree {
    super::Tree { files: vec![super::File { path: path.into(), text: text.into() }] }
}
