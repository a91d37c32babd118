//! What clients are offered.

use tidegate_core::chunking::{FastCdc2020Params, RepMaxCdcParams};
use tidegate_reapi::v2;
use tidegate_reapi::v2::capabilities_client::CapabilitiesClient;
use tonic::Code;

use crate::bed::{Bed, refused};

async fn ask(bed: &Bed, instance: &str) -> Result<v2::ServerCapabilities, tonic::Status> {
    let request = v2::GetCapabilitiesRequest { instance_name: instance.to_owned() };
    let mut client = CapabilitiesClient::new(bed.channel().await);
    client.get_capabilities(request).await.map(tonic::Response::into_inner)
}

#[tokio::test]
async fn clients_find_what_they_need() {
    let bed = Bed::new().await;
    for instance in ["", "main", "a/b/c", "/main"] {
        let found = ask(&bed, instance).await.unwrap();
        let (low, high) = (found.low_api_version.unwrap(), found.high_api_version.unwrap());
        assert_eq!((low.major, low.minor, high.major, high.minor), (2, 0, 2, 12));
        let cache = found.cache_capabilities.unwrap();
        assert_eq!(cache.digest_functions, [1, 9]);
        assert!(cache.action_cache_update_capabilities.unwrap().update_enabled);
        assert_eq!(cache.max_batch_total_size_bytes, 4_000_000);
        assert_eq!(cache.supported_compressors, [1]);
        assert_eq!(cache.supported_batch_update_compressors, [1]);
        assert!(cache.split_blob_support && cache.splice_blob_support);
        // Parameters out of their range switch chunking off at the client.
        let fast = cache.fast_cdc_2020_params.unwrap();
        FastCdc2020Params::new(fast.avg_chunk_size_bytes, fast.seed).unwrap();
        let rep_max = cache.rep_max_cdc_params.unwrap();
        RepMaxCdcParams::new(rep_max.min_chunk_size_bytes, rep_max.horizon_size_bytes).unwrap();
        assert!(rep_max.horizon_size_bytes > 0);
    }
    refused(ask(&bed, "a/blobs/b").await, Code::InvalidArgument);
    bed.end().await;
}

#[tokio::test]
async fn an_unknown_call_is_unimplemented() {
    let bed = Bed::new().await;
    let mut client = CapabilitiesClient::with_origin(
        bed.channel().await,
        format!("http://{}/elsewhere", bed.address).parse().unwrap(),
    );
    let outcome = client.get_capabilities(v2::GetCapabilitiesRequest::default()).await;
    refused(outcome, Code::Unimplemented);
    bed.end().await;
}
