//! What a server says of itself.

use std::future::ready;

use tidegate_reapi::v2::digest_function;

use super::bed::Bed;
use super::{Case, Outcome, ensure};

pub(super) fn cases(bed: &Bed) -> Vec<Case<'_>> {
    vec![
        ("the range of API versions is one of version 2", Box::pin(ready(versions(bed)))),
        ("no digest function is UNKNOWN", Box::pin(ready(functions(bed)))),
        ("the limit of a batch is not negative", Box::pin(ready(limits(bed)))),
        ("parameters of chunking are in their ranges", Box::pin(ready(chunking(bed)))),
    ]
}

fn versions(bed: &Bed) -> Outcome {
    let version = |version: &Option<tidegate_reapi::semver::SemVer>| {
        version.as_ref().map(|version| (version.major, version.minor, version.patch))
    };
    let low = version(&bed.capabilities.low_api_version);
    let high = version(&bed.capabilities.high_api_version);
    let is_range = low.zip(high).is_some_and(|(low, high)| low <= high && high.0 == 2);
    ensure(is_range, || format!("low {low:?}, high {high:?}"))
}

fn functions(bed: &Bed) -> Outcome {
    let functions = bed.cache().digest_functions;
    let unknown = digest_function::Value::Unknown as i32;
    ensure(!functions.contains(&unknown), || format!("functions {functions:?}"))
}

fn limits(bed: &Bed) -> Outcome {
    let cache = bed.cache();
    let limits = [cache.max_batch_total_size_bytes, cache.max_cas_blob_size_bytes];
    ensure(limits.iter().all(|limit| *limit >= 0), || format!("limits {limits:?}"))
}

/// The ranges of the definitions: an average of 1 KiB to 1 MiB, a minimum of at least 64 bytes.
fn chunking(bed: &Bed) -> Outcome {
    let cache = bed.cache();
    if let Some(params) = cache.fast_cdc_2020_params {
        let avg = params.avg_chunk_size_bytes;
        ensure((1024..=1 << 20).contains(&avg), || format!("FastCDC 2020: average {avg}"))?;
    }
    if let Some(params) = cache.rep_max_cdc_params {
        let min = params.min_chunk_size_bytes;
        ensure(min >= 64, || format!("RepMaxCDC: minimum {min}"))?;
    }
    Ok(())
}
