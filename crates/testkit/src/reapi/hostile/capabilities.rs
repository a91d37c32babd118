//! Lies about the capabilities of the cache.

use tidegate_reapi::{semver::SemVer, v2};

use super::super::compression::ZSTD;
use super::lie::{CapabilitiesLie, Lie};

/// Applies the lies about capabilities.
pub(crate) fn tell(lies: &[Lie], capabilities: &mut v2::ServerCapabilities) {
    for lie in lies {
        if let Lie::Capabilities(lie) = lie {
            one(*lie, capabilities);
        }
    }
}

fn one(lie: CapabilitiesLie, capabilities: &mut v2::ServerCapabilities) {
    match lie {
        CapabilitiesLie::NoCache => capabilities.cache_capabilities = None,
        CapabilitiesLie::Versions(major) => {
            capabilities.low_api_version = Some(SemVer { major, ..SemVer::default() });
        }
        _ => {}
    }
    let Some(cache) = &mut capabilities.cache_capabilities else { return };
    match lie {
        CapabilitiesLie::BatchBytes(bytes) => cache.max_batch_total_size_bytes = bytes,
        CapabilitiesLie::BlobBytes(bytes) => cache.max_cas_blob_size_bytes = bytes,
        CapabilitiesLie::Split(is_there) => cache.split_blob_support = is_there,
        CapabilitiesLie::Splice(is_there) => cache.splice_blob_support = is_there,
        CapabilitiesLie::Zstd(streams, batches) => {
            let spoken = |is_spoken| if is_spoken { vec![ZSTD] } else { Vec::new() };
            cache.supported_compressors = spoken(streams);
            cache.supported_batch_update_compressors = spoken(batches);
        }
        CapabilitiesLie::Function(number) => cache.digest_functions = vec![number],
        CapabilitiesLie::AverageBytes(avg_chunk_size_bytes) => {
            cache.fast_cdc_2020_params =
                Some(v2::FastCdc2020Params { avg_chunk_size_bytes, seed: 0 });
        }
        CapabilitiesLie::NoChunking => {
            cache.fast_cdc_2020_params = None;
            cache.rep_max_cdc_params = None;
        }
        CapabilitiesLie::NoCache | CapabilitiesLie::Versions(_) => {}
    }
}
