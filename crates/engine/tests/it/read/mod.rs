//! The read channel, behaviour by behaviour.
//!
//! | behaviour | test |
//! |---|---|
//! | nothing is sent before the first read | `faces::nothing_is_sent_before_the_first_read` |
//! | one request delivers everything, through every interface | `faces::one_request_delivers_everything` |
//! | the interfaces can be mixed, in pieces of any size | `faces::interfaces_and_read_sizes_can_be_mixed` |
//! | `buffer_bytes: 0` works, and takes nothing from the budget | `faces::any_buffer_gives_the_same_bytes` |
//! | the stream hands on the transport's own buffers | `faces::the_stream_does_not_copy` |
//! | a blocking read inside a task is an error | `faces::a_blocking_read_inside_a_task_is_refused` |
//! | dropping or suspending a channel releases its permits | `faces::a_dropped_channel_releases_its_permits` |
//! | a dropped future loses nothing | `faces::a_dropped_future_loses_nothing` |
//! | a local file is read, too | `faces::a_local_file_is_a_blob` |
//! | restart at the first undelivered byte, for every range and interface | `matrix::*` |
//! | the restart of the last n asks for what is left | `restart::the_last_bytes_restart_where_they_broke` |
//! | a body that ends early is an interruption | `matrix::a_transient_fault_costs_its_own_requests` |
//! | 200 in response to a range: skipped, never shifted | `restart::a_whole_response_to_a_range_request_is_cut` |
//! | 416 at the exact end is the end, elsewhere an error | `restart::a_range_at_the_end_is_empty_and_one_beyond_an_error` |
//! | 404 and 412 after the first byte are `Changed` | `restart::a_blob_that_is_gone_after_the_first_byte_is_reported_as_changed` |
//! | no version: no restart once bytes were delivered | `restart::without_a_version_a_broken_read_is_not_resumed` |
//! | a new version is never mixed in | `restart::a_new_version_is_never_mixed_in` |
//! | a remote that contradicts itself is not believed | `contradiction::*` |
//! | after an error the next read tries again | `restart::after_an_error_the_channel_goes_on` |
//! | a stall is an interruption, a pause of the caller is not | `matrix::*`, `restart::a_pause_of_the_caller_is_no_stall` |
//! | the deadline bounds the whole read | `restart::the_deadline_bounds_all_requests` |
//! | a short seek forward reads on, a long one reopens | `seek::a_short_seek_forward_reads_on_and_a_long_one_sends_a_request` |
//! | backwards reopens, unless the bytes are held | `seek::a_seek_backwards_sends_a_request` |
//! | to, at and beyond the end: 0, repeatedly | `seek::at_and_beyond_the_end_there_is_nothing` |
//! | the end of a blob whose length only range responses give | `seek::a_length_that_only_range_responses_give_is_found` |
//! | negative positions are errors | `seek::a_position_before_the_start_is_an_error` |
//! | seeks from the end | `seek::the_end_is_found_when_it_is_asked_for` |
//! | limit: absolute, exclusive | `seek::the_limit_is_absolute_and_exclusive` |
//! | any mix of reads, seeks and limits gives the bytes of a slice | `seek::random_plans_agree_with_a_slice` |
//! | capture and restore, also with bytes held | `carry::a_read_continues_in_another_process` |
//! | a state of a newer format, or a damaged one | `carry::a_newer_or_damaged_state_is_refused` |
//! | a state beyond the end, or without a version | `carry::a_state_that_cannot_be_continued_is_refused` |
//! | a state of a blob that has changed | `carry::a_read_of_a_changed_blob_is_not_continued` |
//! | a state holds no secrets | `carry::a_state_holds_no_secrets` |
//! | verified across restarts, with the checksum that the remote keeps | `check::the_whole_blob_is_verified` |
//! | a mismatch is returned instead of the end, and stays | `check::damage_is_reported_instead_of_the_end` |
//! | partial reads and seeks turn verification off, visibly | `check::an_unverified_read_has_a_reason` |
//! | gzip raw, decoded, with restarts | `gzip::*` |
//! | a hedge races a late response, and only with a spare permit | `hedge::*` |
//! | counters | `matrix::*`, `hedge::*` |
//! | spans | `traces::a_channel_and_each_of_its_requests_have_a_span` |

mod carry;
mod check;
mod contradiction;
mod faces;
mod gzip;
mod hedge;
mod matrix;
mod restart;
mod seek;
mod traces;

use std::io::Read as _;

use futures_util::StreamExt;
use tidegate::Location;
use tidegate::budget::{Budget, BudgetOptions};
use tidegate::read::Verification;
use tidegate_core::retry::RetryPolicy;
use tokio::io::AsyncReadExt as _;

use crate::call::ReadOptions;
use crate::trial::within;

/// All timeouts are short, so that a stalled request ends soon.
fn options() -> ReadOptions {
    ReadOptions {
        retry: RetryPolicy {
            attempts_max: 4,
            delay_ms_min: 1,
            delay_ms_max: 5,
            stall_ms_max: 150,
            header_ms_max: 1000,
            progress_bytes_min: 1024,
            seed: Some(1),
            ..RetryPolicy::default()
        },
        budget: Budget::new(BudgetOptions { requests: 8, bytes: 8 << 20 }),
        ..ReadOptions::default()
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Face {
    Async,
    Blocking,
    Stream,
}

const FACES: [Face; 3] = [Face::Async, Face::Blocking, Face::Stream];

/// The outcome of reading a channel to its end.
struct Outcome {
    /// All delivered bytes, also if the read fails later.
    content: Vec<u8>,
    result: tidegate::Result<()>,
    verified: Verification,
}

fn engine_error(error: std::io::Error) -> tidegate::Error {
    *error.into_inner().unwrap().downcast::<tidegate::Error>().unwrap()
}

/// Reads to the end, through one of the interfaces.
async fn read(location: Location, options: ReadOptions, face: Face) -> Outcome {
    let mut content = Vec::new();
    let work = async {
        match face {
            Face::Async => {
                let mut channel = crate::call::read(location, options);
                let result = channel.read_to_end(&mut content).await;
                (result.map(drop).map_err(engine_error), channel.verified())
            }
            Face::Stream => {
                let mut channel = crate::call::read(location, options);
                let mut result = Ok(());
                while let Some(frame) = StreamExt::next(&mut channel).await {
                    match frame {
                        Ok(bytes) => content.extend_from_slice(&bytes),
                        Err(error) => {
                            result = Err(error);
                            break;
                        }
                    }
                }
                (result, channel.verified())
            }
            Face::Blocking => {
                let work = move || {
                    let mut content = Vec::new();
                    let mut channel = crate::call::read_blocking(location, options);
                    let result = channel.read_to_end(&mut content);
                    (content, result.map(drop).map_err(engine_error), channel.verified())
                };
                let (bytes, result, verified) = tokio::task::spawn_blocking(work).await.unwrap();
                content = bytes;
                (result, verified)
            }
        }
    };
    let (result, verified) = within(work).await;
    Outcome { content, result, verified }
}
