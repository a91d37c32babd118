//! The XML document of a blob's tags: S3 and Azure share it, but for the name of its root. Pure.
//!
//! Sources: `GetObjectTagging` of Amazon S3, "Get Blob Tags" of Azure Blob Storage.

use serde::Deserialize;

use super::xml_document;
use crate::error::{Operation, Result};

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Tagging {
    tag_set: TagSet,
}

#[derive(Debug, Deserialize)]
struct TagSet {
    #[serde(default, rename = "Tag")]
    tags: Vec<Tag>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Tag {
    key: String,
    #[serde(default)]
    value: String,
}

/// The names and values in a document.
pub(super) fn read(text: &[u8], target: &str) -> Result<Vec<(String, String)>> {
    let read: Tagging = xml_document::read(text, Operation::Stat, target)?;
    Ok(read.tag_set.tags.into_iter().map(|tag| (tag.key, tag.value)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_services_name_their_tags() {
        let set = "<TagSet><Tag><Key>team</Key><Value>a &amp; b</Value></Tag>\
                   <Tag><Key>empty</Key><Value/></Tag></TagSet>";
        let expected = [("team", "a & b"), ("empty", "")];
        let expected = expected.map(|(name, value)| (name.to_owned(), value.to_owned()));
        for (root, start) in [("Tagging", ""), ("Tags", "\u{feff}<?xml version=\"1.0\"?>")] {
            let text = format!("{start}<{root} xmlns=\"x\">{set}</{root}>");
            assert_eq!(read(text.as_bytes(), "s3://b/k").unwrap(), expected);
        }
    }

    #[test]
    fn a_document_without_a_set_is_an_error() {
        assert_eq!(read(b"<Tagging><TagSet/></Tagging>", "s3://b/k").unwrap(), []);
        for text in ["", "<Tagging/>", "<Tagging><TagSet><Tag/></TagSet></Tagging>"] {
            assert!(read(text.as_bytes(), "s3://b/k").is_err(), "{text}");
        }
    }
}
