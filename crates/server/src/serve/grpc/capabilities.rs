//! `Capabilities.GetCapabilities`: what the server can do.
//!
//! The values are those that clients need: Bazel 4 needs version 2.0 in the range; newer ones switch
//! chunking off without a message if a parameter is out of its range, and read a missing horizon as
//! zero.

use tidegate_core::chunking::{Chunking, FastCdc2020Params, RepMaxCdcParams};
use tidegate_core::digest::DigestFunction;
use tidegate_reapi::digest::function;
use tidegate_reapi::semver::SemVer;
use tidegate_reapi::v2::{self, chunking_function, compressor, symlink_absolute_path_strategy};

use super::reply::Reply;
use super::request::RequestMessage;
use super::{Api, Outcome, decode};
use crate::serve::access::Role;

/// The first version of the API, for Bazel 4.
const LOW: SemVer = version(0);
/// The version of the definitions that the messages are generated from.
const HIGH: SemVer = version(12);

/// The sum of the lengths of the blobs in one batch: below the limit of gRPC's libraries, with room
/// for the digests.
const BATCH_BYTES_MAX: i64 = 4_000_000;

/// The recommendations of the API.
const FAST_CDC_AVG_BYTES: u64 = 512 << 10;
const FAST_CDC_SEED: u32 = 0;
const REP_MAX_MIN_BYTES: u64 = 256 << 10;
const REP_MAX_HORIZON_BYTES: u64 = 8 * REP_MAX_MIN_BYTES;

const fn version(minor: i32) -> SemVer {
    SemVer { major: 2, minor, patch: 0, prerelease: String::new() }
}

impl Api {
    pub(super) fn get_capabilities(&self, message: &RequestMessage) -> Outcome {
        let request: v2::GetCapabilitiesRequest = decode(message)?;
        self.check_instance(&request.instance_name)?;
        Reply::message(&capabilities(self.caller.role() >= Role::Write))
    }
}

/// The chunking of a number in a request; `None` if the client leaves the choice to the server.
pub(super) fn chunking(number: i32) -> Option<Chunking> {
    match chunking_function::Value::try_from(number) {
        Ok(chunking_function::Value::FastCdc2020) => {
            let params = FastCdc2020Params::new(FAST_CDC_AVG_BYTES, FAST_CDC_SEED);
            params.ok().map(Chunking::FastCdc2020)
        }
        Ok(chunking_function::Value::RepMaxCdc) => {
            let params = RepMaxCdcParams::new(REP_MAX_MIN_BYTES, REP_MAX_HORIZON_BYTES);
            params.ok().map(Chunking::RepMaxCdc)
        }
        _ => None,
    }
}

/// The number of the function that made chunks.
pub(super) fn chunking_number(chunking: Option<&Chunking>) -> i32 {
    let value = match chunking {
        Some(Chunking::FastCdc2020(_)) => chunking_function::Value::FastCdc2020,
        Some(Chunking::RepMaxCdc(_)) => chunking_function::Value::RepMaxCdc,
        _ => chunking_function::Value::Unknown,
    };
    value as i32
}

/// A client that may not write must know it: Bazel takes a refused write for an error.
fn capabilities(can_write: bool) -> v2::ServerCapabilities {
    let functions = [DigestFunction::Sha256, DigestFunction::Blake3];
    let compressors = vec![compressor::Value::Zstd as i32];
    let cache = v2::CacheCapabilities {
        digest_functions: functions.map(function).to_vec(),
        action_cache_update_capabilities: Some(v2::ActionCacheUpdateCapabilities {
            update_enabled: can_write,
        }),
        cache_priority_capabilities: None,
        max_batch_total_size_bytes: BATCH_BYTES_MAX,
        symlink_absolute_path_strategy: symlink_absolute_path_strategy::Value::Allowed as i32,
        supported_compressors: compressors.clone(),
        supported_batch_update_compressors: compressors,
        // No limit but the store's.
        max_cas_blob_size_bytes: 0,
        split_blob_support: true,
        splice_blob_support: true,
        fast_cdc_2020_params: Some(v2::FastCdc2020Params {
            avg_chunk_size_bytes: FAST_CDC_AVG_BYTES,
            seed: FAST_CDC_SEED,
        }),
        rep_max_cdc_params: Some(v2::RepMaxCdcParams {
            min_chunk_size_bytes: REP_MAX_MIN_BYTES,
            horizon_size_bytes: REP_MAX_HORIZON_BYTES,
        }),
    };
    v2::ServerCapabilities {
        cache_capabilities: Some(cache),
        execution_capabilities: None,
        deprecated_api_version: None,
        low_api_version: Some(LOW),
        high_api_version: Some(HIGH),
    }
}
