//! Credentials that can be looked up again: [`Renewable`].
//!
//! `object_store` caches a provider's credential until shortly before it expires. It has no call to
//! report that the service rejected the credential. It would continue to send a token that was
//! revoked, or that expired by the service's clock. So this module wraps the provider. When a
//! request is rejected, a new provider with an empty cache looks the credential up again. If the
//! credential differs, the request is sent again.
//!
//! A lookup can change the response of a metadata, container or token service, and the content of
//! files (a profile, a service account's key). The environment of a process does not change: the
//! lookup gives the same credential, and the rejection stands.
//!
//! Invariant: one lookup serves all requests in which a credential was rejected. `generation`
//! counts how often the credential has changed, so a request knows whether its own credential is
//! still the current one.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use object_store::CredentialProvider;
use tokio::sync::Mutex as AsyncMutex;
use tokio::task::spawn_blocking;

#[cfg(any(feature = "gcs", feature = "s3"))]
use crate::error::Hint;
use crate::error::Result;

/// A provider of a store's credentials, in the type of `object_store`.
pub(super) type Provider<C> = Arc<dyn CredentialProvider<Credential = C>>;

/// Makes a provider with an empty cache. May read files.
type Find<C> = dyn Fn() -> Result<Provider<C>> + Send + Sync;

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// Why no source gave credentials. The text has no secrets.
#[cfg(any(feature = "gcs", feature = "s3"))]
#[derive(Clone, Debug, thiserror::Error)]
#[error("{message}")]
pub(super) struct NoCredentials {
    message: String,
    pub(super) hint: Hint,
}

#[cfg(any(feature = "gcs", feature = "s3"))]
impl NoCredentials {
    pub(super) fn new(message: &str, hint: impl Into<Hint>) -> Self {
        let message = tidegate_core::printable::escaped(message).into_owned();
        Self { message, hint: hint.into() }
    }

    /// The one below this error, if there is one.
    pub(super) fn below(error: &object_store::Error) -> Option<&Self> {
        let mut level: Option<&(dyn std::error::Error + 'static)> = Some(error);
        while let Some(error) = level {
            if let Some(found) = error.downcast_ref() {
                return Some(found);
            }
            level = error.source();
        }
        None
    }
}

#[cfg(any(feature = "gcs", feature = "s3"))]
impl From<NoCredentials> for object_store::Error {
    fn from(error: NoCredentials) -> Self {
        Self::Generic { store: "object store", source: error.into() }
    }
}

/// The error without the library's frame around it.
fn unframed(error: object_store::Error) -> BoxError {
    match error {
        object_store::Error::Generic { source, .. } => source,
        other => other.into(),
    }
}

/// Credentials of any type, as requests use them.
#[async_trait]
pub(super) trait Renew: fmt::Debug + Send + Sync {
    /// The generation of the current credential. The caller keeps it while a request is in flight.
    async fn generation(&self) -> u64;

    /// Reports that the credential of this generation was rejected. Returns whether there is
    /// another one now.
    async fn renew(&self, generation: u64) -> Result<bool, BoxError>;
}

/// See the module docs.
pub(super) struct Renewable<C> {
    find: Arc<Find<C>>,
    state: Mutex<State<C>>,
    renewing: AsyncMutex<()>,
}

struct State<C> {
    provider: Provider<C>,
    given: Option<Arc<C>>,
    generation: u64,
}

impl<C> State<C> {
    fn give(&mut self, credential: &Arc<C>) {
        self.given = Some(Arc::clone(credential));
        self.generation += 1;
    }
}

impl<C> fmt::Debug for Renewable<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Renewable(..)")
    }
}

impl<C: Eq + 'static> Renewable<C> {
    /// Makes the first provider now, and later providers with the same function.
    pub(super) fn new(
        find: impl Fn() -> Result<Provider<C>> + Send + Sync + 'static,
    ) -> Result<Self> {
        let state = State { provider: find()?, given: None, generation: 0 };
        Ok(Self { find: Arc::new(find), state: Mutex::new(state), renewing: AsyncMutex::default() })
    }

    fn lock(&self) -> MutexGuard<'_, State<C>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl<C: fmt::Debug + Eq + Send + Sync + 'static> CredentialProvider for Renewable<C> {
    type Credential = C;

    async fn get_credential(&self) -> object_store::Result<Arc<C>> {
        let provider = Arc::clone(&self.lock().provider);
        let credential = provider.get_credential().await?;
        let mut state = self.lock();
        let is_new = state.given.as_ref().is_none_or(|given| **given != *credential);
        // A renewal may have replaced the provider in the meantime; its credential is newer.
        if is_new && Arc::ptr_eq(&state.provider, &provider) {
            state.give(&credential);
        }
        Ok(credential)
    }
}

#[async_trait]
impl<C: fmt::Debug + Eq + Send + Sync + 'static> Renew for Renewable<C> {
    async fn generation(&self) -> u64 {
        // So that the credential of the next request is counted. The request itself reports a
        // failure.
        let _ = self.get_credential().await;
        self.lock().generation
    }

    async fn renew(&self, generation: u64) -> Result<bool, BoxError> {
        let _one_at_a_time = self.renewing.lock().await;
        if self.lock().generation != generation {
            return Ok(true);
        }
        let find = Arc::clone(&self.find);
        let provider = spawn_blocking(move || find()).await??;
        let credential = provider.get_credential().await.map_err(unframed)?;
        let mut state = self.lock();
        if state.given.as_ref().is_some_and(|given| **given == *credential) {
            return Ok(false);
        }
        state.provider = provider;
        state.give(&credential);
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use futures_util::future::join_all;
    use object_store::StaticCredentialProvider;

    use super::*;
    use crate::error::{Error, ErrorKind, Operation};

    /// Credentials `0`, `1`, ...: each lookup gives the next one, up to `last`, which then stays.
    fn counting(last: u64) -> (Arc<AtomicU64>, Renewable<u64>) {
        let found = Arc::new(AtomicU64::new(0));
        let count = Arc::clone(&found);
        let find = move || {
            let next = count.fetch_add(1, Ordering::Relaxed).min(last);
            Ok(Arc::new(StaticCredentialProvider::new(next)) as Provider<u64>)
        };
        (found, Renewable::new(find).unwrap())
    }

    #[tokio::test]
    async fn many_that_are_rejected_together_look_for_one_credential() {
        let (found, credentials) = counting(9);
        let generation = credentials.generation().await;
        assert_eq!(*credentials.get_credential().await.unwrap(), 0);
        let renewed = join_all((0..32).map(|_| credentials.renew(generation))).await;
        assert!(renewed.into_iter().all(Result::unwrap));
        assert_eq!(found.load(Ordering::Relaxed), 2);
        assert_eq!(*credentials.get_credential().await.unwrap(), 1);
        // A later rejection concerns a later credential.
        assert!(credentials.renew(credentials.generation().await).await.unwrap());
        assert_eq!(*credentials.get_credential().await.unwrap(), 2);
    }

    #[tokio::test]
    async fn the_same_credential_is_no_other() {
        let (found, credentials) = counting(0);
        let generation = credentials.generation().await;
        assert!(!credentials.renew(generation).await.unwrap());
        assert_eq!(found.load(Ordering::Relaxed), 2, "it was looked for");
        assert_eq!(credentials.generation().await, generation);
    }

    #[tokio::test]
    async fn one_that_cannot_be_found_leaves_the_old_one() {
        let looked = AtomicU64::new(0);
        let credentials = Renewable::new(move || {
            if looked.fetch_add(1, Ordering::Relaxed) > 0 {
                let gone = Error::new(ErrorKind::NoAccess, Operation::Connect, "x", "it is gone");
                return Err(gone);
            }
            Ok(Arc::new(StaticCredentialProvider::new(7_u64)) as Provider<u64>)
        })
        .unwrap();
        let generation = credentials.generation().await;
        let error = credentials.renew(generation).await.unwrap_err();
        assert!(error.to_string().contains("gone"), "{error}");
        assert_eq!(*credentials.get_credential().await.unwrap(), 7);
    }
}
