//! TLS in both directions, tokens, and headers of every request.

use tidegate::remote::{ExtraHeaders, RemoteOptions};
use tidegate::transport::{ClientIdentity, TransportOptions};
use tidegate::{ErrorKind, Result};
use tidegate_testkit::Tls;
use tidegate_testkit::reapi::{ReapiOptions, ReapiServer};

use super::bed::sha256;

async fn ask(server: &ReapiServer, options: RemoteOptions) -> Result<()> {
    let cache = crate::call::cache(&server.url(), options)?;
    cache.missing(&[sha256(b"x")]).await.map(drop)
}

#[tokio::test]
async fn the_client_verifies_the_server_and_sends_its_certificate() {
    let server = ReapiServer::start(ReapiOptions {
        tls: Some(Tls::Trusted),
        client_certificate: true,
        ..ReapiOptions::default()
    })
    .await
    .unwrap();
    assert!(server.url().starts_with("grpcs://"));
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    };
    let ca_certs = vec![write("ca.pem", server.ca_pem().unwrap())];
    let (certificate, key) = server.client_pem().unwrap();
    let identity =
        ClientIdentity { certificates: write("cert.pem", certificate), key: write("key.pem", key) };
    let options = |client_identity: Option<ClientIdentity>| RemoteOptions {
        ca_certs: ca_certs.clone(),
        transport: TransportOptions { client_identity, ..TransportOptions::default() },
        ..RemoteOptions::default()
    };
    ask(&server, options(Some(identity.clone()))).await.unwrap();
    assert_eq!(ask(&server, options(None)).await.unwrap_err().kind(), ErrorKind::Transport);
    let untrusted = ask(&server, RemoteOptions::default()).await.unwrap_err();
    assert!(untrusted.to_string().contains("not trusted"), "{untrusted}");
    // A wrong key, and a missing key, are found before anything is sent.
    let other = rcgen_key();
    for key in [write("other.pem", &other), folder.path().join("none.pem")] {
        let wrong = ClientIdentity { key: key.clone(), ..identity.clone() };
        let error = ask(&server, options(Some(wrong))).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid, "{error:?}");
        assert!(error.to_string().contains(&key.display().to_string()), "{error}");
    }
}

/// A key that fits no certificate here.
fn rcgen_key() -> String {
    "-----BEGIN PRIVATE KEY-----\n\
     MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgevZzL1gdAFr88hb2\n\
     OF/2NxApJCzGCEDdfSp6VQO30hyhRANCAAQRWz+jn65BtOMvdyHKcvjBeBSDZH2r\n\
     1RTwjmYSi9R/zpBnuQ4EiMnCqfMPWiZqB4QdbAd0E7oH50VpuZ1P087G\n\
     -----END PRIVATE KEY-----\n"
        .to_owned()
}

#[tokio::test]
async fn a_token_goes_with_every_request_and_a_missing_token_is_reported() {
    let server =
        ReapiServer::start(ReapiOptions { token: Some("s3cret".to_owned()), ..Default::default() })
            .await
            .unwrap();
    let refused = ask(&server, RemoteOptions::default()).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::NoAccess);
    let mut headers = ExtraHeaders::new();
    headers.add_line("Authorization: Bearer s3cret").unwrap();
    ask(&server, RemoteOptions { headers, ..RemoteOptions::default() }).await.unwrap();
    let calls = server.calls();
    let metadata = "build.bazel.remote.execution.v2.requestmetadata-bin";
    assert!(calls.iter().all(|call| call.header(metadata).is_some()));
    assert!(calls.iter().all(|call| {
        call.header("user-agent").is_some_and(|agent| agent.starts_with("tidegate/"))
    }));
}
