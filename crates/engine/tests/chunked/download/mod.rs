//! `tidegate::chunked::download` as its users meet it: over a store in memory that does as a script
//! says, in paused time.
//!
//! | promise | test |
//! |---|---|
//! | every target gets the blob, each distinct chunk asked for once, small ones together | `targets` |
//! | a blob that is no longer than a chunk, or that the store cannot split, comes whole | `targets` |
//! | what passes is tried again, from where it broke; what does not is the error | `faults`, `attempts` |
//! | wrong bytes are never delivered: not of a chunk, not of the whole | `faults` |
//! | a missing chunk makes the blob come whole, with nothing appended or twice (bazel#30742) | `faults::a_missing_chunk_makes_the_blob_come_whole_with_nothing_twice` |
//! | the old file stays until the new one is whole (bazel#29544) | `faults::bytes_that_stay_wrong_…`, `model` |
//! | an error tells the blob, the chunk, and its place in the blob | `blame` |
//! | the first error ends the rest and is the one reported | `faults::the_first_error_ends_the_rest_and_is_the_one_reported` |
//! | nothing is in flight, and nothing held, after the return | `bed`, for every test |
//! | a pipe waits for its reader, as long as somebody wants that | `pipes` |
//! | what an earlier attempt left is used as far as it is right | `resume` |
//! | what is at hand is copied, and never believed | `seeds` |
//! | a store that is too slow is asked once more, and then the download fails | `slow` |
//! | a chunk that recurs far apart is fetched once | `targets`, `window::a_chunk_that_recurs_everywhere_is_fetched_once` |
//! | what one download fetches the others wait for; failures are their own | `sharing` |
//! | all of that holds for chunks too long to be held, too | `long` |
//! | a slow head stalls nothing; a stream holds its share behind it | `window` |
//! | however small the budget, nobody waits for ever | `window::many_blobs_share_a_tiny_budget_without_waiting_for_each_other` |
//! | all of it, in rounds of chance | `model` |

mod attempts;
mod bed;
mod blame;
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
