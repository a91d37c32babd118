//! Which mirrors describe the same blob.
//!
//! Before a byte of a mirror is used, its description is compared with those of the others. Example:
//! of three mirrors, two declare SHA-256 A and one declares B. The third is refused. Of two mirrors
//! that declare A and B, neither can be believed, so the transfer fails.
//!
//! The comparison finds contradictions between descriptions only. The checksum of the whole blob
//! decides at the end about the bytes.

use tidegate_core::checksum::{Checksum, StoredChecksum};

use crate::error::{Error, ErrorKind, Operation, Result};
use crate::read::Known;
use crate::remote::BlobInfo;

/// The description of the blob by one mirror.
#[derive(Clone, Copy, Debug)]
pub(super) struct Claim<'a> {
    /// The mirror's URL without secrets.
    pub(super) name: &'a str,
    pub(super) info: &'a BlobInfo,
}

/// The claims that contradict the others, by their index, each with the reason. `expected` are the
/// caller's checksums. The first claim is that of the leading mirror, which wins if two lengths or
/// two codings have equally many mirrors.
///
/// Fails with `Integrity` if no majority decides between two checksums, and the caller expects
/// none.
pub(super) fn odd_ones(claims: &[Claim<'_>], expected: &[Checksum]) -> Result<Vec<(usize, Error)>> {
    let mut odd = Odd { claims, found: Vec::new() };
    for checksum in expected {
        odd.against_expected(checksum);
    }
    odd.by(
        |claim| claim.info.len_bytes,
        |len| len.map_or("no length".into(), |n| format!("{n} bytes")),
    );
    odd.by(
        |claim| Known::of(claim.info).coding,
        |coding| format!("the coding {}", coding.as_deref().unwrap_or("identity")),
    );
    odd.by_checksums(!expected.is_empty())?;
    Ok(odd.found)
}

struct Odd<'a> {
    claims: &'a [Claim<'a>],
    found: Vec<(usize, Error)>,
}

impl<'a> Odd<'a> {
    /// The claims that nothing contradicts so far.
    fn rest(&self) -> Vec<(usize, Claim<'a>)> {
        let is_odd = |index: usize| self.found.iter().any(|(odd, _)| *odd == index);
        self.claims.iter().copied().enumerate().filter(|(index, _)| !is_odd(*index)).collect()
    }

    fn refuse(&mut self, index: usize, message: String) {
        let name = self.claims.get(index).map_or("", |claim| claim.name);
        self.found
            .push((index, Error::new(ErrorKind::Integrity, Operation::Verify, name, message)));
    }

    fn against_expected(&mut self, expected: &Checksum) {
        for (index, claim) in self.rest() {
            let declared = declared(claim.info).find(|sum| sum.algorithm() == expected.algorithm());
            if let Some(other) = declared.filter(|sum| *sum != expected) {
                self.refuse(index, format!("expected {expected}, but it declares {other}"));
            }
        }
    }

    /// Refuses the claims whose value is not that of most claims.
    fn by<T: PartialEq>(&mut self, value: impl Fn(Claim<'a>) -> T, shown: impl Fn(&T) -> String) {
        let values: Vec<(usize, T)> =
            self.rest().into_iter().map(|(index, claim)| (index, value(claim))).collect();
        let Some(usual) = most_common(&values) else { return };
        let usual_text = shown(usual);
        for (index, value) in values.iter().filter(|(_, value)| value != usual) {
            self.refuse(*index, format!("it has {}, the others have {usual_text}", shown(value)));
        }
    }

    fn by_checksums(&mut self, is_expected: bool) -> Result<()> {
        let mut algorithms: Vec<_> = Vec::new();
        for (_, claim) in self.rest() {
            for checksum in declared(claim.info) {
                if !algorithms.contains(&checksum.algorithm()) {
                    algorithms.push(checksum.algorithm());
                }
            }
        }
        for algorithm in algorithms {
            let values: Vec<(usize, &Checksum)> = self
                .rest()
                .into_iter()
                .filter_map(|(index, claim)| {
                    let mut declared = declared(claim.info);
                    let value = declared.find(|sum| sum.algorithm() == algorithm)?;
                    Some((index, value))
                })
                .collect();
            let Some(usual) = most_common(&values).copied() else { continue };
            let Some((other, value)) = values.iter().find(|(_, value)| *value != usual) else {
                continue;
            };
            let votes = values.iter().filter(|(_, value)| *value == usual).count();
            if votes * 2 <= values.len() && !is_expected {
                let first = values.iter().find(|(_, value)| *value == usual);
                let first = first.map_or(0, |(index, _)| *index);
                return Err(self.conflict((first, usual), (*other, value)));
            }
            for (index, value) in values.iter().filter(|(_, value)| *value != usual) {
                self.refuse(*index, format!("it declares {value}, the others {usual}"));
            }
        }
        Ok(())
    }

    fn conflict(&self, one: (usize, &Checksum), other: (usize, &Checksum)) -> Error {
        let name = |index: usize| self.claims.get(index).map_or("", |claim| claim.name);
        let message = format!(
            "the mirrors have different blobs: it declares {}, but {} declares {}",
            one.1,
            name(other.0),
            other.1
        );
        Error::new(ErrorKind::Integrity, Operation::Verify, name(one.0), message)
            .with_hint("give the checksum that the blob must have, or leave out the wrong mirror")
    }
}

/// The value of most of these, and of several such values the first.
fn most_common<T: PartialEq>(values: &[(usize, T)]) -> Option<&T> {
    let votes = |value: &T| values.iter().filter(|(_, other)| other == value).count();
    let most = values.iter().map(|(_, value)| votes(value)).max()?;
    values.iter().map(|(_, value)| value).find(|value| votes(value) == most)
}

/// The checksums of the whole blob that a mirror declares.
fn declared(info: &BlobInfo) -> impl Iterator<Item = &Checksum> {
    verifiable(info).map(|stored| &stored.checksum)
}

/// The checksums with which the whole blob can be verified.
pub(super) fn verifiable(info: &BlobInfo) -> impl Iterator<Item = &StoredChecksum> {
    info.checksums.iter().filter(|stored| stored.is_verifiable())
}

#[cfg(test)]
mod tests {
    use tidegate_core::checksum::{ChecksumAlgorithm, Checksummer, Coverage};

    use super::*;

    fn sum(text: &str) -> Checksum {
        Checksummer::of(ChecksumAlgorithm::Sha256, text.as_bytes()).unwrap()
    }

    fn info(len: u64, text: Option<&str>) -> BlobInfo {
        let stored = |text| StoredChecksum { checksum: sum(text), coverage: Coverage::FullObject };
        BlobInfo {
            len_bytes: Some(len),
            checksums: text.map(stored).into_iter().collect(),
            ..BlobInfo::default()
        }
    }

    fn odd(infos: &[BlobInfo], expected: &[Checksum]) -> Result<Vec<usize>> {
        let names = ["http://a", "http://b", "http://c", "http://d"];
        let claims: Vec<Claim<'_>> =
            names.iter().zip(infos).map(|(name, info)| Claim { name, info }).collect();
        Ok(odd_ones(&claims, expected)?.into_iter().map(|(index, _)| index).collect())
    }

    #[test]
    fn equal_claims_are_all_used_and_a_missing_checksum_contradicts_none() {
        assert!(
            odd(&[info(1, Some("x")), info(1, Some("x")), info(1, None)], &[]).unwrap().is_empty()
        );
    }

    #[test]
    fn the_length_of_most_wins_and_of_two_that_of_the_first() {
        assert_eq!(odd(&[info(1, None), info(2, None), info(2, None)], &[]).unwrap(), [0]);
        assert_eq!(odd(&[info(1, None), info(2, None)], &[]).unwrap(), [1]);
    }

    #[test]
    fn the_checksum_of_most_wins_and_of_two_none() {
        let (x, y) = (|| info(1, Some("x")), || info(1, Some("y")));
        assert_eq!(odd(&[y(), x(), x()], &[]).unwrap(), [0]);
        let error = odd(&[x(), y()], &[]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Integrity);
        assert!(error.to_string().contains("http://a") && error.to_string().contains("http://b"));
        assert!(odd(&[x(), y(), y(), x()], &[]).is_err(), "no majority");
    }

    #[test]
    fn the_expected_checksum_decides() {
        let claims = [info(1, Some("x")), info(1, Some("y"))];
        assert_eq!(odd(&claims, &[sum("y")]).unwrap(), [0]);
        assert_eq!(odd(&claims, &[sum("z")]).unwrap(), [0, 1]);
        let md5 = Checksummer::of(ChecksumAlgorithm::Md5, b"x").unwrap();
        assert_eq!(
            odd(&claims, &[md5]).unwrap(),
            [1],
            "the first is kept, and verified at the end"
        );
    }

    #[test]
    fn a_mirror_with_another_coding_is_refused() {
        let gzip = BlobInfo { content_encoding: Some("gzip".to_owned()), ..info(1, None) };
        assert_eq!(odd(&[info(1, None), gzip], &[]).unwrap(), [1]);
    }
}
