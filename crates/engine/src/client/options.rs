//! [`ClientOptions`]: the options of all transfers of a client.

#[cfg(feature = "_transport")]
use std::sync::Arc;

use tidegate_core::retry::RetryPolicy;

use crate::budget::Budget;
use crate::buffer::BufferPool;
#[cfg(feature = "_transport")]
use crate::remote::OptionsByUrl;
use crate::remote::RemoteOptions;
use crate::sink::file::StateFolder;

/// The options of a [`Client`](super::Client). The defaults assume one process that moves large
/// blobs over a fast link: 64 requests in flight and 256 MiB of memory.
///
/// ```
/// use tidegate::{Budget, BudgetOptions, Client, ClientOptions};
///
/// let budget = Budget::new(BudgetOptions { requests: 16, bytes: 64 << 20 });
/// let client = Client::new(ClientOptions::default().budget(budget));
/// assert_eq!(client.budget().limits().requests, 16);
/// ```
#[derive(Clone, Debug, Default)]
pub struct ClientOptions {
    pub(super) remote: RemoteOptions,
    #[cfg(feature = "_transport")]
    pub(super) by_url: Option<Arc<dyn OptionsByUrl>>,
    pub(super) budget: Option<Budget>,
    pub(super) pool: Option<BufferPool>,
    pub(super) retry: RetryPolicy,
    pub(super) state: StateFolder,
}

impl ClientOptions {
    /// How remotes are reached: endpoints, credentials, headers, certificates.
    #[must_use]
    pub fn remote(mut self, remote: RemoteOptions) -> Self {
        self.remote = remote;
        self
    }

    /// Options of remotes that differ by URL, in place of [`Self::remote`] for the URLs that it
    /// groups.
    #[cfg(feature = "_transport")]
    #[must_use]
    pub fn remote_by_url(mut self, choice: impl OptionsByUrl + 'static) -> Self {
        self.by_url = Some(Arc::new(choice));
        self
    }

    /// The limits that all transfers share. Clients with clones of one budget share its limits. By
    /// default each client has its own budget.
    #[must_use]
    pub fn budget(mut self, budget: Budget) -> Self {
        self.budget = Some(budget);
        self
    }

    /// The pool of memory for [`Target::Memory`](crate::Target::Memory). By default each client has
    /// its own pool.
    #[must_use]
    pub fn pool(mut self, pool: BufferPool) -> Self {
        self.pool = Some(pool);
        self
    }

    /// How transfers retry after an interruption, if a transfer has no policy of its own.
    #[must_use]
    pub fn retry(mut self, retry: RetryPolicy) -> Self {
        self.retry = retry;
        self
    }

    /// The folder of the key that identifies this user's part files.
    #[must_use]
    pub fn state(mut self, state: StateFolder) -> Self {
        self.state = state;
        self
    }
}
