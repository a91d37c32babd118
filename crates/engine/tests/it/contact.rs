//! Servers that never send a blob: how often the engine asks them.

use std::net::SocketAddr;
use std::sync::Arc;

use tidegate::budget::Budget;
use tidegate::read::ReadStats;
use tidegate::remote::RemoteOptions;
use tidegate::{ErrorKind, Location};
use tidegate_core::retry::RetryPolicy;
use tidegate_testkit::RefusedPort;

use crate::call::{ReadOptions, client_of, stat};

/// The documented number of attempts for a refused connection, whatever the policy.
const REFUSED_ATTEMPTS: u32 = 4;

fn locations(address: SocketAddr) -> Vec<Location> {
    let endpoint = format!("http://{address}");
    let options = RemoteOptions {
        endpoint: Some(endpoint.clone()),
        anonymous: true,
        ..RemoteOptions::default()
    };
    let remotes = client_of(options);
    let http = format!("{endpoint}/blob");
    let cache = format!("grpc://{address}/main/sha256/{}/5", "0".repeat(64));
    let urls = [http.as_str(), "gs://bucket/blob", "s3://bucket/blob"];
    let urls = urls.into_iter().chain(cfg!(feature = "reapi").then_some(cache.as_str()));
    urls.map(|url| remotes.locate(url).unwrap()).collect()
}

fn policy() -> RetryPolicy {
    RetryPolicy { delay_ms_min: 1, delay_ms_max: 2, ..RetryPolicy::default() }
}

#[tokio::test]
async fn a_refused_connection_is_tried_as_often_as_documented() {
    let port = RefusedPort::bind().unwrap();
    for location in locations(port.address().unwrap()) {
        let stats = Arc::new(ReadStats::default());
        let asked = stat(&location, &policy(), &Budget::default(), &stats).await;
        let error = asked.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Exhausted, "{error:?}");
        assert_eq!(error.attempts(), REFUSED_ATTEMPTS, "{error:?}");
        assert!(error.chain().contains("refused"), "{error:?}");
        assert_eq!(stats.totals().requests, u64::from(REFUSED_ATTEMPTS), "{location:?}");

        let options = ReadOptions { retry: policy(), ..ReadOptions::default() };
        let error = crate::call::read(location, options).next().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Exhausted, "{error:?}");
        assert_eq!(error.attempts(), REFUSED_ATTEMPTS, "{error:?}");
    }
}
