//! The XML documents of uploads, lists and copies. Pure.
//!
//! A document comes from the network: an unknown element is ignored, a missing one is an error where
//! it is needed, and none of them decides how much memory is taken beyond its own length.

use std::fmt::Write as _;

use quick_xml::escape::escape;
use serde::Deserialize;
use tidegate_core::checksum::{Checksum, ChecksumAlgorithm};

use crate::remote::write::{CompleteRequest, StoredPart};
pub(super) use crate::remote::xml_document::read;

/// The response to the request that begins an upload.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct BegunUpload {
    pub(super) upload_id: String,
}

/// The response to the request that completes an upload, or copies an object or a part.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub(super) struct Made {
    #[serde(rename = "ETag")]
    pub(super) etag: Option<String>,
    #[serde(rename = "ChecksumCRC64NVME")]
    crc64nvme: Option<String>,
    #[serde(rename = "ChecksumCRC32C")]
    crc32c: Option<String>,
    checksum_type: Option<String>,
}

impl Made {
    /// The checksum of the whole, if the service names one.
    pub(super) fn checksum(&self) -> Option<Checksum> {
        if self.checksum_type.as_deref() == Some("COMPOSITE") {
            return None;
        }
        checksum_of(self.crc64nvme.as_deref(), self.crc32c.as_deref())
    }
}

/// One page of an upload's parts.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct PartsPage {
    #[serde(default, rename = "Part")]
    pub(super) parts: Vec<ListedPart>,
    #[serde(default)]
    pub(super) is_truncated: bool,
    #[serde(default)]
    pub(super) next_part_number_marker: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct ListedPart {
    pub(super) part_number: u32,
    pub(super) size: u64,
    #[serde(rename = "ETag")]
    pub(super) etag: Option<String>,
    #[serde(rename = "ChecksumCRC64NVME")]
    crc64nvme: Option<String>,
    #[serde(rename = "ChecksumCRC32C")]
    crc32c: Option<String>,
}

impl ListedPart {
    pub(super) fn checksum(&self) -> Option<Checksum> {
        checksum_of(self.crc64nvme.as_deref(), self.crc32c.as_deref())
    }
}

/// One page of unfinished uploads.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct UploadsPage {
    #[serde(default, rename = "Upload")]
    pub(super) uploads: Vec<ListedUpload>,
    #[serde(default)]
    pub(super) is_truncated: bool,
    #[serde(default)]
    pub(super) next_key_marker: Option<String>,
    #[serde(default)]
    pub(super) next_upload_id_marker: Option<String>,
    #[serde(default)]
    pub(super) encoding_type: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct ListedUpload {
    pub(super) key: String,
    pub(super) upload_id: String,
    #[serde(default)]
    pub(super) initiated: Option<String>,
}

/// What the keys of several objects begin with.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct CommonPrefix {
    pub(super) prefix: String,
}

/// One page of objects.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct ObjectsPage {
    #[serde(default)]
    pub(super) contents: Vec<ListedObject>,
    #[serde(default)]
    pub(super) common_prefixes: Vec<CommonPrefix>,
    #[serde(default)]
    pub(super) is_truncated: bool,
    #[serde(default)]
    pub(super) next_continuation_token: Option<String>,
    #[serde(default)]
    pub(super) encoding_type: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct ListedObject {
    pub(super) key: String,
    pub(super) size: u64,
    #[serde(default, rename = "ETag")]
    pub(super) etag: Option<String>,
    /// Google's version of an object.
    #[serde(default)]
    pub(super) generation: Option<String>,
    #[serde(default)]
    pub(super) last_modified: Option<String>,
}

fn checksum_of(crc64nvme: Option<&str>, crc32c: Option<&str>) -> Option<Checksum> {
    [(ChecksumAlgorithm::Crc64Nvme, crc64nvme), (ChecksumAlgorithm::Crc32c, crc32c)]
        .into_iter()
        .find_map(|(algorithm, text)| Checksum::from_base64(algorithm, text?).ok())
}

/// The request that completes an upload. `name` is the element for checksums of parts, if the
/// service compares them.
pub(super) fn completion(request: &CompleteRequest, name: Option<&str>) -> String {
    let mut text = String::from("<CompleteMultipartUpload>");
    for part in &request.parts {
        part_of_completion(&mut text, part, name);
    }
    text.push_str("</CompleteMultipartUpload>");
    text
}

fn part_of_completion(text: &mut String, part: &StoredPart, name: Option<&str>) {
    let tag = escape(part.tag.as_deref().unwrap_or_default());
    // Writing to a string does not fail.
    let _ = write!(text, "<Part><PartNumber>{}</PartNumber><ETag>{tag}</ETag>", part.number);
    if let (Some(name), Some(checksum)) = (name, &part.checksum) {
        let value = checksum.to_base64();
        let _ = write!(text, "<Checksum{name}>{value}</Checksum{name}>");
    }
    text.push_str("</Part>");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Operation;
    use crate::remote::write::PartNumber;

    #[test]
    fn a_completion_names_every_part_by_number_tag_and_checksum() {
        let checksum = Checksum::from_base64(ChecksumAlgorithm::Crc32c, "4waSgw==").unwrap();
        let mut part = StoredPart::new(PartNumber::new(1).unwrap(), 9);
        part.tag = Some("\"a<b\"".to_owned());
        part.checksum = Some(checksum);
        let text = completion(&CompleteRequest::new(vec![part]), Some("CRC32C"));
        let expected = "<CompleteMultipartUpload><Part><PartNumber>1</PartNumber>\
                        <ETag>&quot;a&lt;b&quot;</ETag><ChecksumCRC32C>4waSgw==</ChecksumCRC32C>\
                        </Part></CompleteMultipartUpload>";
        assert_eq!(text, expected);
    }

    #[test]
    fn a_page_of_parts_is_read_whatever_else_it_says() {
        let text = "<?xml version=\"1.0\"?><ListPartsResult xmlns=\"x\"><Bucket>b</Bucket>\
                    <IsTruncated>true</IsTruncated><NextPartNumberMarker>2</NextPartNumberMarker>\
                    <Part><PartNumber>1</PartNumber><Size>5</Size><ETag>&quot;e&quot;</ETag></Part>\
                    <Owner><ID>o</ID></Owner>\
                    <Part><PartNumber>2</PartNumber><Size>6</Size><ETag>e</ETag>\
                    <ChecksumCRC32C>4waSgw==</ChecksumCRC32C></Part></ListPartsResult>";
        let page: PartsPage = read(text.as_bytes(), Operation::Stat, "s3://b/k").unwrap();
        assert!(page.is_truncated);
        assert_eq!(page.next_part_number_marker.as_deref(), Some("2"));
        assert_eq!(page.parts.len(), 2);
        assert_eq!(page.parts[0].etag.as_deref(), Some("\"e\""));
        assert_eq!(page.parts[1].checksum().unwrap().to_base64(), "4waSgw==");
    }
}
