//! The server owns its tasks and its counts are true.

use tidegate_testkit::{Blob, Fault, Gate, NetworkProfile, Server, ServerOptions, pseudo_random};

use crate::client::{Client, End, get};

#[tokio::test]
async fn concurrent_requests_are_counted() {
    let server = Server::start(ServerOptions::default()).await.unwrap();
    server.put("/d", Blob::new(&b"data"[..]));
    let gate = Gate::new();
    server.script().always(Fault::HoldAfter { bytes: 2, gate: gate.clone() });
    let mut clients = Vec::new();
    for _ in 0..3 {
        let mut client = Client::connect(&server).await;
        client.send("GET", "/d", &[]).await;
        clients.push(client);
    }
    gate.reached(3).await;
    assert_eq!((server.peak_concurrent(), server.connections_open()), (3, 3));
    gate.open();
    for client in &mut clients {
        assert_eq!(client.reply(false).await.text(), "data");
    }
    assert_eq!(clients[0].ask("GET", "/d", &[]).await.text(), "data");
    server.idle().await;
    assert_eq!((server.peak_concurrent(), server.requests(), server.log().len()), (3, 4, 4));
    server.clear_log();
    assert_eq!((server.requests(), server.log().len()), (4, 0));
}

#[tokio::test]
async fn a_held_response_ends_with_its_client() {
    let server = Server::start(ServerOptions::default()).await.unwrap();
    server.put("/d", Blob::new(&b"data"[..]));
    let gate = Gate::new();
    server.script().next(Fault::HoldAfter { bytes: 2, gate: gate.clone() });
    let mut client = Client::connect(&server).await;
    client.send("GET", "/d", &[]).await;
    gate.reached(1).await;
    drop(client);
    server.idle().await;
    assert!(server.log()[0].finished);
}

#[tokio::test]
async fn dropping_the_server_ends_its_connections() {
    let server = Server::start(ServerOptions::default()).await.unwrap();
    server.put("/d", Blob::new(&b"data"[..]));
    let mut client = Client::connect(&server).await;
    assert_eq!(client.ask("GET", "/d", &[]).await.text(), "data");
    let addr = server.addr();
    drop(server);
    assert_eq!(client.more().await, Some(End::Fin));
    assert!(tokio::net::TcpStream::connect(addr).await.is_err());
}

#[tokio::test]
async fn a_profile_changes_no_bytes() {
    let profile = NetworkProfile {
        latency_ms: 1,
        jitter_ms: 1,
        rate_bytes_per_second: Some(200 * 1024 * 1024),
    };
    let server = Server::start(ServerOptions { profile, ..Default::default() }).await.unwrap();
    let data = pseudo_random(2_000_000, 4);
    server.put("/d", Blob::new(data.clone()));
    assert_eq!(get(&server, "/d", &[]).await.body, data);
}
