//! Events of requests and restarts reach a program's own subscriber, with the fields that
//! [`tidegate::events`] names.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::{Arc, Mutex};

use tidegate::{Client, RetryPolicy, Target, events};
use tidegate_testkit::{Blob, Fault, Rule, Server, ServerOptions, pseudo_random};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

const LEN: usize = 300_000;

type Fields = BTreeMap<&'static str, String>;

/// Keeps the events of these two targets.
#[derive(Clone, Debug, Default)]
struct Kept(Arc<Mutex<Vec<(&'static str, Fields)>>>);

impl Kept {
    fn of(&self, target: &str) -> Vec<Fields> {
        let kept = self.0.lock().unwrap();
        kept.iter().filter(|(of, _)| *of == target).map(|(_, fields)| fields.clone()).collect()
    }
}

impl Subscriber for Kept {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.is_event() && [events::REQUEST, events::RESTART].contains(&metadata.target())
    }

    fn event(&self, event: &Event<'_>) {
        let mut fields = Found::default();
        event.record(&mut fields);
        self.0.lock().unwrap().push((event.metadata().target(), fields.0));
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

#[derive(Default)]
struct Found(Fields);

impl Visit for Found {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.0.insert(field.name(), value.to_owned());
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.0.insert(field.name(), format!("{value:?}"));
    }
}

/// Plays a scenario twice, and keeps the events of the second time. The runtime has one thread, so
/// its subscriber gets all of them.
///
/// The first time is for the crate `tracing`. It asks the subscriber of the thread that first comes
/// to an event whether the event is wanted, and keeps the answer for all threads. A thread of
/// another test has no subscriber. A subscriber that is set later is always asked.
async fn observed(scenario: impl AsyncFn()) -> Kept {
    scenario().await;
    let kept = Kept::default();
    let _subscribed = tracing::subscriber::set_default(kept.clone());
    scenario().await;
    kept
}

#[tokio::test]
async fn requests_and_restarts_are_events() {
    let server = Server::start(ServerOptions::default()).await.unwrap();
    server.put("/f/blob", Blob::new(pseudo_random(LEN, 1)));
    let kept = observed(async || {
        server.script().clear();
        server.script().push(Rule::new(Fault::CutAfter(100_000)));
        let client = Client::default();
        let blob = client.locate(&format!("{}?sig=s3cret", server.url("/f/blob"))).unwrap();
        client.download(&blob, Target::Memory).window(1).await.unwrap();
    });
    let kept = kept.await;

    let requests = kept.of(events::REQUEST);
    let [cut, rest] = &requests[..] else { panic!("{requests:#?}") };
    assert_eq!((&*cut["outcome"], &*cut["status"]), ("failed", "200"), "{cut:#?}");
    assert!(cut.contains_key("error") && cut["connection"] == "new", "{cut:#?}");
    assert_eq!((&*rest["outcome"], &*rest["status"]), ("complete", "206"), "{rest:#?}");
    assert_eq!(rest["received_bytes"], "200000");
    let restarts = kept.of(events::RESTART);
    let [restart] = &restarts[..] else { panic!("{restarts:#?}") };
    assert_eq!((&*restart["offset"], &*restart["attempt"]), ("100000", "2"), "{restart:#?}");
    assert_eq!(restart["target"], server.url("/f/blob"));
    for fields in requests.iter().chain(&restarts) {
        assert!(fields.values().all(|value| !value.contains("s3cret")), "{fields:#?}");
    }
}

/// A reader that stops early, a status of failure, and a server that is not there.
#[tokio::test]
async fn every_end_of_a_request_has_its_outcome() {
    let kept = observed(async || {
        let server = Server::start(ServerOptions::default()).await.unwrap();
        server.put("/f/blob", Blob::new(pseudo_random(8 << 20, 1)));
        let client = Client::default();
        let blob = client.locate(&server.url("/f/blob")).unwrap();
        let mut read = client.read(&blob).open().unwrap();
        assert!(!read.next().await.unwrap().unwrap().is_empty());
        drop(read);
        let gone = client.locate(&server.url("/f/gone")).unwrap();
        client.stat(&gone).await.unwrap_err();
        server.shutdown().await;
        let once = RetryPolicy { attempts_max: 1, ..RetryPolicy::default() };
        client.stat(&gone).retry(once).await.unwrap_err();
    });
    let kept = kept.await;

    let requests = kept.of(events::REQUEST);
    let [dropped, missing, failed] = &requests[..] else { panic!("{requests:#?}") };
    assert_eq!(dropped["outcome"], "dropped", "{dropped:#?}");
    assert!(dropped["received_bytes"].parse::<u64>().unwrap() > 0);
    assert_eq!((&*missing["outcome"], &*missing["status"]), ("complete", "404"), "{missing:#?}");
    assert_eq!(failed["outcome"], "failed", "{failed:#?}");
    assert!(!failed.contains_key("status") && failed.contains_key("error"), "{failed:#?}");
}
