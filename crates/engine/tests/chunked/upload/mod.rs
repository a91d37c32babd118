//! `tidegate::chunked::upload` as its users meet it, against a store in memory that does what a
//! script says.
//!
//! | promise | test |
//! |---|---|
//! | what is registered is the file, however it is cut and named | `content` |
//! | only what the store lacks travels, each chunk once, also from several uploads at once | `sparing` |
//! | small chunks share requests, sending begins while cutting goes on, window and budget hold | `pace` |
//! | a file that changes is `Changed`, and nothing is registered | `change` |
//! | chunks that the store loses, or wrongly says it has, are sent again, but not for ever | `lost` |
//! | an error tells the file, the chunk, and its place in the file | `blame` |
//! | what passes is tried again, what does not is reported; nothing is left in flight | `failures` |

mod bed;
mod blame;
mod change;
mod content;
mod failures;
mod lost;
mod pace;
mod slow;
mod sparing;
mod store;
