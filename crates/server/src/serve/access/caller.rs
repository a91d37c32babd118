//! [`Caller`]: one whose credentials were checked.

use std::borrow::Cow;
use std::sync::Arc;

use super::Role;
use crate::store::LocalStore;

/// The tenant of a caller. Values, action results and, where the server isolates tenants, blobs belong
/// to one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Tenant(Arc<str>);

impl Tenant {
    /// A tenant. `None` if the name contains a zero byte, which separates the parts of a key.
    pub fn new(name: &str) -> Option<Self> {
        (!name.contains('\0')).then(|| Self(name.into()))
    }

    /// The name.
    pub fn name(&self) -> &str {
        &self.0
    }
}

/// One whose credentials were checked. Clones are the same caller.
#[derive(Clone, Debug)]
pub struct Caller(Arc<Checked>);

#[derive(Debug)]
struct Checked {
    name: String,
    role: Role,
    tenant: Tenant,
    /// `None` for all of them.
    instances: Option<Vec<String>>,
    /// The store of the tenant; `None` where tenants share blobs.
    store: Option<LocalStore>,
}

impl Caller {
    pub(super) fn new(
        name: &str,
        role: Role,
        tenant: Tenant,
        instances: Option<Vec<String>>,
    ) -> Self {
        Self(Arc::new(Checked { name: name.into(), role, tenant, instances, store: None }))
    }

    /// Anyone, on a server without credentials: may do all.
    pub fn anyone(tenant: Tenant) -> Self {
        Self::new("", Role::Admin, tenant, None)
    }

    /// The same caller, who has the blobs of its tenant alone.
    pub(super) fn isolated(self, shared: &LocalStore) -> Self {
        let store = Some(shared.of_tenant(self.tenant().name()));
        let checked = &self.0;
        Self(Arc::new(Checked {
            name: checked.name.clone(),
            role: checked.role,
            tenant: checked.tenant.clone(),
            instances: checked.instances.clone(),
            store,
        }))
    }

    /// The name in the file of credentials, for the log; empty for anyone.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// The role.
    pub fn role(&self) -> Role {
        self.0.role
    }

    /// The tenant.
    pub fn tenant(&self) -> &Tenant {
        &self.0.tenant
    }

    /// Whether the caller may use an instance. A name in the list that ends with `/*` stands for all
    /// names that begin so.
    pub fn may_use(&self, instance: &str) -> bool {
        let instance = instance.strip_prefix('/').unwrap_or(instance);
        let Some(listed) = &self.0.instances else { return true };
        listed.iter().any(|one| match one.strip_suffix('*') {
            Some(start) if start.ends_with('/') => instance.starts_with(start),
            _ => one == instance,
        })
    }

    /// The store with the blobs that count for this caller.
    pub(in super::super) fn store<'a>(&'a self, shared: &'a LocalStore) -> &'a LocalStore {
        self.0.store.as_ref().unwrap_or(shared)
    }

    /// A name that no other tenant's has: of an instance, or of an upload.
    pub(in super::super) fn own_name<'a>(&self, name: &'a str) -> Cow<'a, str> {
        match self.tenant().name() {
            "" => Cow::Borrowed(name),
            // No name contains a zero byte.
            tenant => Cow::Owned(format!("{tenant}\0{name}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instances_are_listed_whole_or_by_their_start() {
        let listed = ["main", "ci/*", "", "a*"].map(str::to_owned).to_vec();
        let caller = Caller::new("x", Role::Read, Tenant::default(), Some(listed));
        for instance in ["main", "/main", "ci/1", "ci/1/2", "", "a*"] {
            assert!(caller.may_use(instance), "{instance}");
        }
        for instance in ["mai", "main/x", "ci", "cix", "ab", "/ci"] {
            assert!(!caller.may_use(instance), "{instance}");
        }
        assert!(Caller::anyone(Tenant::default()).may_use("any"));
    }
}
