//! Our server keeps the promises of the Remote Execution API, under every kind of instance.

use std::net::{Ipv4Addr, SocketAddr};

use tidegate::CancellationToken;
use tidegate_conformance::reapi::check_protocol;
use tidegate_server::serve::{ServeOptions, Server};
use tidegate_server::store::StoreOptions;

#[tokio::test(flavor = "multi_thread")]
async fn our_server_keeps_the_promises_of_the_api() {
    let folder = tempfile::tempdir().unwrap();
    let listen = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let options =
        ServeOptions::new(folder.path().join("store"), StoreOptions::new(4 << 30), listen);
    let server = Server::bind(options).await.unwrap();
    let url = format!("http://{}", server.address());
    let stop = CancellationToken::new();
    let serving = tokio::spawn(server.run(stop.clone()));
    for (seed, instance) in (1..).zip(["", "team", "several/segments/of a name"]) {
        let report = check_protocol(&url, instance, seed).await.unwrap();
        report.assert_kept(&format!("instance '{instance}'"));
        // Nothing is left out because the server does not offer it.
        assert!(report.kept.len() > 75, "only {} promises were checked", report.kept.len());
    }
    stop.cancel();
    serving.await.unwrap().unwrap();
}
