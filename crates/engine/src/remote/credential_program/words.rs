//! Splits a command into words as the AWS CLI does: by a shell's rules for quotes and backslashes,
//! without a shell. Variables, `~` and wildcards stay as they are, and `#` starts no comment.
//!
//! Source: Python's `shlex.split`, which the AWS CLI uses; quoting as in POSIX, "Shell Command
//! Language", section 2.2.

/// The words of `command`; an error says which quote or backslash has no end.
pub(super) fn words(command: &str) -> Result<Vec<String>, &'static str> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut rest = command.chars();
    while let Some(c) = rest.next() {
        if matches!(c, ' ' | '\t' | '\r' | '\n') {
            words.extend(word.take());
            continue;
        }
        // Quotes without content also make a word.
        let word = word.get_or_insert_default();
        match c {
            '\'' => loop {
                match rest.next().ok_or("it has a single quote without an end")? {
                    '\'' => break,
                    inner => word.push(inner),
                }
            },
            '"' => double_quoted(&mut rest, word).ok_or("it has a double quote without an end")?,
            '\\' => word.push(rest.next().ok_or("it ends in a backslash")?),
            plain => word.push(plain),
        }
    }
    words.extend(word);
    Ok(words)
}

/// Reads up to the closing quote; `None` if there is none.
fn double_quoted(rest: &mut std::str::Chars<'_>, word: &mut String) -> Option<()> {
    loop {
        match rest.next()? {
            '"' => return Some(()),
            '\\' => match rest.next()? {
                escaped @ ('"' | '\\') => word.push(escaped),
                other => word.extend(['\\', other]),
            },
            inner => word.push(inner),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The expected words are those of Python's `shlex.split`.
    #[test]
    fn commands_are_split_as_by_the_aws_cli() {
        let cases: [(&str, &[&str]); 9] = [
            ("", &[]),
            ("  aws  configure\texport ", &["aws", "configure", "export"]),
            ("a 'b c' \"d e\"", &["a", "b c", "d e"]),
            ("a 'b'\"c\"d", &["a", "bcd"]),
            ("a '' \"\"", &["a", "", ""]),
            (r"a\ b \' \\", &["a b", "'", r"\"]),
            (r#""a\"b\\c\d" 'e\f'"#, &[r#"a"b\c\d"#, r"e\f"]),
            ("~/bin/x $HOME * # y;z", &["~/bin/x", "$HOME", "*", "#", "y;z"]),
            ("'a \"b' \"c 'd\"", &["a \"b", "c 'd"]),
        ];
        for (command, expected) in cases {
            assert_eq!(words(command).unwrap(), expected, "{command}");
        }
    }

    #[test]
    fn an_open_quote_is_an_error() {
        for (command, part) in
            [("a 'b", "single"), ("a \"b", "double"), ("\"b\\", "double"), ("a \\", "backslash")]
        {
            assert!(words(command).unwrap_err().contains(part), "{command}");
        }
    }
}
