//! `tidegate::buffer` through its public interface alone, with both backings: reserved memory and
//! memory in segments.
//!
//! | promise | test |
//! |---|---|
//! | **writing** | |
//! | any plan of reservations, writes, reads and waits does what a model of plain cells does | `model` |
//! | threads that write through `Write`, `AsyncWrite`, `BufMut` and `write_at`, while readers follow, write what one thread would | `concurrent::many_threads_write_what_one_would` |
//! | a socket reads straight into a shard | `concurrent::sockets_read_straight_into_their_shards` |
//! | a reservation that overlaps another is refused, naming both | `refusals::a_range_that_overlaps_another_is_refused_naming_both` |
//! | the unwritten rest of a dropped writer is free again; the bytes that it wrote stay; a writer that panics fails the buffer | `refusals::the_unwritten_rest_of_a_dropped_writer_is_free_again`, `refusals::a_writer_dropped_by_a_panic_fails_the_buffer` |
//! | published bytes are overwritten only by the buffer's sole owner | `refusals::published_bytes_are_not_overwritten`, `cursor::overwriting_is_refused_while_a_handle_could_see_it_and_allowed_after` |
//! | **growth** | |
//! | growth moves no bytes, and keeps bytes at every seam | `footprint::growth_moves_nothing`, `refusals::bytes_at_every_seam_of_pages_and_segments_are_kept` |
//! | a wrong hint touches and costs nothing | `footprint::a_hint_touches_no_page_and_a_reservation_none_either`, `memory::nothing_is_committed_or_charged_for_a_hint` |
//! | the limit is checked before anything is written | `refusals::nothing_is_reserved_beyond_the_limit` |
//! | committed memory is charged to the budget; a reservation beyond the budget is refused and changes nothing | `memory::growth_is_charged_as_it_happens_and_released_at_the_end`, `memory::a_reservation_beyond_the_budget_is_refused_and_changes_nothing` |
//! | a grant made beforehand is used first | `memory::granted_bytes_are_used_before_the_budget` |
//! | memory is within 5% of the blob and one huge page | `memory::committed_memory_is_the_blob_and_a_page_for_any_hint_and_order`, `footprint::resident_memory_is_the_blob_and_at_most_a_huge_page` |
//! | **recycling** | |
//! | memory is reused without another charge, and never shows its old bytes | `recycling::memory_is_used_again_without_another_charge`, `recycling::recycled_memory_exposes_no_earlier_bytes` |
//! | the pool is bounded, yields to reservations, and releases idle memory | `recycling::the_pool_keeps_no_more_than_its_limit`, `recycling::the_pool_frees_memory_…`, `recycling::the_pool_keeps_no_memory_…`, `recycling::idle_memory_is_freed` |
//! | **extents and waiting** | |
//! | `len`, `contiguous_len`, `gaps`, `extents`, `is_complete` agree with a bitmap | `model` |
//! | reading missing bytes is an error that names the gap | `refusals::reading_missing_bytes_names_the_first_gap` |
//! | a wait is woken once, and not before | `waiting::a_wait_is_woken_once_and_not_before_its_last_byte`, and the tests after it |
//! | a reader follows writers that write out of order, as a stream and as a file | `following::a_stream_follows_writers_that_come_out_of_order`, `following::reads_of_any_size_give_the_same_bytes` |
//! | a failed fill reaches every reader and every wait once, with no wrong byte before it | `following::a_failure_reaches_every_reader_once_after_right_bytes_only`, `waiting::a_failure_reaches_every_wait_once_and_those_that_come_later` |
//! | waits end with the buffer and its last writer; dropped waits and readers are forgotten | `waiting::waits_are_over_when_the_buffer_and_its_last_writer_are_gone`, `waiting::a_wait_that_is_dropped_is_forgotten`, `following::a_reader_that_is_dropped_is_forgotten` |
//! | **freezing** | |
//! | refused while gaps or writers remain, changing nothing | `ending::freezing_is_refused_while_gaps_or_writers_remain_and_changes_nothing` |
//! | a buffer is frozen once, for one length; a failure is final, too | `ending` |
//! | frozen slices share the buffer's memory, which lives as long as the last slice | `memory::memory_stays_charged_until_the_last_frozen_slice_is_dropped` |
//! | **as a file** | |
//! | sequential, out of order, gaps, overwriting, seeks, invalid seeks, any mix of read sizes | `cursor` |
//! | without gaps it behaves like a vector and a file | `cursor::without_gaps_a_cursor_behaves_like_a_vector_and_a_file` |
//! | **bad input** | |
//! | overflow, beyond the limit, reversed, empty, hints too large, no limit and a limit of zero | `refusals` |
//! | thousands of tiny shards | `refusals::thousands_of_tiny_shards_make_one_blob` |

#![expect(
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    reason = "no test is so large"
)]
#![expect(clippy::single_range_in_vec_init, reason = "lists of ranges, at times of one")]

mod bed;
mod concurrent;
mod cursor;
mod ending;
mod following;
mod footprint;
mod memory;
mod model;
mod recycling;
mod refusals;
mod waiting;
