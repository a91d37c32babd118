//! How much memory the process really holds, as the kernel counts it: what a buffer claims to
//! have committed is compared with it.

use std::fs;

/// Resident bytes, exactly: the kernel walks the page tables for this file, where the cheaper
/// ones give what each processor has got round to adding up. `None` where there is no such file.
pub(crate) fn resident_bytes() -> Option<u64> {
    let text = fs::read_to_string("/proc/self/smaps_rollup").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("Rss:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib << 10)
}
