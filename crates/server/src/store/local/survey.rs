//! [`StoreSurvey`]: what is stored, by kind and by age; and why a value is not there.

use std::collections::BTreeMap;

use tidegate::{Operation, Result};
use tidegate_core::digest::Digest;

use super::LocalStore;
use crate::store::actions::ActionName;
use crate::store::blobs::{Form, opaque_key};
use crate::store::core::{IndexSurvey, SurveyedValue, ValueSum};
use crate::store::key::{Key, Space};
use crate::store::losses::Loss;

/// What a value is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum StoredKind {
    /// A blob.
    Blob,
    /// The chunks of a blob.
    Manifest,
    /// Where a blob lies in another one.
    Slice,
    /// An action result.
    Action,
    /// A value of a tool.
    Value,
}

impl StoredKind {
    fn of(value: &SurveyedValue) -> Self {
        match (value.key.space(), Form::from_number(value.form)) {
            (_, Some(Form::Manifest)) => Self::Manifest,
            (_, Some(Form::Slice)) => Self::Slice,
            (Space::Action, _) | (_, Some(Form::Action)) => Self::Action,
            (Space::Blob, _) => Self::Blob,
            (Space::Value, _) => Self::Value,
        }
    }
}

/// A large value.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct LargeValue {
    /// What it is.
    pub kind: StoredKind,
    /// The name of a blob. Other values have names that may be secrets.
    pub digest: Option<Digest>,
    /// Its length.
    pub len: u64,
    /// Its bytes on the disk.
    pub bytes: u64,
}

/// What is stored.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct StoreSurvey {
    /// All values.
    pub all: ValueSum,
    /// Values that have a file of their own.
    pub files: ValueSum,
    /// By the seconds since the last use; see [`AGE_BOUNDS_SECONDS`](crate::store::AGE_BOUNDS_SECONDS).
    pub ages: Vec<ValueSum>,
    /// By kind, estimated from a sample of values.
    pub kinds: BTreeMap<StoredKind, ValueSum>,
    /// The number of values in the sample.
    pub sampled: u64,
    /// The largest values; the largest comes first.
    pub largest: Vec<LargeValue>,
}

impl LocalStore {
    /// Surveys the store; `None` while its index is being loaded. Reads the whole index and some
    /// hundred records.
    pub async fn survey(&self) -> Result<Option<StoreSurvey>> {
        let surveyed =
            self.blocking(Operation::Read, "the index of the store", |blobs| blobs.core.survey());
        Ok(surveyed.await?.map(|survey| StoreSurvey::of(&survey)))
    }

    /// Why the store dropped a blob, if it had to. Each loss is reported once.
    pub fn take_loss_of_blob(&self, digest: &Digest) -> Option<Loss> {
        self.take_loss(|| Some(self.0.blobs.key(digest)))
    }

    /// Why the store dropped an action result, if it had to. Each loss is reported once.
    pub fn take_loss_of_action(&self, name: &ActionName<'_>) -> Option<Loss> {
        self.take_loss(|| name.key())
    }

    /// Why the store dropped an opaque value, if it had to. Each loss is reported once.
    pub fn take_loss_of_value(&self, name: &[u8]) -> Option<Loss> {
        self.take_loss(|| opaque_key(name))
    }

    fn take_loss(&self, key: impl Fn() -> Option<Key>) -> Option<Loss> {
        self.0.blobs.core.take_loss(key)
    }
}

impl StoreSurvey {
    fn of(survey: &IndexSurvey) -> Self {
        let mut kinds = BTreeMap::new();
        estimate(&mut kinds, &survey.records, &survey.sampled_records);
        estimate(&mut kinds, &survey.files, &survey.sampled_files);
        let large = |value: &SurveyedValue| {
            let kind = StoredKind::of(value);
            let digest = value.key.digest();
            LargeValue { kind, digest, len: value.size, bytes: value.bytes }
        };
        let (records, files) = (survey.records, survey.files);
        Self {
            all: ValueSum {
                values: records.values + files.values,
                bytes: records.bytes + files.bytes,
            },
            files,
            ages: survey.ages.to_vec(),
            kinds,
            sampled: (survey.sampled_records.len() + survey.sampled_files.len()) as u64,
            largest: survey.largest.iter().map(large).collect(),
        }
    }
}

/// Adds what a sample says of all values that it was taken of.
fn estimate(kinds: &mut BTreeMap<StoredKind, ValueSum>, all: &ValueSum, sample: &[SurveyedValue]) {
    let mut sums: BTreeMap<StoredKind, ValueSum> = BTreeMap::new();
    let mut bytes = 0;
    for value in sample {
        let sum = sums.entry(StoredKind::of(value)).or_default();
        sum.values += 1;
        sum.bytes += value.bytes;
        bytes += value.bytes;
    }
    let scale = |part: u64, of: u64, total: u64| {
        let scaled = u128::from(part) * u128::from(total) / u128::from(of.max(1));
        u64::try_from(scaled).unwrap_or(u64::MAX)
    };
    for (kind, sum) in sums {
        let estimated = kinds.entry(kind).or_default();
        estimated.values += scale(sum.values, sample.len() as u64, all.values);
        estimated.bytes += scale(sum.bytes, bytes, all.bytes);
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use tidegate::store::{BlobStore as _, ChunkStore as _, Manifest, PutRequest};
    use tidegate_core::digest::DigestFunction;

    use super::*;
    use crate::store::StoreOptions;

    fn noise(len: usize) -> Bytes {
        let mut random = fastrand::Rng::with_seed(len as u64);
        std::iter::repeat_with(|| random.u8(..)).take(len).collect()
    }

    async fn put(store: &LocalStore, bytes: Bytes) -> Digest {
        let digest = Digest::of(DigestFunction::Sha256, &bytes);
        store.put(&PutRequest::new(digest, std::sync::Arc::new(bytes))).await.unwrap();
        digest
    }

    /// The sample of a small store is all of it, so the sums are exact.
    #[tokio::test(flavor = "multi_thread")]
    async fn values_are_counted_by_kind_and_size() {
        let folder = tempfile::tempdir().unwrap();
        let store = LocalStore::open(folder.path(), StoreOptions::new(1 << 30)).await.unwrap();
        let large = put(&store, noise(3_000_000)).await;
        put(&store, noise(200_000)).await;
        let chunks = vec![put(&store, noise(10)).await, put(&store, noise(20)).await];
        let whole = Digest::of(DigestFunction::Sha256, &[noise(10), noise(20)].concat());
        let _ = store.register(&Manifest::new(whole, chunks, None).unwrap()).await.unwrap();
        let value = store.begin_value(b"name").unwrap().write(noise(7)).await.unwrap();
        value.finish().await.unwrap();
        let survey = loop {
            // The index of a new store is loaded in the first round of its maintainer.
            if let Some(survey) = store.survey().await.unwrap() {
                break survey;
            }
            tokio::task::yield_now().await;
        };
        let values = |kind| survey.kinds.get(&kind).map_or(0, |sum| sum.values);
        assert_eq!((survey.all.values, survey.files.values), (6, 2));
        assert_eq!(values(StoredKind::Blob), 4);
        assert_eq!((values(StoredKind::Manifest), values(StoredKind::Value)), (1, 1));
        let bytes: u64 = survey.kinds.values().map(|sum| sum.bytes).sum();
        assert!(survey.all.bytes.abs_diff(bytes) < 8, "{survey:?}");
        assert_eq!(survey.ages[0], survey.all);
        assert_eq!(survey.largest[0].digest, Some(large));
        assert_eq!(survey.largest[0].len, 3_000_000);
        assert!(survey.largest.is_sorted_by(|a, b| a.bytes >= b.bytes));
        // The name of a value is not shown.
        let value = survey.largest.iter().find(|value| value.kind == StoredKind::Value).unwrap();
        assert_eq!(value.digest, None);
    }
}
