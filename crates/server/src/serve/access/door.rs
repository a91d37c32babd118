//! [`Door`]: lets a request in, or refuses it.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use http::HeaderMap;

use super::credentials::Credentials;
use super::presented::Presented;
use super::tls::{PeerCertificate, Tls};
use super::watch::WatchedFiles;
use super::{Caller, Role, Tenant};
use crate::store::LocalStore;

/// How often changed files are looked for.
const REFRESH_EVERY: Duration = Duration::from_secs(1);

/// What a request needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum Need {
    /// Nothing: probes of a load balancer have no credentials.
    Nothing,
    /// A caller with this role.
    Role(Role),
}

/// Why a request is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum Refusal {
    /// No credentials, or unknown ones.
    Unknown,
    /// The caller has a lesser role.
    Role(Role),
}

impl Refusal {
    /// The message to the client.
    pub(in super::super) fn message(self) -> String {
        match self {
            Self::Unknown => "the server does not know these credentials".into(),
            Self::Role(needed) => format!("this needs the role {needed}"),
        }
    }
}

/// The credentials of a server.
#[derive(Debug)]
pub(in super::super) struct Door {
    /// `None` if all who reach the server may do all.
    guard: Option<Guard>,
    anyone: Caller,
    tls: Option<Tls>,
}

#[derive(Debug)]
struct Guard {
    path: PathBuf,
    current: Mutex<Arc<Credentials>>,
    watched: Mutex<WatchedFiles>,
    /// The store, if tenants have blobs of their own.
    isolated: Option<LocalStore>,
}

impl Door {
    /// A door for all, or for those in the file of credentials. `isolated` is the store, if tenants
    /// have blobs of their own. Blocks.
    pub(in super::super) fn open(
        credentials: Option<PathBuf>,
        tls: Option<Tls>,
        isolated: Option<LocalStore>,
    ) -> Result<Self, String> {
        let anyone = Caller::anyone(Tenant::default());
        let guard = match credentials {
            None => None,
            Some(path) => {
                let watched = WatchedFiles::new(vec![path.clone()]);
                let credentials = read(&path, isolated.as_ref())?;
                if credentials.has_certificates() && tls.is_none() {
                    let path = path.display();
                    return Err(format!("{path}: certificates need TLS and --tls-client-ca"));
                }
                Some(Guard {
                    path,
                    current: Mutex::new(Arc::new(credentials)),
                    watched: Mutex::new(watched),
                    isolated,
                })
            }
        };
        Ok(Self { guard, anyone, tls })
    }

    /// TLS, if the server has it.
    pub(in super::super) const fn tls(&self) -> Option<&Tls> {
        self.tls.as_ref()
    }

    /// The caller of a request. A token counts before a certificate.
    pub(in super::super) fn admit(
        &self,
        need: Need,
        headers: &HeaderMap,
        certificate: Option<&PeerCertificate>,
    ) -> Result<Caller, Refusal> {
        let (Some(guard), Need::Role(needed)) = (&self.guard, need) else {
            return Ok(self.anyone.clone());
        };
        let known = Arc::clone(&guard.current.lock().unwrap_or_else(PoisonError::into_inner));
        let caller = match Presented::of(headers) {
            Presented::Token(token) => known.of_token(&token),
            Presented::Unreadable => None,
            Presented::Nothing => certificate
                .and_then(|certificate| known.of_certificate(certificate))
                .or_else(|| known.anonymous()),
        };
        match caller {
            None => Err(Refusal::Unknown),
            Some(caller) if caller.role() >= needed => Ok(caller.clone()),
            // A client without credentials is asked for some.
            Some(_) if is_anonymous(caller, known.anonymous()) => Err(Refusal::Unknown),
            Some(_) => Err(Refusal::Role(needed)),
        }
    }

    /// Reads files again when they change. Never ends.
    pub(in super::super) async fn keep_fresh(self: Arc<Self>) {
        if self.guard.is_none() && self.tls.is_none() {
            return std::future::pending().await;
        }
        let mut ticks = tokio::time::interval(REFRESH_EVERY);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            let door = Arc::clone(&self);
            // It fails only when the runtime ends.
            let _ = tokio::task::spawn_blocking(move || door.refresh()).await;
        }
    }

    fn refresh(&self) {
        if let Some(tls) = &self.tls {
            tls.refresh();
        }
        if let Some(guard) = &self.guard {
            guard.refresh();
        }
    }
}

fn is_anonymous(caller: Option<&Caller>, anonymous: Option<&Caller>) -> bool {
    matches!((caller, anonymous), (Some(one), Some(other)) if std::ptr::eq(one, other))
}

impl Guard {
    fn refresh(&self) {
        if !self.watched.lock().unwrap_or_else(PoisonError::into_inner).have_changed() {
            return;
        }
        match read(&self.path, self.isolated.as_ref()) {
            Ok(credentials) => {
                *self.current.lock().unwrap_or_else(PoisonError::into_inner) =
                    Arc::new(credentials);
                tracing::info!(path = %self.path.display(), "the credentials were read again");
            }
            Err(error) => tracing::warn!(%error, "the changed credentials are not used"),
        }
    }
}

fn read(path: &Path, isolated: Option<&LocalStore>) -> Result<Credentials, String> {
    let text = std::fs::read_to_string(path);
    let text = text.map_err(|error| format!("{}: {error}", path.display()))?;
    let parsed = Credentials::parse(&text);
    let mut credentials = parsed.map_err(|error| format!("{}: {error}", path.display()))?;
    if let Some(store) = isolated {
        credentials.isolate(store);
    }
    Ok(credentials)
}
