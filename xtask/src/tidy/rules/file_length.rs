//! Files of at most 450 lines.
//!
//! The style guide asks at 400 lines whether a file should be two. The rule allows 50 more, so that
//! a file is split between two ideas and not where a change happens to exceed 400 lines.

use crate::tidy::{Finding, Rule, Tree};

pub(super) const RULE: Rule = Rule {
    name: "file_length",
    reason: "a file is one idea, and a reader holds some 400 lines in mind",
    find,
    ratchet: true,
};

/// The best of the codebases that we learn from have a 90th percentile of about 400.
const LINES_MAX: usize = 450;

fn find(tree: &Tree) -> Vec<Finding> {
    let long = tree.rust().filter_map(|file| {
        let lines = file.text.lines().count();
        (lines > LINES_MAX).then(|| Finding {
            key: file.path.clone(),
            weight: lines,
            place: file.path.clone(),
            message: format!("{lines} lines, at most {LINES_MAX}; split it by its ideas"),
        })
    });
    long.collect()
}

#[cfg(test)]
mod tests {
    use super::super::tree;
    use super::*;

    #[test]
    fn a_file_may_have_450_lines() {
        assert!(find(&tree("a.rs", &"//\n".repeat(450))).is_empty());
        let found = find(&tree("a.rs", &"//\n".repeat(451)));
        assert_eq!((found.len(), found[0].weight), (1, 451));
        assert!(find(&tree("a.md", &"line\n".repeat(451))).is_empty(), "only code");
    }
}
