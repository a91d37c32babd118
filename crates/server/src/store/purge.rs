//! Purges values by name, instance or invocation: what an operator does when a build stored wrong
//! results.
//!
//! There is no index by instance or by invocation, because only a purge needs one. It reads the record of
//! every value, a shard at a time: about a million records in five seconds.

use serde::{Deserialize, Serialize};
use tidegate::{Operation, Result};
use tidegate_core::digest::DigestFunction;

use super::actions::ActionRecord;
use super::blobs::{Blobs, Form};
use super::core::{NamedRecord, Op};
use super::error::StoreResult;
use super::key::{Key, Space};
use super::local::LocalStore;

/// The values of a report. There may be more.
const SHOWN_MAX: usize = 100;

/// Which values to purge. A value must match all that is given.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PurgeFilter {
    /// The hash of a blob or of an action, or the key of a value.
    pub key: Option<String>,
    /// The instance of action results and of values under `/ac/`. Blobs have none.
    pub instance: Option<String>,
    /// The tenant of action results and values.
    pub tenant: Option<String>,
    /// The invocation that stored an action result.
    pub invocation: Option<String>,
}

impl PurgeFilter {
    /// Whether nothing is given, which would match every value.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    fn matches(&self, value: &PurgedValue) -> bool {
        let is = |wanted: &Option<String>, found: Option<&String>| {
            wanted.as_ref().is_none_or(|wanted| found == Some(wanted))
        };
        let key = self.key.as_ref().map(|key| key.to_ascii_lowercase());
        is(&self.instance, value.instance.as_ref())
            && is(&self.tenant, value.tenant.as_ref())
            && key.is_none_or(|key| value.key.to_ascii_lowercase() == key)
    }
}

/// A value that a filter matches.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PurgedValue {
    /// What it is: `blob`, `action`, or the dialect of a value.
    pub kind: String,
    /// The hash, or the key of a value.
    pub key: String,
    /// Its length in bytes.
    pub size: u64,
    /// The tenant; `None` for a blob.
    pub tenant: Option<String>,
    /// The instance; `None` for a blob.
    pub instance: Option<String>,
}

/// What a purge found.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PurgeReport {
    /// Values that match.
    pub matched: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Whether they were removed.
    pub is_removed: bool,
    /// The first hundred of them.
    pub values: Vec<PurgedValue>,
}

impl LocalStore {
    /// Finds the values that match, and removes them if `removes` is set. A removal is durable, and
    /// no value comes back.
    ///
    /// CANCEL: what was removed before stays removed.
    pub async fn purge(&self, filter: PurgeFilter, removes: bool) -> Result<PurgeReport> {
        let mut report = PurgeReport { is_removed: removes, ..PurgeReport::default() };
        for shard in 0..self.shards() {
            let filter = filter.clone();
            let purged = self.blocking(Operation::Write, "the index of the store", move |blobs| {
                blobs.purge_shard(shard, &filter, removes)
            });
            for value in purged.await? {
                report.matched += 1;
                report.bytes += value.size;
                if report.values.len() < SHOWN_MAX {
                    report.values.push(value);
                }
            }
        }
        Ok(report)
    }
}

impl Blobs {
    fn purge_shard(
        &self,
        shard: u16,
        filter: &PurgeFilter,
        removes: bool,
    ) -> StoreResult<Vec<PurgedValue>> {
        let (mut values, mut ops) = (Vec::new(), Vec::new());
        for (_, entry) in self.core.entries(shard) {
            let Some(record) = self.core.named(&entry)? else { continue };
            let value = describe(&record);
            let Some(value) = value.filter(|value| filter.matches(value)) else { continue };
            if let Some(wanted) = &filter.invocation
                && self.invocation(&record)?.as_ref() != Some(wanted)
            {
                continue;
            }
            values.push(value);
            ops.push(Op::Purge { key: record.key });
        }
        if removes {
            self.commit(ops).into_iter().collect::<StoreResult<()>>()?;
        }
        Ok(values)
    }

    /// The invocation that stored an action result.
    fn invocation(&self, record: &NamedRecord) -> StoreResult<Option<String>> {
        if Form::from_number(record.form) != Some(Form::Action) {
            return Ok(None);
        }
        let stored = match &record.payload {
            Some(bytes) => Some(bytes.clone()),
            None => match self.core.get(&record.key)? {
                Some(value) => self.small(&record.key, value)?,
                None => None,
            },
        };
        Ok(stored.and_then(|stored| ActionRecord::invocation_of(&stored)))
    }
}

/// What a record's key says; `None` for the parts of a blob that stand beside it.
fn describe(record: &NamedRecord) -> Option<PurgedValue> {
    let size = record.size;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    if let Some(digest) = record.key.named_digest() {
        let key = digest.checksum().hex();
        let kind = "blob".to_owned();
        return Some(PurgedValue { kind, key, size, tenant: None, instance: None });
    }
    let (tenant, instance, kind, key) = match record.key.space() {
        Space::Action => {
            let (action, name) = record.key.action()?;
            let name = text(name);
            let (tenant, instance) = name.split_once('\0').unwrap_or(("", &name));
            let key = action.checksum().hex();
            (tenant.to_owned(), instance.to_owned(), "action".to_owned(), key)
        }
        Space::Value => {
            let name = text(record.key.opaque_name()?);
            let parts: Vec<&str> = name.split('\0').collect();
            match parts[..] {
                [tenant, "ac", function, instance, key] => {
                    let kind =
                        if function == DigestFunction::Sha256.name() { "ac" } else { function };
                    (tenant.to_owned(), instance.to_owned(), kind.to_owned(), key.to_owned())
                }
                [tenant, dialect, ref rest @ ..] => {
                    (tenant.to_owned(), String::new(), dialect.to_owned(), rest.join("/"))
                }
                _ => return None,
            }
        }
        Space::Blob => return None,
    };
    Some(PurgedValue { kind, key, size, tenant: Some(tenant), instance: Some(instance) })
}

impl Key {
    /// The action and the name behind it, of a key of an action result.
    fn action(&self) -> Option<(tidegate_core::digest::Digest, &[u8])> {
        let (action, name) = self.bytes().split_at_checked(super::key::DIGEST_BYTES)?;
        Some((super::key::digest_of(action)?, name))
    }

    /// The name of a client's own value.
    fn opaque_name(&self) -> Option<&[u8]> {
        self.bytes().strip_prefix(&[super::key::OPAQUE])
    }
}
