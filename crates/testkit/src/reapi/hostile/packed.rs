//! Writes zstd frames by hand, so that each of their members can be wrong.
//!
//! Source: RFC 8878, section 3.1.1. The output does not shrink: blocks are raw. Only a
//! decompression bomb uses blocks of one repeated byte.

use super::lie::{PackedLie, SizeForm};

const MAGIC: [u8; 4] = 0xfd2f_b528_u32.to_le_bytes();
const SKIPPABLE_MAGIC: [u8; 4] = 0x184d_2a50_u32.to_le_bytes();
/// The maximum size of a block.
const BLOCK_BYTES_MAX: usize = 128 << 10;
/// The window that frames claim without a lie: room for the largest block.
const WINDOW_LOG: u8 = 17;
/// The minimum size of a window, as a power of two.
const WINDOW_LOG_MIN: u8 = 10;

/// Frames of these bytes, changed by these lies.
pub(crate) fn pack(data: &[u8], lies: &[PackedLie]) -> Vec<u8> {
    let mut header = Header { window_log: WINDOW_LOG, size: None };
    let (mut halves, mut skippable, mut bomb_mib) = (false, false, 0);
    for lie in lies {
        match lie {
            PackedLie::Window(log) => header.window_log = *log,
            PackedLie::Size(form) => header.size = Some(*form),
            PackedLie::Halves => halves = true,
            PackedLie::Skippable => skippable = true,
            PackedLie::Bomb(mib) => bomb_mib = *mib,
            _ => {}
        }
    }
    let mut packed = Vec::new();
    if skippable {
        packed.extend(SKIPPABLE_MAGIC);
        packed.extend(3_u32.to_le_bytes());
        packed.extend(b"pad");
    }
    let (first, second) = data.split_at(if halves { data.len() / 2 } else { data.len() });
    frame(first, &header, if halves { 0 } else { bomb_mib }, &mut packed);
    if halves {
        frame(second, &header, bomb_mib, &mut packed);
    }
    for lie in lies {
        match lie {
            PackedLie::Cut(count) => {
                packed.truncate(packed.len().saturating_sub(usize::from(*count)));
            }
            PackedLie::Flip(at) => {
                let at = usize::from(*at) % packed.len().max(1);
                if let Some(byte) = packed.get_mut(at) {
                    *byte ^= 0x55;
                }
            }
            PackedLie::Longer(count) => packed.extend(vec![0x5a; usize::from(*count)]),
            PackedLie::Plain => packed = data.to_vec(),
            _ => {}
        }
    }
    packed
}

struct Header {
    window_log: u8,
    size: Option<SizeForm>,
}

fn frame(data: &[u8], header: &Header, bomb_mib: u8, packed: &mut Vec<u8>) {
    packed.extend(MAGIC);
    let window = header.window_log.saturating_sub(WINDOW_LOG_MIN) << 3;
    match header.size {
        // No size, a window, no checksum.
        None => packed.extend([0, window]),
        // A size of eight bytes, and a window.
        Some(form) => {
            packed.extend([0b1100_0000, window]);
            let exact = i64::try_from(data.len()).unwrap_or(i64::MAX);
            packed.extend(form.of(exact).to_le_bytes());
        }
    }
    for block in data.chunks(BLOCK_BYTES_MAX) {
        block_header(block.len(), 0, false, packed);
        packed.extend(block);
    }
    for _ in 0..usize::from(bomb_mib) * ((1 << 20) / BLOCK_BYTES_MAX) {
        block_header(BLOCK_BYTES_MAX, 1, false, packed);
        packed.push(0);
    }
    block_header(0, 0, true, packed);
}

/// Kind 0 is raw, 1 one byte repeated.
fn block_header(len: usize, kind: u32, is_last: bool, packed: &mut Vec<u8>) {
    let len = u32::try_from(len).unwrap_or(u32::MAX);
    let bits = len << 3 | kind << 1 | u32::from(is_last);
    packed.extend(&bits.to_le_bytes()[..3]);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unpacked(packed: &[u8]) -> std::io::Result<Vec<u8>> {
        zstd::stream::decode_all(packed)
    }

    #[test]
    fn valid_frames_are_read_by_the_library() {
        let data = crate::pseudo_random(300_000, 1);
        let allowed = [PackedLie::Halves, PackedLie::Skippable, PackedLie::Size(SizeForm::Exact)];
        assert_eq!(unpacked(&pack(&data, &[])).unwrap(), data);
        for lie in &allowed[..2] {
            assert_eq!(unpacked(&pack(&data, &[*lie])).unwrap(), data, "{lie:?}");
        }
        assert_eq!(unpacked(&pack(&data, &allowed[2..])).unwrap(), data);
        assert_eq!(unpacked(&pack(&data, &allowed[..2])).unwrap(), data);
        assert_eq!(unpacked(&pack(b"", &[])).unwrap(), b"");
        assert_eq!(unpacked(&pack(b"", &[PackedLie::Bomb(3)])).unwrap(), vec![0; 3 << 20]);
    }

    #[test]
    fn invalid_frames_are_refused_by_the_library() {
        let data = crate::pseudo_random(3_000, 1);
        for lie in [
            PackedLie::Plain,
            PackedLie::Cut(1),
            PackedLie::Flip(1),
            PackedLie::Longer(1),
            PackedLie::Window(31),
            PackedLie::Size(SizeForm::OneLess),
            PackedLie::Size(SizeForm::Twice),
        ] {
            assert!(unpacked(&pack(&data, &[lie])).is_err(), "{lie:?}");
        }
    }
}
