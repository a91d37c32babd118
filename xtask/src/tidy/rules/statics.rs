//! All process-wide state is in a list, with reasons.
//!
//! The rule finds `static` items whose type or value names a type with interior mutability, and
//! `thread_local!`, outside tests and fuzz targets. It does not find a `static` whose type is one
//! of ours that contains a lock. Rust requires a `const` constructor there, and few of our types
//! have one.

use crate::tidy::{Finding, Rule, Tree};

pub(super) const RULE: Rule = Rule {
    name: "statics",
    reason: "two clients share nothing but what this list names, so that one tenant's bytes never reach another",
    find: |tree| find(tree, ALLOWED),
    ratchet: false,
};

/// Types that change behind a shared reference, or parts of their names.
const MUTABLE: &[&str] =
    &["Mutex", "RwLock", "Once", "Lazy", "Atomic", "Cell", "Condvar", "Semaphore", "Notify"];

/// File, name of the static, and why it is process-wide.
const ALLOWED: &[(&str, &str, &str)] = &[
    (
        "crates/cli/src/standard.rs",
        "CLOSED",
        "standard streams that were closed when the process began; set before `main`",
    ),
    (
        "crates/engine/src/blocking.rs",
        "DRIVER",
        "the runtime of all blocking calls, one thread; connections outlive the call that opened them",
    ),
    (
        "crates/engine/src/chunked/seed/index_writer.rs",
        "COUNT",
        "makes names of temporary files unique within the process",
    ),
    (
        "crates/engine/src/remote/local.rs",
        "IS_TAKEN",
        "a process has one standard input, and one read takes it",
    ),
    (
        "crates/engine/src/sink/file/access.rs",
        "COUNT",
        "makes names of temporary files unique within the process",
    ),
    (
        "crates/engine/src/sink/file/descriptors.rs",
        "POOL",
        "the system limits file descriptors of the process, not of a client",
    ),
    (
        "crates/engine/src/sink/file/run.rs",
        "RUNS",
        "part files in use: two clients of a process must not write one file",
    ),
    (
        "crates/engine/src/sink/file/user_key.rs",
        "COUNT",
        "makes names of temporary files unique within the process",
    ),
    (
        "crates/engine/src/transport/caller.rs",
        "KEY",
        "keys the hash of credentials, so that a caller's name tells nothing of them",
    ),
    (
        "crates/engine/src/transport/caller.rs",
        "COUNT",
        "numbers callers that have no hash, so that they share nothing",
    ),
    (
        "crates/server/src/serve/stall/stream.rs",
        "thread_local!",
        "the task of a stream reads what the body that it polled said, on one thread and in one call",
    ),
    (
        "crates/server/src/serve/stall/stream.rs",
        "RESPONSE_POLL",
        "set and taken within one poll of a task; no caller can see the cell of another",
    ),
    (
        "crates/testkit/src/reapi/chunk_function.rs",
        "GEAR",
        "a table that is computed once and never changes",
    ),
];

fn find(tree: &Tree, allowed: &[(&str, &str, &str)]) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut used = vec![false; allowed.len()];
    let crates = tree.rust().filter(|file| file.path.starts_with("crates/"));
    for file in crates {
        let mut lines = file.lines_of_product().peekable();
        while let Some((number, line)) = lines.next() {
            let Some(name) = mutable(line, lines.peek().map(|(_, next)| *next)) else { continue };
            let entry =
                allowed.iter().position(|(path, known, _)| *path == file.path && *known == name);
            match entry {
                Some(at) => used[at] = true,
                None => findings.push(Finding {
                    key: file.path.clone(),
                    weight: 1,
                    place: format!("{}:{number}", file.path),
                    message: format!(
                        "`{name}` is process-wide state; let the client own it, or list it with a reason in {}",
                        file!()
                    ),
                }),
            }
        }
    }
    for ((path, name, _), _) in allowed.iter().zip(used).filter(|(_, used)| !used) {
        findings.push(Finding {
            key: (*path).to_owned(),
            weight: 1,
            place: file!().to_owned(),
            message: format!("{path} has no static `{name}` any more; take it off the list"),
        });
    }
    findings
}

/// The name of the mutable static that begins on this line. Its type may be on the next line.
fn mutable<'a>(line: &'a str, next: Option<&str>) -> Option<&'a str> {
    let line = line.trim_start();
    if line.starts_with("thread_local!") {
        return Some("thread_local!");
    }
    let mut rest = line;
    if let Some(after) = line.strip_prefix("pub") {
        rest = match after.strip_prefix('(') {
            Some(inside) => inside.split_once(')')?.1.trim_start(),
            None => after.trim_start(),
        };
    }
    let rest = rest.strip_prefix("static ")?;
    let (name, value) = rest.split_once(':')?;
    if let Some(name) = name.strip_prefix("mut ") {
        return Some(name);
    }
    let goes_on = !value.ends_with(';');
    let has = |text: &str| MUTABLE.iter().any(|part| text.contains(part));
    (has(value) || (goes_on && next.is_some_and(has))).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::super::tree;
    use super::*;

    const PATH: &str = "crates/engine/src/a.rs";

    fn names(text: &str) -> usize {
        find(&tree(PATH, text), &[]).len()
    }

    #[test]
    fn mutable_statics_are_found() {
        assert_eq!(names("static A: AtomicU64 = AtomicU64::new(0);\n"), 1);
        assert_eq!(names("fn a() {\n    static A: Mutex<u8> = Mutex::new(0);\n}\n"), 1);
        assert_eq!(names("pub(crate) static A: OnceLock<u8> = OnceLock::new();\n"), 1);
        assert_eq!(names("static A: Pool =\n    LazyLock::new(pool);\n"), 1);
        assert_eq!(names("pub static mut A: u8 = 0;\n"), 1);
        assert_eq!(names("thread_local! {\n    static A: Cell<u8> = Cell::new(0);\n}\n"), 2);
    }

    #[test]
    fn constant_tables_and_statics_of_tests_are_none() {
        assert_eq!(names("static A: [u8; 2] = [0; 2];\nstatic B: AtomicU8 = B;\n"), 1);
        assert_eq!(names("fn a(text: &'static str, a: &AtomicU8) {}\n"), 0);
        assert_eq!(names("#[cfg(test)]\nmod tests {\n    static A: AtomicU8 = A;\n}\n"), 0);
    }

    #[test]
    fn an_allowed_static_passes_while_it_is_there() {
        let allowed = &[(PATH, "A", "an example")];
        assert!(find(&tree(PATH, "static A: AtomicU8 = A;\n"), allowed).is_empty());
        assert_eq!(find(&tree(PATH, "static B: AtomicU8 = B;\n"), allowed).len(), 2);
        assert_eq!(find(&tree(PATH, ""), allowed).len(), 1);
    }
}
