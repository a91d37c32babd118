//! Split and Splice, and blobs that are known by their manifest.

use tidegate_testkit::{
    pseudo_random,
    reapi::{BlobName, ChunkFunction, HashFunction, ReapiOptions, SplicedAgain},
};
use tonic::Code;

use super::{Bed, digest};

const CUT: ChunkFunction = ChunkFunction::FastCdc2020 { avg_bytes: 1024, seed: 0 };

fn small() -> ReapiOptions {
    let rep_max = ChunkFunction::RepMaxCdc { min_bytes: 512, horizon_bytes: 1024 };
    ReapiOptions { chunk_functions: vec![CUT, rep_max], ..Default::default() }
}

#[tokio::test]
async fn a_whole_blob_is_cut_on_demand() {
    for function in [HashFunction::Sha256, HashFunction::Blake3] {
        let bed = Bed::new(small()).await;
        let data = pseudo_random(50_000, 1);
        let name = bed.server.put_as(function, data.clone());
        // `Unknown` leaves the choice to the server, which uses its first function.
        for (asked, answered) in [(0, 1), (1, 1), (2, 2), (77, 1)] {
            let answer = bed.split(&name, asked).await.unwrap();
            assert_eq!(answer.chunking_function, answered);
            let mut joined = Vec::new();
            for chunk in &answer.chunk_digests {
                let len_bytes = u64::try_from(chunk.size_bytes).unwrap();
                let chunk = BlobName { function, hash: chunk.hash.clone(), len_bytes };
                joined.extend(bed.read(&chunk).await.unwrap());
            }
            assert_eq!(joined, data);
        }
    }
}

#[tokio::test]
async fn an_absent_blob_is_not_split() {
    let bed = Bed::new(small()).await;
    let absent = HashFunction::Sha256.name(b"absent");
    assert_eq!(bed.split(&absent, 0).await.unwrap_err().code(), Code::NotFound);
    let empty = HashFunction::Sha256.name(b"");
    assert!(bed.split(&empty, 0).await.unwrap().chunk_digests.is_empty());
}

#[tokio::test]
async fn a_blob_known_by_its_manifest_is_like_any_other() {
    let bed = Bed::new(small()).await;
    let data = pseudo_random(50_000, 1);
    let (name, chunks) = bed.server.put_chunked(HashFunction::Sha256, CUT, data.clone());
    assert!(chunks.len() > 10);
    assert!(bed.missing(std::slice::from_ref(&name)).await.unwrap().is_empty());
    assert_eq!(bed.read_from(&name, 12_345, 20_000).await.0, data[12_345..32_345]);
    assert_eq!(bed.batch(std::slice::from_ref(&name)).await.unwrap()[0].data, data);
    let answer = bed.split(&name, 2).await.unwrap();
    let manifest: Vec<_> = chunks.iter().map(digest).collect();
    assert_eq!((answer.chunk_digests, answer.chunking_function), (manifest, 1));
}

#[tokio::test]
async fn an_evicted_chunk_makes_a_blob_missing_and_not_broken() {
    let bed = Bed::new(small()).await;
    let (name, chunks) =
        bed.server.put_chunked(HashFunction::Sha256, CUT, pseudo_random(50_000, 1));
    bed.server.evict(&chunks[5].hash);
    let missing = bed.missing(std::slice::from_ref(&name)).await.unwrap();
    assert_eq!(missing, std::slice::from_ref(&name.hash));
    assert_eq!(bed.read(&name).await.unwrap_err().code(), Code::NotFound);
    assert_eq!(bed.split(&name, 0).await.unwrap_err().code(), Code::NotFound);
    assert!(!bed.server.contains(&name));
}

#[tokio::test]
async fn splice_verifies_what_it_makes() {
    let bed = Bed::new(small()).await;
    let data = pseudo_random(50_000, 1);
    let name = HashFunction::Sha256.name(&data);
    let chunks: Vec<_> = data.chunks(20_000).map(|chunk| bed.server.put(chunk.to_vec())).collect();
    let absent = HashFunction::Sha256.name(b"absent");
    let refused = bed.splice(&name, std::slice::from_ref(&absent)).await.unwrap_err();
    assert_eq!(refused.code(), Code::NotFound);
    assert!(refused.message().contains(&absent.hash), "{refused}");
    let mut exchanged = chunks.clone();
    exchanged.swap(0, 1);
    let refused = bed.splice(&name, &exchanged).await.unwrap_err();
    assert_eq!((refused.code(), bed.server.contains(&name)), (Code::InvalidArgument, false));
    bed.splice(&name, &chunks).await.unwrap();
    assert_eq!((bed.server.blob(&name), bed.server.manifest(&name)), (Some(data), Some(chunks)));
}

#[tokio::test]
async fn a_blob_that_is_there_is_not_spliced_again() {
    for (spliced_again, expected) in
        [(SplicedAgain::AlreadyExists, Some(Code::AlreadyExists)), (SplicedAgain::Extended, None)]
    {
        let bed = Bed::new(ReapiOptions { spliced_again, ..small() }).await;
        let name = bed.server.put(&b"data"[..]);
        let spliced = bed.splice(&name, &[HashFunction::Sha256.name(b"absent")]).await;
        assert_eq!(spliced.err().map(|status| status.code()), expected);
    }
}

#[tokio::test]
async fn calls_that_are_not_advertised_are_unimplemented() {
    let bed = Bed::new(ReapiOptions { split: false, splice: false, ..small() }).await;
    let name = bed.server.put(&b"data"[..]);
    assert_eq!(bed.split(&name, 0).await.unwrap_err().code(), Code::Unimplemented);
    assert_eq!(bed.splice(&name, &[]).await.unwrap_err().code(), Code::Unimplemented);
}

#[tokio::test]
async fn a_haunted_blob_is_reported_as_present_until_it_is_put_again() {
    let bed = Bed::new(small()).await;
    let data = pseudo_random(100, 1);
    let name = bed.server.put(data.clone());
    bed.server.haunt(&name.hash);
    assert!(bed.missing(std::slice::from_ref(&name)).await.unwrap().is_empty());
    assert_eq!(bed.read(&name).await.unwrap_err().code(), Code::NotFound);
    bed.update(&[(name.clone(), data)]).await.unwrap();
    assert_eq!(bed.read(&name).await.unwrap().len(), 100);
}
