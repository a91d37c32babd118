//! Capture and restore: a read that another process continues.

use super::{Mode, ReadChannel};
use crate::error::{Error, ErrorKind, Operation, Result};
use crate::read::state::{At, Content, Options, ReadState, Sum};
use crate::read::verify::{Carried, Check};
use crate::read::{ReadOptions, Verify};
use crate::remote::Location;

impl ReadChannel {
    /// The state of the read at the first byte that has not been delivered; held bytes do not count
    /// as delivered. The channel itself does not change.
    ///
    /// A decoded read continues by decoding again from the start, up to its position.
    ///
    /// # Errors
    ///
    /// - `Unsupported` if bytes of a blob without any version have been delivered, or if the read
    ///   stands behind the first byte and no response has named a version yet. Nothing would then
    ///   tie the rest to the bytes before.
    /// - `Invalid` while a seek has not been awaited, and beyond the blob's end.
    /// - `Integrity` if the blob was found to be damaged.
    pub fn capture(&mut self) -> Result<ReadState> {
        self.check.sound(self.location.display())?;
        if self.is_seeking() {
            return Err(self.error(ErrorKind::Invalid, "a seek is under way"));
        }
        self.sum_up();
        let position = match self.suffix {
            Some(count) => At::End(count),
            None => At::Start(self.position().unwrap_or(0)),
        };
        let decoded = match self.mode {
            Mode::Raw => false,
            Mode::Undecided => self.passed > 0,
            Mode::Gzip(_) => true,
        };
        if self.pinned.is_none() && (self.delivered || self.passed > 0) {
            let message = "the server names no version of the blob to go on with";
            return Err(self.error(ErrorKind::Unsupported, message));
        }
        let carried = match (&self.mode, position) {
            (Mode::Raw, At::Start(position)) if position > 0 => {
                self.check.carry(position, self.len_bytes)
            }
            _ => None,
        };
        let content = Content {
            source: self.location.display().to_owned(),
            version: self.pinned.clone(),
            len_bytes: self.len_bytes,
            coding: self.coding.clone(),
            position,
            delivered_end: Some(self.delivered_end).filter(|_| !decoded),
            limit: (self.limit < u64::MAX).then_some(self.limit),
            decoded,
            options: Options::of(&self.options),
            checksum: carried.map(Sum::of),
        };
        match content.flaw() {
            None => Ok(ReadState { content }),
            Some(flaw) if self.pinned.is_none() => {
                Err(self.error(ErrorKind::Unsupported, flaw).with_hint("read a byte first"))
            }
            Some(flaw) => Err(self.error(ErrorKind::Invalid, flaw).with_hint("seek back first")),
        }
    }

    /// Continues the read that `state` was captured of. Nothing is sent before the first read.
    ///
    /// Range, version, `verify` and `decode` come from the state; the rest comes from `options`.
    /// [`ReadState::options`] returns the options that the state contains. The deadline starts
    /// again.
    ///
    /// # Errors
    ///
    /// `Invalid` if `location` is another blob, if the state lies beyond the blob's end, or if it
    /// lies behind its first byte without a version. If the blob has changed since, the first read
    /// fails with `Changed`.
    pub(crate) fn restore(
        location: Location,
        state: &ReadState,
        options: ReadOptions,
    ) -> Result<Self> {
        let content = &state.content;
        if location.display() != content.source {
            let message =
                format!("expected the blob {}, got {}", content.source, location.display());
            return Err(Error::new(ErrorKind::Invalid, Operation::Restore, "read state", message));
        }
        if let Some(flaw) = content.flaw() {
            return Err(Error::new(ErrorKind::Invalid, Operation::Restore, "read state", flaw)
                .with_hint("begin again"));
        }
        let verify = state.verify();
        let options = ReadOptions {
            version: content.version.clone(),
            verify: verify.clone(),
            decode: content.options.decode,
            range: tidegate_core::range::ByteRange::All,
            ..options
        };
        let mut channel = Self::open(location, options);
        channel.limit = content.limit.unwrap_or(u64::MAX);
        channel.len_bytes = content.len_bytes;
        channel.coding.clone_from(&content.coding);
        match content.position {
            At::End(count) => channel.suffix = Some(count),
            At::Start(position) if content.decoded => channel.passed = position,
            At::Start(position) => {
                channel.next = position;
                channel.delivered_end = content.delivered_end.unwrap_or(position);
                channel.sought = true;
                channel.check = Self::resumed(verify, state.carried(), position);
            }
        }
        Ok(channel)
    }

    fn resumed(verify: Verify, carried: Option<Carried>, position: u64) -> Check {
        Check::carried_on(verify, carried, position)
    }
}
