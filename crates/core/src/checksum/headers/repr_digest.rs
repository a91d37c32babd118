//! `Repr-Digest` (RFC 9530): a dictionary of algorithms and byte sequences (RFC 8941).
//!
//! Only what the field may hold is parsed: members that are byte sequences, with parameters that
//! are skipped. The digest is that of the whole selected representation (content coding applied),
//! also in a ranged answer; that is what makes it better than `Content-MD5`.

use base64::Engine as _;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};

use super::{StoredChecksum, malformed};
use crate::checksum::{Checksum, ChecksumAlgorithm, ChecksumError};

/// RFC 8941, section 4.2.7: parsers should not fail for want of padding, nor for set pad bits.
const LENIENT: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new()
        .with_decode_padding_mode(DecodePaddingMode::Indifferent)
        .with_decode_allow_trailing_bits(true),
);

/// Parses `Repr-Digest`: `sha-256=:base64:, crc32c=:base64:`.
///
/// Unknown algorithms are skipped; of two members with one name the last counts, as in every
/// dictionary. An empty header holds none.
pub fn parse_repr_digest(text: &str) -> Result<Vec<StoredChecksum>, ChecksumError> {
    let mut rest = Scanner { rest: text };
    let mut found: Vec<StoredChecksum> = Vec::new();
    let malformed = |reason| malformed("Repr-Digest", text, reason);
    rest.skip_spaces();
    while !rest.is_done() {
        let (key, bytes) = rest.member().map_err(malformed)?;
        if let Some(algorithm) = registered(key) {
            let checksum = Checksum::new(algorithm, &bytes)
                .ok()
                .ok_or_else(|| malformed("wrong number of bytes"))?;
            found.retain(|stored| stored.checksum.algorithm() != algorithm);
            found.push(StoredChecksum::full_object(checksum));
        }
        rest.skip_spaces();
        if !rest.is_done() {
            rest.expect(',').map_err(malformed)?;
            rest.skip_spaces();
            if rest.is_done() {
                return Err(malformed("a comma at the end"));
            }
        }
    }
    Ok(found)
}

/// IANA's registry "Hash Algorithms for HTTP Digest Fields".
fn registered(key: &str) -> Option<ChecksumAlgorithm> {
    match key {
        "sha-256" => Some(ChecksumAlgorithm::Sha256),
        "sha" => Some(ChecksumAlgorithm::Sha1),
        "md5" => Some(ChecksumAlgorithm::Md5),
        "crc32c" => Some(ChecksumAlgorithm::Crc32c),
        _ => None,
    }
}

/// What is left to read of the field.
struct Scanner<'a> {
    rest: &'a str,
}

impl<'a> Scanner<'a> {
    fn is_done(&self) -> bool {
        self.rest.is_empty()
    }

    fn skip_spaces(&mut self) {
        self.rest = self.rest.trim_start_matches([' ', '\t']);
    }

    fn take(&mut self, wanted: char) -> bool {
        let after = self.rest.strip_prefix(wanted);
        self.rest = after.unwrap_or(self.rest);
        after.is_some()
    }

    fn expect(&mut self, wanted: char) -> Result<(), &'static str> {
        if self.take(wanted) {
            return Ok(());
        }
        Err(match wanted {
            ',' => "no comma between members",
            '=' => "a member without a value",
            _ => "a value that is not a byte sequence",
        })
    }

    fn take_while(&mut self, is_part: impl Fn(char) -> bool) -> &'a str {
        let end = self.rest.find(|c| !is_part(c)).unwrap_or(self.rest.len());
        let (taken, rest) = self.rest.split_at(end);
        self.rest = rest;
        taken
    }

    fn member(&mut self) -> Result<(&'a str, Vec<u8>), &'static str> {
        let key = self.key()?;
        self.expect('=')?;
        let bytes = self.byte_sequence()?;
        while self.take(';') {
            self.skip_spaces();
            self.key()?;
            if self.take('=') {
                self.bare_item()?;
            }
        }
        Ok((key, bytes))
    }

    fn key(&mut self) -> Result<&'a str, &'static str> {
        if !self.rest.starts_with(|c: char| c.is_ascii_lowercase() || c == '*') {
            return Err("a key that does not begin with a lower-case letter");
        }
        let is_key = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "_-.*".contains(c);
        Ok(self.take_while(is_key))
    }

    fn byte_sequence(&mut self) -> Result<Vec<u8>, &'static str> {
        self.expect(':')?;
        let (encoded, rest) = self.rest.split_once(':').ok_or("a byte sequence without an end")?;
        self.rest = rest;
        LENIENT.decode(encoded).ok().ok_or("a value that is not base64")
    }

    /// A parameter's value, whose content does not matter.
    fn bare_item(&mut self) -> Result<(), &'static str> {
        if self.rest.starts_with(':') {
            return self.byte_sequence().map(drop);
        }
        if self.take('"') {
            return self.string();
        }
        let is_token = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~:/?".contains(c);
        if self.take_while(is_token).is_empty() {
            return Err("a parameter without a value");
        }
        Ok(())
    }

    /// The rest of a string, after its opening quote.
    fn string(&mut self) -> Result<(), &'static str> {
        loop {
            self.take_while(|c| c != '"' && c != '\\');
            if self.take('"') {
                return Ok(());
            }
            if !(self.take('\\') && (self.take('"') || self.take('\\'))) {
                return Err("a string without an end");
            }
        }
    }
}
