//! TCP settings, for connections with and without TLS.

use std::time::Duration;

use hyper_util::client::legacy::connect::HttpConnector;

use super::TransportOptions;

/// A dead peer is noticed after this long without traffic, below the idle limits of common NATs.
const KEEPALIVE_SECONDS: u64 = 60;

/// A connector with these settings.
pub(super) fn tcp(options: &TransportOptions) -> HttpConnector {
    let mut tcp = HttpConnector::new();
    tcp.enforce_http(false);
    tcp.set_nodelay(true);
    tcp.set_keepalive(Some(Duration::from_secs(KEEPALIVE_SECONDS)));
    tcp.set_connect_timeout(Some(Duration::from_millis(options.connect_ms_max)));
    tcp.set_recv_buffer_size(options.receive_buffer_bytes);
    tcp
}
