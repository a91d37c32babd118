//! Remotes that contradict themselves: the channel never mixes their contradictory responses.

use std::collections::VecDeque;
use std::io::SeekFrom;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use bytes::Bytes;
use tidegate::remote::{BlobInfo, OpenRequest, Opened, Read, Remote, Version};
use tidegate::{Budget, ErrorKind, Location, Result};

use super::options;
use crate::trial::within;

/// Bytes that depend on their position.
fn content() -> Bytes {
    (0..=u8::MAX).collect()
}

/// Gives each request the next scripted response, whatever it asks for, and every stat the same
/// facts.
#[derive(Debug)]
struct Liar {
    answers: Mutex<VecDeque<Answer>>,
    stat: BlobInfo,
}

#[derive(Debug)]
struct Answer {
    info: BlobInfo,
    start: usize,
    end: usize,
}

fn facts(len_bytes: Option<u64>, generation: &str) -> BlobInfo {
    let mut info = BlobInfo::default();
    info.len_bytes = len_bytes;
    info.version = Some(Version::Generation(generation.to_owned()));
    info
}

#[async_trait]
impl Read for Liar {
    async fn stat(&self, _blob: &str) -> Result<BlobInfo> {
        Ok(self.stat.clone())
    }

    async fn open(&self, _blob: &str, _request: &OpenRequest, _budget: &Budget) -> Result<Opened> {
        let answer = self.answers.lock().unwrap().pop_front().unwrap();
        let body = content().slice(answer.start..answer.end);
        let body = Box::pin(futures_util::stream::iter([Ok(body)]));
        let mut opened = Opened::new(answer.info, answer.start as u64, body);
        opened.end = Some(answer.end as u64);
        Ok(opened)
    }
}

impl Remote for Liar {
    fn scheme(&self) -> &'static str {
        "test"
    }
}

fn location(answers: impl IntoIterator<Item = Answer>, stat: BlobInfo) -> Location {
    let answers = Mutex::new(answers.into_iter().collect());
    Location::new(Arc::new(Liar { answers, stat }), "blob", "test://blob")
}

#[tokio::test]
async fn bytes_from_a_later_offset_are_not_delivered() {
    let blob = facts(Some(256), "1");
    let answer = |start| Answer { info: blob.clone(), start, end: 256 };
    let answers = [answer(10), answer(11), answer(12), answer(0)];
    let mut channel = crate::call::read(location(answers, blob.clone()), options());
    let mut read = Vec::new();
    while let Some(frame) = within(channel.next()).await.unwrap() {
        read.extend_from_slice(&frame);
    }
    assert_eq!(read, content());
    assert_eq!(channel.totals().requests, 4);
}

#[tokio::test]
async fn the_length_of_another_version_is_not_that_of_this_one() {
    let answer = Answer { info: facts(None, "1"), start: 0, end: 100 };
    let mut channel = crate::call::read(location([answer], facts(Some(90), "2")), options());
    within(channel.next()).await.unwrap().unwrap();
    let error = within(channel.seek(SeekFrom::End(0))).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Changed, "{error:?}");
    assert_eq!(channel.len_bytes(), None);
}

#[tokio::test]
async fn one_version_has_one_length() {
    let answer = Answer { info: facts(Some(256), "1"), start: 0, end: 256 };
    let blob = location([answer], facts(Some(200), "1"));
    let mut channel = crate::call::read(blob.clone(), options());
    while within(channel.next()).await.unwrap().is_some() {}
    let state = channel.capture().unwrap();
    let mut channel = crate::call::restore(blob, &state, options()).unwrap();
    let error = within(channel.info()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Integrity, "{error:?}");
}
