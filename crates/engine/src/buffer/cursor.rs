//! [`Cursor`]: a buffer as a file, for code that needs `Read`, `Write` and `Seek`.
//!
//! One thread uses it at a time. For parallel writes use [`super::ShardWriter`].

use std::io::{self, Read, Seek, SeekFrom, Write};

use super::ShardBuffer;
use super::error::BufferError;

/// Reads, writes and seeks in a [`ShardBuffer`] as in a file, with two differences. Reading a byte
/// that was never written is an error, where a file would return zeros. Writing beyond the buffer's
/// limit is refused.
///
/// Overwriting is refused while a reader, a writer or a slice of the bytes is alive. Writing to
/// unwritten ranges is not.
#[derive(Debug)]
pub struct Cursor<'a> {
    buffer: &'a mut ShardBuffer,
    position: u64,
}

impl<'a> Cursor<'a> {
    pub(super) fn new(buffer: &'a mut ShardBuffer) -> Self {
        Self { buffer, position: 0 }
    }

    /// The position of the next byte to read or write.
    pub fn position(&self) -> u64 {
        self.position
    }

    /// Writes to one run: either all unwritten bytes, or all overwritten ones.
    fn write_run(&mut self, data: &[u8]) -> Result<usize, BufferError> {
        let run = self.buffer.run_at(self.position);
        let room = |end: u64| usize::try_from(end - self.position).unwrap_or(usize::MAX);
        if run.start == self.position && !run.is_empty() {
            let data = &data[..data.len().min(room(run.end))];
            self.buffer.overwrite(self.position, data)
        } else {
            // If the position cannot be written, tries one byte, to get the error that gives the
            // reason.
            let fits = room(self.buffer.free_until(self.position).max(self.position)).max(1);
            let data = &data[..data.len().min(fits)];
            self.buffer.write_at(self.position, data)?;
            Ok(data.len())
        }
    }
}

impl Write for Cursor<'_> {
    /// Writes all of `data`, or the part before the first position that is refused. Returns the
    /// error only if no byte could be written.
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        let len = data.len() as u64;
        if self.position.checked_add(len).is_none() {
            return Err(BufferError::Overflow { offset: self.position, len }.into());
        }
        let mut done = 0;
        while done < data.len() {
            match self.write_run(&data[done..]) {
                Ok(count) => {
                    done += count;
                    self.position += count as u64;
                }
                Err(error) if done == 0 => return Err(error.into()),
                Err(_) => break,
            }
        }
        Ok(done)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Read for Cursor<'_> {
    fn read(&mut self, target: &mut [u8]) -> io::Result<usize> {
        if target.is_empty() || self.position >= self.buffer.len() {
            return Ok(0);
        }
        let run = self.buffer.run_at(self.position);
        if run.start > self.position {
            let gap = self.position..run.start;
            return Err(BufferError::Gap { gap }.into());
        }
        let there = usize::try_from(run.end - run.start).unwrap_or(usize::MAX);
        let count = target.len().min(there);
        let count = self.buffer.read_at(self.position, &mut target[..count])?;
        self.position += count as u64;
        Ok(count)
    }
}

impl Seek for Cursor<'_> {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let position = match to {
            SeekFrom::Start(position) => Some(position),
            SeekFrom::Current(by) => self.position.checked_add_signed(by),
            SeekFrom::End(by) => self.buffer.len().checked_add_signed(by),
        };
        self.position = position.ok_or_else(|| {
            io::Error::new(io::ErrorKind::InvalidInput, "the position is negative or overflows")
        })?;
        Ok(self.position)
    }
}
