//! [`Abilities`]: what a bucket of an object store can do in addition to being read.

use std::sync::Arc;

use super::object::ObjectRemote;
use super::{Buckets, Delete, List, Presign, Remote, Write};

/// See the module docs.
#[derive(Clone, Debug, Default)]
pub(super) struct Abilities {
    pub(super) write: Option<Arc<dyn Write>>,
    pub(super) list: Option<Arc<dyn List>>,
    pub(super) delete: Option<Arc<dyn Delete>>,
    pub(super) presign: Option<Arc<dyn Presign>>,
    pub(super) buckets: Option<Arc<dyn Buckets>>,
}

impl Remote for ObjectRemote {
    fn scheme(&self) -> &str {
        self.prefix.split_once("://").map_or(&self.prefix, |(scheme, _)| scheme)
    }

    fn as_write(&self) -> Option<&dyn Write> {
        self.abilities.write.as_deref()
    }

    fn as_list(&self) -> Option<&dyn List> {
        self.abilities.list.as_deref()
    }

    fn as_delete(&self) -> Option<&dyn Delete> {
        self.abilities.delete.as_deref()
    }

    fn as_presign(&self) -> Option<&dyn Presign> {
        self.abilities.presign.as_deref()
    }

    fn as_buckets(&self) -> Option<&dyn Buckets> {
        self.abilities.buckets.as_deref()
    }
}
