//! How connections are made: TCP settings, and whom TLS trusts.

use std::sync::Arc;
use std::time::Duration;

use hyper_rustls::HttpsConnector;
use hyper_util::client::legacy::connect::HttpConnector as TcpConnector;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};

use super::TransportOptions;
use crate::error::{Error, ErrorKind, Operation, Result};

/// A dead peer is noticed after this long without traffic, below the idle limits of common NATs.
const KEEPALIVE_SECONDS: u64 = 60;

pub(super) fn connector(options: &TransportOptions) -> Result<HttpsConnector<TcpConnector>> {
    let mut tcp = TcpConnector::new();
    tcp.enforce_http(false);
    tcp.set_nodelay(true);
    tcp.set_keepalive(Some(Duration::from_secs(KEEPALIVE_SECONDS)));
    tcp.set_connect_timeout(Some(Duration::from_millis(options.connect_ms_max)));
    tcp.set_recv_buffer_size(options.receive_buffer_bytes);

    Ok(hyper_rustls::HttpsConnectorBuilder::new()
        .with_tls_config(tls_config(options)?)
        .https_or_http()
        .enable_http1()
        .wrap_connector(tcp))
}

fn tls_config(options: &TransportOptions) -> Result<ClientConfig> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| {
            Error::new(ErrorKind::Unsupported, Operation::Connect, "TLS", "no usable protocol")
                .caused_by(error)
        })?
        .with_root_certificates(roots(options)?)
        .with_no_client_auth();
    Ok(config)
}

/// The system's authorities (`SSL_CERT_FILE` and `SSL_CERT_DIR` are honoured) and those given.
fn roots(options: &TransportOptions) -> Result<RootCertStore> {
    let mut roots = RootCertStore::empty();
    // A machine without certificates can still speak http://, so what is missing here shows up
    // as an untrusted certificate when an https:// remote is asked.
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    for path in &options.ca_certs {
        let refuse = |message: &str| {
            Error::new(
                ErrorKind::Invalid,
                Operation::Connect,
                path.display().to_string(),
                message.to_owned(),
            )
            .with_hint("give a PEM file that holds at least one certificate")
        };
        let mut count = 0;
        for cert in CertificateDer::pem_file_iter(path)
            .map_err(|error| refuse("the certificate file cannot be read").caused_by(error))?
        {
            let cert =
                cert.map_err(|error| refuse("the file is not valid PEM").caused_by(error))?;
            roots.add(cert).map_err(|error| {
                refuse("the certificate cannot be an authority").caused_by(error)
            })?;
            count += 1;
        }
        if count == 0 {
            return Err(refuse("the file holds no certificate"));
        }
    }
    Ok(roots)
}
