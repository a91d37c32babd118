//! Lists of checksums, as `sha256sum` and the like write them: which value a file must have.
//!
//! | line | written by |
//! |---|---|
//! | `HEX  name`, `HEX *name` | GNU `sha256sum`, `sha1sum`, `md5sum`; the digits tell the algorithm |
//! | `SHA256 (name) = HEX` | BSD, and GNU with `--tag`; also `SHA1`, `MD5`, `BLAKE3` |
//!
//! Files are found by the last part of their names, because a list is made in another folder than the
//! one that the blobs go to. A blob that the list does not name is an error: the caller wants every
//! blob compared.

use tidegate::{Client, Error, ErrorKind, Operation, Result, Target};
use tidegate_core::{ByteRange, Checksum, ChecksumAlgorithm};

use crate::local::source;

/// The longest list: 100,000 lines of 160 bytes. It is in memory while the command runs.
const LIST_BYTES_MAX: u64 = 16 << 20;

/// A list of checksums by name.
#[derive(Clone, Debug)]
pub(crate) struct ChecksumList {
    /// The list's own name, for messages.
    name: String,
    entries: Vec<(String, Checksum)>,
}

impl ChecksumList {
    /// Reads a list from a URL or a path.
    pub(crate) async fn load(client: &Client, text: &str) -> Result<Self> {
        let location = source(client, text)?;
        let name = location.display().to_owned();
        let read = client.download(&location, Target::Memory);
        let report = read.range(ByteRange::first(LIST_BYTES_MAX + 1)).await?;
        if report.bytes > LIST_BYTES_MAX {
            return Err(invalid(&name, &format!("it is longer than {LIST_BYTES_MAX} bytes")));
        }
        let bytes = report.memory.unwrap_or_default();
        let text = std::str::from_utf8(&bytes)
            .map_err(|error| invalid(&name, "it is not text in UTF-8").caused_by(error))?;
        Self::parse(name.clone(), text).map_err(|message| invalid(&name, &message))
    }

    /// The list's own name, for messages.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    fn parse(name: String, text: &str) -> std::result::Result<Self, String> {
        let mut entries = Vec::new();
        for (index, line) in text.lines().enumerate() {
            let line = line.trim_end_matches('\r');
            if line.trim().is_empty() || line.starts_with('#') {
                continue;
            }
            let entry = tagged(line).or_else(|| untagged(line)).ok_or_else(|| {
                format!("line {} is no checksum, two spaces and a name", index + 1)
            })?;
            entries.push(entry);
        }
        if entries.is_empty() {
            return Err("it holds no checksum".to_owned());
        }
        Ok(Self { name, entries })
    }

    /// The checksums of the file with this name, one for each algorithm.
    pub(crate) fn of(&self, file_name: Option<&str>, shown: &str) -> Result<Vec<Checksum>> {
        let Some(file_name) = file_name else {
            return Err(invalid(shown, "it has no name to look up in a list of checksums"));
        };
        let mut found: Vec<Checksum> = Vec::new();
        for (_, checksum) in self.entries.iter().filter(|(name, _)| last_part(name) == file_name) {
            let same = found.iter().find(|known| known.algorithm() == checksum.algorithm());
            match same {
                None => found.push(checksum.clone()),
                Some(known) if known == checksum => {}
                Some(_) => {
                    let message = format!("it has two values for {file_name}");
                    return Err(invalid(&self.name, &message));
                }
            }
        }
        if found.is_empty() {
            let message = format!("it has no checksum of {file_name}");
            return Err(
                invalid(&self.name, &message).with_hint("check the name, or leave out --checksums")
            );
        }
        Ok(found)
    }
}

fn last_part(name: &str) -> &str {
    name.rsplit(['/', '\\']).next().unwrap_or(name)
}

/// `SHA256 (name) = HEX`.
fn tagged(line: &str) -> Option<(String, Checksum)> {
    let (algorithm, rest) = line.split_once(" (")?;
    let (name, hex) = rest.rsplit_once(") = ")?;
    let algorithm = match algorithm.trim_start_matches('\\') {
        "SHA256" | "SHA2-256" => ChecksumAlgorithm::Sha256,
        "SHA1" => ChecksumAlgorithm::Sha1,
        "MD5" => ChecksumAlgorithm::Md5,
        "BLAKE3" => ChecksumAlgorithm::Blake3,
        _ => return None,
    };
    Some((name.to_owned(), Checksum::from_hex(algorithm, hex.trim()).ok()?))
}

/// `HEX  name` or `HEX *name`; a backslash before it says that the name is escaped.
fn untagged(line: &str) -> Option<(String, Checksum)> {
    let (hex, rest) = line.trim_start_matches('\\').split_once(' ')?;
    let algorithm = match hex.len() {
        64 => ChecksumAlgorithm::Sha256,
        40 => ChecksumAlgorithm::Sha1,
        32 => ChecksumAlgorithm::Md5,
        _ => return None,
    };
    let name = rest.strip_prefix([' ', '*']).unwrap_or(rest);
    let checksum = Checksum::from_hex(algorithm, hex).ok()?;
    (!name.is_empty()).then(|| (name.to_owned(), checksum))
}

fn invalid(name: &str, message: &str) -> Error {
    Error::new(ErrorKind::Invalid, Operation::Locate, name, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHA256: &str = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
    const SHA1: &str = "a9993e364706816aba3e25717850c26c9cd0d89d";
    const MD5: &str = "900150983cd24fb0d6963f7d28e17f72";

    fn list(text: &str) -> std::result::Result<ChecksumList, String> {
        ChecksumList::parse("SHA256SUMS".to_owned(), text)
    }

    #[test]
    fn every_form_names_the_file() {
        for (line, algorithm) in [
            (format!("{SHA256}  a b"), "sha256"),
            (format!("{SHA256} *dist/a b"), "sha256"),
            (format!("{}  ./a b\r", SHA256.to_uppercase()), "sha256"),
            (format!("{SHA1}  a b"), "sha1"),
            (format!("{MD5}  a b"), "md5"),
            (format!("SHA256 (a b) = {SHA256}"), "sha256"),
            (format!("MD5 (dist/a b) = {MD5}"), "md5"),
            (format!("BLAKE3 (a b) = {SHA256}"), "blake3"),
        ] {
            let text = format!("# made by a release\n\n{line}\n{SHA256}  other\n");
            let found = list(&text).unwrap().of(Some("a b"), "x").unwrap();
            let names: Vec<&str> = found.iter().map(|sum| sum.algorithm().name()).collect();
            assert_eq!(names, [algorithm], "{line}");
        }
    }

    #[test]
    fn what_is_no_list_is_refused_by_line() {
        for text in ["", "# nothing\n", "<html>", "abc  name", SHA256, "SHA9 (a) = 00"] {
            assert!(list(text).is_err(), "{text}");
        }
        let error = list(&format!("{SHA256}  a\nnonsense\n")).unwrap_err();
        assert!(error.contains("line 2"), "{error}");
    }

    #[test]
    fn a_name_must_be_there_with_one_value() {
        let other = "0".repeat(64);
        let two = list(&format!("{SHA256}  a/x\n{other}  b/x\n{SHA256}  c/y\n{SHA256}  d/y\n"));
        let two = two.unwrap();
        assert!(two.of(Some("x"), "").unwrap_err().to_string().contains("two values"));
        assert_eq!(two.of(Some("y"), "").unwrap().len(), 1);
        assert!(two.of(Some("z"), "").is_err() && two.of(None, "-").is_err());
    }
}
