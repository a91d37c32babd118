//! Generates certificates, valid and invalid.
//!
//! Keys are only in memory and are new for each server, so no key can leak or expire.

use std::{io, sync::Arc};

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, date_time_ymd,
};
use rustls::{
    RootCertStore,
    pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer},
    server::{WebPkiClientVerifier, danger::ClientCertVerifier},
};
use tokio_rustls::TlsAcceptor;

/// The kind of certificate that a server shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Tls {
    /// Valid for `127.0.0.1`, `::1` and `localhost`, signed by the server's own CA.
    #[default]
    Trusted,
    /// Signed by that CA, but for another name.
    OtherName,
    /// Valid names, signed by a CA other than that of [`Server::ca_pem`].
    ///
    /// [`Server::ca_pem`]: crate::Server::ca_pem
    Untrusted,
    /// Valid names and the right CA, but expired.
    Expired,
}

/// The TLS settings of a server and of its clients.
pub(crate) struct Identity {
    pub(crate) acceptor: TlsAcceptor,
    /// The CA certificate to trust.
    pub(crate) ca_pem: String,
    /// A client's certificate and key, if the server requires one.
    pub(crate) client_pem: Option<(String, String)>,
}

impl Tls {
    /// Creates the settings of a server for these protocols. `mutual` requires a certificate of
    /// clients, signed by the same CA.
    pub(crate) fn identity(self, protocols: &[&[u8]], mutual: bool) -> io::Result<Identity> {
        let issuer = Authority::new("Tidegate testkit CA")?;
        let ca_pem = match self {
            Self::Untrusted => Authority::new("Another testkit CA")?.pem,
            Self::Trusted | Self::OtherName | Self::Expired => issuer.pem.clone(),
        };
        let key = KeyPair::generate().map_err(io::Error::other)?;
        let leaf = self.leaf()?.signed_by(&key, &issuer.issuer).map_err(io::Error::other)?;
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let client_pem = mutual.then(|| issuer.client()).transpose()?;
        let verifier = if mutual {
            issuer.verifier(&provider)?
        } else {
            WebPkiClientVerifier::no_client_auth()
        };
        let mut config = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(io::Error::other)?
            .with_client_cert_verifier(verifier)
            .with_single_cert(vec![leaf.der().clone()], key)
            .map_err(io::Error::other)?;
        config.alpn_protocols = protocols.iter().map(|protocol| protocol.to_vec()).collect();
        Ok(Identity { acceptor: TlsAcceptor::from(Arc::new(config)), ca_pem, client_pem })
    }

    fn leaf(self) -> io::Result<CertificateParams> {
        let names: &[&str] = match self {
            Self::OtherName => &["elsewhere.invalid"],
            Self::Trusted | Self::Untrusted | Self::Expired => &["localhost", "127.0.0.1", "::1"],
        };
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let mut params = CertificateParams::new(names).map_err(io::Error::other)?;
        params.distinguished_name.push(DnType::CommonName, "Tidegate testkit");
        if self == Self::Expired {
            params.not_before = date_time_ymd(2001, 1, 1);
            params.not_after = date_time_ymd(2002, 1, 1);
        }
        Ok(params)
    }
}

/// A generated CA.
struct Authority {
    issuer: Issuer<'static, KeyPair>,
    certificate: CertificateDer<'static>,
    pem: String,
}

impl Authority {
    fn new(name: &str) -> io::Result<Self> {
        let key = KeyPair::generate().map_err(io::Error::other)?;
        let mut params = CertificateParams::new(Vec::new()).map_err(io::Error::other)?;
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        params.distinguished_name.push(DnType::CommonName, name);
        let certificate = params.self_signed(&key).map_err(io::Error::other)?;
        let (der, pem) = (certificate.der().clone(), certificate.pem());
        Ok(Self { issuer: Issuer::new(params, key), certificate: der, pem })
    }

    /// A certificate for a client, and its key.
    fn client(&self) -> io::Result<(String, String)> {
        let key = KeyPair::generate().map_err(io::Error::other)?;
        let mut params = CertificateParams::new(Vec::new()).map_err(io::Error::other)?;
        params.distinguished_name.push(DnType::CommonName, "Tidegate testkit client");
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        let certificate = params.signed_by(&key, &self.issuer).map_err(io::Error::other)?;
        Ok((certificate.pem(), key.serialize_pem()))
    }

    fn verifier(
        &self,
        provider: &Arc<rustls::crypto::CryptoProvider>,
    ) -> io::Result<Arc<dyn ClientCertVerifier>> {
        let mut roots = RootCertStore::empty();
        roots.add(self.certificate.clone()).map_err(io::Error::other)?;
        let provider = Arc::clone(provider);
        WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider)
            .build()
            .map_err(io::Error::other)
    }
}
