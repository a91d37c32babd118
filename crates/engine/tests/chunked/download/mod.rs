//! Tests of `tidegate::chunked::download` through the public API, over a store in memory that
//! follows a script, in paused time.
//!
//! | promise | test |
//! |---|---|
//! | every target gets the blob, each distinct chunk is requested once, small ones share requests | `targets` |
//! | a blob no longer than a chunk, or that the store cannot split, is fetched whole | `targets` |
//! | a transient failure is retried from where it broke; a permanent failure is the error | `faults`, `attempts` |
//! | wrong bytes are never delivered: neither of a chunk nor of the whole blob | `faults` |
//! | with a missing chunk the blob is fetched whole, with nothing appended or twice (bazel#30742) | `faults::after_a_missing_chunk_the_blob_is_fetched_whole_and_no_byte_is_written_twice` |
//! | the old file stays until the new one is whole (bazel#29544) | `faults::bytes_that_stay_wrong_…`, `model` |
//! | an error names the blob, the chunk, and its range in the blob | `error_context` |
//! | the first error ends the rest and is the one reported | `faults::the_first_error_ends_the_rest_and_is_the_one_reported` |
//! | nothing is in flight, and nothing held, after the return | `bed`, for every test |
//! | a pipe waits for its reader, until the download is cancelled or dropped | `pipes` |
//! | bytes of an earlier attempt are reused if they are right | `resume` |
//! | chunks of seeds are copied, and always verified | `seeds` |
//! | a store that is too slow is asked once more, and then the download fails | `slow` |
//! | a chunk that recurs far apart is fetched once | `targets`, `window::a_chunk_that_recurs_everywhere_is_fetched_once` |
//! | a chunk that one download fetches is shared with its followers; failures are not shared | `sharing` |
//! | all of that also holds for chunks too long to be held | `long` |
//! | a slow first chunk stalls nothing; a stream holds its share behind it | `window` |
//! | no download waits for ever, however small the budget | `window::many_blobs_share_a_tiny_budget_without_waiting_for_each_other` |
//! | all of it, in random rounds | `model` |

mod attempts;
mod bed;
mod error_context;
mod fake;
mod faults;
mod long;
mod model;
mod pipes;
mod resume;
mod seeds;
mod sharing;
mod slow;
mod targets;
mod window;
