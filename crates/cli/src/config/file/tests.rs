//! Unit tests of the format.

use super::*;

fn read(text: &str) -> Result<Vec<Layer>, Flaw> {
    Reader::new(text, Path::new("/etc/tidegate")).layers()
}

fn flaw(text: &str) -> (usize, String) {
    let flaw = read(text).unwrap_err();
    (flaw.line, flaw.message)
}

#[test]
fn values_are_those_of_flags_and_keep_their_lines() {
    let text = "[defaults]\nretries = 3\nstall = \"1m\"\n\n[url.\"s3://b/models/\"]\n\
                anonymous = true\nca-cert = [\"a.pem\", \"/b.pem\"]\n";
    let layers = read(text).unwrap();
    let found: Vec<_> = layers
        .iter()
        .flat_map(|layer| layer.entries.iter().map(move |entry| (layer, entry)))
        .map(|(layer, entry)| {
            let prefix = layer.prefix.as_ref().map(ToString::to_string);
            (prefix, entry.setting.name, entry.values.join(","), entry.line)
        })
        .collect();
    let b = || Some("s3://b/models".to_owned());
    let expected = [
        (None, "retries", "3".to_owned(), 2),
        (None, "stall", "1m".to_owned(), 3),
        (b(), "anonymous", "true".to_owned(), 6),
        (b(), "ca-cert", "/etc/tidegate/a.pem,/b.pem".to_owned(), 7),
    ];
    assert_eq!(found, expected);
}

#[test]
fn every_flaw_has_its_line() {
    for (text, line, part) in [
        ("[defaults]\nretries = \n", 2, ""),
        ("\n[default]\n", 2, "unknown name default"),
        ("[defaults]\n\nretires = 3\n", 3, "unknown setting retires"),
        ("[defaults]\nretries = 0\n", 2, "retries: 0 is not in 1..="),
        ("[defaults]\nretries = true\n", 2, "a string or a whole number"),
        ("[defaults]\nnetrc = \"yes\"\n", 2, "true or false"),
        ("[defaults]\nverify = \"no\"\n", 2, "expected one of stored, etag"),
        ("[defaults]\nendpoint = \"http://h\"\n", 2, "not for all URLs"),
        ("[defaults.headers]\nX = \"1\"\n", 1, "sent to every server"),
        ("[url.\"s3://b\"]\nmemory = \"1G\"\n", 2, "for the whole command"),
        ("[url.\"s3://b\"]\nnetrc = true\n", 2, "no effect on s3://"),
        ("[url.\"s3://b\"]\nprofile = \"a\"\nanonymous = true\n", 2, "exclude each other"),
        ("[url.\"ftp://b\"]\n", 1, "a prefix begins with"),
        ("[url.\"https://u:s3cret@h\"]\n", 1, "no password"),
        ("[url.\"https://H\"]\n[url.\"https://h/\"]\n", 1, "the same prefix"),
        ("[url.\"https://h\".headers]\nRange = \"x\"\n", 2, "the engine asks for ranges"),
        (
            "[url.\"https://h\".headers]\nX = { env = \"A\", file = \"b\" }\n",
            2,
            "one of env and file",
        ),
        ("[url.\"https://h\".headers]\nX = { value = \"s3cret\" }\n", 2, "unknown name value"),
    ] {
        let (at, message) = flaw(text);
        assert!(message.contains(part) && !message.contains("s3cret"), "{text}: {message}");
        // Tables are sorted: of two that clash, either may be the second.
        if !part.contains("same prefix") && !part.contains("exclude") {
            assert_eq!(at, line, "{text}: {message}");
        }
    }
}

#[test]
fn a_literal_header_may_be_a_secret() {
    let text = "[url.\"https://h\".headers]\nX-Team = \"a\"\nX-Api-Key = \"b\"\n\
                Cookie = { env = \"C\" }\n";
    let layers = read(text).unwrap();
    let secret: Vec<&str> = layers[0]
        .headers
        .iter()
        .filter(|header| header.is_literal_secret())
        .map(|header| header.name.as_str())
        .collect();
    assert_eq!(secret, ["x-api-key"]);
}
