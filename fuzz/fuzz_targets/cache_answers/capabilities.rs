//! The capabilities that a cache reports.

use arbitrary::Arbitrary;
use tidegate_reapi::{semver, v2};

#[derive(Arbitrary, Clone, Debug)]
pub(crate) struct Capabilities {
    digest_functions: Vec<i32>,
    batch_bytes: i64,
    blob_bytes: i64,
    compressors: Vec<i32>,
    batch_compressors: Vec<i32>,
    split: bool,
    splice: bool,
    fast_cdc: Option<(u64, u32)>,
    rep_max: Option<(u64, u64)>,
    versions: [Option<(i32, i32)>; 3],
    none: bool,
}

impl Capabilities {
    pub(crate) fn proto(&self) -> v2::ServerCapabilities {
        use v2::{FastCdc2020Params, RepMaxCdcParams};
        let version = |index: usize| {
            self.versions[index].map(|(major, minor)| semver::SemVer {
                major,
                minor,
                ..semver::SemVer::default()
            })
        };
        let cache = v2::CacheCapabilities {
            digest_functions: self.digest_functions.clone(),
            max_batch_total_size_bytes: self.batch_bytes,
            max_cas_blob_size_bytes: self.blob_bytes,
            supported_compressors: self.compressors.clone(),
            supported_batch_update_compressors: self.batch_compressors.clone(),
            split_blob_support: self.split,
            splice_blob_support: self.splice,
            fast_cdc_2020_params: self.fast_cdc.map(|(avg_chunk_size_bytes, seed)| {
                FastCdc2020Params { avg_chunk_size_bytes, seed }
            }),
            rep_max_cdc_params: self.rep_max.map(|(min_chunk_size_bytes, horizon_size_bytes)| {
                RepMaxCdcParams { min_chunk_size_bytes, horizon_size_bytes }
            }),
            ..v2::CacheCapabilities::default()
        };
        v2::ServerCapabilities {
            cache_capabilities: (!self.none).then_some(cache),
            deprecated_api_version: version(0),
            low_api_version: version(1),
            high_api_version: version(2),
            ..v2::ServerCapabilities::default()
        }
    }

    /// The capabilities of a cache that supports everything.
    pub(crate) fn all() -> Self {
        Self {
            digest_functions: vec![1, 9],
            batch_bytes: 4 << 20,
            blob_bytes: 0,
            compressors: vec![1],
            batch_compressors: vec![1],
            split: true,
            splice: true,
            fast_cdc: Some((1 << 19, 0)),
            rep_max: Some((1 << 18, 1 << 21)),
            versions: [None, Some((2, 0)), Some((2, 12))],
            none: false,
        }
    }
}
