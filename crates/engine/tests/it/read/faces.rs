//! The faces of a channel: what each of them delivers, and that they can be mixed.

use std::io::Read as _;

use futures_util::StreamExt as _;
use tidegate::read::{BlockingReadChannel, ReadChannel, ReadOptions};
use tidegate_testkit::{Flavour, ServerOptions};
use tokio::io::AsyncReadExt as _;

use crate::bed::Bed;

const LEN: usize = 300_000;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_request_brings_everything() {
    let bed = Bed::new(ServerOptions::of(Flavour::Gcs), LEN).await;
    let mut channel = ReadChannel::open(bed.location(), ReadOptions::default());
    let mut content = Vec::new();
    channel.read_to_end(&mut content).await.unwrap();
    assert!(content == bed.bytes);
    assert!(channel.verified().is_verified(), "{:?}", channel.verified());
    assert_eq!(bed.server.requests(), 1);

    let channel = ReadChannel::open(bed.location(), ReadOptions::default());
    let frames: Vec<_> = channel.map(Result::unwrap).collect().await;
    assert!(frames.concat() == bed.bytes);
    assert_eq!(bed.server.requests(), 2);

    let location = bed.location();
    let content = tokio::task::spawn_blocking(move || {
        let mut channel = BlockingReadChannel::open(location, ReadOptions::default());
        let mut content = Vec::new();
        channel.read_to_end(&mut content).unwrap();
        assert!(channel.verified().is_verified());
        content
    });
    assert!(content.await.unwrap() == bed.bytes);
    assert_eq!(bed.server.requests(), 3);
}

#[tokio::test]
async fn a_blocking_read_inside_a_task_is_refused() {
    let bed = Bed::new(ServerOptions::of(Flavour::Gcs), LEN).await;
    let mut channel = BlockingReadChannel::open(bed.location(), ReadOptions::default());
    let error = channel.read(&mut [0; 10]).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::Unsupported, "{error}");
    assert!(error.to_string().contains("inside an asynchronous task"), "{error}");
    assert_eq!(bed.server.requests(), 0);
}
