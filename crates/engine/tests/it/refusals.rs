//! Transient refusals of S3, and its redirects for new buckets.

use http::Uri;
use tidegate::remote::{CustomerKey, RemoteOptions};
use tidegate::{ErrorKind, Location};
use tidegate_testkit::{Fault, Flavour, RangeMatch, Rule, Server, ServerOptions};

use crate::bed::{Bed, SHARD_BYTES};
use crate::call::client_of;
use crate::faults::{LEN, WINDOWS, options, requests};
use crate::trial::{Kind, Trial};

async fn bed() -> Bed {
    Bed::new(ServerOptions::of(Flavour::S3), LEN).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_transient_refusal_is_retried() {
    for (status, code) in
        [(400, "RequestTimeout"), (400, "RequestTimeoutException"), (400, "ThrottlingException")]
    {
        for window in WINDOWS {
            let bed = bed().await;
            let passes = Fault::Coded { status, code };
            let range = if window == 1 { RangeMatch::Any } else { RangeMatch::Covers(SHARD_BYTES) };
            bed.server.script().push(Rule::new(passes).method("GET").range(range).times(2));
            let trial = Trial::run(&bed, Kind::File, &options(window)).await;
            let label = format!("{code} {window}");
            trial.assert_whole(&bed, requests(Flavour::S3, window) + 2, &label);
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_permanent_refusal_is_reported_with_its_code() {
    for (code, kind, asked) in [
        ("RequestTimeout", ErrorKind::Exhausted, 4),
        // Another attempt with the same clock would fail in the same way.
        ("RequestTimeTooSkewed", ErrorKind::Remote, 1),
        ("InvalidArgument", ErrorKind::Remote, 1),
    ] {
        let bed = bed().await;
        let refused = Fault::Coded { status: 400, code };
        bed.server.script().push(Rule::new(refused).method("GET").always());
        let trial = Trial::run(&bed, Kind::Memory, &options(1)).await;
        trial.assert_fails(&bed, Kind::Memory, kind, code);
        assert!(trial.result.unwrap_err().chain().contains(code), "{code}");
        let gets = bed.server.log().iter().filter(|logged| logged.method == "GET").count();
        assert_eq!(gets, asked, "{code}");
    }
}

fn s3(endpoint: &str, options: RemoteOptions) -> Location {
    let endpoint = Some(endpoint.to_owned());
    let remotes = client_of(RemoteOptions { endpoint, anonymous: true, ..options });
    remotes.locate("s3://bucket/blob").unwrap()
}

fn moved(to: &Server, path: &str) -> Fault {
    Fault::TemporaryRedirect(to.url(path))
}

/// Each request starts at the endpoint, as the redirect may lead elsewhere the next time.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_new_bucket_is_found_where_its_redirect_leads() {
    for window in WINDOWS {
        let (global, regional) = (bed().await, bed().await);
        global.server.script().always(moved(&regional.server, "/bucket/blob"));
        let location = s3(&global.server.endpoint(), RemoteOptions::default());
        let trial = Trial::of(&global, &location, Kind::File, &options(window)).await;
        let count = requests(Flavour::S3, window);
        trial.assert_whole(&regional, count, &format!("{window}"));
        assert!(trial.result.as_ref().unwrap().is_verified(), "the HEAD was redirected, too");
        assert_eq!(regional.server.requests(), count);
        for logged in regional.server.log() {
            let host = logged.header("host").unwrap().to_owned();
            assert_eq!(host.parse::<Uri>().unwrap(), regional.server.addr().to_string().as_str());
        }
        // The redirected HEAD counts as one request.
        assert_eq!(trial.result.unwrap().totals.requests, 2 * count as u64 - 1);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_redirect_that_leaves_the_endpoints_domain_is_an_error() {
    let other = bed().await;
    for (location, word) in [
        ("http://bucket.s3.example.com/blob".to_owned(), "not under the endpoint's domain"),
        (other.server.url("/bucket/other"), "another key"),
        (other.server.url("/other/blob"), "another bucket"),
        ("nowhere".to_owned(), "no address"),
    ] {
        let bed = bed().await;
        bed.server.script().always(Fault::TemporaryRedirect(location));
        let trial = Trial::run(&bed, Kind::Memory, &options(1)).await;
        trial.assert_fails(&bed, Kind::Memory, ErrorKind::Unsupported, word);
        let error = trial.result.unwrap_err();
        assert!(error.chain().contains(word), "{word}: {}", error.chain());
    }
    assert_eq!(other.server.requests(), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn redirects_in_a_circle_end() {
    let bed = bed().await;
    bed.server.script().always(moved(&bed.server, "/bucket/blob"));
    let trial = Trial::run(&bed, Kind::Memory, &options(1)).await;
    trial.assert_fails(&bed, Kind::Memory, ErrorKind::Unsupported, "circle");
    let gets = bed.server.log().iter().filter(|logged| logged.method == "GET").count();
    assert_eq!(gets, 3);
}

/// The key is sent on only if the redirect's target is as safe as the endpoint: here it is on the
/// same machine.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_customers_key_goes_along_where_the_redirect_may_be_followed() {
    let (global, regional) = (bed().await, bed().await);
    regional.server.put(
        "/bucket/blob",
        tidegate_testkit::Blob::new(regional.bytes.clone()).with_customer_key([7; 32]),
    );
    global.server.script().always(moved(&regional.server, "/bucket/blob"));
    let options_ =
        RemoteOptions { customer_key: Some(CustomerKey::new([7; 32])), ..Default::default() };
    let location = s3(&global.server.endpoint(), options_);
    let trial = Trial::of(&global, &location, Kind::Memory, &options(1)).await;
    trial.assert_whole(&regional, requests(Flavour::S3, 1), "keyed");
}
