//! The suite of servers of the Remote Execution API: [`check_protocol`]. Each promise is a sentence of
//! the API's definitions, checked from outside, with a gRPC library that is not ours.
//!
//! The suite runs on our server and on others. What another server does differently is in a list of
//! deviations with reasons ([`Deviations`]). So the suite tests the protocol, not our reading of it.
//! Promises about what a server does not offer, such as compression, are not checked.
//!
//! | file | promises about |
//! |---|---|
//! | `capabilities` | what a server says of itself |
//! | `find_missing` | which blobs are missing |
//! | `batches` | many blobs in one message |
//! | `reading` | a blob as a stream: offsets, limits, names |
//! | `writing` | a blob as a stream: messages, early answers, mismatches |
//! | `resuming` | writes that are interrupted |
//! | `compressed` | streams and batches with zstd |
//! | `trees` | directories and pages |
//! | `chunks` | split and splice |
//! | `actions` | action results |
//! | `bed` | a connection, blobs that no other case uses, calls |
//! | `deviations` | what another server does differently, and why |

mod actions;
mod batches;
mod bed;
mod capabilities;
mod chunks;
mod compressed;
mod deviations;
mod find_missing;
mod reading;
mod resuming;
mod trees;
mod writing;

use std::pin::Pin;
use std::time::Duration;

pub use self::deviations::Deviations;

use self::bed::Bed;
use crate::remote::Report;

/// The time limit of a case. The longest sends a few MiB.
const CASE_MAX: Duration = Duration::from_secs(30);

/// The result of a case: an error says what was promised and what the server did.
type Outcome = Result<(), String>;

type Case<'a> = (&'static str, Pin<Box<dyn Future<Output = Outcome> + Send + 'a>>);

/// Checks all promises of what the server at `url` (`http://ADDRESS`) offers under an instance. It
/// may hold other blobs; those of the suite follow from the seed.
///
/// Fails if the server cannot be reached, or does not offer SHA-256.
pub async fn check_protocol(url: &str, instance: &str, seed: u64) -> Result<Report, String> {
    let bed = Bed::connect(url, instance, seed).await?;
    let mut cases = capabilities::cases(&bed);
    cases.extend(find_missing::cases(&bed));
    cases.extend(batches::cases(&bed));
    cases.extend(reading::cases(&bed));
    cases.extend(writing::cases(&bed));
    cases.extend(resuming::cases(&bed));
    if bed.offers_zstd() {
        cases.extend(compressed::cases(&bed));
    }
    cases.extend(trees::cases(&bed));
    if bed.offers_chunks() {
        cases.extend(chunks::cases(&bed));
    }
    if bed.offers_updates() {
        cases.extend(actions::cases(&bed));
    }
    let mut report = Report::default();
    for (promise, checked) in cases {
        let outcome = tokio::time::timeout(CASE_MAX, checked).await;
        let outcome = outcome.unwrap_or_else(|_| Err(format!("took more than {CASE_MAX:?}")));
        report.add(promise, outcome);
    }
    Ok(report)
}

/// Fails a case if a condition does not hold.
fn ensure(is_so: bool, message: impl FnOnce() -> String) -> Outcome {
    if is_so { Ok(()) } else { Err(message()) }
}
