//! The journal, for fuzz targets.

use super::journal::Recorded;
use super::{parted, plan, resume};
use crate::remote::PartProfile;

/// Reads a journal. Of one that a remote's limits allow, the parts cover the blob.
pub(crate) fn journal(text: &str) {
    let Some(recorded) = Recorded::read(text) else { return };
    let (bytes_min, bytes_max, count_max) = (5 << 20, 5 << 30, 10_000);
    let profile = PartProfile { bytes_min, bytes_max, count_max, ..PartProfile::any() };
    let (len, bytes) = (recorded.len, recorded.part_bytes);
    if plan::part_bytes(len, Some(bytes), &profile) != Ok(bytes) {
        return;
    }
    let mut end = 0;
    for (number, range) in parted::ranges(len, bytes) {
        assert!(number.get() <= count_max && range.start == end && range.end > end);
        end = range.end;
    }
    assert_eq!(end, len);
    if let Some(whole) = resume::whole(&recorded) {
        assert_eq!(whole.len(), len);
    }
}
