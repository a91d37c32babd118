//! Responses that contradict themselves: a failure in them counts.

use tidegate::chunked::SendProgress;
use tidegate::{Budget, ErrorKind};
use tidegate_testkit::reapi::{
    EndLie, EntriesLie, HeadLie, HostileCall, Lie, MessageLie, ReapiOptions, Rpc, Turns,
};

use super::bed::{noise, request, start};

/// Forms that a valid response of one message and one status never has.
fn contradictions() -> Vec<Lie> {
    vec![
        Lie::Message(MessageLie::Empty(0)),
        Lie::Message(MessageLie::Empty(1)),
        Lie::Message(MessageLie::Repeat(0)),
        Lie::Head(HeadLie::Http(503)),
        Lie::Head(HeadLie::Http(206)),
        Lie::End(EndLie::Twice(0, 14)),
        Lie::End(EndLie::Twice(14, 0)),
        Lie::Head(HeadLie::Status(14)),
    ]
}

#[tokio::test]
async fn nothing_is_acknowledged_by_a_response_that_contradicts_itself() {
    for rpc in [Rpc::FindMissing, Rpc::Write, Rpc::BatchUpdate] {
        for lie in contradictions() {
            let (server, cache) = start(ReapiOptions::default()).await;
            let lies = vec![lie.clone()];
            server.tell(&HostileCall { rpc, turns: Turns::All, lies });
            let (digest, bytes) = noise(1000, 1);
            let outcome = match rpc {
                Rpc::FindMissing => cache.missing(&[digest]).await.map(drop),
                Rpc::Write => cache.put(&request(digest, &bytes)).await,
                _ => cache.put_batch(&[(digest, bytes)], &SendProgress::default()).await.map(drop),
            };
            let error = outcome.expect_err(&format!("{rpc:?} {lie:?}"));
            let is_of_cache = matches!(error.kind(), ErrorKind::Remote | ErrorKind::Transport);
            assert!(is_of_cache, "{rpc:?} {lie:?}: {error:?}");
        }
    }
}

#[tokio::test]
async fn the_status_in_the_trailers_outweighs_the_headers() {
    let (server, cache) = start(ReapiOptions::default()).await;
    let lies = vec![Lie::Head(HeadLie::Status(0)), Lie::End(EndLie::Status(14))];
    server.tell(&HostileCall { rpc: Rpc::FindMissing, turns: Turns::First, lies });
    let (digest, _) = noise(1000, 1);
    let error = cache.missing(&[digest]).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Remote, "{error:?}");
    assert_eq!(cache.missing(&[digest]).await.unwrap(), [digest]);
}

/// An empty entry takes two bytes, and 150 once it is decoded. So the client limits a response to
/// as many entries as it can need.
#[tokio::test]
async fn the_number_of_empty_entries_is_limited() {
    let (digest, bytes) = noise(1000, 1);
    for rpc in [Rpc::BatchUpdate, Rpc::BatchRead] {
        for (blanks, is_fine) in [(8, true), (60_000, false)] {
            let lies = vec![Lie::Entries(EntriesLie::Blank(blanks))];
            let (server, cache) = start(ReapiOptions::default()).await;
            server.put(bytes.clone());
            server.tell(&HostileCall { rpc, turns: Turns::First, lies });
            let outcome = if rpc == Rpc::BatchRead {
                cache.get_batch(&[digest], &Budget::default()).await.map(drop)
            } else {
                let chunks = [(digest, bytes.clone())];
                cache.put_batch(&chunks, &SendProgress::default()).await.map(drop)
            };
            match outcome {
                Ok(()) => assert!(is_fine, "{rpc:?}"),
                Err(error) => {
                    assert!(!is_fine && error.kind() == ErrorKind::Integrity, "{rpc:?} {error:?}");
                }
            }
        }
    }
}
