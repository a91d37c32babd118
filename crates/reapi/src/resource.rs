//! Resource names: the names of blobs in `google.bytestream`, as defined in
//! `remote_execution.proto` in the comment of `ContentAddressableStorage`.
//!
//! ```text
//! [INSTANCE/]blobs/[FUNCTION/]HASH/SIZE                          to read
//! [INSTANCE/]uploads/UUID/blobs/[FUNCTION/]HASH/SIZE[/METADATA]  to write
//! ```
//!
//! If the bytes are compressed, `compressed-blobs/zstd` replaces `blobs`.
//!
//! An instance's name may have several segments, but none of them is a keyword of the API. So the
//! first keyword ends it. The digest function has its own segment only if the length of its hash
//! does not identify it. SHA-256 has none: servers of the API's version 2.0 know no other name for
//! it. BLAKE3, which came later, has one.
//!
//! Names are written in this form only. Some clients write other forms, which are also accepted:
//!
//! - one slash before a name without an instance, which the API says to omit,
//! - `sha256` as the digest function, which the API says to omit,
//! - UUIDs of any version, since a server uses them only to distinguish uploads.
//!
//! All other forms are refused. Parsing a name allocates no memory, at any length.

use std::fmt;
use std::str::Split;

use tidegate_core::digest::{Digest, DigestFunction};

use crate::digest::hash;
use crate::error::{Error, NameFlaw, Result};
use crate::v2::digest_function::Value;

const BLOBS: &str = "blobs";
const COMPRESSED_BLOBS: &str = "compressed-blobs";
const UPLOADS: &str = "uploads";

/// No segment of an instance's name may be one of these.
const KEYWORDS: [&str; 7] =
    [BLOBS, UPLOADS, "actions", "actionResults", "operations", "capabilities", COMPRESSED_BLOBS];

/// Longer than the longest name of a digest function in the API.
const FUNCTION_BYTES_MAX: usize = 16;

/// The compression of a stream's bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Compressor {
    /// No compression.
    #[default]
    Identity,
    /// Zstandard.
    Zstd,
}

/// The resource name for reading a blob.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ReadName<'a> {
    /// The instance's name; may be empty.
    pub instance: &'a str,
    /// The compression of its bytes.
    pub compressor: Compressor,
    /// The blob, uncompressed.
    pub digest: Digest,
}

/// The resource name for writing a blob.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct WriteName<'a> {
    /// The instance's name; may be empty.
    pub instance: &'a str,
    /// A UUID that distinguishes uploads of one blob.
    pub upload_id: &'a str,
    /// The compression of its bytes.
    pub compressor: Compressor,
    /// The blob, uncompressed.
    pub digest: Digest,
}

impl<'a> ReadName<'a> {
    /// Parses a name as the module docs describe it. Fails with [`Error::ResourceName`].
    pub fn parse(name: &'a str) -> Result<Self> {
        Self::of(name).map_err(Error::ResourceName)
    }

    fn of(name: &'a str) -> Result<Self, NameFlaw> {
        let (instance, keyword, mut rest) = split(name)?;
        if keyword == UPLOADS {
            return Err(NameFlaw::Upload);
        }
        let (compressor, digest) = blob(keyword, &mut rest)?;
        match rest.next() {
            None => Ok(Self { instance, compressor, digest }),
            Some(_) => Err(NameFlaw::Excess),
        }
    }
}

impl<'a> WriteName<'a> {
    /// Parses a name as the module docs describe it; metadata after the size is ignored. Fails with
    /// [`Error::ResourceName`].
    pub fn parse(name: &'a str) -> Result<Self> {
        Self::of(name).map_err(Error::ResourceName)
    }

    fn of(name: &'a str) -> Result<Self, NameFlaw> {
        let (instance, keyword, mut rest) = split(name)?;
        match keyword {
            UPLOADS => {}
            BLOBS | COMPRESSED_BLOBS => return Err(NameFlaw::NoUpload),
            _ => return Err(NameFlaw::Keyword),
        }
        let upload_id = rest.next().filter(|id| is_uuid(id)).ok_or(NameFlaw::UploadId)?;
        let (compressor, digest) = blob(rest.next().unwrap_or_default(), &mut rest)?;
        Ok(Self { instance, upload_id, compressor, digest })
    }
}

impl fmt::Display for ReadName<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_instance(f, self.instance)?;
        write_blob(f, self.compressor, &self.digest)
    }
}

impl fmt::Display for WriteName<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_instance(f, self.instance)?;
        write!(f, "{UPLOADS}/{}/", self.upload_id)?;
        write_blob(f, self.compressor, &self.digest)
    }
}

/// Whether the API reserves this segment, so that no instance's name may contain it.
pub fn is_keyword(segment: &str) -> bool {
    KEYWORDS.contains(&segment)
}

/// Checks the name of an instance in a message. It may be empty.
pub fn check_instance(name: &str) -> Result<()> {
    instance_flaw(name).map_or(Ok(()), |flaw| Err(Error::ResourceName(flaw)))
}

fn instance_flaw(name: &str) -> Option<NameFlaw> {
    if name.is_empty() {
        return None;
    }
    name.split('/').find_map(|segment| match segment {
        "" => Some(NameFlaw::EmptySegment),
        segment if is_keyword(segment) => Some(NameFlaw::Keyword),
        _ => None,
    })
}

/// The instance's name, the first keyword, and the segments after it.
fn split(name: &str) -> Result<(&str, &str, Split<'_, char>), NameFlaw> {
    let mut start = 0;
    let mut segments = name.split('/');
    while let Some(segment) = segments.next() {
        if is_keyword(segment) {
            let before = name.get(..start).unwrap_or_default();
            let instance = before.strip_suffix('/').unwrap_or_default();
            return match instance_flaw(instance) {
                None => Ok((instance, segment, segments)),
                Some(flaw) => Err(flaw),
            };
        }
        start += segment.len() + 1;
    }
    Err(NameFlaw::NoBlob)
}

/// The blob in `keyword` and the segments after it.
fn blob(keyword: &str, rest: &mut Split<'_, char>) -> Result<(Compressor, Digest), NameFlaw> {
    let compressor = match keyword {
        BLOBS => Compressor::Identity,
        COMPRESSED_BLOBS if rest.next() == Some("zstd") => Compressor::Zstd,
        COMPRESSED_BLOBS => return Err(NameFlaw::Compressor),
        other if is_keyword(other) => return Err(NameFlaw::Keyword),
        _ => return Err(NameFlaw::NoBlob),
    };
    let first = rest.next().ok_or(NameFlaw::Hash)?;
    let (function, text) = match function(first)? {
        Some(function) => (function, rest.next().ok_or(NameFlaw::Hash)?),
        None => (DigestFunction::Sha256, first),
    };
    let hash = hash(text.as_bytes()).ok_or(NameFlaw::Hash)?;
    let len = rest.next().and_then(size).ok_or(NameFlaw::Size)?;
    Ok((compressor, Digest { function, hash, len }))
}

/// The digest function that a segment names; `None` if it names none.
fn function(segment: &str) -> Result<Option<DigestFunction>, NameFlaw> {
    match segment {
        "sha256" => Ok(Some(DigestFunction::Sha256)),
        "blake3" => Ok(Some(DigestFunction::Blake3)),
        other if other.len() > FUNCTION_BYTES_MAX => Ok(None),
        other => match Value::from_str_name(&other.to_ascii_uppercase()) {
            Some(_) => Err(NameFlaw::DigestFunction),
            None => Ok(None),
        },
    }
}

/// A decimal number in canonical form that fits a message's field: no sign, no leading zeros.
fn size(text: &str) -> Option<u64> {
    let is_shortest = text == "0" || !text.starts_with('0');
    let is_plain = is_shortest && text.bytes().all(|byte| byte.is_ascii_digit());
    let size: i64 = if is_plain { text.parse().ok()? } else { return None };
    u64::try_from(size).ok()
}

/// Checks only the form: 8, 4, 4, 4 and 12 hexadecimal digits.
fn is_uuid(text: &str) -> bool {
    text.len() == 36
        && text.bytes().enumerate().all(|(index, byte)| match index {
            8 | 13 | 18 | 23 => byte == b'-',
            _ => byte.is_ascii_hexdigit(),
        })
}

fn write_instance(f: &mut fmt::Formatter<'_>, instance: &str) -> fmt::Result {
    if instance.is_empty() { Ok(()) } else { write!(f, "{instance}/") }
}

fn write_blob(f: &mut fmt::Formatter<'_>, compressor: Compressor, digest: &Digest) -> fmt::Result {
    match compressor {
        Compressor::Identity => write!(f, "{BLOBS}/")?,
        Compressor::Zstd => write!(f, "{COMPRESSED_BLOBS}/zstd/")?,
    }
    if digest.function != DigestFunction::Sha256 {
        write!(f, "{}/", digest.function)?;
    }
    write!(f, "{}/{}", digest.checksum().hex(), digest.len)
}

#[cfg(test)]
mod tests;
