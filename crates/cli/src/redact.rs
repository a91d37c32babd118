//! Removes possible secrets from text that came from the command line, and escapes control
//! characters.
//!
//! The parser quotes arguments that it does not understand, and a source URL may hold a password or
//! a signature. The engine already shows URLs without secrets; this module handles text that the
//! engine has not seen.

use tidegate_core::printable::escaped;

/// `text` in which each argument that looks like a URL is shown as [`url`] shows it, and control
/// characters in arguments are escaped.
pub(crate) fn arguments(text: &str, arguments: impl IntoIterator<Item = String>) -> String {
    let mut secrets: Vec<(String, String)> = arguments
        .into_iter()
        .flat_map(|argument| {
            // The parser quotes `--flag=VALUE` as a whole, or its value alone.
            let value = argument.split_once('=').filter(|_| argument.starts_with('-'));
            let value = value.map(|(_, value)| value.to_owned());
            [Some(argument), value].into_iter().flatten()
        })
        .flat_map(|raw| {
            let shown = escaped(&header(&url(&raw))).into_owned();
            [(escaped(&raw).into_owned(), shown.clone()), (raw, shown)]
        })
        .filter(|(raw, shown)| raw != shown)
        .collect();
    // The longest first: one argument may contain another.
    secrets.sort_by_key(|(raw, _)| std::cmp::Reverse(raw.len()));
    secrets.iter().fold(text.to_owned(), |text, (raw, shown)| text.replace(raw, shown))
}

/// `NAME: VALUE` without the value, which may be a token; other text as it is.
fn header(text: &str) -> String {
    let is_name = |name: &str| {
        name.starts_with(|c: char| c.is_ascii_alphabetic())
            && name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_'))
    };
    match text.split_once(':') {
        // A name of one letter is a drive, and a name followed by two slashes is a URL.
        Some((name, value)) if name.len() > 1 && is_name(name) && !value.starts_with("//") => {
            format!("{name}: ...")
        }
        _ => text.to_owned(),
    }
}

/// A URL without user info, query and fragment. Text without a scheme loses only the part before an
/// `@` in its first segment, which may be credentials.
pub(crate) fn url(text: &str) -> String {
    let (scheme, rest) = match text.split_once("://") {
        Some((scheme, rest)) => (format!("{scheme}://"), rest),
        None => (String::new(), text),
    };
    let authority_end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (authority, path) = rest.split_at(authority_end);
    let host = authority.rsplit('@').next().unwrap_or_default();
    if scheme.is_empty() {
        let hidden = authority.contains(':') && host != authority;
        return if hidden { format!("{host}{path}") } else { text.to_owned() };
    }
    let path = path.split(['?', '#']).next().unwrap_or_default();
    format!("{scheme}{host}{path}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_secret_goes_and_the_rest_stays() {
        for (text, shown) in [
            ("https://user:pw@host:8/a?sig=1#f", "https://host:8/a"),
            ("https://host?sig=1", "https://host"),
            ("https://p@ss:w@host/a", "https://host/a"),
            ("user:pw@host/a", "host/a"),
            ("folder/a@b:c?d", "folder/a@b:c?d"),
            ("a:b", "a:b"),
        ] {
            assert_eq!(url(text), shown);
        }
    }

    #[test]
    fn header_lines_lose_their_values() {
        let raw = ["X-Token: s3cret", "--header=X-Key:s3cret2"].map(str::to_owned);
        let text = "unexpected 'X-Token: s3cret' near '--header=X-Key:s3cret2' for 'X-Key:s3cret2'";
        let shown = arguments(text, raw);
        assert!(!shown.contains("s3cret") && shown.contains("'X-Token: ...'"), "{shown}");
        assert_eq!(header("https://host/a"), "https://host/a");
    }

    #[test]
    fn quoted_arguments_are_shortened() {
        let raw = ["--endpoint=https://u:p@h", "https://u:p@h/?s=1"].map(str::to_owned);
        let text = "bad '--endpoint=https://u:p@h' near 'https://u:p@h/?s=1', 'https://u:p@h'";
        let shown = arguments(text, raw);
        assert_eq!(shown, "bad '--endpoint=https://h' near 'https://h/', 'https://h'");
    }

    #[test]
    fn arguments_are_no_commands_to_a_terminal() {
        let raw = ["a\u{1b}[2J\nerror: b"].map(str::to_owned);
        let shown = arguments("bad 'a\u{1b}[2J\nerror: b'\n\nusage", raw);
        assert_eq!(shown, "bad 'a\\u{1b}[2J\\nerror: b'\n\nusage");
        // Secrets are also removed from text that was escaped before.
        let raw = "https://u:s3cret@h/a\nb".to_owned();
        assert_eq!(arguments("bad 'https://u:s3cret@h/a\\nb'", [raw]), "bad 'https://h/a\\nb'");
    }
}
