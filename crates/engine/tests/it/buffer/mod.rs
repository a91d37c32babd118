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
//! | the unwritten rest of a dropped writer is free again; the bytes that it wrote stay | `refusals::what_a_writer_dropped_midway_did_not_write_is_free_again`, `…_by_a_panic_keeps_what_it_wrote` |
//! | published bytes are overwritten only by the buffer's sole owner | `refusals::published_bytes_are_not_overwritten`, `cursor::overwriting_is_refused_while_somebody_could_see_it_and_allowed_after` |
//! | **growth** | |
//! | growth moves no bytes, and keeps bytes at every seam | `footprint::growth_moves_nothing`, `refusals::bytes_at_every_seam_of_pages_and_segments_are_kept` |
//! | a wrong hint touches and costs nothing | `footprint::a_hint_touches_no_page_and_a_reservation_none_either`, `memory::nothing_is_committed_or_charged_for_a_hint` |
//! | the limit is checked before anything is written | `refusals::nothing_is_reserved_beyond_the_limit` |
//! | committed memory is charged to the budget; a reservation beyond the budget is refused and changes nothing | `memory::growth_is_charged_as_it_happens_and_given_back_at_the_end`, `memory::what_the_budget_has_no_room_for_is_refused_with_nothing_changed` |
//! | a grant made beforehand is used first | `memory::what_was_granted_is_used_up_before_the_budget_is_asked` |
//! | memory is within 5% of the blob and one huge page | `memory::what_is_committed_is_the_blob_and_a_page_whatever_the_hint_and_the_order`, `footprint::what_is_resident_is_the_blob_and_at_most_a_huge_page` |
//! | **recycling** | |
//! | memory is reused without another charge, and never shows its old bytes | `recycling::memory_is_used_again_without_another_charge`, `recycling::recycled_memory_shows_nothing_of_what_was_in_it` |
//! | the pool is bounded, yields to reservations, and releases idle memory | `recycling::no_more_is_kept_than_was_said`, `recycling::it_gives_way_…`, `recycling::nothing_is_kept_from_…`, `recycling::what_lies_idle_is_given_back` |
//! | **extents and waiting** | |
//! | `len`, `contiguous_len`, `gaps`, `extents`, `is_complete` agree with a bitmap | `model` |
//! | reading missing bytes is an error that names the gap | `refusals::reading_what_is_not_there_names_the_first_gap` |
//! | a wait is woken once, and not before | `waiting::a_wait_is_woken_once_and_not_before_its_last_byte`, and the tests after it |
//! | a reader follows writers that write out of order, as a stream and as a file | `following::a_stream_follows_writers_that_come_out_of_order`, `following::reads_of_any_size_give_the_same_bytes` |
//! | a failed fill reaches every reader and every wait once, with no wrong byte before it | `following::a_failed_fill_reaches_every_reader_once_with_nothing_false_before_it`, `waiting::a_failure_reaches_every_wait_once_and_those_that_come_later` |
//! | waits end with the buffer and its last writer; dropped waits and readers are forgotten | `waiting::waits_are_over_when_the_buffer_and_its_last_writer_are_gone`, `waiting::a_wait_that_is_dropped_is_forgotten`, `following::a_reader_that_is_dropped_is_forgotten` |
//! | **freezing** | |
//! | refused while gaps or writers remain, changing nothing | `ending::freezing_is_refused_while_gaps_or_writers_remain_and_changes_nothing` |
//! | a buffer is frozen once, for one length; a failure is final, too | `ending` |
//! | frozen slices share the buffer's memory, which lives as long as the last slice | `memory::frozen_slices_keep_memory_and_charge_until_the_last_of_them_goes` |
//! | **as a file** | |
//! | sequential, out of order, gaps, overwriting, seeks, invalid seeks, any mix of read sizes | `cursor` |
//! | without gaps it behaves like a vector and a file | `cursor::without_gaps_it_is_what_a_vector_and_a_file_are` |
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
