//! [`FrameGatherer`]: gathers consecutive bytes of a blob until a sink takes them as one batch.

use bytes::Bytes;
use tidegate_core::checksum::{Crc, CrcAlgorithm};

use crate::sink::{Batch, Mark};

/// Consecutive frames of a blob, and the CRC of the bytes gathered since the last mark.
///
/// A frame is a slice of the buffer that the transport read into. It keeps the whole buffer alive,
/// even if the frame is short. So short frames are copied, because waiting frames must not hold
/// more memory than they count. With buffers of 256 KiB, 100 frames of 1 KiB would hold 25 MiB.
#[derive(Debug)]
pub(crate) struct FrameGatherer {
    /// Offset of the first byte since the last mark.
    start: u64,
    /// CRC of the bytes since the last mark.
    crc: Crc,
    /// Frames that no batch has taken yet.
    frames: Vec<Bytes>,
    pending_bytes: u64,
    copied_below_bytes: usize,
}

impl FrameGatherer {
    /// An empty gatherer; its first byte is the one at `start`. Frames shorter than
    /// `copied_below_bytes` are copied.
    pub(crate) fn new(start: u64, algorithm: CrcAlgorithm, copied_below_bytes: usize) -> Self {
        let crc = Crc::empty(algorithm);
        Self { start, crc, frames: Vec::new(), pending_bytes: 0, copied_below_bytes }
    }

    /// Offset of the next byte.
    pub(crate) fn end(&self) -> u64 {
        self.start + self.crc.len()
    }

    /// Bytes since the last mark.
    pub(crate) fn unmarked_bytes(&self) -> u64 {
        self.crc.len()
    }

    /// Bytes that no batch has taken yet.
    pub(crate) fn pending_bytes(&self) -> u64 {
        self.pending_bytes
    }

    /// Frames that no batch has taken yet.
    pub(crate) fn pieces(&self) -> usize {
        self.frames.len()
    }

    /// Adds the next frame.
    pub(crate) fn push(&mut self, frame: Bytes) {
        self.count(&frame);
        let is_short = frame.len() < self.copied_below_bytes;
        self.frames.push(if is_short { Bytes::copy_from_slice(&frame) } else { frame });
    }

    /// Counts the next frame without keeping its bytes: for a target that takes none.
    pub(crate) fn count(&mut self, frame: &Bytes) {
        self.crc.update(frame);
        self.pending_bytes += frame.len() as u64;
    }

    /// Adds the next frames, whose CRC is known.
    pub(crate) fn push_checked(&mut self, frames: &[Bytes], crc: &Crc) {
        // Both CRCs have the same algorithm. If the lengths overflow, the CRC is computed again.
        self.crc = self.crc.combine(crc).unwrap_or_else(|_| {
            let mut whole = self.crc;
            for frame in frames {
                whole.update(frame);
            }
            whole
        });
        self.pending_bytes += crc.len();
        self.frames.extend(frames.iter().cloned());
    }

    /// Returns the bytes that no batch has taken yet, as a batch. With `mark`, the batch completes
    /// all bytes since the last mark. `None` if there is neither a byte nor a mark.
    pub(crate) fn take(&mut self, mark: bool) -> Option<Batch> {
        let offset = self.end() - self.pending_bytes;
        let mark = (mark && !self.crc.is_empty()).then(|| {
            let mark = Mark { start: self.start, crc: self.crc };
            self.restart(self.end());
            mark
        });
        let frames = std::mem::take(&mut self.frames);
        self.pending_bytes = 0;
        (mark.is_some() || !frames.is_empty()).then_some(Batch { offset, frames, mark, turn: None })
    }

    /// Continues at another offset, after all bytes were taken with a mark.
    pub(crate) fn restart(&mut self, start: u64) {
        self.start = start;
        self.crc = Crc::empty(self.crc.algorithm());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CRC: CrcAlgorithm = CrcAlgorithm::Crc32c;

    fn gathered(batch: &Batch) -> (u64, Vec<u8>, Option<(u64, u64)>) {
        let mark = batch.mark.as_ref().map(|mark| (mark.start, mark.crc.len()));
        (batch.offset, batch.frames.concat(), mark)
    }

    #[test]
    fn batches_follow_each_other_and_a_mark_covers_all_since_the_last_one() {
        let mut gatherer = FrameGatherer::new(100, CRC, 0);
        assert!(gatherer.take(true).is_none());
        gatherer.push(Bytes::from_static(b"ab"));
        let first = gatherer.take(false).unwrap();
        assert_eq!(gathered(&first), (100, b"ab".to_vec(), None));
        gatherer.push(Bytes::from_static(b"c"));
        assert_eq!(
            (gatherer.end(), gatherer.unmarked_bytes(), gatherer.pending_bytes()),
            (103, 3, 1)
        );
        let second = gatherer.take(true).unwrap();
        assert_eq!(gathered(&second), (102, b"c".to_vec(), Some((100, 3))));
        assert_eq!(second.mark.unwrap().crc, Crc::of(CRC, b"abc"));
        assert!(gatherer.take(true).is_none());
        assert_eq!(gatherer.end(), 103);
    }

    #[test]
    fn a_mark_alone_is_handed_over_too() {
        let mut gatherer = FrameGatherer::new(0, CRC, 0);
        gatherer.push(Bytes::from_static(b"abc"));
        gatherer.take(false).unwrap();
        assert!(gatherer.take(false).is_none());
        let batch = gatherer.take(true).unwrap();
        assert_eq!(gathered(&batch), (3, Vec::new(), Some((0, 3))));
        gatherer.count(&Bytes::from_static(b"d"));
        let counted = gatherer.take(true).unwrap();
        assert_eq!(gathered(&counted), (3, Vec::new(), Some((3, 1))));
    }

    #[test]
    fn short_frames_do_not_keep_their_buffer_alive() {
        let buffer = Bytes::from(vec![7; 1000]);
        let mut gatherer = FrameGatherer::new(0, CRC, 100);
        gatherer.push(buffer.slice(..99));
        gatherer.push(buffer.slice(99..199));
        let frames = gatherer.take(true).unwrap().frames;
        let is_slice = |frame: &Bytes| buffer.as_ptr_range().contains(&frame.as_ptr());
        assert_eq!(frames.iter().map(is_slice).collect::<Vec<_>>(), [false, true]);
    }

    #[test]
    fn a_known_crc_is_combined() {
        let mut gatherer = FrameGatherer::new(0, CRC, 0);
        gatherer.push(Bytes::from_static(b"ab"));
        gatherer.push_checked(&[Bytes::from_static(b"cd")], &Crc::of(CRC, b"cd"));
        assert_eq!(gatherer.pieces(), 2);
        assert_eq!(gatherer.take(true).unwrap().mark.unwrap().crc, Crc::of(CRC, b"abcd"));
    }
}
