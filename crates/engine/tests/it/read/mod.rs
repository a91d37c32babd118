//! The read channel, behaviour by behaviour.
//!
//! | behaviour | test |
//! |---|---|
//! | nothing is sent before the first read | `faces::nothing_is_sent_before_the_first_read` |
//! | one request for everything, whatever is read with | `faces::one_request_brings_everything` |

mod faces;
