//! Tests of `tidegate::chunked::upload` through the public API, against a store in memory that
//! follows a script.
//!
//! | promise | test |
//! |---|---|
//! | what is registered is the file, however it is cut and named | `content` |
//! | only missing chunks are sent, each once, also from several uploads at once | `sparing` |
//! | small chunks share requests, sending begins while cutting continues, window and budget hold | `pace` |
//! | a file that changes is `Changed`, and nothing is registered | `change` |
//! | chunks that the store loses, or wrongly says it has, are sent again, but not for ever | `lost` |
//! | an error names the file, the chunk, and its range in the file | `error_context` |
//! | a transient failure is retried, a permanent one is reported; nothing is left in flight | `failures` |
//! | an upload that is too slow fails | `slow` |

mod bed;
mod change;
mod content;
mod error_context;
mod failures;
mod lost;
mod pace;
mod slow;
mod sparing;
mod store;
