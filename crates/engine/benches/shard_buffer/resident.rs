//! The resident memory of the process, as the kernel counts it. It is compared with the bytes that
//! a buffer reports as committed.

use std::fs;

/// Resident bytes, exactly: the kernel walks the page tables for this file. Cheaper files give sums
/// that lag, because each processor adds its counts late. `None` if there is no such file.
pub(crate) fn resident_bytes() -> Option<u64> {
    let text = fs::read_to_string("/proc/self/smaps_rollup").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("Rss:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib << 10)
}
