//! A type's name is unique in the engine, unless the type is private to its file.
//!
//! The rule counts declarations with any `pub`, in rustfmt's layout, outside tests. A type without
//! `pub` may share its name with other types, because no other file can name it.

use std::collections::BTreeMap;

use crate::tidy::{Finding, Rule, Tree};

pub(super) const RULE: Rule = Rule {
    name: "type_names",
    reason: "a reader who meets a name in an import, an error or a backtrace must know which type it is",
    find: |tree| find(tree, ALLOWED),
    ratchet: true,
};

const FOLDER: &str = "crates/engine/src/";

const KINDS: &[&str] = &["struct", "enum", "trait", "type", "union"];

/// Names that several types may share permanently, with the reason. A type that is to be renamed is
/// not listed here but counted.
const ALLOWED: &[(&str, &str)] = &[];

fn find(tree: &Tree, allowed: &[(&str, &str)]) -> Vec<Finding> {
    let mut places: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for file in tree.rust().filter(|file| file.path.starts_with(FOLDER)) {
        for (number, line) in file.lines_of_product() {
            if let Some(name) = declared(line) {
                places.entry(name).or_default().push(format!("{}:{number}", file.path));
            }
        }
    }
    places.retain(|_, places| places.len() > 1);
    let mut findings = Vec::new();
    for (name, _) in allowed.iter().filter(|(name, _)| !places.contains_key(name)) {
        findings.push(Finding {
            key: (*name).to_owned(),
            weight: 1,
            place: file!().to_owned(),
            message: format!("`{name}` is unique by now; take it off the list"),
        });
    }
    places.retain(|name, _| !allowed.iter().any(|(allowed, _)| allowed == name));
    for (name, places) in places {
        let count = places.len();
        findings.extend(places.into_iter().map(|place| Finding {
            key: name.to_owned(),
            weight: 1,
            place,
            message: format!(
                "one of {count} types named `{name}`; say in the name what it is, or make it private to its file"
            ),
        }));
    }
    findings
}

/// The name of the type that a line declares with any `pub`.
fn declared(line: &str) -> Option<&str> {
    let mut words = line.trim_start().strip_prefix("pub")?.split_whitespace().peekable();
    // `pub(in a::b)` is two words.
    words.next_if(|word| word.starts_with('('));
    words.next_if(|word| word.ends_with(')'));
    words.next_if_eq(&"unsafe");
    words.next().filter(|word| KINDS.contains(word))?;
    let name = words.next()?;
    name.split(|c: char| !(c.is_alphanumeric() || c == '_')).next()
}

#[cfg(test)]
mod tests {
    use super::super::tree;
    use super::*;

    fn of(first: &str, second: &str, allowed: &[(&str, &str)]) -> Vec<String> {
        let mut both = tree("crates/engine/src/a.rs", first);
        both.files.extend(tree("crates/engine/src/b/c.rs", second).files);
        find(&both, allowed).into_iter().map(|finding| finding.key).collect()
    }

    #[test]
    fn two_types_of_one_name_are_found() {
        let twice = ["State", "State"];
        assert_eq!(of("pub struct State {\n", "pub(crate) enum State {\n", &[]), twice);
        assert_eq!(of("pub(super) type State = u8;\n", "pub trait State: Send {\n", &[]), twice);
        assert_eq!(of("pub(in crate::a) struct State<T>(T);\n", "pub union State {\n", &[]), twice);
        assert_eq!(of("pub struct State;\npub unsafe trait State {}\n", "", &[]), twice);
    }

    #[test]
    fn private_types_and_those_of_tests_may_share_a_name() {
        assert!(of("struct State;\n", "pub struct State;\n", &[]).is_empty());
        assert!(
            of("pub struct State;\n", "pub struct Stated;\npub fn state() {}\n", &[]).is_empty()
        );
        let test = "#[cfg(test)]\nmod tests {\n    pub struct State;\n}\n";
        assert!(of("pub struct State;\n", test, &[]).is_empty());
    }

    #[test]
    fn an_allowed_name_passes_while_it_is_needed() {
        let allowed = &[("State", "an example")];
        assert!(of("pub struct State;\n", "pub struct State;\n", allowed).is_empty());
        assert_eq!(of("pub struct State;\n", "", allowed), ["State"]);
    }
}
