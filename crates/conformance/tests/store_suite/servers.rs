//! Real servers: `TIDEGATE_CONFORMANCE_STORES` holds their URLs, separated by commas. See
//! `tests/interop`.

use std::time::{SystemTime, UNIX_EPOCH};

use tidegate::remote::reapi::ReapiOptions as CacheOptions;

use crate::assert_conforms;
use crate::caches::connect;

const VARIABLE: &str = "TIDEGATE_CONFORMANCE_STORES";

#[expect(clippy::print_stdout, reason = "it says what was checked, or why nothing was")]
#[tokio::test]
async fn real_servers_conform() {
    let urls = std::env::var(VARIABLE).unwrap_or_default();
    if urls.is_empty() {
        println!("skipped: {VARIABLE} names no server");
        return;
    }
    // A server keeps the blobs of earlier runs, so the seed is the time.
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let seed = u64::try_from(now.as_nanos() & u128::from(u64::MAX)).unwrap();
    for url in urls.split(',') {
        println!("{url}, seed {seed}");
        let store = connect(url, CacheOptions::default());
        assert_conforms(url, &*store, seed).await;
    }
}
