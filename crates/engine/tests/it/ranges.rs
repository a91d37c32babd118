//! Servers that ignore ranges, always or once.

use tidegate_testkit::{Fault, Rule, ServerOptions};

use crate::bed::Bed;
use crate::faults::{FLAVOURS, LEN, WINDOWS, once, options, requests};
use crate::trial::{KINDS, Trial};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_without_ranges_is_read_as_one_stream() {
    for flavour in FLAVOURS {
        for window in WINDOWS {
            for kind in KINDS {
                let no_ranges = ServerOptions { ranges: false, ..ServerOptions::of(flavour) };
                let bed = Bed::new(no_ranges, LEN).await;
                let trial = Trial::run(&bed, kind, &options(window)).await;
                let label = format!("{flavour:?} {window} {kind:?}");
                trial.assert_whole(&bed, requests(flavour, 1), &label);
                let notes = trial.result.unwrap().notes;
                let said = notes.iter().any(|note| note.contains("ignores ranges"));
                assert_eq!(said, window > 1, "{label}: {notes:?}");
            }
        }
    }
}

/// A server without ranges starts from the beginning after a break. Bytes that were delivered are
/// not delivered again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn delivered_bytes_are_skipped_when_the_whole_blob_is_sent_again() {
    for flavour in FLAVOURS {
        for window in WINDOWS {
            for kind in KINDS {
                let no_ranges = ServerOptions { ranges: false, ..ServerOptions::of(flavour) };
                let bed = Bed::new(no_ranges, LEN).await;
                bed.server
                    .script()
                    .push(Rule::new(Fault::CutAfter(100_000)).method("GET").times(3));
                let trial = Trial::run(&bed, kind, &options(window)).await;
                let label = format!("{flavour:?} {window} {kind:?}");
                let report = trial.result.as_ref().unwrap_or_else(|e| panic!("{label}: {e:?}"));
                if let Some(content) = &trial.content {
                    assert!(*content == bed.bytes, "{label}");
                }
                assert_eq!(report.bytes, LEN as u64, "{label}");
                assert!(report.totals.bytes_wasted >= 100_000, "{label}: {:?}", report.totals);
            }
        }
    }
}

/// One shard's response is the whole blob. The rest of the blob is not taken for the shard.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_answer_that_ignores_its_range_does_no_harm() {
    for flavour in FLAVOURS {
        let bed = Bed::new(ServerOptions::of(flavour), LEN).await;
        for kind in KINDS {
            bed.server.script().clear();
            bed.server.script().push(once(Fault::NoRangeSupport));
            let trial = Trial::run(&bed, kind, &options(4)).await;
            let label = format!("{flavour:?} {kind:?}");
            trial.assert_whole(&bed, requests(flavour, 4), &label);
        }
    }
}
