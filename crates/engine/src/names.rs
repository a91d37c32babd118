//! Names of the files next to targets: part files, indexes, and temporary files. These functions
//! are pure: they access no file.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use tidegate_core::digest::{Digest, DigestFunction};

/// Every file that Tidegate creates next to a target is named `.NAME`, then this, then a word.
const RESERVED: &[u8] = b".tidegate-";

/// The longest file name on Linux's file systems, in bytes.
const FILE_NAME_BYTES_MAX: usize = 255;

/// Bytes of the hash in a name that is cut. With 128 bits, two names never share a hash in
/// practice.
const NAME_HASH_BYTES: usize = 16;

/// Whether Tidegate gives this name to files next to a target: a part file or an index. Such a name
/// is refused as a target, because a run that writes the target next to it would use the file as
/// its own. The comparison ignores case, as some file systems do.
pub(crate) fn is_reserved(name: &OsStr) -> bool {
    let name = name.as_bytes();
    let rest = name.strip_prefix(b".").and_then(|rest| rest.get(1..)).unwrap_or_default();
    rest.windows(RESERVED.len()).any(|part| part.eq_ignore_ascii_case(RESERVED))
}

/// The name of the hidden file next to `name`: `.NAME` and the suffix. A longer name is cut, and
/// gets a hash of the whole name. Names are treated as bytes in any encoding: two different names
/// never share a hidden file.
pub(crate) fn hidden_name(name: &OsStr, suffix: &str) -> OsString {
    let bytes = name.as_bytes();
    let name_bytes_max =
        FILE_NAME_BYTES_MAX.saturating_sub(1 + suffix.len() + 1 + 2 * NAME_HASH_BYTES);
    let mut hidden = vec![b'.'];
    if bytes.len() <= name_bytes_max {
        hidden.extend_from_slice(bytes);
    } else {
        // Longer than any name that is not cut, so the two cannot collide.
        hidden.extend_from_slice(whole_chars(bytes, name_bytes_max));
        hidden.push(b'-');
        let hash = Digest::of(DigestFunction::Blake3, bytes).hash;
        for byte in hash.iter().take(NAME_HASH_BYTES) {
            hidden.extend_from_slice(format!("{byte:02x}").as_bytes());
        }
    }
    hidden.extend_from_slice(suffix.as_bytes());
    OsString::from_vec(hidden)
}

/// The first `bytes_max` bytes, without an incomplete UTF-8 character at the end: some file systems
/// refuse such names.
fn whole_chars(bytes: &[u8], bytes_max: usize) -> &[u8] {
    let is_inside = |at: usize| bytes.get(at).is_some_and(|byte| byte & 0b1100_0000 == 0b1000_0000);
    let back = (0..4).find(|back| !is_inside(bytes_max.saturating_sub(*back))).unwrap_or(0);
    bytes.get(..bytes_max.saturating_sub(back)).unwrap_or(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SUFFIX: &str = ".tidegate-part";

    #[test]
    fn every_hidden_name_is_reserved() {
        for len in [1, 10, 200, 255] {
            assert!(is_reserved(&hidden_name(OsStr::new(&"x".repeat(len)), SUFFIX)), "{len}");
        }
        for name in [".a.tidegate-mode-1-2", ".A.Tidegate-Part", ".a.b.tidegate-chunks"] {
            assert!(is_reserved(OsStr::new(name)), "{name}");
        }
        for name in ["a.tidegate-part", ".a.tidegate", ".tidegate-part", "", ".", "tidegate-"] {
            assert!(!is_reserved(OsStr::new(name)), "{name}");
        }
    }

    fn hidden(name: &[u8]) -> Vec<u8> {
        hidden_name(OsStr::from_bytes(name), SUFFIX).into_vec()
    }

    #[test]
    fn long_names_stay_within_the_limit_and_apart() {
        let (one, two) = ("ä".repeat(127), "ä".repeat(126) + "ö");
        assert_ne!(hidden(one.as_bytes()), hidden(two.as_bytes()));
        for len in 0..=FILE_NAME_BYTES_MAX {
            for unit in ["a", "ä", "€", "😀"] {
                let mut name = unit.repeat(len / unit.len());
                name.push_str(&"x".repeat(len - name.len()));
                let hidden = String::from_utf8(hidden(name.as_bytes())).expect("whole characters");
                assert!(hidden.len() <= FILE_NAME_BYTES_MAX, "{len}: {hidden}");
            }
        }
    }

    /// This holds for names in UTF-8, in another encoding, or in none.
    #[test]
    fn no_two_names_share_a_hidden_file() {
        let mut names: Vec<Vec<u8>> = (0x80..=0xff).map(|byte| vec![b'a', byte]).collect();
        names.push("a\u{fffd}".into());
        for len in 195..=FILE_NAME_BYTES_MAX {
            names.extend([b'x', 0x80, 0xe4].map(|byte| vec![byte; len]));
            names.push([vec![b'x'; len - 1], vec![b'y']].concat());
        }
        // A name that equals the cut form of another name.
        let cut = hidden(&[b'x'; 255]);
        names.push(cut[1..cut.len() - SUFFIX.len()].to_vec());
        let count = names.len();
        let hidden: std::collections::HashSet<_> = names.iter().map(|name| hidden(name)).collect();
        assert_eq!(hidden.len(), count);
    }
}
