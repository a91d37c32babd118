//! TLS, demanded certificates, tokens.

use tidegate_reapi::v2::{GetCapabilitiesRequest, capabilities_client::CapabilitiesClient};
use tidegate_testkit::{
    Tls,
    reapi::{ReapiOptions, ReapiServer},
};
use tonic::{
    Code, Request,
    transport::{Certificate, Channel, ClientTlsConfig, Identity},
};

async fn reaches(server: &ReapiServer, certified: bool) -> bool {
    let authority = Certificate::from_pem(server.ca_pem().unwrap());
    let mut tls = ClientTlsConfig::new().ca_certificate(authority).domain_name("localhost");
    if let (true, Some((certificate, key))) = (certified, server.client_pem()) {
        tls = tls.identity(Identity::from_pem(certificate, key));
    }
    let endpoint = Channel::from_shared(format!("https://{}", server.addr())).unwrap();
    let Ok(channel) = endpoint.tls_config(tls).unwrap().connect().await else { return false };
    let mut client = CapabilitiesClient::new(channel);
    client.get_capabilities(GetCapabilitiesRequest::default()).await.is_ok()
}

#[tokio::test]
async fn a_client_that_trusts_the_ca_is_served() {
    let options = ReapiOptions { tls: Some(Tls::Trusted), ..Default::default() };
    let server = ReapiServer::start(options).await.unwrap();
    assert!(server.url().starts_with("grpcs://"));
    assert!(reaches(&server, false).await);
    let options = ReapiOptions { tls: Some(Tls::Untrusted), ..Default::default() };
    let server = ReapiServer::start(options).await.unwrap();
    assert!(!reaches(&server, false).await);
}

#[tokio::test]
async fn a_certificate_can_be_demanded() {
    let tls = Some(Tls::Trusted);
    let options = ReapiOptions { tls, client_certificate: true, ..Default::default() };
    let server = ReapiServer::start(options).await.unwrap();
    assert!(reaches(&server, true).await);
    assert!(!reaches(&server, false).await);
}

#[tokio::test]
async fn a_token_can_be_demanded() {
    let options = ReapiOptions { token: Some("secret".to_owned()), ..Default::default() };
    let mut bed = super::Bed::new(options).await;
    for (given, expected) in
        [("Bearer secret", None), ("Bearer other", Some(Code::Unauthenticated))]
    {
        let mut request = Request::new(GetCapabilitiesRequest::default());
        request.metadata_mut().insert("authorization", given.parse().unwrap());
        let answer = bed.capabilities.get_capabilities(request).await;
        assert_eq!(answer.err().map(|status| status.code()), expected);
    }
    let missing = bed.capabilities.get_capabilities(GetCapabilitiesRequest::default()).await;
    assert_eq!(missing.unwrap_err().code(), Code::Unauthenticated);
}
