//! 200 writers with the condition that nothing has the name: exactly one wins, and its bytes are
//! stored.

use std::fmt::Debug;

use bytes::Bytes;
use futures_util::future::join_all;
use tidegate::remote::{
    CompleteRequest, PartNumber, Payload, Precondition, UploadPart, WriteOptions,
};
use tidegate::{Client, ErrorKind, Location, Result};
use tidegate_testkit::Flavour;

use crate::bed::{Bed, noise};

const WRITERS: u8 = 200;

/// Clients that share the writers, as processes would.
const CLIENTS: u8 = 4;

fn absent() -> WriteOptions {
    WriteOptions::when(Precondition::Absent)
}

/// The bytes of one writer.
fn bytes_of(writer: u8) -> Bytes {
    let mut bytes = noise(1_000).to_vec();
    bytes[0] = writer;
    bytes.into()
}

/// The only writer that won.
#[track_caller]
fn winner<T: Debug>(outcomes: &[Result<T>]) -> u8 {
    let won = (0..WRITERS).zip(outcomes).filter(|(_, outcome)| outcome.is_ok());
    let won: Vec<u8> = won.map(|(writer, _)| writer).collect();
    for error in outcomes.iter().filter_map(|outcome| outcome.as_ref().err()) {
        assert_eq!(error.kind(), ErrorKind::AlreadyExists, "{}", error.chain());
    }
    assert_eq!(won.len(), 1, "{won:?}");
    won[0]
}

/// Uploads of all writers, in parts of `part_bytes`.
async fn uploads(bed: &Bed, part_bytes: u64) -> Vec<Result<tidegate::Report>> {
    let clients: Vec<Client> = (0..CLIENTS).map(|_| bed.another_client()).collect();
    let uploads = (0..WRITERS).map(|writer| {
        let client = &clients[usize::from(writer % CLIENTS)];
        let target = bed.target_of(client);
        let upload = client.upload(bytes_of(writer), &target);
        upload.part_bytes(part_bytes).write(absent()).into_future()
    });
    join_all(uploads).await
}

#[tokio::test]
async fn one_wins_by_one_request() {
    for flavour in [Flavour::S3, Flavour::Gcs, Flavour::Azure] {
        let bed = Bed::new(flavour).await;
        let outcomes = uploads(&bed, 1_000_000).await;
        bed.has(&bytes_of(winner(&outcomes)));
    }
}

#[tokio::test]
async fn one_wins_by_a_session_and_by_blocks() {
    for flavour in [Flavour::Gcs, Flavour::Azure] {
        let bed = Bed::new(flavour).await;
        let outcomes = uploads(&bed, 300).await;
        let stored = bed.stored().unwrap().bytes.unwrap();
        assert_eq!(stored, bytes_of(winner(&outcomes)), "{flavour:?}");
    }
}

/// A part of S3 has 5 MiB or is the last one, so each writer has a single part.
#[tokio::test]
async fn one_wins_in_parts_of_s3() {
    let bed = Bed::new(Flavour::S3).await;
    let outcomes = join_all((0..WRITERS).map(|writer| in_parts(bed.target(), writer))).await;
    assert_eq!(bed.stored().unwrap().bytes.unwrap(), bytes_of(winner(&outcomes)));
}

async fn in_parts(target: Location, writer: u8) -> Result<()> {
    let write = target.write()?;
    let upload = write.begin(&target.blob, &absent()).await?;
    let payload = Payload::from_bytes(bytes_of(writer));
    let part = UploadPart { number: PartNumber::FIRST, offset: 0, payload };
    let stored = write.part(&upload, &part).await?;
    write.complete(&upload, &CompleteRequest::new(vec![stored])).await.map(drop)
}

#[tokio::test]
async fn one_wins_in_a_folder() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("blob.bin");
    let client = Client::default();
    let target = client.locate(path.to_str().unwrap()).unwrap();
    let uploads = (0..WRITERS)
        .map(|writer| client.upload(bytes_of(writer), &target).write(absent()).into_future());
    let outcomes = join_all(uploads).await;
    assert_eq!(std::fs::read(&path).unwrap(), bytes_of(winner(&outcomes)));
}
