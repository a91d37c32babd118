//! Packs: files of one size that hold the records of the log, and are used again.
//!
//! | file | idea |
//! |---|---|
//! | `record` | the format of a record: header, key, CRCs, payload |
//! | `scan` | the records of a pack, one after another |
//! | `table` | every pack's generation, state and live bytes |
//!
//! A pack that is used again gets a new generation. Records and index entries carry it, so what the
//! pack held before is not found any more.

mod record;
mod scan;
mod table;

pub(crate) use record::{
    BLOCK_BYTES, Draft, Header, RECORD_ALIGN, RecordKind, RecordPlace, crc32c, record_len,
    verify_payload,
};
pub(crate) use scan::{Scanned, Scanner};
pub(crate) use table::{FOLDER as PACK_FOLDER, PackState, PackTable, SavedPack, generation_bits};
