//! The suite of every [`BlobStore`] and every [`ChunkStore`].
//!
//! A check returns all [`Violation`]s that it finds; a correct store has none. Each case uses its
//! own blobs, made from the seed. So a store may hold other blobs, and a server may be checked
//! again with another seed.
//!
//! | file | idea |
//! |---|---|
//! | `blobs` | whole blobs: missing, get, put |
//! | `failures` | puts that must fail, or are dropped, and keep nothing |
//! | `chunks` | batches and manifests |
//! | `bed` | a store, the blobs of one case, and sources that misbehave |

mod bed;
mod blobs;
mod chunks;
mod failures;

use std::fmt;
use std::pin::Pin;
use std::time::Duration;

use tidegate::DigestFunction;
use tidegate::store::{BlobStore, ChunkStore};

use self::bed::Bed;

/// The time limit of a case. A slow server needs a second or two for the longest case.
const CASE_MAX: Duration = Duration::from_mins(1);

/// A promise that a store does not keep.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The case that found it.
    pub case: &'static str,
    /// What was expected, and what the store did.
    pub message: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.case, self.message)
    }
}

/// The result of a case: an error says what was wrong.
type Outcome = Result<(), String>;

type Case<'a> = (&'static str, Pin<Box<dyn Future<Output = Outcome> + Send + 'a>>);

/// Checks the three calls of every store, with blobs named by `function`.
pub async fn check_blobs(
    store: &dyn BlobStore,
    function: DigestFunction,
    seed: u64,
) -> Vec<Violation> {
    let bed = Bed::new(store, function, seed);
    let cases: Vec<Case<'_>> = vec![
        ("a blob is there after its put", Box::pin(blobs::is_there_after_its_put(&bed))),
        ("the empty blob is always there", Box::pin(blobs::empty(&bed))),
        ("a blob is got from any offset", Box::pin(blobs::offsets(&bed))),
        ("an unknown blob is a miss", Box::pin(blobs::unknown(&bed))),
        ("missing blobs are found among many", Box::pin(blobs::missing_among_many(&bed))),
        ("a large blob comes in pieces", Box::pin(blobs::large(&bed))),
        ("equal puts at once all succeed", Box::pin(blobs::equal_puts_at_once(&bed))),
        ("different puts at once are kept apart", Box::pin(blobs::different_puts_at_once(&bed))),
        ("wrong bytes are refused", Box::pin(failures::wrong_bytes(&bed))),
        ("a source that ends early is refused", Box::pin(failures::short_source(&bed))),
        ("a source that fails keeps nothing", Box::pin(failures::failing_source(&bed))),
        ("a put that is dropped keeps nothing", Box::pin(failures::dropped(&bed))),
        ("the identity stays the same", Box::pin(blobs::identity(&bed))),
    ];
    run(cases).await
}

/// Checks all calls, with blobs named by each digest function of the store's profile. If the store
/// takes no manifests, they are not checked.
pub async fn check(store: &dyn ChunkStore, seed: u64) -> Vec<Violation> {
    let profile = match store.profile().await {
        Ok(profile) => profile,
        Err(error) => {
            return vec![Violation { case: "the store has a profile", message: error.chain() }];
        }
    };
    let mut violations =
        run(vec![("the store has a profile", Box::pin(chunks::profile(store)))]).await;
    for function in profile.digest_functions.iter().copied() {
        violations.extend(check_blobs(store, function, seed).await);
        let bed = Bed::new(store, function, seed);
        let cases: Vec<Case<'_>> = vec![
            ("a batch puts and gets", Box::pin(chunks::batch(&bed))),
            ("an answer of a batch is its chunk's alone", Box::pin(chunks::mixed_batch(&bed))),
            ("a manifest makes a blob of chunks", Box::pin(chunks::round_trip(&bed))),
            ("a missing chunk is said to be missing", Box::pin(chunks::chunk_missing(&bed))),
            ("a wrong manifest is refused", Box::pin(chunks::wrong_manifest(&bed))),
            ("an unknown blob has no manifest", Box::pin(chunks::unknown(&bed))),
        ];
        violations.extend(run(cases).await);
    }
    violations
}

async fn run(cases: Vec<Case<'_>>) -> Vec<Violation> {
    let mut violations = Vec::new();
    for (case, checked) in cases {
        let outcome = tokio::time::timeout(CASE_MAX, checked).await;
        let outcome = outcome.unwrap_or_else(|_| Err(format!("took more than {CASE_MAX:?}")));
        violations.extend(outcome.err().map(|message| Violation { case, message }));
    }
    violations
}

/// Fails a case if a condition does not hold.
fn ensure(is_so: bool, message: impl FnOnce() -> String) -> Outcome {
    if is_so { Ok(()) } else { Err(message()) }
}
