//! Certificates of the server and of clients.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use rustls::client::verify_server_name;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::server::{ParsedCertificate, WebPkiClientVerifier};
use rustls::{RootCertStore, ServerConfig};
use tokio_rustls::TlsAcceptor;

use super::watch::WatchedFiles;

/// The protocols, best first.
const PROTOCOLS: [&[u8]; 2] = [b"h2", b"http/1.1"];

/// The files of TLS, in PEM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsFiles {
    /// The server's certificate, followed by those between it and its authority.
    pub certificate: PathBuf,
    /// The key of the certificate.
    pub key: PathBuf,
    /// The authorities whose certificates clients may show. `None` asks clients for none.
    pub client_authorities: Option<PathBuf>,
}

impl TlsFiles {
    fn paths(&self) -> Vec<PathBuf> {
        let files = [Some(&self.certificate), Some(&self.key), self.client_authorities.as_ref()];
        files.into_iter().flatten().cloned().collect()
    }
}

/// TLS with the files as they were when they were last read.
#[derive(Debug)]
pub(in super::super) struct Tls {
    files: TlsFiles,
    current: Mutex<Arc<ServerConfig>>,
    watched: Mutex<WatchedFiles>,
}

impl Tls {
    /// Reads the files. Blocks.
    pub(in super::super) fn open(files: TlsFiles) -> Result<Self, String> {
        let watched = WatchedFiles::new(files.paths());
        let config = config(&files)?;
        Ok(Self { files, current: Mutex::new(Arc::new(config)), watched: Mutex::new(watched) })
    }

    /// Accepts one connection.
    pub(in super::super) fn acceptor(&self) -> TlsAcceptor {
        let current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        TlsAcceptor::from(Arc::clone(&current))
    }

    /// Reads the files again if they have changed. Blocks.
    pub(super) fn refresh(&self) {
        if !self.watched.lock().unwrap_or_else(PoisonError::into_inner).have_changed() {
            return;
        }
        match config(&self.files) {
            Ok(config) => {
                *self.current.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(config);
                tracing::info!("the certificates were read again");
            }
            Err(error) => tracing::warn!(%error, "the changed certificates are not used"),
        }
    }
}

fn config(files: &TlsFiles) -> Result<ServerConfig, String> {
    let chain = certificates(&files.certificate)?;
    let key =
        PrivateKeyDer::from_pem_file(&files.key).map_err(|error| of_file(&files.key, error))?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider));
    let builder =
        builder.with_safe_default_protocol_versions().map_err(|error| error.to_string())?;
    let builder = match &files.client_authorities {
        None => builder.with_no_client_auth(),
        Some(path) => {
            let mut roots = RootCertStore::empty();
            for certificate in certificates(path)? {
                roots.add(certificate).map_err(|error| of_file(path, error))?;
            }
            // Tokens let clients in that show no certificate.
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider)
                .allow_unauthenticated()
                .build();
            builder.with_client_cert_verifier(verifier.map_err(|error| of_file(path, error))?)
        }
    };
    let mut config =
        builder.with_single_cert(chain, key).map_err(|error| of_file(&files.certificate, error))?;
    config.alpn_protocols = PROTOCOLS.map(<[u8]>::to_vec).to_vec();
    Ok(config)
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let found =
        CertificateDer::pem_file_iter(path).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    let found: Vec<_> = found.map_err(|error| of_file(path, error))?;
    if found.is_empty() {
        return Err(of_file(path, io::Error::other("there is no certificate")));
    }
    Ok(found)
}

fn of_file(path: &Path, error: impl std::fmt::Display) -> String {
    format!("{}: {error}", path.display())
}

/// The certificate of a client, which one of the authorities signed.
#[derive(Clone, Debug)]
pub(in super::super) struct PeerCertificate(CertificateDer<'static>);

impl PeerCertificate {
    /// The certificate of a connection, if the client showed one.
    pub(in super::super) fn of_connection(connection: &rustls::ServerConnection) -> Option<Self> {
        let leaf = connection.peer_certificates()?.first()?;
        Some(Self(leaf.clone().into_owned()))
    }

    /// Whether the certificate is for this name.
    pub(super) fn has_name(&self, name: &str) -> bool {
        let Ok(name) = ServerName::try_from(name) else { return false };
        let parsed = ParsedCertificate::try_from(&self.0);
        parsed.is_ok_and(|parsed| verify_server_name(&parsed, &name).is_ok())
    }

    /// Fails if no certificate can have the name.
    pub(super) fn check_name(name: &str) -> Result<(), String> {
        match ServerName::try_from(name) {
            Ok(_) => Ok(()),
            Err(_) => Err(format!("expected a DNS name, got {name:?}")),
        }
    }
}
