//! The files that the rules see, in the order of their paths.
//!
//! The list of files comes from the folders, not from Git or Cargo, so that the test also runs on
//! an unpacked archive. Third-party protocol definitions and generated messages are left out.

use std::path::Path;

/// Results of builds and of the fuzzer, generated messages, third-party protocol definitions.
const FOLDERS_SKIPPED: &[&str] = &[
    "target",
    "fuzz/target",
    "fuzz/corpus",
    "fuzz/artifacts",
    "fuzz/seeds",
    "crates/reapi/src/generated",
    "crates/reapi/proto",
];
/// Hidden folders that belong to the repository. Others are `.git`, caches, editors' files.
const FOLDERS_HIDDEN: &[&str] = &[".ci", ".cargo"];
/// Files without a suffix are scripts here.
const SUFFIXES: &[&str] = &["rs", "md", "toml", "sh", "py", ""];
/// The licence has no suffix, but its text is fixed.
const FILES_SKIPPED: &[&str] = &["LICENSE"];

/// A text file.
#[derive(Clone, Debug)]
pub struct File {
    /// From the root of the repository, with slashes.
    pub path: String,
    /// The whole content.
    pub text: String,
}

/// All files.
#[derive(Clone, Debug, Default)]
pub struct Tree {
    /// Sorted by path.
    pub files: Vec<File>,
}

impl Tree {
    /// Reads the repository.
    pub fn read(root: &Path) -> std::io::Result<Self> {
        let mut tree = Self::default();
        tree.read_folder(root, "")?;
        tree.files.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(tree)
    }

    fn read_folder(&mut self, folder: &Path, prefix: &str) -> std::io::Result<()> {
        for entry in std::fs::read_dir(folder)? {
            let entry = entry?;
            let Ok(name) = entry.file_name().into_string() else { continue };
            let path = format!("{prefix}{name}");
            if entry.file_type()?.is_dir() {
                if is_ours(&path, &name) {
                    self.read_folder(&entry.path(), &format!("{path}/"))?;
                }
            } else if is_text(&name) {
                self.files.push(File { path, text: std::fs::read_to_string(entry.path())? });
            }
        }
        Ok(())
    }

    /// The Rust files.
    pub(super) fn rust(&self) -> impl Iterator<Item = &File> {
        self.files.iter().filter(|file| has_suffix(&file.path, "rs"))
    }
}

impl File {
    /// Whether the whole file is test code, by its path.
    fn is_test(&self) -> bool {
        self.path.starts_with("tests/")
            || self.path.contains("/tests/")
            || self.path.ends_with("/tests.rs")
    }

    /// The lines that are not test code, with their numbers. A module of tests is the last item of
    /// its file.
    pub(super) fn lines_of_product(&self) -> impl Iterator<Item = (usize, &str)> {
        let end = if self.is_test() {
            0
        } else {
            self.text.find("#[cfg(test)]\nmod tests {").unwrap_or(self.text.len())
        };
        (1..).zip(self.text[..end].lines())
    }
}

fn is_ours(path: &str, name: &str) -> bool {
    if name.starts_with('.') {
        FOLDERS_HIDDEN.contains(&name)
    } else {
        !FOLDERS_SKIPPED.contains(&path)
    }
}

fn is_text(name: &str) -> bool {
    !name.starts_with('.')
        && !FILES_SKIPPED.contains(&name)
        && SUFFIXES.iter().any(|suffix| has_suffix(name, suffix))
}

fn has_suffix(path: &str, suffix: &str) -> bool {
    Path::new(path).extension().unwrap_or_default() == suffix
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(path: &str, text: &str) -> Vec<usize> {
        let file = File { path: path.into(), text: text.into() };
        file.lines_of_product().map(|(number, _)| number).collect()
    }

    #[test]
    fn tests_are_no_product() {
        let text = "one\ntwo\n#[cfg(test)]\nmod tests {\n}\n";
        assert_eq!(lines("crates/core/src/range.rs", text), [1, 2]);
        assert!(lines("crates/core/src/range/tests.rs", text).is_empty());
        assert!(lines("crates/core/tests/it/main.rs", text).is_empty());
    }

    #[test]
    fn the_repository_is_found_without_what_others_wrote() {
        let tree = Tree::read(&super::super::root()).unwrap();
        let has = |path: &str| tree.files.iter().any(|file| file.path == path);
        assert!(has("xtask/src/tidy/tree.rs") && has(".ci/run") && has("README.md"));
        assert!(!tree.files.iter().any(|file| file.path.contains("/generated/")));
    }
}
