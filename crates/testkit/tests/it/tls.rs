//! TLS with valid and invalid certificates, and the effect of a cut under it.

use std::{io, sync::Arc};

use rustls::{
    ClientConfig, RootCertStore,
    pki_types::{CertificateDer, ServerName, pem::PemObject},
};
use tidegate_testkit::{Blob, Fault, Server, ServerOptions, Tls, pseudo_random};
use tokio::net::TcpStream;
use tokio_rustls::{TlsConnector, client::TlsStream};

use crate::client::{Client, End};

async fn serving(tls: Tls) -> Server {
    let options = ServerOptions { tls: Some(tls), ..ServerOptions::default() };
    let server = Server::start(options).await.unwrap();
    server.put("/d", Blob::new(pseudo_random(300_000, 8)));
    server
}

async fn connect(server: &Server, name: &'static str) -> io::Result<TlsStream<TcpStream>> {
    let mut roots = RootCertStore::empty();
    let ca = CertificateDer::from_pem_slice(server.ca_pem().unwrap().as_bytes()).unwrap();
    roots.add(ca).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let tcp = TcpStream::connect(server.addr()).await?;
    let name = ServerName::try_from(name).unwrap();
    TlsConnector::from(Arc::new(config)).connect(name, tcp).await
}

#[tokio::test]
async fn a_trusted_server_serves() {
    let server = serving(Tls::Trusted).await;
    assert!(server.url("/d").starts_with("https://127.0.0.1:"));
    for name in ["127.0.0.1", "localhost"] {
        let mut client = Client::over(connect(&server, name).await.unwrap());
        for _ in 0..2 {
            let reply = client.ask("GET", "/d", &["Range: bytes=1-250000"]).await;
            assert_eq!(reply.body, pseudo_random(300_000, 8)[1..250_001]);
        }
    }
}

#[tokio::test]
async fn a_cut_comes_without_close_notify() {
    let server = serving(Tls::Trusted).await;
    server.script().next(Fault::CutAfter(200_000));
    let mut client = Client::over(connect(&server, "localhost").await.unwrap());
    client.send("GET", "/d", &[]).await;
    let reply = client.reply(false).await;
    assert_eq!((reply.end, reply.body.len()), (End::Fin, 200_000));
    let mut byte = [0];
    let error = tokio::io::AsyncReadExt::read(&mut client.stream, &mut byte).await;
    assert_eq!(error.map_err(|e| e.kind()), Err(io::ErrorKind::UnexpectedEof));
    server.script().next(Fault::ResetAfter(1000));
    let mut client = Client::over(connect(&server, "localhost").await.unwrap());
    assert_eq!(client.ask("GET", "/d", &[]).await.end, End::Reset);
}

#[tokio::test]
async fn wrong_certificates_are_refused() {
    let cases = [
        (Tls::OtherName, "NotValidForName"),
        (Tls::Untrusted, "UnknownIssuer"),
        (Tls::Expired, "Expired"),
    ];
    for (tls, reason) in cases {
        let server = serving(tls).await;
        let error = connect(&server, "localhost").await.unwrap_err();
        assert!(format!("{error:?}").contains(reason), "{tls:?}: {error:?}");
    }
}
