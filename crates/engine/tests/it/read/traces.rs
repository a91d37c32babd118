//! Spans: one for the channel, and one for each request within it.
//!
//! `tracing` caches for each callsite whether a subscriber wants its spans. Suppose that a thread
//! without a subscriber reaches a callsite first, at the moment when another thread sets its
//! subscriber. Then the callsite can be disabled for both threads. So this runs in a child: this
//! program again, with one test.

use std::fmt::Write as _;
use std::process::Command;
use std::sync::{Arc, Mutex};

use tidegate_testkit::{Fault, Flavour, ServerOptions};
use tokio::io::AsyncReadExt as _;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

use super::options;
use crate::bed::Bed;
use crate::trial::within;

/// Set in the child.
const ALONE: &str = "TIDEGATE_TEST_ALONE";

/// A new span: its id, its parent's id, its name, and its fields.
type Made = (u64, Option<u64>, &'static str, String);

/// Records all new spans, and the stack of open spans with the innermost last.
#[derive(Clone, Default)]
struct Spans(Arc<Mutex<(Vec<Made>, Vec<u64>)>>);

struct Fields(String);

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        write!(self.0, "{}={value:?} ", field.name()).unwrap();
    }
}

impl Subscriber for Spans {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.is_span() && metadata.target().starts_with("tidegate::read")
    }

    fn new_span(&self, attributes: &Attributes<'_>) -> Id {
        let mut state = self.0.lock().unwrap();
        let id = state.0.len() as u64 + 1;
        let parent = state.1.last().copied();
        let mut fields = Fields(String::new());
        attributes.record(&mut fields);
        state.0.push((id, parent, attributes.metadata().name(), fields.0));
        Id::from_u64(id)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, _: &Event<'_>) {}

    fn enter(&self, span: &Id) {
        self.0.lock().unwrap().1.push(span.into_u64());
    }

    fn exit(&self, span: &Id) {
        assert_eq!(self.0.lock().unwrap().1.pop(), Some(span.into_u64()));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_channel_and_each_of_its_requests_have_a_span() {
    let child = tokio::task::spawn_blocking(|| {
        let program = std::env::current_exe().unwrap();
        let test = ["read::traces::in_a_child", "--exact", "--nocapture"];
        Command::new(program).args(test).env(ALONE, "1").output().unwrap()
    });
    let output = within(child).await.unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}\n{}", String::from_utf8_lossy(&output.stderr));
    assert!(said.contains("1 passed"), "{said}");
}

#[tokio::test]
async fn in_a_child() {
    if std::env::var_os(ALONE).is_none() {
        return;
    }
    let bed = Bed::new(ServerOptions::of(Flavour::Gcs), 300_000).await;
    bed.server.script().next(Fault::CutAfter(1000));
    let spans = Spans::default();
    let guard = tracing::subscriber::set_default(spans.clone());
    let mut channel = crate::call::read(bed.location(), options());
    channel.read_to_end(&mut Vec::new()).await.unwrap();
    drop((channel, guard));
    let state = spans.0.lock().unwrap();
    assert_eq!(state.1, Vec::<u64>::new());
    let made: Vec<_> = state.0.iter().map(|(_, parent, name, _)| (*parent, *name)).collect();
    assert_eq!(made, [(None, "read"), (Some(1), "request"), (Some(1), "request")]);
    assert_eq!(state.0[0].3, "blob=\"gs://bucket/blob\" range=all ");
    assert!(state.0[2].3.contains("range=1000-299999 attempt=2"), "{:?}", state.0);
}
