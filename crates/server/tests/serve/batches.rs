//! Many blobs in one message.

use tidegate_core::digest::{Digest, DigestFunction};
use tidegate_reapi::digest::to_proto;
use tidegate_reapi::v2::{self, batch_update_blobs_request::Request};
use tonic::Code;

use crate::bed::{Bed, entry, noise, refused, sha256, text, zstd};

async fn update(bed: &Bed, requests: Vec<Request>) -> Vec<(v2::Digest, i32)> {
    let request = v2::BatchUpdateBlobsRequest { requests, ..Default::default() };
    let response = bed.cas().await.batch_update_blobs(request).await.unwrap().into_inner();
    let one = |one: v2::batch_update_blobs_response::Response| {
        (one.digest.unwrap(), one.status.unwrap().code)
    };
    response.responses.into_iter().map(one).collect()
}

async fn read(
    bed: &Bed,
    digests: &[Digest],
    zstd: bool,
) -> Vec<v2::batch_read_blobs_response::Response> {
    let request = v2::BatchReadBlobsRequest {
        digests: digests.iter().map(to_proto).collect(),
        acceptable_compressors: if zstd { vec![1] } else { Vec::new() },
        ..Default::default()
    };
    bed.cas().await.batch_read_blobs(request).await.unwrap().into_inner().responses
}

#[tokio::test(flavor = "multi_thread")]
async fn blobs_come_back_and_only_missing_ones_are_missing() {
    let bed = Bed::new().await;
    let blobs: Vec<Vec<u8>> =
        (0..500).map(|n| noise(1 + usize::try_from(n * 37).unwrap(), n)).collect();
    let blobs: Vec<&[u8]> = blobs.iter().map(Vec::as_slice).collect();
    let digests = bed.put(&blobs[..400]).await;
    let all: Vec<Digest> = blobs.iter().map(|blob| sha256(blob)).collect();
    let missing: Vec<v2::Digest> = all[400..].iter().map(to_proto).collect();
    assert_eq!(bed.missing(&all).await, missing);
    for (digest, one) in digests[..100].iter().zip(read(&bed, &digests[..100], false).await) {
        assert_eq!((one.digest, one.status.unwrap().code), (Some(to_proto(digest)), 0));
        assert_eq!(sha256(&one.data), *digest);
    }
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn each_blob_of_a_batch_has_its_own_status() {
    let bed = Bed::new().await;
    let (plain, long, small) = (noise(1000, 1), noise(300_000, 2), text(5000, 3));
    let mut wrong = entry(&sha256(&plain), &plain);
    wrong.data = noise(1000, 9).into();
    let mut short = entry(&sha256(&long), &long);
    short.data.truncate(7);
    let nameless = Request { digest: None, ..entry(&sha256(b"x"), b"x") };
    let mut packed = entry(&sha256(&small), &zstd(&small));
    packed.compressor = 1;
    let other = text(5000, 4);
    let mut lying = entry(&sha256(&other), &zstd(&small));
    lying.compressor = 1;
    let mut noisy = entry(&sha256(&other), &plain);
    noisy.compressor = 1;
    let mut brotli = entry(&sha256(&other), &other);
    brotli.compressor = 3;
    let invalid = Code::InvalidArgument as i32;
    let requests = vec![
        entry(&sha256(&long), &long),
        wrong,
        packed,
        short,
        nameless,
        lying,
        noisy,
        brotli,
        entry(&sha256(b""), b""),
    ];
    let names: Vec<_> = requests.iter().map(|one| one.digest.clone().unwrap_or_default()).collect();
    let (answered, codes): (Vec<_>, Vec<_>) = update(&bed, requests).await.into_iter().unzip();
    assert_eq!(answered, names);
    assert_eq!(codes, [0, invalid, 0, invalid, invalid, invalid, invalid, invalid, 0]);
    assert!(bed.has(&sha256(&long)).await && bed.has(&sha256(&small)).await);
    assert!(!bed.has(&sha256(&plain)).await && !bed.has(&sha256(&other)).await);

    let digests = [sha256(&small), sha256(&long), sha256(b""), sha256(&other)];
    let read_plain = read(&bed, &digests, false).await;
    assert_eq!(read_plain[0].data, small);
    assert_eq!(read_plain[1].data, long);
    assert_eq!((read_plain[2].data.len(), read_plain[2].status.clone().unwrap().code), (0, 0));
    assert_eq!(read_plain[3].status.clone().unwrap().code, Code::NotFound as i32);
    let read_packed = read(&bed, &digests, true).await;
    assert_eq!(read_packed[0].compressor, 1);
    assert_eq!(zstd::bulk::decompress(&read_packed[0].data, 5000).unwrap(), small);
    assert_eq!((read_packed[1].compressor, &read_packed[1].data[..]), (0, &long[..]));
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn blake3_blobs_are_other_blobs() {
    let bed = Bed::new().await;
    let bytes = noise(5000, 1);
    let digest = Digest::of(DigestFunction::Blake3, &bytes);
    let request = v2::BatchUpdateBlobsRequest {
        requests: vec![entry(&digest, &bytes)],
        digest_function: 9,
        ..Default::default()
    };
    let response = bed.cas().await.batch_update_blobs(request).await.unwrap().into_inner();
    assert_eq!(response.responses[0].status.clone().unwrap().code, 0);
    assert!(bed.has(&digest).await);
    assert!(!bed.has(&sha256(&bytes)).await);
    let hash = digest.checksum().hex();
    assert_eq!(bed.read(&format!("blobs/blake3/{hash}/5000"), 0, 0).await.unwrap(), bytes);
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_response_stays_below_four_mebibytes() {
    let bed = Bed::new().await;
    let blobs: Vec<Vec<u8>> = (0..6).map(|n| noise(1 << 20, n)).collect();
    let mut digests = Vec::new();
    for blob in &blobs {
        digests.extend(bed.put(&[blob]).await);
    }
    // The client refuses more than 4 MiB.
    let responses = read(&bed, &digests, false).await;
    let codes: Vec<i32> = responses.iter().map(|one| one.status.clone().unwrap().code).collect();
    let exhausted = Code::ResourceExhausted as i32;
    assert_eq!(codes, [0, 0, 0, exhausted, exhausted, exhausted]);
    assert_eq!(responses[2].data, blobs[2]);
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn long_requests_are_taken_up_to_a_limit() {
    let bed = Bed::new().await;
    // Some clients send more than they should: 5.8 MB of digests.
    let digests: Vec<Digest> = (0..80_000_u64).map(|n| sha256(&n.to_le_bytes())).collect();
    let request = v2::FindMissingBlobsRequest {
        blob_digests: digests.iter().map(to_proto).collect(),
        ..Default::default()
    };
    let mut client = bed.cas().await.max_decoding_message_size(64 << 20);
    let response = client.find_missing_blobs(request).await.unwrap().into_inner();
    assert_eq!(response.missing_blob_digests.len(), digests.len());
    let blob = noise(20 << 20, 1);
    let digest = bed.put(&[&blob]).await[0];
    assert!(bed.has(&digest).await);
    let blob = vec![0; (64 << 20) + 1];
    let request = v2::BatchUpdateBlobsRequest {
        requests: vec![entry(&sha256(&blob), &blob)],
        ..Default::default()
    };
    let outcome = bed.cas().await.batch_update_blobs(request).await;
    let status = refused(outcome, Code::ResourceExhausted);
    assert!(status.message().contains("larger than max"), "{status:?}");
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_beyond_the_memory_is_refused_with_a_delay() {
    let bed = Bed::with(|options| options.memory_bytes_max = 8 << 20).await;
    let blob = noise(12 << 20, 1);
    let request = v2::BatchUpdateBlobsRequest {
        requests: vec![entry(&sha256(&blob), &blob)],
        ..Default::default()
    };
    let status =
        refused(bed.cas().await.batch_update_blobs(request).await, Code::ResourceExhausted);
    let details: tidegate_reapi::rpc::Status = prost::Message::decode(status.details()).unwrap();
    assert_eq!(details.details[0].type_url, "type.googleapis.com/google.rpc.RetryInfo");
    assert_eq!(bed.put(&[b"small"]).await.len(), 1);
    assert!(bed.budget.held_bytes_peak() <= 8 << 20);
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn digests_that_cannot_be_are_refused() {
    let bed = Bed::new().await;
    let sound = to_proto(&sha256(b"x"));
    for digest in [
        v2::Digest { hash: sound.hash.to_uppercase(), ..sound.clone() },
        v2::Digest { hash: "ab".to_owned(), ..sound.clone() },
        v2::Digest { size_bytes: -1, ..sound.clone() },
        v2::Digest::default(),
    ] {
        let request = v2::FindMissingBlobsRequest {
            blob_digests: vec![sound.clone(), digest],
            ..Default::default()
        };
        refused(bed.cas().await.find_missing_blobs(request).await, Code::InvalidArgument);
    }
    let request = v2::FindMissingBlobsRequest { digest_function: 2, ..Default::default() };
    refused(bed.cas().await.find_missing_blobs(request).await, Code::InvalidArgument);
    assert!(bed.has(&sha256(b"")).await);
    bed.end().await;
}
