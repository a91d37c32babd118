//! Split, splice, trees.

use prost::Message as _;
use tidegate_core::chunking::{Chunking, Cutter, FastCdc2020Params, RepMaxCdcParams};
use tidegate_core::digest::Digest;
use tidegate_reapi::digest::to_proto;
use tidegate_reapi::v2;
use tonic::Code;

use crate::bed::{Bed, blob_name, noise, refused, sha256, upload_name};

async fn split(
    bed: &Bed,
    blob: &Digest,
    function: i32,
) -> Result<v2::SplitBlobResponse, tonic::Status> {
    let request = v2::SplitBlobRequest {
        blob_digest: Some(to_proto(blob)),
        chunking_function: function,
        ..Default::default()
    };
    bed.cas().await.split_blob(request).await.map(tonic::Response::into_inner)
}

async fn splice(bed: &Bed, blob: &Digest, chunks: &[Digest]) -> Result<v2::Digest, tonic::Status> {
    let request = v2::SpliceBlobRequest {
        blob_digest: Some(to_proto(blob)),
        chunk_digests: chunks.iter().map(to_proto).collect(),
        ..Default::default()
    };
    let response = bed.cas().await.splice_blob(request).await?;
    Ok(response.into_inner().blob_digest.unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_whole_blob_is_split_as_the_client_would_cut_it() {
    let bed = Bed::new().await;
    let fast = Chunking::FastCdc2020(FastCdc2020Params::new(512 << 10, 0).unwrap());
    let rep_max = Chunking::RepMaxCdc(RepMaxCdcParams::new(256 << 10, 2 << 20).unwrap());
    for (number, chunking, seed) in [(1, fast, 1), (2, rep_max, 2)] {
        let bytes = noise(8 << 20, seed);
        let digest = sha256(&bytes);
        bed.write_all(&upload_name(&digest), &bytes, 1 << 20).await.unwrap();
        let found = split(&bed, &digest, number).await.unwrap();
        assert_eq!(found.chunking_function, number);
        let mut cutter = Cutter::new(&chunking);
        let mut lens: Vec<u64> = cutter.feed(&bytes).collect();
        lens.extend(cutter.finish());
        let mut offset = 0;
        let expected = lens.iter().map(|len| {
            let end = offset + usize::try_from(*len).unwrap();
            let chunk = sha256(&bytes[offset..end]);
            offset = end;
            chunk
        });
        let expected: Vec<Digest> = expected.collect();
        assert_eq!(found.chunk_digests, expected.iter().map(to_proto).collect::<Vec<_>>());
        // Each chunk is a blob.
        assert!(bed.missing(&expected).await.is_empty());
        let read = bed.read(&blob_name(&expected[1]), 0, 0).await.unwrap();
        assert_eq!(sha256(&read), expected[1]);
    }
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn chunks_become_a_blob() {
    let bed = Bed::new().await;
    let parts = [noise(300_000, 1), noise(5, 2), noise(1 << 20, 3)];
    let digests = bed.put(&[&parts[0], &parts[1], &parts[2]]).await;
    let whole = [&parts[0][..], &parts[1], &parts[2], &parts[1]].concat();
    let blob = sha256(&whole);
    let list = [digests[0], digests[1], digests[2], sha256(b""), digests[1]];
    assert_eq!(splice(&bed, &blob, &list).await.unwrap(), to_proto(&blob));
    assert!(bed.has(&blob).await);
    assert!(bed.read(&blob_name(&blob), 0, 0).await.unwrap() == whole);
    let at = bed.read(&blob_name(&blob), 299_990, 30).await.unwrap();
    assert_eq!(at, whole[299_990..300_020]);
    let found = split(&bed, &blob, 0).await.unwrap();
    assert_eq!(found.chunk_digests.len(), 4);
    // Known already: the chunks do not matter.
    splice(&bed, &blob, &list).await.unwrap();
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_splice_that_is_wrong_names_nothing() {
    let bed = Bed::new().await;
    let parts = [noise(1000, 1), noise(1000, 2)];
    let digests = bed.put(&[&parts[0]]).await;
    let whole = sha256(&parts.concat());
    let list = [digests[0], sha256(&parts[1])];
    let status = refused(splice(&bed, &whole, &list).await, Code::NotFound);
    assert!(status.message().contains(&list[1].checksum().hex()), "{status:?}");
    bed.put(&[&parts[1]]).await;
    refused(splice(&bed, &whole, &[list[1], list[0]]).await, Code::InvalidArgument);
    refused(splice(&bed, &whole, &list[..1]).await, Code::InvalidArgument);
    refused(splice(&bed, &whole, &[]).await, Code::InvalidArgument);
    assert!(!bed.has(&whole).await);
    splice(&bed, &whole, &list).await.unwrap();
    splice(&bed, &sha256(b""), &[]).await.unwrap();
    let request = v2::SpliceBlobRequest::default();
    refused(bed.cas().await.splice_blob(request).await, Code::InvalidArgument);
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_has_no_chunks_is_not_found() {
    let bed = Bed::new().await;
    let small = bed.put(&[b"small"]).await[0];
    refused(split(&bed, &small, 1).await, Code::NotFound);
    refused(split(&bed, &sha256(b"absent"), 1).await, Code::NotFound);
    bed.end().await;
}

fn directory(names: &[(&str, Digest)]) -> Vec<u8> {
    let node = |(name, digest): &(&str, Digest)| v2::DirectoryNode {
        name: (*name).to_owned(),
        digest: Some(to_proto(digest)),
    };
    let directories = names.iter().map(node).collect();
    v2::Directory { directories, ..Default::default() }.encode_to_vec()
}

async fn tree(
    bed: &Bed,
    root: &Digest,
    page_size: i32,
    page_token: &str,
) -> Result<Vec<v2::GetTreeResponse>, tonic::Status> {
    let request = v2::GetTreeRequest {
        root_digest: Some(to_proto(root)),
        page_size,
        page_token: page_token.to_owned(),
        ..Default::default()
    };
    let mut pages = bed.cas().await.get_tree(request).await?.into_inner();
    let mut found = Vec::new();
    while let Some(page) = pages.message().await? {
        found.push(page);
    }
    Ok(found)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tree_comes_in_pages() {
    let bed = Bed::new().await;
    let leaves: Vec<Vec<u8>> =
        (0..5).map(|n| directory(&[(&format!("absent{n}"), sha256(&[n]))])).collect();
    let leaves_named: Vec<(&str, Digest)> =
        leaves.iter().map(|leaf| ("leaf", sha256(leaf))).collect();
    let (one, two) = (directory(&leaves_named), directory(&leaves_named[3..]));
    let root = directory(&[("one", sha256(&one)), ("two", sha256(&two))]);
    let all: Vec<&[u8]> =
        [&root, &one, &two].into_iter().chain(&leaves).map(Vec::as_slice).collect();
    bed.put(&all).await;
    let expected: Vec<v2::Directory> =
        all.iter().map(|bytes| v2::Directory::decode(*bytes).unwrap()).collect();
    let directories = |pages: &[v2::GetTreeResponse]| {
        pages.iter().flat_map(|page| page.directories.clone()).collect::<Vec<_>>()
    };
    let pages = tree(&bed, &sha256(&root), 0, "").await.unwrap();
    assert_eq!((pages.len(), directories(&pages)), (1, expected.clone()));
    assert_eq!(pages[0].next_page_token, "");
    let pages = tree(&bed, &sha256(&root), 3, "").await.unwrap();
    assert_eq!(pages.iter().map(|page| page.directories.len()).collect::<Vec<_>>(), [3, 3, 2]);
    assert_eq!(directories(&pages), expected);
    let rest = tree(&bed, &sha256(&root), 3, &pages[0].next_page_token).await.unwrap();
    assert_eq!(directories(&rest), expected[3..]);
    refused(tree(&bed, &sha256(b"absent"), 0, "").await, Code::NotFound);
    refused(tree(&bed, &sha256(&root), 0, "x").await, Code::InvalidArgument);
    let file = bed.put(&[b"\xff\xff not a directory"]).await[0];
    refused(tree(&bed, &file, 0, "").await, Code::FailedPrecondition);
    bed.end().await;
}
