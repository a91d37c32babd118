//! The remote forgets the upload, as services do after some days, while a request of it waits.

use tidegate_testkit::{CompleteAgain, Fault, Gate, Rule, WriteOptions};

use super::REQUESTS_MAX;
use super::play::{retry, upload};
use super::way::WAYS;
use crate::bed::{Bed, noise};

#[tokio::test]
async fn an_upload_that_is_forgotten_at_any_request_begins_anew() {
    let mut flaws = Vec::new();
    for way in WAYS.iter().filter(|way| way.parts() > 0 || way.is_session()) {
        for complete_again in [CompleteAgain::Succeeds, CompleteAgain::NoSuchUpload] {
            for nth in 1..=REQUESTS_MAX {
                assert!(nth < REQUESTS_MAX, "{}: it does not end", way.name);
                let writes = WriteOptions { complete_again, ..WriteOptions::default() };
                let bed = Bed::with(way.flavour, writes).await.trusting();
                let bytes = noise(way.len);
                let path = bed.file(&bytes);
                let gate = Gate::new();
                bed.server
                    .script()
                    .push(Rule::new(Fault::HoldRequest(gate.clone())).nth(nth as u64));
                let forget = async {
                    gate.reached(1).await;
                    bed.server.forget_uploads();
                    gate.open();
                    std::future::pending::<()>().await;
                };
                let outcome = tokio::select! {
                    outcome = upload(&bed, &bed.client, way, &path, retry()) => outcome,
                    () = forget => unreachable!("it waits"),
                };
                let name = format!("{} {complete_again:?}, request {nth}", way.name);
                match outcome {
                    Err(error) => flaws.push(format!("{name}: {}", error.chain())),
                    Ok(_) if bed.stored().and_then(|stored| stored.bytes) != Some(bytes) => {
                        flaws.push(format!("{name}: other bytes"));
                    }
                    Ok(_) if !bed.server.unfinished_uploads().is_empty() => {
                        flaws.push(format!("{name}: an upload stays"));
                    }
                    Ok(_) => {}
                }
                if bed.server.script().applied() == 0 {
                    break;
                }
            }
        }
    }
    assert!(flaws.is_empty(), "{}", flaws.join("\n"));
}
