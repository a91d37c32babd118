//! Proxies: which requests go through one, and what a wrong one does; and the limit of the rate.

use tidegate_testkit::reapi::{ReapiOptions, ReapiServer};
use tidegate_testkit::{Proxy, ServerOptions, Tls, pseudo_random};

use crate::bed::{Bed, Ran, SHARD, command, finish};

/// `user:pa:ss@word` for basic authentication, and as user info of a URL.
const BASIC: &str = "Basic dXNlcjpwYTpzc0B3b3Jk";
const USER_INFO: &str = "user:pa%3Ass%40word";

/// Runs the command with these variables in its environment.
async fn run(bed: &Bed, variables: &[(&str, &str)], args: &[&str]) -> Ran {
    let mut command = command(bed.folder.path());
    command.envs(variables.iter().copied()).args(args);
    finish(command).await
}

#[tokio::test(flavor = "multi_thread")]
async fn http_goes_through_the_proxy_of_the_environment() {
    let (bed, proxy) = (Bed::http().await, Proxy::start(None).await.unwrap());
    let bytes = bed.put("/f/blob", 300_000);
    let url = bed.server.url("/f/blob");
    let args = ["cp", "--shard-size", SHARD, &url, "out"];
    run(&bed, &[("http_proxy", &proxy.url())], &args).await.ends(0);
    assert_eq!(bed.read("out"), bytes);
    let requests = proxy.requests();
    assert!(requests.len() > 1, "{requests:?}");
    assert_eq!(requests.len(), bed.server.requests(), "every request goes through the proxy");
    assert!(requests.iter().all(|request| request.method == "GET" && request.target == url));
}

#[tokio::test(flavor = "multi_thread")]
async fn https_goes_through_a_tunnel_that_is_used_again() {
    let options = ServerOptions { tls: Some(Tls::Trusted), ..ServerOptions::default() };
    let (bed, proxy) = (Bed::new(options).await, Proxy::start(None).await.unwrap());
    let bytes = bed.put("/f/blob", 300_000);
    std::fs::write(bed.path("ca.pem"), bed.server.ca_pem().unwrap()).unwrap();
    let url = bed.server.url("/f/blob");
    let args = ["cp", "--ca-cert", "ca.pem", "--window", "2", "--shard-size", SHARD, &url, "out"];
    run(&bed, &[("HTTPS_PROXY", &proxy.url())], &args).await.ends(0);
    assert_eq!(bed.read("out"), bytes);
    let requests = proxy.requests();
    let authority = bed.server.endpoint().replace("https://", "");
    assert!(requests.iter().all(|request| request.method == "CONNECT"), "{requests:?}");
    assert!(requests.iter().all(|request| request.target == authority), "{requests:?}");
    assert!((1..=2).contains(&requests.len()) && bed.server.requests() > 2, "{requests:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn caches_are_reached_through_a_tunnel() {
    let (bed, proxy) = (Bed::http().await, Proxy::start(None).await.unwrap());
    let cache = ReapiServer::start(ReapiOptions::default()).await.unwrap();
    let bytes = pseudo_random(3_000_000, 5);
    let name = cache.put(bytes.clone());
    let url = format!("{}/sha256/{}/{}", cache.url(), name.hash, name.len_bytes);
    run(&bed, &[("all_proxy", &proxy.url())], &["cp", &url, "out"]).await.ends(0);
    assert_eq!(bed.read("out"), bytes);
    let requests = proxy.requests();
    assert!(!requests.is_empty(), "the cache was reached without the proxy");
    assert!(requests.iter().all(|request| request.target == cache.addr().to_string()));
    run(&bed, &[("all_proxy", &proxy.url())], &["cp", "--no-proxy", &url, "direct"]).await.ends(0);
    assert_eq!(proxy.requests().len(), requests.len());
}

#[tokio::test(flavor = "multi_thread")]
async fn exceptions_and_no_proxy_are_connected_directly() {
    let (bed, proxy) = (Bed::http().await, Proxy::start(None).await.unwrap());
    bed.put("/f/blob", 1000);
    let (url, through) = (bed.server.url("/f/blob"), proxy.url());
    let names = |except| [("http_proxy", through.as_str()), ("no_proxy", except)];
    run(&bed, &names("127.0.0.0/8"), &["cat", &url]).await.ends(0);
    run(&bed, &names(""), &["cat", "--no-proxy", &url]).await.ends(0);
    run(&bed, &[("HTTP_PROXY", &through)], &["cat", &url]).await.ends(0);
    assert_eq!(proxy.requests(), []);
    run(&bed, &names("10.0.0.0/8"), &["cat", &url]).await.ends(0);
    assert!(!proxy.requests().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_proxy_gets_its_credentials_and_only_the_proxy() {
    let (bed, proxy) = (Bed::http().await, Proxy::start(Some(BASIC)).await.unwrap());
    let bytes = bed.put("/f/blob", 300_000);
    let url = bed.server.url("/f/blob");
    let given = format!("{USER_INFO}@{}", proxy.addr());
    let ran = run(&bed, &[], &["cp", "-v", "--proxy", &given, &url, "out"]).await;
    ran.ends(0);
    assert!(!ran.stderr.contains("pa"), "{}", ran.stderr);
    assert_eq!(bed.read("out"), bytes);
    let sent = |name| bed.server.log().iter().any(|logged| logged.header(name).is_some());
    assert!(!sent("proxy-authorization"), "the server must not see the proxy's password");

    let ran = run(&bed, &[], &["cp", "--proxy", &proxy.url(), &url, "none"]).await;
    ran.ends(6).says("the proxy requires credentials").says("--proxy");
    assert!(!bed.path("none").exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tunnel_is_refused_without_credentials() {
    let options = ServerOptions { tls: Some(Tls::Trusted), ..ServerOptions::default() };
    let (bed, proxy) = (Bed::new(options).await, Proxy::start(Some(BASIC)).await.unwrap());
    bed.put("/f/blob", 1000);
    std::fs::write(bed.path("ca.pem"), bed.server.ca_pem().unwrap()).unwrap();
    let url = bed.server.url("/f/blob");
    let args = ["cat", "--ca-cert", "ca.pem", "--proxy", &proxy.url(), &url];
    let ran = run(&bed, &[], &args).await;
    ran.ends(6).says("the proxy requires credentials").says("--proxy");
    assert_eq!(proxy.requests().len(), 1, "it is not asked again");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_proxy_is_an_error_that_names_it() {
    let bed = Bed::http().await;
    bed.put("/f/blob", 1000);
    let url = bed.server.url("/f/blob");
    let ran = run(&bed, &[("all_proxy", "socks5://user:s3cret@127.0.0.1:1")], &["cat", &url]).await;
    ran.ends(2).says("all_proxy").says("scheme socks5");
    assert!(!ran.stderr.contains("s3cret"), "{}", ran.stderr);
    run(&bed, &[], &["cat", "--proxy", "http://", &url]).await.ends(2).says("not the URL");
    // Nothing listens on the port of a server that has ended.
    let ended = Proxy::start(None).await.unwrap().url();
    let ran = run(&bed, &[], &["cat", "--retries", "1", "--proxy", &ended, &url]).await;
    ran.ends(7).says("the proxy cannot be reached").says("--proxy");
    assert_eq!(bed.server.requests(), 0, "a proxy that fails is not bypassed");
    // A local copy needs no proxy.
    std::fs::write(bed.path("file"), "x").unwrap();
    run(&bed, &[("all_proxy", "socks5://127.0.0.1:1")], &["cp", "file", "copy"]).await.ends(0);
}

/// The rate itself is tested on a paused clock in the engine.
#[tokio::test(flavor = "multi_thread")]
async fn a_limited_rate_delivers_the_same_bytes() {
    let bed = Bed::http().await;
    let bytes = bed.put("/f/blob", 300_000);
    let url = bed.server.url("/f/blob");
    let args = ["cp", "--limit-rate", "4MiB", "--shard-size", SHARD, &url, "out"];
    bed.run(&args).await.ends(0);
    assert_eq!(bed.read("out"), bytes);
    bed.run(&["cp", "--limit-rate", "0", &url, "none"]).await.ends(2).says("at least 1 byte");
}
