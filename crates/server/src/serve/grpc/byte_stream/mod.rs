//! `ByteStream`: one blob as a stream.
//!
//! | file | idea |
//! |---|---|
//! | `read` | a blob from an offset on, plain or as a zstd frame |
//! | `write` | a blob that arrives, checked message by message |
//! | `incoming` | the messages of a write as batches of bytes |
//! | `uploads` | interrupted writes, which continue where they stopped |

mod incoming;
mod read;
mod uploads;
mod write;

pub(super) use uploads::Uploads;
pub(super) use write::PACKED_WRITE_BYTES;
