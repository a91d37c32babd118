//! Credentials that can be asked for once more: [`Renewable`].
//!
//! `object_store` keeps what a provider gave until shortly before it expires, and cannot be told that
//! the service rejects it: a token that is revoked, or expires by another clock than ours, would be
//! sent until then. So the provider is wrapped here. A request that is rejected has the credential
//! found anew, by a new provider with nothing in its cache, and is sent again if another one is there.
//!
//! What can change: the answer of a metadata, container or token service, and files (a profile, a
//! service account's key). The environment of a process does not change: such credentials are found
//! to be the same, and the rejection stands.
//!
//! Invariant: a credential is looked for once for all requests in which it was rejected. `generation`
//! counts how often the credential has changed, so that a request knows whether the one it was sent
//! with is still the one that is given out.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use object_store::CredentialProvider;
use tokio::sync::Mutex as AsyncMutex;
use tokio::task::spawn_blocking;

use crate::error::Result;

/// A provider of a store's credentials, as `object_store` has it.
pub(super) type Provider<C> = Arc<dyn CredentialProvider<Credential = C>>;

/// Makes a provider that remembers nothing. May read files.
type Find<C> = dyn Fn() -> Result<Provider<C>> + Send + Sync;

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// Credentials of any kind, as requests see them.
#[async_trait]
pub(super) trait Renew: fmt::Debug + Send + Sync {
    /// Which credential is given out now; to be kept while a request is under way.
    async fn generation(&self) -> u64;

    /// The credential of this generation was rejected. Says whether there is another one now.
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
    /// Finds a provider at once, and others by the same means.
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
        // Another provider may have taken its place meanwhile, whose credential is the newer one.
        if is_new && Arc::ptr_eq(&state.provider, &provider) {
            state.give(&credential);
        }
        Ok(credential)
    }
}

#[async_trait]
impl<C: fmt::Debug + Eq + Send + Sync + 'static> Renew for Renewable<C> {
    async fn generation(&self) -> u64 {
        // So that what the request is sent with has been counted. A failure is the request's to tell.
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
        let credential = provider.get_credential().await?;
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

    /// Credentials `0`, `1`, ...: the next one whenever one is looked for; the last one stays.
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
        // A later rejection is of a later credential.
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
