//! The server owns its tasks, its counts are true, and hundreds of calls wait side by side.

use std::{sync::Arc, time::Duration};

use tidegate_testkit::{
    Gate,
    reapi::{Congestion, ReapiFault, ReapiOptions, Rpc, RpcLatency},
};

use super::Bed;

#[tokio::test]
async fn hundreds_of_calls_are_in_flight_at_once() {
    let bed = Arc::new(Bed::honest().await);
    let name = bed.server.put(&b"data"[..]);
    let gate = Gate::new();
    bed.server.script().always(Rpc::Read, ReapiFault::Hold(gate.clone()));
    let mut reads = tokio::task::JoinSet::new();
    for _ in 0..500 {
        let (bed, name) = (Arc::clone(&bed), name.clone());
        reads.spawn(async move { bed.read(&name).await.unwrap() });
    }
    gate.reached(500).await;
    assert_eq!(bed.server.counts().rpc(Rpc::Read).in_flight, 500);
    gate.open();
    for data in reads.join_all().await {
        assert_eq!(data, b"data");
    }
    let counts = bed.server.counts();
    assert_eq!((counts.total.in_flight, counts.total.in_flight_peak), (0, 500));
    assert_eq!((counts.served(&name.hash), counts.bytes_out), (500, 2000));
    bed.server.clear_counts();
    assert_eq!(bed.server.counts().total.arrived, 0);
    assert!(bed.server.calls().is_empty());
}

#[tokio::test]
async fn responses_have_the_chosen_delay() {
    const HOUR_MS: u64 = 3_600_000;
    let late = ReapiOptions {
        latency: RpcLatency { mean_ms: HOUR_MS, jitter_ms: 0 },
        ..Default::default()
    };
    let congestion = Congestion { calls: 0, us_per_call: HOUR_MS * 1000 };
    let crowded = ReapiOptions { congestion: Some(congestion), ..Default::default() };
    let thin = ReapiOptions { bytes_per_second: Some(1), ..Default::default() };
    for options in [late, crowded, thin] {
        let bed = Bed::new(options).await;
        let name = bed.server.put(vec![0; 3600]);
        // An hour late against a fraction of a second: no machine is that slow.
        let read = tokio::time::timeout(Duration::from_millis(200), bed.read(&name)).await;
        assert!(read.is_err());
        assert_eq!(bed.server.counts().calls(Rpc::Read), 1);
        bed.server.idle().await;
    }
}

#[tokio::test]
async fn dropping_the_server_ends_calls_in_flight() {
    let bed = Bed::honest().await;
    let name = bed.server.put(&b"data"[..]);
    bed.server.script().always(Rpc::Read, ReapiFault::Lost);
    let Bed { server, bytes, .. } = bed;
    let addr = server.addr();
    let resource_name = super::resource(&name);
    let mut client = bytes.clone();
    let request = tidegate_reapi::bytestream::ReadRequest { resource_name, ..Default::default() };
    let mut read = Box::pin(client.read(request));
    tokio::select! {
        answer = &mut read => panic!("{answer:?}"),
        () = server.counted(|counts| counts.rpc(Rpc::Read).in_flight == 1) => drop(server),
    }
    read.await.unwrap_err();
    assert!(tokio::net::TcpStream::connect(addr).await.is_err());
}

#[tokio::test]
async fn metadata_is_logged() {
    let mut bed = Bed::honest().await;
    let mut request = tonic::Request::new(tidegate_reapi::v2::GetCapabilitiesRequest::default());
    request.metadata_mut().insert("x-tried", "yes".parse().unwrap());
    bed.capabilities.get_capabilities(request).await.unwrap();
    let call = &bed.server.calls()[0];
    assert_eq!((call.rpc, call.connection), (Rpc::Capabilities, 1));
    assert_eq!((call.header("x-tried"), call.header("x-other")), (Some("yes"), None));
}
