//! TLS trust: the system's authorities, those that the caller names, and the client certificate.
//!
//! The system's store is a few hundred kilobytes of PEM and takes some milliseconds to parse.
//! Processes that only speak `http://`, or end soon, do not need it. It is read when the first
//! `https://` connection is made, on a thread that may block. The caller's files are read at once,
//! so that a wrong path is an error of the option and not of a later connection.
//!
//! Invariant: connections that are made while the store is being read wait for that read. If the
//! task that started the read is cancelled, the next task starts it again.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::{ClientConfig, ConfigBuilder, RootCertStore, WantsVerifier};
use tokio::sync::OnceCell;
use tokio::task::{JoinError, spawn_blocking};

#[cfg(feature = "reapi")]
use super::CallerHash;
use super::{ClientIdentity, TransportOptions};
use crate::error::{Error, ErrorKind, Operation, Result};

/// How the system's certificates are read; tests replace it.
type ReadSystem = fn() -> Vec<CertificateDer<'static>>;

/// See the module docs.
#[derive(Debug)]
pub(super) struct Trust {
    builder: ConfigBuilder<ClientConfig, WantsVerifier>,
    given: RootCertStore,
    identity: Option<Arc<SingleCertAndKey>>,
    /// The certificates of `identity`.
    #[cfg(feature = "reapi")]
    shown: Vec<CertificateDer<'static>>,
    read_system: ReadSystem,
    config: OnceCell<Arc<ClientConfig>>,
}

impl Trust {
    /// Trusts the system's authorities (`SSL_CERT_FILE` and `SSL_CERT_DIR` are honoured) and those
    /// that the options name.
    pub(super) fn new(options: &TransportOptions) -> Result<Self> {
        Self::with_system(&options.ca_certs, options.client_identity.as_ref(), read_system)
    }

    fn with_system(
        ca_certs: &[PathBuf],
        identity: Option<&ClientIdentity>,
        read_system: ReadSystem,
    ) -> Result<Self> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let certified = identity.map(|identity| certified(identity, &provider)).transpose()?;
        #[cfg(feature = "reapi")]
        let shown = certified.as_ref().map(|certified| certified.cert.clone()).unwrap_or_default();
        let identity = certified.map(|certified| Arc::new(SingleCertAndKey::from(certified)));
        let builder = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| {
                Error::new(ErrorKind::Unsupported, Operation::Connect, "TLS", "no usable protocol")
                    .caused_by(error)
            })?;
        let mut given = RootCertStore::empty();
        for path in ca_certs {
            add_file(&mut given, path)?;
        }
        Ok(Self {
            builder,
            given,
            identity,
            #[cfg(feature = "reapi")]
            shown,
            read_system,
            config: OnceCell::new(),
        })
    }

    /// Adds the client certificate, and the caller's authorities as they were read. The private key
    /// is not added: the certificate already identifies it.
    #[cfg(feature = "reapi")]
    pub(super) fn identify(&self, caller: &mut CallerHash) {
        for certificate in &self.shown {
            caller.add("client certificate", certificate);
        }
        for anchor in &self.given.roots {
            caller.add("authority", &anchor.subject);
            caller.add("key", &anchor.subject_public_key_info);
            caller.add("constraints", anchor.name_constraints.as_deref().unwrap_or_default());
        }
    }

    /// The settings of every TLS session. Sessions share them, so that a later one can resume
    /// cheaply.
    ///
    /// Fails only if the runtime is being shut down.
    pub(super) async fn config(&self) -> Result<Arc<ClientConfig>, JoinError> {
        // CANCEL: the cell stays empty, and the next call reads again.
        self.config.get_or_try_init(|| self.load()).await.cloned()
    }

    async fn load(&self) -> Result<Arc<ClientConfig>, JoinError> {
        let (builder, mut roots) = (self.builder.clone(), self.given.clone());
        let (read_system, identity) = (self.read_system, self.identity.clone());
        spawn_blocking(move || {
            roots.add_parsable_certificates(read_system());
            let builder = builder.with_root_certificates(roots);
            Arc::new(match identity {
                Some(identity) => builder.with_client_cert_resolver(identity),
                None => builder.with_no_client_auth(),
            })
        })
        .await
    }
}

/// If the store is missing or damaged, authorities are missing. The user then sees a certificate
/// that is not trusted.
fn read_system() -> Vec<CertificateDer<'static>> {
    rustls_native_certs::load_native_certs().certs
}

fn add_file(roots: &mut RootCertStore, path: &Path) -> Result<()> {
    let refuse = |message: &str| {
        let target = path.display().to_string();
        Error::new(ErrorKind::Invalid, Operation::Connect, target, message.to_owned())
            .with_hint("give a PEM file that holds at least one certificate")
    };
    let certs = CertificateDer::pem_file_iter(path)
        .map_err(|error| refuse("the certificate file cannot be read").caused_by(error))?;
    let mut count = 0;
    for cert in certs {
        let cert = cert.map_err(|error| refuse("the file is not valid PEM").caused_by(error))?;
        roots
            .add(cert)
            .map_err(|error| refuse("the certificate cannot be an authority").caused_by(error))?;
        count += 1;
    }
    if count == 0 {
        return Err(refuse("the file holds no certificate"));
    }
    Ok(())
}

/// Reads the client certificate and its key.
fn certified(identity: &ClientIdentity, provider: &CryptoProvider) -> Result<CertifiedKey> {
    let refuse = |path: &Path, message: &str, hint: &str| {
        let target = path.display().to_string();
        Error::new(ErrorKind::Invalid, Operation::Connect, target, message.to_owned())
            .with_hint(hint)
    };
    let (certs, key) = (&identity.certificates, &identity.key);
    let one = "give a PEM file with our certificate, and after it those that it is signed with";
    let chain = CertificateDer::pem_file_iter(certs)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(|error| refuse(certs, "the certificates cannot be read", one).caused_by(error))?;
    if chain.is_empty() {
        return Err(refuse(certs, "the file holds no certificate", one));
    }
    // The cause may quote the file, so it is not shown.
    let other = "give a PEM file with the private key of our certificate, without a password";
    let private = PrivateKeyDer::from_pem_file(key)
        .ok()
        .ok_or_else(|| refuse(key, "no private key can be read from it", other))?;
    CertifiedKey::from_der(chain, private, provider)
        .map_err(|error| refuse(key, "it is not the certificate's key", other).caused_by(error))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::{Mutex, PoisonError};

    use futures_util::future::{FutureExt as _, join_all};

    use super::*;

    #[tokio::test]
    async fn connections_that_come_together_read_once_and_share_what_they_get() {
        static READINGS: AtomicUsize = AtomicUsize::new(0);
        let read = || {
            READINGS.fetch_add(1, Ordering::Relaxed);
            Vec::new()
        };
        let trust = Trust::with_system(&[], None, read).unwrap();
        assert_eq!(READINGS.load(Ordering::Relaxed), 0, "not before it is needed");
        let configs = join_all((0..32).map(|_| trust.config())).await;
        assert_eq!(READINGS.load(Ordering::Relaxed), 1);
        let first = configs[0].as_ref().unwrap();
        assert!(configs.iter().all(|config| Arc::ptr_eq(config.as_ref().unwrap(), first)));
        assert!(Arc::ptr_eq(&trust.config().await.unwrap(), first));
    }

    #[tokio::test]
    async fn one_that_is_cancelled_leaves_the_reading_to_the_next() {
        static GATE: Mutex<()> = Mutex::new(());
        static READINGS: AtomicUsize = AtomicUsize::new(0);
        let read = || {
            drop(GATE.lock().unwrap_or_else(PoisonError::into_inner));
            READINGS.fetch_add(1, Ordering::Relaxed);
            Vec::new()
        };
        let trust = Trust::with_system(&[], None, read).unwrap();
        let mut second = Box::pin(trust.config());
        {
            let _closed = GATE.lock().unwrap();
            let mut first = Box::pin(trust.config());
            assert!((&mut first).now_or_never().is_none(), "it began the reading");
            assert!((&mut second).now_or_never().is_none(), "it waits for the first");
        }
        second.await.unwrap();
        assert!((1..=2).contains(&READINGS.load(Ordering::Relaxed)));
    }

    #[test]
    fn what_the_caller_names_is_read_at_once() {
        let folder = tempfile::tempdir().unwrap();
        let refused = |name: &str, text: Option<&str>| {
            let path = folder.path().join(name);
            if let Some(text) = text {
                std::fs::write(&path, text).unwrap();
            }
            let error = Trust::with_system(&[path], None, Vec::new).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Invalid);
            assert!(error.to_string().contains(name), "{error}");
            error.to_string()
        };
        assert!(refused("missing.pem", None).contains("cannot be read"));
        assert!(refused("empty.pem", Some("none")).contains("holds no certificate"));
        let half = "-----BEGIN CERTIFICATE-----\n*\n-----END CERTIFICATE-----\n";
        assert!(refused("half.pem", Some(half)).contains("not valid PEM"));
        let other = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
        assert!(refused("other.pem", Some(other)).contains("cannot be an authority"));
    }
}
