//! TLS, and certificates of clients.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::StatusCode;
use http_body_util::Full;
use hyper_util::rt::TokioIo;
use rcgen::{BasicConstraints, CertificateParams, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tidegate_server::serve::{ServeOptions, TlsFiles};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use crate::bed::{Answer, Bed, ROLES, WRITER, authorized, within};

/// An authority, with which certificates are made.
struct Authority {
    issuer: Issuer<'static, KeyPair>,
    pem: String,
}

impl Authority {
    fn new() -> Self {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let pem = params.self_signed(&key).unwrap().pem();
        Self { issuer: Issuer::new(params, key), pem }
    }

    /// A certificate for a name, and its key.
    fn leaf(&self, name: &str, purpose: ExtendedKeyUsagePurpose) -> (String, String) {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        params.extended_key_usages = vec![purpose];
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        (certificate.pem(), key.serialize_pem())
    }

    fn server(&self) -> (String, String) {
        self.leaf("localhost", ExtendedKeyUsagePurpose::ServerAuth)
    }

    fn client(&self, name: &str) -> (String, String) {
        self.leaf(name, ExtendedKeyUsagePurpose::ClientAuth)
    }
}

/// Writes the files of a server into a folder.
fn tls_files(folder: &Path, server: &(String, String), clients: Option<&Authority>) -> TlsFiles {
    let certificate = folder.join("server.pem");
    let key = folder.join("server.key");
    std::fs::write(&certificate, &server.0).unwrap();
    std::fs::write(&key, &server.1).unwrap();
    let client_authorities = clients.map(|authority| {
        let path = folder.join("clients.pem");
        std::fs::write(&path, &authority.pem).unwrap();
        path
    });
    TlsFiles { certificate, key, client_authorities }
}

async fn bed(credentials: &str, authority: &Authority, clients: Option<&Authority>) -> Bed {
    Bed::with(credentials, |options: &mut ServeOptions| {
        let folder = options.folder.parent().unwrap();
        options.tls = Some(tls_files(folder, &authority.server(), clients));
    })
    .await
}

/// A request over TLS; `None` if the handshake fails.
async fn ask(
    bed: &Bed,
    trusted: &Authority,
    own: Option<&(String, String)>,
    token: &str,
    method: &str,
) -> Option<Answer> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(trusted.pem.as_bytes()).unwrap()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider);
    let builder = builder.with_safe_default_protocol_versions().unwrap();
    let builder = builder.with_root_certificates(roots);
    let config = match own {
        None => builder.with_no_client_auth(),
        Some((certificate, key)) => {
            let certificate = CertificateDer::from_pem_slice(certificate.as_bytes()).unwrap();
            let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap();
            builder.with_client_auth_cert(vec![certificate], key).unwrap()
        }
    };
    let socket = TcpStream::connect(bed.address).await.unwrap();
    let name = ServerName::try_from("localhost").unwrap();
    let socket = TlsConnector::from(Arc::new(config)).connect(name, socket).await.ok()?;
    let handshake = hyper::client::conn::http1::handshake(TokioIo::new(socket)).await;
    let (mut requests, connection) = handshake.ok()?;
    let driver = tokio::spawn(connection);
    let request = authorized(token).method(method).uri("/webdav/file").header("host", "localhost");
    let request = request.body(Full::new(Bytes::from_static(b"x"))).unwrap();
    let response = within(requests.send_request(request)).await.ok()?;
    let answer = Answer::of(response).await;
    driver.abort();
    Some(answer)
}

const CERTIFICATES: &str = "
[[certificate]]
dns = 'builder.example'
role = 'write'

[[certificate]]
dns = 'reader.example'
role = 'read'
";

#[tokio::test]
async fn a_certificate_has_the_role_of_its_name() {
    let (authority, clients, strangers) = (Authority::new(), Authority::new(), Authority::new());
    let bed = bed(&format!("{ROLES}{CERTIFICATES}"), &authority, Some(&clients)).await;
    let status = async |own: Option<&(String, String)>, token: &str, method: &str| {
        ask(&bed, &authority, own, token, method).await.map(|answer| answer.status)
    };
    let builder = clients.client("builder.example");
    let reader = clients.client("reader.example");
    let unknown = clients.client("other.example");
    let stranger = strangers.client("builder.example");
    assert_eq!(status(Some(&builder), "", "PUT").await, Some(StatusCode::CREATED));
    assert_eq!(status(Some(&reader), "", "GET").await, Some(StatusCode::OK));
    assert_eq!(status(Some(&reader), "", "PUT").await, Some(StatusCode::FORBIDDEN));
    assert_eq!(status(Some(&unknown), "", "GET").await, Some(StatusCode::UNAUTHORIZED));
    assert_eq!(status(None, "", "GET").await, Some(StatusCode::UNAUTHORIZED));
    // A token counts before a certificate.
    assert_eq!(status(Some(&reader), WRITER, "PUT").await, Some(StatusCode::CREATED));
    assert_eq!(
        status(Some(&builder), "unknown-token-0123", "PUT").await,
        Some(StatusCode::UNAUTHORIZED)
    );
    assert_eq!(status(None, WRITER, "PUT").await, Some(StatusCode::CREATED));
    // Another authority signed it: the handshake fails.
    assert_eq!(status(Some(&stranger), "", "GET").await, None);
    bed.end().await;
}

#[tokio::test]
async fn a_new_certificate_is_shown_without_a_restart() {
    let (first, second) = (Authority::new(), Authority::new());
    let bed = bed(ROLES, &first, None).await;
    assert!(ask(&bed, &first, None, WRITER, "PUT").await.is_some());
    assert!(ask(&bed, &second, None, WRITER, "GET").await.is_none());
    // A certificate without its key is not used.
    let other = second.server();
    std::fs::write(bed.folder.path().join("server.pem"), &other.0).unwrap();
    assert!(ask(&bed, &first, None, WRITER, "GET").await.is_some());
    std::fs::write(bed.folder.path().join("server.key"), &other.1).unwrap();
    within(async {
        while ask(&bed, &second, None, WRITER, "GET").await.is_none() {
            tokio::task::yield_now().await;
        }
    })
    .await;
    assert!(ask(&bed, &first, None, WRITER, "GET").await.is_none());
    bed.end().await;
}

/// A client that begins no handshake keeps no slot.
#[tokio::test]
async fn a_handshake_that_does_not_come_ends() {
    let authority = Authority::new();
    let bed = Bed::with(ROLES, |options: &mut ServeOptions| {
        let folder = options.folder.parent().unwrap();
        options.tls = Some(tls_files(folder, &authority.server(), None));
        options.limits.connections_max = 1;
        options.limits.header_time_max = Duration::from_millis(20);
    })
    .await;
    let silent = TcpStream::connect(bed.address).await.unwrap();
    let answer = within(ask(&bed, &authority, None, WRITER, "PUT")).await;
    assert_eq!(answer.map(|answer| answer.status), Some(StatusCode::CREATED));
    drop(silent);
    bed.end().await;
}
