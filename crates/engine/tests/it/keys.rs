//! Keys of object stores that are easily mistaken for other keys. The engine asks for exactly the
//! given key, or for nothing.

use percent_encoding::percent_decode_str;
use tidegate::remote::RemoteOptions;
use tidegate::{Client, ErrorKind, Target};
use tidegate_testkit::{Blob, Flavour, Server, ServerOptions};

use crate::bed::Bed;
use crate::call::{client_of, download};

const STORES: [(Flavour, &str, &str); 3] = [
    (Flavour::Gcs, "gs", "/bucket/"),
    (Flavour::S3, "s3", "/bucket/"),
    (Flavour::Azure, "az", "/account/bucket/"),
];

const KEYS: [&str; 27] = [
    "/ok",
    "ok/",
    "/ok/",
    "//ok",
    "ok//",
    "a//b",
    "/",
    "//",
    "./ok",
    "a/./b",
    "..",
    "a/../b",
    "a/..",
    "a\tb",
    "ok",
    "a%2Fb",
    "%2e%2e/a",
    "a%b",
    "a b",
    " a ",
    "a+b",
    "a?b#c",
    "a&b=c",
    "a\\b",
    "...",
    "\u{e4}/\u{1f980}",
    "~[]{}^`|\"<>*'();:@,!$",
];

fn remotes(server: &Server, flavour: Flavour) -> Client {
    let account = if flavour == Flavour::Azure { "/account" } else { "" };
    let endpoint = Some(format!("{}{account}", server.endpoint()));
    client_of(RemoteOptions { endpoint, anonymous: true, ..RemoteOptions::default() })
}

/// Another object lies at the normalised key, and must not be requested.
#[tokio::test]
async fn the_exact_key_is_requested_or_refused() {
    for (flavour, scheme, prefix) in STORES {
        let server = Server::start(ServerOptions::of(flavour)).await.unwrap();
        server.put(&format!("{prefix}ok"), Blob::new("another object"));
        let remotes = remotes(&server, flavour);
        let mut refused = 0;
        for key in KEYS {
            server.clear_log();
            let before = server.requests();
            let location = match remotes.locate(&format!("{scheme}://bucket/{key}")) {
                Ok(location) => location,
                Err(error) => {
                    assert_eq!(error.kind(), ErrorKind::Unsupported, "{key:?}: {error:?}");
                    assert!(error.to_string().contains("keys"), "{key:?}: {error}");
                    assert_eq!(server.requests(), before, "{key:?}");
                    refused += 1;
                    continue;
                }
            };
            // If there is no such object, the error says so.
            let outcome = download(&location, Target::Memory, &Bed::options()).await;
            assert_eq!(outcome.is_ok(), key == "ok", "{scheme} {key:?}");
            server.idle().await;
            for logged in server.log() {
                let path = logged.path_and_query.split('?').next().unwrap_or_default();
                let asked = percent_decode_str(path).decode_utf8().unwrap();
                assert_eq!(asked, format!("{prefix}{key}"), "{scheme} {key:?}: {path}");
            }
        }
        assert_eq!(refused, 14, "the first ones");
    }
}
