//! Finds the commands in the pages of the documentation.

/// The commands of `tidegate`.
const NAMES: [&str; 12] = [
    "cp",
    "cacheprog",
    "cat",
    "stat",
    "check",
    "config",
    "chunk",
    "serve",
    "store",
    "demo",
    "completions",
    "man",
];

/// Programs whose commands count, besides `tidegate`: those that install or build it.
const PROGRAMS: [&str; 3] = ["tidegate", "cargo", "docker"];

/// A page.
#[derive(Clone, Copy, Debug)]
pub(super) struct Page {
    pub(super) name: &'static str,
    text: &'static str,
}

pub(super) const PAGES: [Page; 4] = [
    Page { name: "README.md", text: include_str!("../../../../../README.md") },
    Page { name: "docs/command.md", text: include_str!("../../../../../docs/command.md") },
    Page { name: "docs/uploads.md", text: include_str!("../../../../../docs/uploads.md") },
    Page { name: "docs/serve.md", text: include_str!("../../../../../docs/serve.md") },
];

impl Page {
    /// The commands of the page, without comments. They are
    ///
    /// - the lines of blocks of code that run one of [`PROGRAMS`], also behind a pipe;
    /// - in the text, spans of code that begin with `tidegate`;
    /// - in the first cell of a row, spans that begin with the name of a command, as in
    ///   `cp SOURCE... TARGET`: these get `tidegate` in front.
    pub(super) fn commands(self) -> Vec<String> {
        let mut commands = Vec::new();
        let (mut fence, mut continued) = (None, String::new());
        for line in self.text.lines() {
            if let Some(language) = line.trim_start().strip_prefix("```") {
                fence = if fence.is_none() { Some(language.trim()) } else { None };
                continue;
            }
            match fence {
                Some("" | "sh" | "bash" | "console" | "shell") => {}
                Some(_) => continue,
                None if line.starts_with("    ") => {}
                None => {
                    commands.extend(spans(line));
                    continue;
                }
            }
            let text = without_comment(line).trim();
            if let Some(begun) = text.strip_suffix('\\') {
                continued.push_str(begun);
                continue;
            }
            let command = std::mem::take(&mut continued) + text;
            let command = command.strip_prefix("$ ").unwrap_or(&command);
            if command.split('|').any(|part| PROGRAMS.contains(&program(part))) {
                commands.push(command.to_owned());
            }
        }
        commands
    }
}

/// The program that this part of a pipe runs, after variables that are set for it.
fn program(part: &str) -> &str {
    let is_variable = |word: &&str| {
        word.split_once('=')
            .is_some_and(|(name, _)| name.chars().all(|c| c.is_ascii_uppercase() || c == '_'))
    };
    part.split_whitespace().find(|word| !is_variable(word)).unwrap_or_default()
}

/// A comment begins at a `#` at the start or after a space.
fn without_comment(line: &str) -> &str {
    if line.trim_start().starts_with('#') {
        return "";
    }
    line.split(" #").next().unwrap_or_default()
}

/// The commands in a line of text.
fn spans(line: &str) -> Vec<String> {
    let first_cell = line.strip_prefix('|').and_then(|row| row.split('|').next());
    let code = |text: &str| {
        let spans = text.split('`').skip(1).step_by(2);
        spans.map(str::to_owned).collect::<Vec<_>>()
    };
    let named = code(first_cell.unwrap_or_default()).into_iter();
    let is_name = |span: &String| NAMES.contains(&span.split(' ').next().unwrap_or_default());
    let named = named.filter(is_name).map(|span| format!("tidegate {span}"));
    code(line).into_iter().filter(|span| span.starts_with("tidegate ")).chain(named).collect()
}

#[test]
fn commands_are_found_in_code_tables_and_text() {
    let text = "\
# The command `tidegate`

Type `tidegate stat URL`, not `stat` or `cp --x`; `rm -r`.

    # A comment with tidegate cp
    tidegate cp a b    # why
    ls | tidegate cat - | wc
    AWS_PROFILE=x tidegate cp \\
        a b
    echo tidegate

```
cargo build
1.5 MiB of tidegate
```

```rust
tidegate cp no code
```

| command | `tidegate x` |
|---|---|
| `cp A B`, `other`, `man` | `cat C` |
";
    let found = Page { name: "page", text }.commands();
    let expected = [
        "tidegate stat URL",
        "tidegate cp a b",
        "ls | tidegate cat - | wc",
        "AWS_PROFILE=x tidegate cp a b",
        "cargo build",
        "tidegate x",
        "tidegate cp A B",
        "tidegate man",
    ];
    assert_eq!(found, expected);
}
