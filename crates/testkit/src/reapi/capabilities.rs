//! `GetCapabilities`: the server's reported capabilities.

use tidegate_reapi::{semver::SemVer, v2};

use super::{
    blob_name::{HashFunction, signed},
    call::{Call, Stop},
    chunk_function::ChunkFunction,
    compression::ZSTD,
    hostile::tell_capabilities,
    options::ReapiOptions,
};

pub(crate) async fn serve(call: &mut Call) -> Result<(), Stop> {
    let request: v2::GetCapabilitiesRequest = call.request().await?;
    let plan = call.admit(Vec::new(), 0).await?;
    call.check_instance(&request.instance_name)?;
    let mut answer = capabilities(&call.shared.options);
    tell_capabilities(&plan.lies, &mut answer);
    call.give(plan, &answer).await
}

fn capabilities(options: &ReapiOptions) -> v2::ServerCapabilities {
    let compressors = if options.zstd { vec![ZSTD] } else { Vec::new() };
    let functions = options.hash_functions.iter().copied().map(HashFunction::number).collect();
    let fast_cdc = options.chunk_functions.iter().find_map(|function| match *function {
        ChunkFunction::FastCdc2020 { avg_bytes, seed } => {
            Some(v2::FastCdc2020Params { avg_chunk_size_bytes: avg_bytes, seed })
        }
        ChunkFunction::RepMaxCdc { .. } => None,
    });
    let rep_max = options.chunk_functions.iter().find_map(|function| match *function {
        ChunkFunction::RepMaxCdc { min_bytes, horizon_bytes } => Some(v2::RepMaxCdcParams {
            min_chunk_size_bytes: min_bytes,
            horizon_size_bytes: horizon_bytes,
        }),
        ChunkFunction::FastCdc2020 { .. } => None,
    });
    let [low, high] =
        options.versions.map(|(major, minor)| SemVer { major, minor, ..SemVer::default() });
    v2::ServerCapabilities {
        cache_capabilities: Some(v2::CacheCapabilities {
            digest_functions: functions,
            max_batch_total_size_bytes: signed(options.batch_bytes_max),
            max_cas_blob_size_bytes: signed(options.blob_bytes_max),
            supported_compressors: compressors.clone(),
            supported_batch_update_compressors: compressors,
            split_blob_support: options.split,
            splice_blob_support: options.splice,
            fast_cdc_2020_params: fast_cdc,
            rep_max_cdc_params: rep_max,
            ..v2::CacheCapabilities::default()
        }),
        low_api_version: Some(low),
        high_api_version: Some(high),
        ..v2::ServerCapabilities::default()
    }
}
