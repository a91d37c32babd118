//! The hint of an error, in the words of this command.
//!
//! The library's hints name its own options, because it knows no command. This table names the flag
//! for a [`Setting`] in a hint; every other hint is shown as the library gives it.

use std::error::Error as StdError;

use tidegate::{Error, ErrorKind, Setting};

use crate::message;

/// Hints by setting and error kind (`None` for any kind); the first match is shown.
const HINTS: [(Setting, Option<ErrorKind>, &str); 20] = [
    (Setting::Memory, None, "allow more memory with --memory SIZE, or leave out --chunking always"),
    (Setting::Chunks, None, "leave out --chunking always"),
    (Setting::Window, None, "the server, or a proxy before it, mishandles ranges; try --window 1"),
    (
        Setting::SpeedMin,
        None,
        "the server or the network is too slow: try again later, or lower the limit with \
         --min-speed SIZE; 0 sets no limit",
    ),
    (
        Setting::Anonymous,
        Some(ErrorKind::Invalid),
        "pass --anonymous to send this one in their place",
    ),
    (Setting::Anonymous, None, "check the credentials, or pass --anonymous for a public blob"),
    (
        Setting::AwsCredentials,
        None,
        "export AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or pass --anonymous for a public blob",
    ),
    (
        Setting::AzureCredentials,
        None,
        "set AZURE_STORAGE_ACCOUNT_NAME, and a key or a SAS token, or pass --anonymous for a \
         public blob",
    ),
    (Setting::Endpoint, None, "check the AWS_* variables, the profile and --endpoint"),
    (
        Setting::Headers,
        Some(ErrorKind::NoAccess),
        "check the credentials: --header 'Authorization: …', --netrc, or --client-cert",
    ),
    (Setting::Headers, None, "give them with --header 'Authorization: …'"),
    (Setting::CustomerKey, Some(ErrorKind::Invalid), "leave out --customer-key-file"),
    (
        Setting::CustomerKey,
        Some(ErrorKind::NoAccess),
        "pass --customer-key-file FILE with the key that the blob was stored with",
    ),
    (
        Setting::CustomerKey,
        None,
        "where the blob is encrypted with a customer's key, pass --customer-key-file FILE",
    ),
    (Setting::UserProject, None, "pass --user-project PROJECT"),
    (
        Setting::RequestPayer,
        None,
        "check the credentials; pass --anonymous for a public blob, --request-payer where the \
         requester pays",
    ),
    (
        Setting::Version,
        None,
        "`tidegate stat` shows the present version; leave out --if-match and the like to take it",
    ),
    (Setting::CaCerts, None, "pass --ca-cert FILE for a private authority"),
    (
        Setting::Proxy,
        None,
        "check --proxy, or http_proxy, https_proxy and all_proxy; list hosts without a proxy in \
         no_proxy, or pass --no-proxy",
    ),
    (
        Setting::Conditions,
        None,
        "leave out --no-clobber and --if-version; where only one process writes the blob and the \
         service does compare, pass --trust-conditions",
    ),
];

/// For a URL of a web server, whose path is all there is to misspell.
const CHECK_URL: &str = "check the URL";
/// For a cache, which has no buckets, and may remove blobs at any time.
const CHECK_CACHE: &str =
    "check the digest and the instance's name; the cache may have removed the blob";
/// For a range beyond the end.
const CHECK_LENGTH: &str = "`tidegate stat` shows the blob's length";
/// For a connection that was refused, first or last: nothing listens there.
const CHECK_ADDRESS: &str = "check the host and the port, and that the server is running";

/// How the user of the command can fix the error.
pub(crate) fn of(error: &Error) -> Option<&str> {
    if innermost(error).setting() == Some(Setting::Proxy) {
        return named(Setting::Proxy, error.kind());
    }
    let is_of = |schemes: [&str; 2]| schemes.iter().any(|name| error.target().starts_with(name));
    let is_web = is_of(["http://", "https://"]);
    match error.kind() {
        ErrorKind::NotFound if is_web => return Some(CHECK_URL),
        ErrorKind::NotFound if is_of(["grpc://", "grpcs://"]) => return Some(CHECK_CACHE),
        ErrorKind::OutOfRange => return Some(CHECK_LENGTH),
        // A web server knows no credentials of a cloud, so there are none to leave out.
        ErrorKind::NoAccess if is_web && error.setting() == Some(Setting::Anonymous) => {
            return named(Setting::Headers, ErrorKind::NoAccess);
        }
        ErrorKind::Exhausted | ErrorKind::Transport if message::is_refused(error) => {
            return Some(CHECK_ADDRESS);
        }
        _ => {}
    }
    error.setting().and_then(|setting| named(setting, error.kind())).or_else(|| error.hint())
}

/// The failure below all errors that only report it.
fn innermost(error: &Error) -> &Error {
    let mut inner = error;
    let mut level = StdError::source(error);
    while let Some(cause) = level {
        inner = cause.downcast_ref::<Error>().unwrap_or(inner);
        level = cause.source();
    }
    inner
}

fn named(setting: Setting, kind: ErrorKind) -> Option<&'static str> {
    let fits = |(of, only, _): &&(Setting, Option<ErrorKind>, _)| {
        *of == setting && only.is_none_or(|only| only == kind)
    };
    HINTS.iter().find(fits).map(|(_, _, text)| *text)
}

#[cfg(test)]
mod tests {
    use tidegate::Operation;

    use super::*;
    use crate::args::definition;

    fn error(kind: ErrorKind) -> Error {
        Error::new(kind, Operation::Read, "x", "y")
    }

    /// The flags in a text, without their dashes.
    fn flags(text: &str) -> Vec<&str> {
        let words = text.split(|c: char| c != '-' && !c.is_ascii_alphanumeric());
        words.filter_map(|word| word.strip_prefix("--")).collect()
    }

    #[test]
    fn every_setting_has_a_flag_of_the_command() {
        let mut top = definition();
        top.build();
        let cp = top.find_subcommand("cp").unwrap();
        let known: Vec<_> = cp.get_arguments().filter_map(clap::Arg::get_long).collect();
        for setting in Setting::ALL {
            let text = named(*setting, ErrorKind::Remote);
            assert!(text.is_some(), "{setting:?} has no hint for every kind");
        }
        for (setting, kind, text) in HINTS {
            let flags = flags(text);
            let names_variables = setting == Setting::Proxy;
            assert!(
                !flags.is_empty() || names_variables,
                "{setting:?} {kind:?} names no flag: {text}"
            );
            for flag in flags {
                assert!(known.contains(&flag), "{setting:?} {kind:?}: cp has no --{flag}");
            }
        }
    }

    #[test]
    fn each_setting_names_its_own_flag() {
        for (setting, flag) in [
            (Setting::Memory, "memory"),
            (Setting::Chunks, "chunking"),
            (Setting::Window, "window"),
            (Setting::SpeedMin, "min-speed"),
            (Setting::Anonymous, "anonymous"),
            (Setting::AwsCredentials, "anonymous"),
            (Setting::AzureCredentials, "anonymous"),
            (Setting::Endpoint, "endpoint"),
            (Setting::Headers, "header"),
            (Setting::CustomerKey, "customer-key-file"),
            (Setting::UserProject, "user-project"),
            (Setting::RequestPayer, "request-payer"),
            (Setting::CaCerts, "ca-cert"),
        ] {
            for kind in [ErrorKind::NoAccess, ErrorKind::Invalid, ErrorKind::Exhausted] {
                let error = error(kind).with_hint(setting);
                let hint = of(&error).unwrap();
                assert!(flags(hint).contains(&flag), "{setting:?} {kind:?}: {hint}");
            }
        }
    }

    #[test]
    fn hints_fit_a_web_server() {
        let web = |kind| Error::new(kind, Operation::Read, "https://h/x", "y");
        let hint = of(&web(ErrorKind::NoAccess)).map(str::to_owned).unwrap();
        assert!(hint.contains("--header") && !hint.contains("--anonymous"), "{hint}");
        assert_eq!(of(&web(ErrorKind::NotFound)), Some(CHECK_URL));
        let refused = std::io::Error::from(std::io::ErrorKind::ConnectionRefused);
        assert_eq!(of(&web(ErrorKind::Exhausted).caused_by(refused)), Some(CHECK_ADDRESS));
    }

    #[test]
    fn every_row_is_reached() {
        for (setting, kind, text) in HINTS {
            let kind = kind.unwrap_or(ErrorKind::Remote);
            assert_eq!(named(setting, kind), Some(text), "{setting:?} {kind:?}");
        }
    }

    #[test]
    fn hints_of_no_setting_are_the_librarys() {
        let worded = error(ErrorKind::NoAccess).with_hint("check the file's permissions");
        assert_eq!(of(&worded), Some("check the file's permissions"));
        let plain = error(ErrorKind::NotFound);
        assert_eq!(of(&plain), plain.hint());
        assert_eq!(of(&error(ErrorKind::Storage)), None);
    }
}
