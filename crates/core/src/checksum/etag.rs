//! [`ETag`]: the name of one version of a blob. It is not a checksum.
//!
//! For some objects of some stores the tag happens to be the MD5 of the content. For multipart
//! uploads, other encryption and other servers it is not, and the response does not say which case
//! applies. So no function converts an [`ETag`] into a checksum. A caller may guess, and take a match
//! for a proof, but never a mismatch.
//!
//! Source: RFC 9110, section 8.8.3.

use std::fmt;

use super::ChecksumError;

/// An entity tag, kept exactly as the server sent it, letter case included.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ETag {
    /// With its quotes and, if weak, `W/`; without white space around it.
    header: String,
}

impl ETag {
    /// Parses a header's value: `"strong"` or `W/"weak"`.
    pub fn parse(text: &str) -> Result<Self, ChecksumError> {
        let malformed = |reason| ChecksumError::MalformedHeader {
            header: "ETag",
            text: text.to_owned(),
            reason,
        };
        let header = text.trim_matches([' ', '\t']);
        let opaque = header
            .strip_prefix("W/")
            .unwrap_or(header)
            .strip_prefix('"')
            .and_then(|rest| rest.strip_suffix('"'))
            .ok_or_else(|| malformed("not in double quotes"))?;
        if !opaque.chars().all(is_tag_char) {
            return Err(malformed("a space, quote or control character inside"));
        }
        Ok(Self { header: header.to_owned() })
    }

    /// The value for `If-Match`, `If-Range` or `If-None-Match`: as it was received.
    pub fn as_header(&self) -> &str {
        &self.header
    }

    /// Whether equal tags guarantee equal bytes. Only a strong tag may pin a blob's content: a weak
    /// one matches no `If-Match` and no `If-Range`.
    pub fn is_strong(&self) -> bool {
        !self.header.starts_with("W/")
    }

    /// The text between the quotes.
    pub fn opaque(&self) -> &str {
        self.header.trim_start_matches("W/").trim_matches('"')
    }

    /// Strong comparison: both strong and identical.
    pub fn matches_strongly(&self, other: &Self) -> bool {
        self.is_strong() && self == other
    }
}

impl fmt::Display for ETag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.header)
    }
}

/// `etagc` of the grammar; characters beyond ASCII are `obs-text`.
const fn is_tag_char(c: char) -> bool {
    c as u32 >= 0x21 && c != '"' && c as u32 != 0x7f
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::ETag;
    use crate::checksum::{Checksum, ChecksumAlgorithm, headers};

    #[test]
    fn kept_exactly() {
        for text in [r#""xyzzy""#, r#"W/"XyZ/1+2=""#, r#""""#, r#""0x8D4BCC2E4835CD0""#] {
            assert_eq!(ETag::parse(text).unwrap().as_header(), text);
        }
        assert_ne!(ETag::parse(r#""a""#).unwrap(), ETag::parse(r#""A""#).unwrap());
        assert_eq!(ETag::parse(" \"a\"\t").unwrap().as_header(), "\"a\"");
        assert_eq!(ETag::parse(r#"W/"a""#).unwrap().opaque(), "a");
    }

    #[test]
    fn only_strong_tags_pin() {
        let (strong, weak) = (ETag::parse(r#""a""#).unwrap(), ETag::parse(r#"W/"a""#).unwrap());
        assert!(strong.is_strong() && !weak.is_strong());
        assert!(strong.matches_strongly(&strong.clone()));
        assert!(!weak.matches_strongly(&weak.clone()));
        assert!(!strong.matches_strongly(&weak));
    }

    #[test]
    fn a_malformed_tag_is_shown_in_the_error() {
        for text in ["", "a", "\"", "\"a", "w/\"a\"", "\"a\"b\"", "\"a b\"", "\"a\r\nX: y\"", "*"] {
            let error = ETag::parse(text).unwrap_err().to_string();
            assert!(error.contains(&format!("{text:?}")), "{error}");
        }
    }

    /// The tag of a small S3 object looks like an MD5. No parser of checksums accepts it, quoted or
    /// unquoted, and no function converts the tag itself.
    #[test]
    fn never_taken_for_an_md5() {
        let tag = ETag::parse("\"9e107d9d372bb6826bd81d3542a419d6\"").unwrap();
        for text in [tag.as_header(), tag.opaque()] {
            assert!(headers::parse_content_md5(text).is_err());
            assert!(Checksum::from_base64(ChecksumAlgorithm::Md5, text).is_err());
            assert!(headers::parse_amz_checksum("md5", text, None).is_err());
        }
    }

    proptest! {
        #[test]
        fn parsing_never_panics_and_reads_back(text in "(W/)?\"?.{0,20}\"?") {
            if let Ok(tag) = ETag::parse(&text) {
                prop_assert_eq!(ETag::parse(tag.as_header()), Ok(tag));
            }
        }
    }
}
