//! `ByteStream`: ranges, resumed and compressed uploads.

use bytes::Bytes;
use futures_util::stream;
use tidegate_reapi::bytestream::{QueryWriteStatusRequest, ReadRequest, WriteRequest};
use tidegate_testkit::{
    pseudo_random,
    reapi::{BlobName, HashFunction, ReapiOptions},
};
use tonic::{Code, Status};

use super::{Bed, resource};

const UUID: &str = "00000000-0000-4000-8000-000000000001";

fn upload(name: &BlobName) -> String {
    format!("uploads/{UUID}/{}", resource(name))
}

/// The messages of one attempt at an upload from `offset` on, 1000 bytes each.
fn messages(resource_name: &str, data: &Bytes, offset: usize, finish: bool) -> Vec<WriteRequest> {
    let mut messages = Vec::new();
    let mut at = offset;
    while at < data.len() || messages.is_empty() {
        let end = (at + 1000).min(data.len());
        messages.push(WriteRequest {
            resource_name: if at == offset { resource_name.to_owned() } else { String::new() },
            write_offset: i64::try_from(at).unwrap(),
            finish_write: finish && end == data.len(),
            data: data.slice(at..end),
        });
        at = end;
    }
    messages
}

async fn write(bed: &Bed, messages: Vec<WriteRequest>) -> Result<i64, Status> {
    let answer = bed.bytes.clone().write(stream::iter(messages)).await?;
    Ok(answer.into_inner().committed_size)
}

async fn committed(bed: &Bed, resource_name: &str) -> Result<(i64, bool), Status> {
    let request = QueryWriteStatusRequest { resource_name: resource_name.to_owned() };
    let answer = bed.bytes.clone().query_write_status(request).await?.into_inner();
    Ok((answer.committed_size, answer.complete))
}

#[tokio::test]
async fn ranges_are_what_was_asked_for() {
    // Several messages, and none of them of a round size.
    let options = ReapiOptions { read_message_bytes: 777, ..Default::default() };
    let bed = Bed::new(options).await;
    let data = pseudo_random(10_000, 1);
    let name = bed.server.put_as(HashFunction::Blake3, data.clone());
    for (offset, limit, expected) in [
        (0, 0, &data[..]),
        (0, 1, &data[..1]),
        (9999, 0, &data[9999..]),
        (10_000, 0, &[]),
        (776, 779, &data[776..1555]),
        (9000, 5000, &data[9000..]),
    ] {
        let (got, end) = bed.read_from(&name, offset, limit).await;
        end.unwrap();
        assert_eq!(got, expected, "{offset} {limit}");
    }
    for (offset, limit, code) in
        [(-1, 0, Code::OutOfRange), (10_001, 0, Code::OutOfRange), (0, -1, Code::InvalidArgument)]
    {
        let refused = bed.read_from(&name, offset, limit).await.1.unwrap_err();
        assert_eq!(refused.code(), code, "{offset} {limit}");
    }
    let empty = HashFunction::Sha256.name(b"");
    assert_eq!(bed.read(&empty).await.unwrap(), b"");
    let absent = HashFunction::Sha256.name(b"absent");
    assert_eq!(bed.read(&absent).await.unwrap_err().code(), Code::NotFound);
    assert_eq!(bed.server.counts().served(&name.hash), 6);
}

#[tokio::test]
async fn a_compressed_read_may_begin_anywhere() {
    let mut bed = Bed::honest().await;
    let data = pseudo_random(100_000, 1);
    let name = bed.server.put(data.clone());
    let resource_name = format!("compressed-blobs/zstd/{}/{}", name.hash, name.len_bytes);
    let request =
        ReadRequest { resource_name: resource_name.clone(), read_offset: 70_001, read_limit: 0 };
    let mut stream = bed.bytes.read(request).await.unwrap().into_inner();
    let mut compressed = Vec::new();
    while let Some(message) = stream.message().await.unwrap() {
        compressed.extend(&message.data);
    }
    assert_eq!(zstd::decode_all(&compressed[..]).unwrap(), data[70_001..]);
    let request = ReadRequest { resource_name, read_offset: 0, read_limit: 1 };
    let refused = bed.bytes.read(request).await.unwrap_err();
    assert_eq!(refused.code(), Code::InvalidArgument);
}

#[tokio::test]
async fn a_written_blob_exists() {
    for function in [HashFunction::Sha256, HashFunction::Blake3] {
        let bed = Bed::honest().await;
        let data = pseudo_random(3500, 1);
        let name = function.name(&data);
        let resource_name = upload(&name);
        assert_eq!(committed(&bed, &resource_name).await.unwrap_err().code(), Code::NotFound);
        let size = write(&bed, messages(&resource_name, &data, 0, true)).await.unwrap();
        assert_eq!((size, bed.server.blob(&name)), (3500, Some(data)));
        assert_eq!(committed(&bed, &resource_name).await.unwrap(), (3500, true));
        assert_eq!(bed.server.counts().bytes_in, 3500);
    }
}

#[tokio::test]
async fn a_blob_that_is_there_ends_a_write_early() {
    let bed = Bed::honest().await;
    let data = pseudo_random(3500, 1);
    let name = bed.server.put(data.clone());
    let first = messages(&upload(&name), &data, 0, true).remove(0);
    assert_eq!(write(&bed, vec![first]).await.unwrap(), 3500);
    assert_eq!((bed.server.counts().bytes_in, bed.server.counts().stored(&name.hash)), (0, 0));
}

#[tokio::test]
async fn an_unfinished_write_goes_on_where_it_ended() {
    let bed = Bed::honest().await;
    let data = pseudo_random(3500, 1);
    let name = HashFunction::Sha256.name(&data);
    let resource_name = upload(&name);
    let size = write(&bed, messages(&resource_name, &data.slice(..1500), 0, false)).await.unwrap();
    assert_eq!((size, bed.server.contains(&name)), (1500, false));
    assert_eq!(committed(&bed, &resource_name).await.unwrap(), (1500, false));
    let elsewhere = write(&bed, messages(&resource_name, &data, 1000, true)).await;
    assert_eq!(elsewhere.unwrap_err().code(), Code::InvalidArgument);
    let size = write(&bed, messages(&resource_name, &data, 1500, true)).await.unwrap();
    assert_eq!((size, bed.server.blob(&name)), (3500, Some(data)));
}

#[tokio::test]
async fn bytes_that_do_not_match_their_digest_are_not_stored() {
    let bed = Bed::honest().await;
    let data = pseudo_random(3500, 1);
    let wrong = BlobName { len_bytes: 3500, ..HashFunction::Sha256.name(b"other") };
    let short = BlobName { len_bytes: 3000, ..HashFunction::Sha256.name(&data) };
    for name in [wrong, short] {
        let refused = write(&bed, messages(&upload(&name), &data, 0, true)).await.unwrap_err();
        assert_eq!(refused.code(), Code::InvalidArgument);
        assert!(!bed.server.contains(&name));
        assert!(committed(&bed, &upload(&name)).await.is_err());
    }
}

#[tokio::test]
async fn a_compressed_write_is_unpacked() {
    let bed = Bed::honest().await;
    let data = pseudo_random(3500, 1);
    let name = HashFunction::Sha256.name(&data);
    let resource_name = format!("uploads/{UUID}/compressed-blobs/zstd/{}/3500", name.hash);
    let compressed = Bytes::from(zstd::encode_all(&data[..], 1).unwrap());
    let messages = messages(&resource_name, &compressed, 0, true);
    let size = write(&bed, messages.clone()).await.unwrap();
    assert_eq!(size, i64::try_from(compressed.len()).unwrap());
    assert_eq!(bed.server.blob(&name), Some(data));
    assert_eq!(write(&bed, messages).await.unwrap(), -1);
}

#[tokio::test]
async fn a_blob_beyond_the_limit_is_refused() {
    let bed = Bed::new(ReapiOptions { blob_bytes_max: 100, ..Default::default() }).await;
    let data = pseudo_random(101, 1);
    let name = HashFunction::Sha256.name(&data);
    let refused = write(&bed, messages(&upload(&name), &data, 0, true)).await.unwrap_err();
    assert_eq!(refused.code(), Code::InvalidArgument);
    assert_eq!(bed.update(&[(name, data)]).await.unwrap(), [Code::InvalidArgument]);
}
