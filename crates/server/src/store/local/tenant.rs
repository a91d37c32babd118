//! The store with the blobs of one tenant alone.

use std::sync::Arc;

use super::{Inner, LocalStore};
use crate::store::key::Owner;

impl LocalStore {
    /// The same store with the blobs of one tenant alone: a blob is there only if this tenant sent all
    /// of its bytes, even if another tenant has it. Action results and values have no owner here;
    /// their names keep tenants apart.
    ///
    /// The store stays open until this is dropped, too.
    #[must_use]
    pub fn of_tenant(&self, tenant: &str) -> Self {
        let inner = &self.0;
        Self(Arc::new(Inner {
            maintenance: Arc::clone(&inner.maintenance),
            blobs: inner.blobs.of_owner(Owner::of_tenant(tenant)),
            // Transfers share what is in flight by this name, so those of tenants stay apart.
            identity: format!("{} tenant {tenant}", inner.identity),
            profile: Arc::clone(&inner.profile),
            recorder: Arc::clone(&inner.recorder),
        }))
    }
}
