//! What a successful upload means: the file has the given digest, and, if the caller asks for it,
//! the cache still has at the end what it acknowledged.

use bytes::Bytes;
use tidegate::{Error, ErrorKind, Form};
use tidegate_testkit::reapi::{HashFunction, ReapiFault, Rpc};

use super::bed::{Bed, Way, blob, chunks, digest};
use crate::call::{UploadOptions, upload};

/// The error of an upload with `confirm` to a cache that acknowledges and then loses. Without
/// `confirm` the same upload succeeds.
async fn confirmed(way: Way, data: &Bytes, rpc: Rpc, fault: &ReapiFault) -> Error {
    let bed = Bed::by(way).await;
    bed.server.script().always(rpc, fault.clone());
    let path = bed.file("source", data);
    let report = upload(&bed.store, &path, &bed.up()).await.unwrap();
    assert_ne!(report.form, Form::Present);
    let options = UploadOptions { confirm: Some(true), ..bed.up() };
    let error = upload(&bed.store, &path, &options).await.unwrap_err();
    bed.settled().await;
    assert_eq!(error.kind(), ErrorKind::Integrity, "{error:?}");
    assert!(error.hint().unwrap().contains("upload it again"), "{error:?}");
    error
}

#[tokio::test]
async fn blobs_that_a_cache_acknowledged_and_lost_are_named() {
    // Shorter than the shortest chunk.
    let short = blob(1).slice(..200);
    let name = HashFunction::Sha256.name(&short).hash;
    for (way, rpc) in [(Way::Batches, Rpc::BatchUpdate), (Way::Streams, Rpc::Write)] {
        let error = confirmed(way, &short, rpc, &ReapiFault::Forget).await;
        assert!(error.chain().contains(&format!("lacks the blob sha256/{name}")), "{error:?}");
    }
    let long = blob(2);
    let cut = chunks(&long);
    let name = HashFunction::Sha256.name(&long).hash;
    let lost = |hashes: &[&String]| {
        ReapiFault::EvictAfter(hashes.iter().map(|hash| (*hash).clone()).collect())
    };
    for way in Way::ALL {
        let error = confirmed(way, &long, Rpc::Splice, &lost(&[&name])).await;
        assert!(error.chain().contains(&format!("lacks the blob sha256/{name}")), "{error:?}");
        let some = [&name, &cut[3].hash, &cut[5].hash];
        let chain = confirmed(way, &long, Rpc::Splice, &lost(&some)).await.chain();
        let count = format!("2 of {} chunks", cut.len());
        assert!(some.iter().all(|hash| chain.contains(*hash)) && chain.contains(&count), "{chain}");
    }
}

#[tokio::test]
async fn confirming_costs_one_more_request() {
    for way in Way::ALL {
        let bed = Bed::by(way).await;
        let options = UploadOptions { confirm: Some(true), ..bed.up() };
        let asked = bed.upload(&blob(3), &options).await.unwrap().chunks.unwrap().requests.missing;
        // The blob is there already: the first question asks for it, and the second one confirms
        // it.
        let report = bed.upload(&blob(3), &options).await.unwrap();
        assert_eq!((report.form, report.chunks.unwrap().moved.chunks), (Form::Present, 0));
        assert!(asked >= 2 && report.chunks.unwrap().requests.missing >= 2, "{asked} {report:?}");
    }
}

#[tokio::test]
async fn a_digest_that_the_cache_has_is_compared_with_the_file() {
    for way in Way::ALL {
        for len in [200, 256 << 10] {
            let bed = Bed::by(way).await;
            let (data, other) = (blob(4).slice(..len), blob(5).slice(..len));
            bed.server.put(other.clone());
            let given = digest(&HashFunction::Sha256.name(&other));
            let options = UploadOptions { digest: Some(given), ..bed.up() };
            let error = bed.upload(&data, &options).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Integrity, "{error:?}");
            assert!(error.chain().contains("its bytes are not those of"), "{error:?}");
            let report = bed.upload(&other, &options).await.unwrap();
            assert_eq!((report.form, report.digest.unwrap()), (Form::Present, given));
        }
    }
}

/// An upload that follows another one with the same digest also compares its own file.
#[tokio::test]
async fn a_follower_of_an_upload_compares_its_own_file() {
    let bed = Bed::by(Way::Batches).await;
    let (data, other) = (blob(6).slice(..200), blob(7).slice(..200));
    let options =
        UploadOptions { digest: Some(digest(&HashFunction::Sha256.name(&data))), ..bed.up() };
    let (right, wrong) = (bed.file("right", &data), bed.file("wrong", &other));
    let (right, wrong) =
        tokio::join!(upload(&bed.store, &right, &options), upload(&bed.store, &wrong, &options),);
    right.unwrap();
    assert_eq!(wrong.unwrap_err().kind(), ErrorKind::Integrity);
}
