//! Unit tests of the priority. Variables are tested with the command itself.

use std::path::{Path, PathBuf};

use super::super::file::Reader;
use super::*;

fn settings(text: &str, given: &[(&str, &[&str])]) -> Settings {
    let layers = Reader::new(text, Path::new("/")).layers().unwrap();
    let given = given
        .iter()
        .map(|(name, values)| ((*name).to_owned(), values.iter().map(OsString::from).collect()));
    let config = Config { path: Some(PathBuf::from("/c.toml")), layers, is_open: false };
    Settings::new(Given(given.collect()), config)
}

fn value(settings: &Settings, url: &str, name: &str) -> Option<(String, Origin)> {
    let rows = settings.rows(&Prefix::of_url(url).unwrap());
    let row = rows.into_iter().find(|row| row.name == name)?;
    Some((row.values.iter().map(|value| value.to_string_lossy()).collect(), row.origin))
}

const LAYERED: &str = "[defaults]\nretries = 2\n[url.\"https://h\"]\nretries = 3\n\
                       [url.\"https://h/a\"]\nretries = 4\n";

#[test]
fn a_longer_prefix_wins_and_a_flag_wins_over_all() {
    let from_file = settings(LAYERED, &[]);
    for (url, retries, line) in
        [("https://x/a", "2", 2), ("https://h/b", "3", 4), ("https://h/a/b", "4", 6)]
    {
        let (found, origin) = value(&from_file, url, "retries").unwrap();
        assert_eq!(found, retries, "{url}");
        assert!(
            matches!(&origin, Origin::File { place, .. } if place.ends_with(&format!(":{line}"))),
            "{origin:?}"
        );
        let args = from_file.args(url).unwrap().unwrap();
        assert_eq!(args.remote.retries.to_string(), retries, "{url}");
    }
    let flag = settings(LAYERED, &[("retries", &["9"])]);
    let expected = ("9".to_owned(), Origin::Flag("retries".to_owned()));
    assert_eq!(value(&flag, "https://h/a", "retries"), Some(expected));
    let none = settings("", &[]);
    assert_eq!(value(&none, "https://h", "retries"), Some(("8".to_owned(), Origin::BuiltIn)));
    assert!(none.args("/local").unwrap().is_none());
}

#[test]
fn a_longer_prefix_replaces_the_whole_group() {
    let text = "[defaults]\nanonymous = true\n[url.\"s3://a\"]\ncredential-process = \"keys\"\n\
                [url.\"s3://a/open\"]\nanonymous = false\n";
    let settings = settings(text, &[]);
    let args = |url| settings.args(url).unwrap().unwrap();
    assert!(args("s3://b/k").remote.anonymous);
    let process = args("s3://a/k").remote.clone();
    assert_eq!(process.file_only.credential_process.as_deref(), Some("keys"));
    assert!(!process.anonymous);
    let reset = args("s3://a/open/k").remote.clone();
    assert!(!reset.anonymous && reset.file_only.credential_process.is_none());
}

#[test]
fn headers_add_up_and_the_longest_prefix_decides() {
    let text = "[url.\"https://h\".headers]\nX-A = \"v1\"\nX-B = \"v1\"\n\
                [url.\"https://h/p\".headers]\nx-b = \"v2\"\n";
    let settings = settings(text, &[]);
    let of = |url| {
        let mut headers = settings.args(url).unwrap().unwrap().remote.file_only.headers.clone();
        headers.sort();
        headers
    };
    assert_eq!(of("https://h/q"), ["x-a: v1", "x-b: v1"]);
    assert_eq!(of("https://h/p/q"), ["x-a: v1", "x-b: v2"]);
    assert_eq!(of("https://other/p"), [""; 0]);
    assert!(!format!("{settings:?}").contains("v1"), "{settings:?}");
}

#[test]
fn what_all_urls_share_is_for_the_process() {
    let settings = settings("[defaults]\nmemory = \"8M\"\nretries = 2\n", &[]);
    let args = settings.process_args().unwrap();
    assert_eq!((args.transfer.memory, args.remote.retries), (8 << 20, 8));
}
