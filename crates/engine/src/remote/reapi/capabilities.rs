//! [`Capabilities`]: the capabilities that a cache reports, in the form that the client uses.
//!
//! They are requested once for each instance. If a cache does not implement the call, the client
//! assumes the minimum that the API allows. Parameters out of their range switch a chunking
//! function off, as the API says; they are not an error.

use std::fmt;

use tidegate_core::chunking::{Chunking, FastCdc2020Params, RepMaxCdcParams};
use tidegate_core::digest::DigestFunction;
use tidegate_reapi::v2;
use v2::chunking_function::Value as Function;

use crate::error::{Error, ErrorKind, Operation, Result};
use crate::store::{BatchLimits, StoreProfile};

/// Default message limit of gRPC's libraries: 4 MiB. Servers that give no limit for batches, or a
/// larger one, often have this limit for messages all the same, and a larger batch saves nothing.
pub(super) const MESSAGE_BYTES: u64 = 4 << 20;

/// Room in a message in addition to blobs: the instance's name, which can be long at some servers.
const MESSAGE_SLACK_BYTES: u64 = 64 << 10;

/// Overhead of a chunk in a batch: its hash (66), its length (11), the data's length (6), numbers
/// and their keys (10); and in a response a status with a short message.
const CHUNK_OVERHEAD_BYTES: u64 = 160;

/// Maximum number of chunks in one batch, so that neither side builds an unreasonably long list.
/// Only chunks of less than about 350 bytes reach it before a batch of 4 MiB is full.
const CHUNKS_MAX: usize = 8_192;

/// The major version of the API that this client speaks.
const API_MAJOR: i32 = 2;

/// The capabilities of a cache.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Capabilities {
    /// The capabilities that all stores of chunks have.
    pub(super) profile: StoreProfile,
    /// Whether streams may be zstd.
    pub(super) zstd: bool,
    /// Whether batches that are put may be zstd.
    pub(super) zstd_batches: bool,
}

impl Capabilities {
    /// The capabilities of a cache that reports none.
    pub(super) fn least() -> Self {
        let mut profile = StoreProfile::new(DigestFunction::Sha256);
        profile.batch = Some(batch(0));
        Self { profile, zstd: false, zstd_batches: false }
    }

    /// Parses the response of the cache with the name `target`.
    ///
    /// Fails with `Unsupported` if the cache speaks another version of the API, keeps no blobs, or
    /// uses none of our hash functions.
    pub(super) fn new(answer: &v2::ServerCapabilities, target: &str) -> Result<Self> {
        let refuse = |message: String| {
            Error::new(ErrorKind::Unsupported, Operation::Connect, target, message)
        };
        versions(answer).map_err(refuse)?;
        let Some(cache) = &answer.cache_capabilities else {
            return Err(refuse("the server keeps no blobs under this instance's name".to_owned()));
        };
        let functions = digest_functions(cache);
        if functions.is_empty() {
            let given = &cache.digest_functions;
            let message = format!("expected SHA-256 or BLAKE3 to name blobs, got {}", Names(given));
            return Err(refuse(message));
        }
        let mut profile = StoreProfile::new(DigestFunction::Sha256);
        profile.digest_functions = functions;
        profile.chunkings = chunkings(cache);
        profile.can_split = cache.split_blob_support;
        profile.can_splice = cache.splice_blob_support;
        profile.batch = Some(batch(cache.max_batch_total_size_bytes));
        profile.blob_bytes_max =
            u64::try_from(cache.max_cas_blob_size_bytes).ok().filter(|bytes| *bytes > 0);
        let zstd = v2::compressor::Value::Zstd as i32;
        Ok(Self {
            profile,
            zstd: cache.supported_compressors.contains(&zstd),
            zstd_batches: cache.supported_batch_update_compressors.contains(&zstd),
        })
    }

    /// Removes chunking: then the cache holds whole blobs only.
    pub(super) fn without_chunks(&mut self) {
        self.profile.chunkings.clear();
        (self.profile.can_split, self.profile.can_splice) = (false, false);
    }

    /// The server's parameters for this chunking function; `None` if it gives none.
    pub(super) fn chunking(&self, function: Function) -> Option<Chunking> {
        self.profile.chunkings.iter().find(|own| number(own) == function).copied()
    }
}

/// The API's number of a chunking function.
pub(super) fn number(chunking: &Chunking) -> Function {
    match chunking {
        Chunking::FastCdc2020(_) => Function::FastCdc2020,
        Chunking::RepMaxCdc(_) => Function::RepMaxCdc,
        _ => Function::Unknown,
    }
}

fn versions(answer: &v2::ServerCapabilities) -> Result<(), String> {
    // A server without a version is older than the field or omits it; both speak version 2.
    let major = |version: &Option<tidegate_reapi::semver::SemVer>| {
        version.as_ref().map_or(API_MAJOR, |version| version.major)
    };
    let low = answer.deprecated_api_version.as_ref().or(answer.low_api_version.as_ref());
    let (low, high) = (low.map_or(API_MAJOR, |v| v.major), major(&answer.high_api_version));
    if low > API_MAJOR || (high < API_MAJOR && answer.high_api_version.is_some() && high != 0) {
        return Err(format!("expected version {API_MAJOR} of the API, got {low} to {high}"));
    }
    Ok(())
}

/// The hash functions that both sides support. SHA-256 comes first, because other clients of the
/// same cache use it. A blob is found only under the function that it was put by.
fn digest_functions(cache: &v2::CacheCapabilities) -> Vec<DigestFunction> {
    let given = &cache.digest_functions;
    if given.is_empty() {
        return vec![DigestFunction::Sha256];
    }
    let has =
        |function: &DigestFunction| given.contains(&tidegate_reapi::digest::function(*function));
    [DigestFunction::Sha256, DigestFunction::Blake3].into_iter().filter(has).collect()
}

/// `FastCDC` first: other clients use it today, so its chunks can be shared.
fn chunkings(cache: &v2::CacheCapabilities) -> Vec<Chunking> {
    let fast = cache
        .fast_cdc_2020_params
        .as_ref()
        .and_then(|params| FastCdc2020Params::new(params.avg_chunk_size_bytes, params.seed).ok());
    let rep_max = cache.rep_max_cdc_params.as_ref().and_then(|params| {
        RepMaxCdcParams::new(params.min_chunk_size_bytes, params.horizon_size_bytes).ok()
    });
    let fast = fast.map(Chunking::FastCdc2020);
    fast.into_iter().chain(rep_max.map(Chunking::RepMaxCdc)).collect()
}

/// 0 means only the protocol's limit; a negative value is invalid.
fn batch(bytes_max: i64) -> BatchLimits {
    let said = u64::try_from(bytes_max).ok().filter(|bytes| *bytes > 0);
    BatchLimits {
        bytes_max: said.unwrap_or(MESSAGE_BYTES).min(MESSAGE_BYTES - MESSAGE_SLACK_BYTES),
        count_max: CHUNKS_MAX,
        overhead_bytes: CHUNK_OVERHEAD_BYTES,
    }
}

/// Hash functions by name, for an error; at most eight, even if a server lists more.
struct Names<'a>(&'a [i32]);

impl fmt::Display for Names<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, number) in self.0.iter().take(8).enumerate() {
            let comma = if index == 0 { "" } else { ", " };
            match v2::digest_function::Value::try_from(*number) {
                Ok(value) => write!(f, "{comma}{}", value.as_str_name())?,
                Err(_) => write!(f, "{comma}{number}")?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use tidegate_reapi::semver::SemVer;
    use v2::digest_function::Value;

    use super::*;

    fn of(cache: v2::CacheCapabilities) -> Result<Capabilities> {
        let answer = v2::ServerCapabilities {
            cache_capabilities: Some(cache),
            ..v2::ServerCapabilities::default()
        };
        Capabilities::new(&answer, "grpc://h:1")
    }

    fn cache() -> v2::CacheCapabilities {
        v2::CacheCapabilities {
            digest_functions: vec![Value::Blake3 as i32, Value::Sha1 as i32, Value::Sha256 as i32],
            ..v2::CacheCapabilities::default()
        }
    }

    #[test]
    fn what_is_said_is_kept() {
        let said = of(v2::CacheCapabilities {
            max_batch_total_size_bytes: 1_000_000,
            max_cas_blob_size_bytes: 77,
            supported_compressors: vec![9, v2::compressor::Value::Zstd as i32],
            split_blob_support: true,
            fast_cdc_2020_params: Some(v2::FastCdc2020Params {
                avg_chunk_size_bytes: 524_288,
                seed: 3,
            }),
            rep_max_cdc_params: Some(v2::RepMaxCdcParams {
                min_chunk_size_bytes: 262_144,
                horizon_size_bytes: 0,
            }),
            ..cache()
        })
        .unwrap();
        let profile = &said.profile;
        let functions = [DigestFunction::Sha256, DigestFunction::Blake3];
        assert_eq!(profile.digest_functions, functions);
        assert_eq!((profile.can_split, profile.can_splice), (true, false));
        assert_eq!(
            (profile.batch.unwrap().bytes_max, profile.blob_bytes_max),
            (1_000_000, Some(77))
        );
        assert_eq!((said.zstd, said.zstd_batches), (true, false));
        let fast = Chunking::FastCdc2020(FastCdc2020Params::new(524_288, 3).unwrap());
        assert_eq!(said.chunking(Function::FastCdc2020), Some(fast));
        assert_eq!(said.chunking(Function::RepMaxCdc).unwrap().chunk_bytes_max(), 524_287);
        assert_eq!(said.chunking(Function::Unknown), None);
    }

    #[test]
    fn no_limit_is_the_protocols_and_what_is_out_of_range_is_ignored() {
        for bytes in [0, -1, 4 << 20, i64::MAX] {
            let said = of(v2::CacheCapabilities { max_batch_total_size_bytes: bytes, ..cache() });
            let batch = said.unwrap().profile.batch.unwrap();
            assert_eq!(batch.bytes_max, (4 << 20) - (64 << 10), "{bytes}");
        }
        let said = of(v2::CacheCapabilities {
            max_cas_blob_size_bytes: -5,
            fast_cdc_2020_params: Some(v2::FastCdc2020Params {
                avg_chunk_size_bytes: 1 << 30,
                seed: 0,
            }),
            rep_max_cdc_params: Some(v2::RepMaxCdcParams::default()),
            ..cache()
        })
        .unwrap();
        assert_eq!((said.profile.blob_bytes_max, said.profile.chunkings), (None, vec![]));
    }

    #[test]
    fn an_old_server_is_taken_for_what_it_must_be() {
        assert_eq!(of(v2::CacheCapabilities::default()).unwrap(), Capabilities::least());
    }

    #[test]
    fn a_server_that_shares_no_hash_or_version_is_refused() {
        let other = v2::CacheCapabilities { digest_functions: vec![3, 77], ..cache() };
        let error = of(other).unwrap_err();
        assert!(error.to_string().ends_with("got MD5, 77"), "{error}");
        let version = |major| Some(SemVer { major, ..SemVer::default() });
        for (low, high, sound) in [(2, 2, true), (2, 3, true), (3, 3, false), (1, 1, false)] {
            let answer = v2::ServerCapabilities {
                cache_capabilities: Some(cache()),
                low_api_version: version(low),
                high_api_version: version(high),
                ..v2::ServerCapabilities::default()
            };
            let said = Capabilities::new(&answer, "grpc://h:1");
            assert_eq!(said.is_ok(), sound, "{low} to {high}");
        }
        let none = v2::ServerCapabilities::default();
        assert_eq!(
            Capabilities::new(&none, "grpc://h:1").unwrap_err().kind(),
            ErrorKind::Unsupported
        );
    }
}
