//! Capabilities, what is missing, and batches.

use bytes::Bytes;
use tidegate_reapi::v2;
use tidegate_testkit::{
    pseudo_random,
    reapi::{ChunkFunction, HashFunction, ReapiOptions, Rpc},
};
use tonic::Code;

use super::{Bed, digest};

#[tokio::test]
async fn capabilities_are_what_was_chosen() {
    let options = ReapiOptions {
        hash_functions: vec![HashFunction::Blake3],
        chunk_functions: vec![ChunkFunction::FastCdc2020 { avg_bytes: 4096, seed: 7 }],
        splice: false,
        zstd: false,
        batch_bytes_max: 1000,
        blob_bytes_max: 2000,
        versions: [(2, 1), (2, 3)],
        ..Default::default()
    };
    let mut bed = Bed::new(options).await;
    let answer = bed.capabilities.get_capabilities(v2::GetCapabilitiesRequest::default()).await;
    let answer = answer.unwrap().into_inner();
    let cache = answer.cache_capabilities.unwrap();
    assert_eq!(cache.digest_functions, [9]);
    assert_eq!((cache.split_blob_support, cache.splice_blob_support), (true, false));
    let fast_cdc = cache.fast_cdc_2020_params.unwrap();
    assert_eq!((fast_cdc.avg_chunk_size_bytes, fast_cdc.seed), (4096, 7));
    assert!(cache.rep_max_cdc_params.is_none());
    assert_eq!((cache.max_batch_total_size_bytes, cache.max_cas_blob_size_bytes), (1000, 2000));
    assert!(cache.supported_compressors.is_empty());
    assert_eq!(answer.high_api_version.unwrap().minor, 3);
}

#[tokio::test]
async fn another_instance_is_refused() {
    let bed = Bed::new(ReapiOptions { instance: "a/b".to_owned(), ..Default::default() }).await;
    let name = bed.server.put(&b"data"[..]);
    assert_eq!(bed.missing(&[name]).await.unwrap_err().code(), Code::InvalidArgument);
    assert!(bed.server.url().ends_with("/a/b"));
}

#[tokio::test]
async fn find_missing_lists_the_absent_blobs() {
    for function in [HashFunction::Sha256, HashFunction::Blake3] {
        let bed = Bed::honest().await;
        let here = bed.server.put_as(function, &b"here"[..]);
        let (absent, empty) = (function.name(b"absent"), function.name(b""));
        let missing = bed.missing(&[here, absent.clone(), empty]).await.unwrap();
        assert_eq!(missing, [absent.hash]);
        let batches = bed.server.counts().batches;
        assert_eq!((batches.len(), batches[0].rpc, batches[0].blobs), (1, Rpc::FindMissing, 3));
    }
}

#[tokio::test]
async fn a_batch_stores_only_blobs_that_match_their_digests() {
    for function in [HashFunction::Sha256, HashFunction::Blake3] {
        let bed = Bed::honest().await;
        let (data, other) = (Bytes::from_static(b"data"), Bytes::from_static(b"atad"));
        let (name, wrong) = (function.name(&data), function.name(b"wrong"));
        let batch = [(name.clone(), data.clone()), (wrong.clone(), other)];
        let codes = bed.update(&batch).await.unwrap();
        assert_eq!(codes, [Code::Ok, Code::InvalidArgument]);
        assert_eq!((bed.server.blob(&name), bed.server.blob(&wrong)), (Some(data), None));
        assert_eq!(bed.server.counts().stored(&name.hash), 1);
    }
}

#[tokio::test]
async fn a_batch_returns_the_blobs_that_exist() {
    let bed = Bed::honest().await;
    let name = bed.server.put(&b"data"[..]);
    let absent = HashFunction::Sha256.name(b"absent");
    let responses = bed.batch(&[absent, name.clone()]).await.unwrap();
    assert_eq!(Code::from(responses[0].status.as_ref().unwrap().code), Code::NotFound);
    assert_eq!(responses[1].status.as_ref().unwrap().code, 0);
    assert_eq!(
        (&responses[1].data[..], responses[1].digest.clone()),
        (&b"data"[..], Some(digest(&name)))
    );
    assert_eq!(bed.server.counts().served(&name.hash), 1);
}

#[tokio::test]
async fn batches_keep_their_limit_to_the_byte() {
    let bed = Bed::new(ReapiOptions { batch_bytes_max: 1000, ..Default::default() }).await;
    let data = pseudo_random(1001, 1);
    let blobs: Vec<_> = [&data[..400], &data[400..1000], &data[1000..]]
        .map(|data| (HashFunction::Sha256.name(data), Bytes::copy_from_slice(data)))
        .into();
    let refused = bed.update(&blobs).await.unwrap_err();
    assert_eq!(refused.code(), Code::InvalidArgument);
    assert_eq!(bed.update(&blobs[..2]).await.unwrap(), [Code::Ok, Code::Ok]);
    let names: Vec<_> = blobs.iter().map(|(name, _)| name.clone()).collect();
    assert_eq!(bed.batch(&names).await.unwrap_err().code(), Code::InvalidArgument);
    assert_eq!(bed.batch(&names[..2]).await.unwrap().len(), 2);
}

#[tokio::test]
async fn messages_keep_their_limit() {
    let bed = Bed::new(ReapiOptions { message_bytes_max: 1000, ..Default::default() }).await;
    let names: Vec<_> = (0..20_u8).map(|n| HashFunction::Sha256.name(&[n])).collect();
    assert_eq!(bed.missing(&names).await.unwrap_err().code(), Code::ResourceExhausted);
    assert_eq!(bed.missing(&names[..10]).await.unwrap().len(), 10);
}

#[tokio::test]
async fn batches_use_zstd_on_request() {
    let mut bed = Bed::honest().await;
    let data = Bytes::from(vec![7; 100_000]);
    let name = bed.server.put(data.clone());
    let request = v2::BatchReadBlobsRequest {
        digests: vec![digest(&name)],
        acceptable_compressors: vec![0, 1],
        ..Default::default()
    };
    let answer = bed.cas.batch_read_blobs(request).await.unwrap().into_inner();
    let response = &answer.responses[0];
    assert_eq!(response.compressor, 1);
    assert_eq!(zstd::decode_all(&response.data[..]).unwrap(), data);
    bed.server.evict(&name.hash);
    let update = v2::BatchUpdateBlobsRequest {
        requests: vec![v2::batch_update_blobs_request::Request {
            digest: Some(digest(&name)),
            data: response.data.clone(),
            compressor: 1,
        }],
        ..Default::default()
    };
    let answer = bed.cas.batch_update_blobs(update).await.unwrap().into_inner();
    assert_eq!(answer.responses[0].status.as_ref().unwrap().code, 0);
    assert_eq!(bed.server.blob(&name), Some(data));
}

#[tokio::test]
async fn trees_are_not_supported() {
    let mut bed = Bed::honest().await;
    let refused = bed.cas.get_tree(v2::GetTreeRequest::default()).await.unwrap_err();
    assert_eq!(refused.code(), Code::Unimplemented);
}
