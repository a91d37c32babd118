//! Upload ids: what the API calls an upload by, so that a later attempt can continue it.

use std::fmt::Write as _;
use std::hash::{BuildHasher as _, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};

/// 32 hexadecimal digits that no other upload has: the standard library seeds its hash maps from
/// the system, and each hash of another number under two such seeds is another.
pub(super) fn new() -> String {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    (0..2).fold(String::new(), |mut id, _| {
        // Writing to a string does not fail.
        let _ = write!(id, "{:016x}", RandomState::new().hash_one(count));
        id
    })
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    #[test]
    fn ids_are_32_hexadecimal_digits_and_differ() {
        let ids: HashSet<String> = (0..100).map(|_| super::new()).collect();
        assert_eq!(ids.len(), 100);
        for id in ids {
            assert!(id.len() == 32 && id.bytes().all(|byte| byte.is_ascii_hexdigit()), "{id}");
        }
    }
}
