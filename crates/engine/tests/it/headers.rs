//! Headers that go with a request: the coding, a customer's key, the payer, the caller's own
//! headers, and the version. The tests check the requests that the server received.
//!
//! | what a user relies on | test |
//! |---|---|
//! | bytes arrive as stored, never decompressed or compressed on the way | `every_request_names_its_coding`, `a_blob_stored_compressed_is_delivered_compressed` |
//! | a customer's key opens a blob, in shards and through restarts; an error for a missing key names its setting | `a_customers_key_*` |
//! | the requester pays only if the caller says so | `the_requester_pays_if_the_caller_says_so` |
//! | headers arrive byte for byte, on every request, at the first host only | `headers_*` |
//! | a version given by hand is delivered, or the call fails | `versions::a_version_*` |
//! | no text shows a secret | `secrets_are_in_no_text` |

mod versions;

use tidegate::remote::{CustomerKey, ExtraHeaders, RemoteOptions};
use tidegate::{ErrorKind, Location, Setting};
use tidegate_testkit::{
    Blob, Fault, Flavour, Logged, Payer, Rule, Server, ServerOptions, pseudo_random,
};

use crate::bed::Bed;
use crate::call::{DownloadOptions, client_of};
use crate::trial::{Kind, Trial};

const LEN: usize = 300_000;
const STORES: [Flavour; 3] = [Flavour::Gcs, Flavour::S3, Flavour::Azure];
const ALL: [Flavour; 4] = [Flavour::Http, Flavour::Gcs, Flavour::S3, Flavour::Azure];

const KEY: [u8; 32] = *b"a key of thirty-two bytes, mine!";
const OTHER_KEY: [u8; 32] = *b"another key of thirty-two bytes.";

fn options(window: u32) -> DownloadOptions {
    DownloadOptions {
        window: Some(window),
        durability: tidegate::Durability::None,
        ..Bed::options()
    }
}

async fn bed_of(flavour: Flavour) -> Bed {
    Bed::new(ServerOptions::of(flavour), LEN).await
}

async fn encrypted(flavour: Flavour) -> Bed {
    let bytes = pseudo_random(LEN, 7);
    let blob = Blob::new(bytes.clone()).with_customer_key(KEY);
    Bed::with(ServerOptions::of(flavour), bytes, blob).await
}

fn keyed(key: [u8; 32]) -> RemoteOptions {
    RemoteOptions { customer_key: Some(CustomerKey::new(key)), ..RemoteOptions::default() }
}

/// The bed's blob, asked for with these options.
fn located(bed: &Bed, flavour: Flavour, options: RemoteOptions) -> tidegate::Result<Location> {
    let base = bed.server.endpoint();
    let (endpoint, url) = match flavour {
        Flavour::Gcs => (base, "gs://bucket/blob".to_owned()),
        Flavour::S3 => (base, "s3://bucket/blob".to_owned()),
        Flavour::Azure => (format!("{base}/account"), "az://bucket/blob".to_owned()),
        Flavour::Http => (base, bed.server.url(bed.path())),
    };
    client_of(RemoteOptions { endpoint: Some(endpoint), anonymous: true, ..options }).locate(&url)
}

fn at(bed: &Bed, flavour: Flavour, options: RemoteOptions) -> Location {
    located(bed, flavour, options).unwrap()
}

/// The values of a field, one for each request.
fn sent(server: &Server, name: &str) -> Vec<Option<String>> {
    server.log().iter().map(|logged| logged.header(name).map(str::to_owned)).collect()
}

#[track_caller]
fn all_sent(server: &Server, name: &str, value: &str) {
    let sent = sent(server, name);
    assert!(!sent.is_empty());
    assert!(sent.iter().all(|given| given.as_deref() == Some(value)), "{name}: {sent:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_request_names_its_coding() {
    for flavour in ALL {
        for window in [1, 4] {
            let bed = bed_of(flavour).await;
            let location = bed.location();
            location.remote.stat(&location.blob).await.unwrap();
            bed.server.script().push(Rule::new(Fault::CutAfter(1000)).method("GET"));
            Trial::run(&bed, Kind::Memory, &options(window)).await.result.unwrap();
            let coding = if flavour == Flavour::Gcs { "gzip" } else { "identity" };
            all_sent(&bed.server, "accept-encoding", coding);
        }
    }
}

/// A server that decompresses for a client that does not ask for `gzip`. It is reached as a cloud
/// and through a plain URL.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_blob_stored_compressed_is_delivered_compressed() {
    let stored = pseudo_random(LEN, 7);
    let blob = Blob::new(stored.clone()).with_gzip_of(pseudo_random(2 * LEN, 8));
    for scheme in [Flavour::Gcs, Flavour::Http] {
        for window in [1, 4] {
            let options_of = ServerOptions::of(Flavour::Gcs);
            let bed = Bed::with(options_of, stored.clone(), blob.clone()).await;
            let location = at(&bed, scheme, RemoteOptions::default());
            let info = location.remote.stat(&location.blob).await.unwrap();
            assert_eq!(info.len_bytes, Some(LEN as u64), "{scheme:?}");
            assert_eq!(info.content_encoding.as_deref(), Some("gzip"));
            // A new remote that has no connection to the server yet.
            let location = at(&bed, scheme, RemoteOptions::default());
            let before = bed.server.requests();
            let trial = Trial::of(&bed, &location, Kind::File, &options(window)).await;
            let asked_twice = usize::from(scheme == Flavour::Http);
            let shards = if window == 1 { 1 } else { LEN.div_ceil(64 << 10) };
            assert_eq!(bed.server.requests() - before, shards + asked_twice, "{scheme:?}");
            assert_eq!(trial.content.as_deref(), Some(&stored[..]), "{scheme:?} {window}");
            assert!(trial.result.unwrap().is_verified());
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_customers_key_opens_its_blob() {
    for flavour in STORES {
        for window in [1, 4] {
            let bed = encrypted(flavour).await;
            let location = at(&bed, flavour, keyed(KEY));
            bed.server.script().push(Rule::new(Fault::CutAfter(1000)).method("GET"));
            let trial = Trial::of(&bed, &location, Kind::File, &options(window)).await;
            let label = format!("{flavour:?} {window}");
            assert!(trial.content.unwrap() == bed.bytes, "{label}");
            let report = trial.result.unwrap();
            // The tag looks like an MD5, but it is none for a blob with a customer's key.
            assert!(report.is_verified(), "{label}: {:?}", report.verified.reason());
            assert!(report.totals.restarts > 0, "{label}");
            let (name, hash) = match flavour {
                Flavour::S3 => ("x-amz-server-side-encryption-customer-key", "-md5"),
                Flavour::Azure => ("x-ms-encryption-key", "-sha256"),
                _ => ("x-goog-encryption-key", "-sha256"),
            };
            all_sent(&bed.server, name, "YSBrZXkgb2YgdGhpcnR5LXR3byBieXRlcywgbWluZSE=");
            assert!(sent(&bed.server, &format!("{name}{hash}")).iter().all(Option::is_some));
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_customers_key_is_asked_for_by_name() {
    for flavour in STORES {
        let bed = encrypted(flavour).await;
        let without = at(&bed, flavour, RemoteOptions::default());
        let trial = Trial::of(&bed, &without, Kind::File, &options(4)).await;
        let error = trial.result.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NoAccess, "{flavour:?}: {error:?}");
        assert!(error.to_string().contains("encrypted with a customer's key"), "{error}");
        assert!(error.setting() == Some(Setting::CustomerKey), "{error:?}");
        let facts = without.remote.stat(&without.blob).await;
        match (flavour, facts) {
            // Google sends all facts except the checksums.
            (Flavour::Gcs, Ok(info)) => assert!(info.checksums.is_empty()),
            (Flavour::Gcs, Err(error)) => panic!("{error:?}"),
            (_, facts) => {
                let error = facts.unwrap_err();
                assert!(error.setting() == Some(Setting::CustomerKey), "{error:?}");
            }
        }
        let wrong = at(&bed, flavour, keyed(OTHER_KEY));
        for error in [
            wrong.remote.stat(&wrong.blob).await.unwrap_err(),
            Trial::of(&bed, &wrong, Kind::Memory, &options(1)).await.result.unwrap_err(),
        ] {
            // S3 has no error code for this, and Google's response to HEAD has none either.
            let is_expected = matches!(error.kind(), ErrorKind::NoAccess | ErrorKind::Remote);
            assert!(is_expected, "{flavour:?}: {error:?}");
            assert!(error.hint().unwrap().contains("key"), "{flavour:?}: {error:?}");
        }
        let plain = bed_of(flavour).await;
        let needless = at(&plain, flavour, keyed(KEY));
        let trial = Trial::of(&plain, &needless, Kind::Memory, &options(1)).await;
        let error = trial.result.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid, "{flavour:?}: {error:?}");
        assert!(error.hint().unwrap().contains("leave out"), "{error:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_customers_key_is_sent_to_its_service_only() {
    let bed = bed_of(Flavour::Http).await;
    let location = at(&bed, Flavour::Http, keyed(KEY));
    Trial::of(&bed, &location, Kind::Memory, &options(1)).await.result.unwrap();
    for logged in bed.server.log() {
        let names: Vec<_> = logged.headers.iter().map(|(name, _)| name.as_str()).collect();
        assert!(names.iter().all(|name| !name.contains("encryption")), "{names:?}");
    }
    for url in ["gs://bucket/blob", "s3://bucket/blob", "az://bucket/blob"] {
        let options = RemoteOptions {
            endpoint: Some("http://storage.example/account".to_owned()),
            anonymous: true,
            ..keyed(KEY)
        };
        let error = client_of(options).locate(url).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid, "{error:?}");
        assert!(error.to_string().contains("TLS"), "{error}");
    }
    for flavour in STORES {
        let bed = encrypted(flavour).await;
        let elsewhere = encrypted(flavour).await;
        let target = elsewhere.server.url(elsewhere.path());
        bed.server.script().always(Fault::Redirect(target));
        let location = at(&bed, flavour, keyed(KEY));
        let trial = Trial::of(&bed, &location, Kind::Memory, &options(1)).await;
        assert_eq!(trial.result.unwrap_err().kind(), ErrorKind::Unsupported, "{flavour:?}");
        assert_eq!(elsewhere.server.requests(), 0, "{flavour:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_requester_pays_if_the_caller_says_so() {
    let pays = |flavour| match flavour {
        Flavour::Gcs => RemoteOptions {
            user_project: Some("My-Project-17".to_owned()),
            ..RemoteOptions::default()
        },
        _ => RemoteOptions { request_payer: true, ..RemoteOptions::default() },
    };
    for (flavour, header, value, setting) in [
        (Flavour::Gcs, "x-goog-user-project", "My-Project-17", Setting::UserProject),
        (Flavour::S3, "x-amz-request-payer", "requester", Setting::RequestPayer),
    ] {
        let server = ServerOptions { payer: Payer::Requester, ..ServerOptions::of(flavour) };
        let bed = Bed::new(server, LEN).await;
        let location = at(&bed, flavour, RemoteOptions::default());
        let trial = Trial::of(&bed, &location, Kind::Memory, &options(1)).await;
        let error = trial.result.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NoAccess, "{error:?}");
        assert!(error.setting() == Some(setting), "{error:?}");
        bed.server.clear_log();
        let location = at(&bed, flavour, pays(flavour));
        let trial = Trial::of(&bed, &location, Kind::Memory, &options(4)).await;
        assert!(trial.result.unwrap().is_verified());
        all_sent(&bed.server, header, value);
        // One cloud's header means nothing to another cloud.
        for other in ALL.into_iter().filter(|other| *other != flavour) {
            let bed = bed_of(other).await;
            let location = at(&bed, other, pays(flavour));
            Trial::of(&bed, &location, Kind::Memory, &options(1)).await.result.unwrap();
            assert!(sent(&bed.server, header).iter().all(Option::is_none), "{other:?}");
        }
    }
    let odd = RemoteOptions { user_project: Some("a\nb".into()), ..RemoteOptions::default() };
    let bed = bed_of(Flavour::Gcs).await;
    assert_eq!(located(&bed, Flavour::Gcs, odd).unwrap_err().kind(), ErrorKind::Invalid);
}

const VALUES: [(&str, &str); 4] = [
    ("X-Trace-ID", "MiXeD-CaSe; q=\"Quoted, With Comma\""),
    ("x-lower", "  inner   spaces\tand tabs"),
    ("User-Agent", "Teapot/1.0 (Tidegate)"),
    ("X-Empty", ""),
];

fn with_headers() -> RemoteOptions {
    let mut headers = ExtraHeaders::new();
    for (name, value) in VALUES {
        headers.add(name, value).unwrap();
    }
    headers.add_line("X-Twice: First").unwrap();
    headers.add_line("x-twice: Second").unwrap();
    RemoteOptions { headers, ..RemoteOptions::default() }
}

#[track_caller]
fn has_headers(logged: &Logged) {
    let values = |name: &str| -> Vec<&str> {
        let named = logged.headers.iter().filter(|(n, _)| n.eq_ignore_ascii_case(name));
        named.map(|(_, value)| value.as_str()).collect()
    };
    for (name, value) in VALUES {
        // White space around a value is not part of it (RFC 9110 section 5.5).
        assert_eq!(values(name), [value.trim()], "{name}");
    }
    assert_eq!(values("x-twice"), ["First", "Second"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn headers_arrive_unchanged_on_every_request() {
    for flavour in ALL {
        let bed = bed_of(flavour).await;
        let location = at(&bed, flavour, with_headers());
        location.remote.stat(&location.blob).await.unwrap();
        bed.server.script().push(Rule::new(Fault::CutAfter(1000)).method("GET"));
        let trial = Trial::of(&bed, &location, Kind::Memory, &options(4)).await;
        assert!(trial.result.unwrap().totals.restarts > 0);
        let log = bed.server.log();
        assert!(log.len() > 5 && log.iter().any(|logged| logged.method == "HEAD"));
        log.iter().for_each(has_headers);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn headers_stay_with_the_first_host() {
    for user_info in [false, true] {
        let (first, other) = (bed_of(Flavour::Http).await, bed_of(Flavour::Http).await);
        let inner = "/bucket/inner";
        let script = first.server.script();
        script.push(Rule::new(Fault::Redirect(inner.to_owned())).path("/bucket/blob").always());
        let away = other.server.url(other.path());
        script.push(Rule::new(Fault::Redirect(away)).path(inner).always());
        let mut options = with_headers();
        if !user_info {
            options.headers.add("Authorization", "Bearer T0ken").unwrap();
        }
        let mut url = first.server.url(first.path());
        if user_info {
            url = url.replace("http://", "http://me:secret@");
        }
        let location = client_of(options).locate(&url).unwrap();
        let trial = Trial::of(&other, &location, Kind::Memory, &self::options(4)).await;
        assert_eq!(trial.content.as_deref(), Some(&other.bytes[..]));
        let kept = if user_info { "Basic bWU6c2VjcmV0" } else { "Bearer T0ken" };
        assert!(first.server.log().iter().any(|logged| logged.path_and_query == inner));
        for logged in first.server.log() {
            has_headers(&logged);
            assert_eq!(logged.header("authorization"), Some(kept));
        }
        assert!(!other.server.log().is_empty());
        for logged in other.server.log() {
            let foreign = ["authorization", "x-trace-id", "x-lower", "x-twice"];
            assert!(foreign.iter().all(|name| logged.header(name).is_none()), "{logged:?}");
            assert!(logged.header("user-agent").unwrap().starts_with("tidegate/"));
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn headers_that_authorize_are_accepted_only_without_credentials() {
    let authorized = || {
        let mut options = RemoteOptions::default();
        options.headers.add("authorization", "Bearer T0ken").unwrap();
        options
    };
    for flavour in STORES {
        let bed = bed_of(flavour).await;
        let location = at(&bed, flavour, authorized());
        Trial::of(&bed, &location, Kind::Memory, &options(1)).await.result.unwrap();
        all_sent(&bed.server, "authorization", "Bearer T0ken");
    }
    for url in ["gs://bucket/blob", "s3://bucket/blob"] {
        let error = client_of(authorized()).locate(url).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid, "{error:?}");
        assert!(error.setting() == Some(Setting::Anonymous), "{error:?}");
    }
}

/// On a wrong signature S3 repeats the request in its response.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn secrets_are_in_no_text() {
    const KEY_BASE64: &str = "YSBrZXkgb2YgdGhpcnR5LXR3byBieXRlcywgbWluZSE=";
    for flavour in ALL {
        let bed = encrypted(flavour).await;
        let mut remote = RemoteOptions { headers: ExtraHeaders::new(), ..keyed(KEY) };
        remote.headers.add("X-Api-Token", "T0ken").unwrap();
        let mut texts = vec![format!("{remote:?}"), format!("{:?}", client_of(remote.clone()))];
        let location = at(&bed, flavour, remote);
        texts.push(format!("{location:?} {:?}", location.remote));
        for code in [400, 401, 403, 409, 500] {
            let echo = format!(
                "<Error><Code>SignatureDoesNotMatch</Code><CanonicalRequest>\
                 x-api-token:T0ken key:{KEY_BASE64}</CanonicalRequest></Error>"
            );
            let fault = Fault::Status { code, retry_after: None, body: echo };
            bed.server.script().clear();
            bed.server.script().always(fault);
            let mut options = options(1);
            options.retry.attempts_max = 2;
            let trial = Trial::of(&bed, &location, Kind::Memory, &options).await;
            let error = trial.result.unwrap_err();
            texts.push(format!("{error:?} {} {:?}", error.chain(), error.hint()));
        }
        for text in texts {
            let raw = String::from_utf8_lossy(&KEY).into_owned();
            for secret in ["T0ken", KEY_BASE64, raw.as_str(), "97, 32, 107"] {
                assert!(!text.contains(secret), "{flavour:?}: {secret} in {text}");
            }
        }
    }
}
