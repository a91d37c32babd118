//! Functions of at most 70 lines.
//!
//! Clippy counts them (`too_many_lines`, without comments and blank lines), and `.ci/run` denies
//! its warnings. This rule checks only that Clippy has this limit and that no code is exempt from
//! it.

use crate::tidy::{Finding, Rule, Tree};

pub(super) const RULE: Rule = Rule {
    name: "function_length",
    reason: "a function that fits on a screen is read at once, and its length is a limit only without exemptions",
    find,
    ratchet: false,
};

const LIMIT: &str = "too-many-lines-threshold = 70";
const LINT: &str = concat!("clippy::", "too_many_lines");

fn find(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    let finding = |place: String, message: &str| Finding {
        key: place.clone(),
        weight: 1,
        place,
        message: message.to_owned(),
    };
    let clippy = tree.files.iter().find(|file| file.path == "clippy.toml");
    if !clippy.is_some_and(|file| file.text.lines().any(|line| line == LIMIT)) {
        findings.push(finding("clippy.toml".into(), &format!("expected the line `{LIMIT}`")));
    }
    for file in tree.rust() {
        for (number, _) in (1..).zip(file.text.lines()).filter(|(_, line)| line.contains(LINT)) {
            let place = format!("{}:{number}", file.path);
            findings.push(finding(place, "no function is exempt from the limit; split it"));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::super::tree;
    use super::*;

    #[test]
    fn the_limit_must_stand() {
        assert!(find(&tree("clippy.toml", "too-many-lines-threshold = 70\n")).is_empty());
        assert_eq!(find(&tree("clippy.toml", "too-many-lines-threshold = 700\n")).len(), 1);
        assert_eq!(find(&Tree::default()).len(), 1);
    }

    #[test]
    fn no_function_is_exempt() {
        let mut bad = tree("clippy.toml", "too-many-lines-threshold = 70\n");
        let text = format!("//! Doc.\n#[expect({LINT}, reason = \"long\")]\nfn long() {{}}\n");
        bad.files.extend(tree("a.rs", &text).files);
        let found = find(&bad);
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].place, "a.rs:2");
    }
}
