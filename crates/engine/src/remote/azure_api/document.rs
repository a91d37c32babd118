//! The XML documents of block lists and lists of blobs. Pure.

use serde::Deserialize;

pub(super) use crate::remote::xml_document::read;

/// The blocks of a name.
#[derive(Debug, Default, Deserialize)]
pub(super) struct BlockList {
    #[serde(default, rename = "UncommittedBlocks")]
    pub(super) uncommitted: Blocks,
}

#[derive(Debug, Default, Deserialize)]
pub(super) struct Blocks {
    #[serde(default, rename = "Block")]
    pub(super) blocks: Vec<Block>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct Block {
    pub(super) name: String,
    pub(super) size: u64,
}

/// One page of blobs.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct BlobsPage {
    #[serde(default)]
    pub(super) blobs: Blobs,
    #[serde(default)]
    pub(super) next_marker: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
pub(super) struct Blobs {
    #[serde(default, rename = "Blob")]
    pub(super) blobs: Vec<ListedBlob>,
    #[serde(default, rename = "BlobPrefix")]
    pub(super) folders: Vec<ListedFolder>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct ListedBlob {
    pub(super) name: ListedName,
    pub(super) properties: Properties,
}

/// What the names of several blobs begin with.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct ListedFolder {
    pub(super) name: ListedName,
}

/// A name; percent-encoded if XML cannot hold it.
#[derive(Debug, Deserialize)]
pub(super) struct ListedName {
    #[serde(default, rename = "@Encoded")]
    pub(super) encoded: Option<String>,
    #[serde(default, rename = "$text")]
    pub(super) text: String,
}

#[derive(Debug, Deserialize)]
pub(super) struct Properties {
    #[serde(default, rename = "Etag")]
    pub(super) etag: Option<String>,
    #[serde(default, rename = "Last-Modified")]
    pub(super) last_modified: Option<String>,
    #[serde(default, rename = "Content-Length")]
    pub(super) content_length: Option<u64>,
    #[serde(default, rename = "ResourceType")]
    pub(super) resource_type: Option<String>,
}

impl ListedBlob {
    /// Whether it is a folder of an account with a hierarchy.
    pub(super) fn is_folder(&self) -> bool {
        self.properties.resource_type.as_deref() == Some("directory")
    }
}

/// The request that makes a blob of uncommitted blocks. `ids` are base64, which XML needs not
/// escape.
pub(super) fn commitment(ids: impl Iterator<Item = String>) -> String {
    let mut text = String::from("<?xml version=\"1.0\" encoding=\"utf-8\"?><BlockList>");
    for id in ids {
        text.push_str("<Uncommitted>");
        text.push_str(&id);
        text.push_str("</Uncommitted>");
    }
    text.push_str("</BlockList>");
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Operation;

    #[test]
    fn a_page_of_blobs_has_names_as_they_are() {
        let text = "\u{feff}<?xml version=\"1.0\" encoding=\"utf-8\"?><EnumerationResults \
                    ServiceEndpoint=\"x\" ContainerName=\"c\"><Prefix>a</Prefix><Blobs>\
                    <Blob><Name> a &amp; b </Name><Properties>\
                    <Last-Modified>Mon, 23 Nov 2026 12:00:00 GMT</Last-Modified>\
                    <Etag>0x8D</Etag><Content-Length>5</Content-Length></Properties></Blob>\
                    <Blob><Name Encoded=\"true\">a%01</Name><Properties>\
                    <ResourceType>directory</ResourceType></Properties></Blob>\
                    </Blobs><NextMarker>m</NextMarker></EnumerationResults>";
        let page: BlobsPage = read(text.as_bytes(), Operation::List, "az://c").unwrap();
        let [blob, folder] = &page.blobs.blobs[..] else { panic!("{page:?}") };
        assert_eq!(blob.name.text, " a & b ");
        assert_eq!(blob.properties.content_length, Some(5));
        assert!(!blob.is_folder() && folder.is_folder());
        assert_eq!(folder.name.encoded.as_deref(), Some("true"));
        assert_eq!(page.next_marker.as_deref(), Some("m"));
    }

    #[test]
    fn an_empty_page_and_an_empty_list_of_blocks_are_read() {
        let text = "<EnumerationResults><Blobs /><NextMarker /></EnumerationResults>";
        let page: BlobsPage = read(text.as_bytes(), Operation::List, "az://c").unwrap();
        assert!(page.blobs.blobs.is_empty() && page.next_marker.unwrap_or_default().is_empty());
        for text in ["<BlockList><UncommittedBlocks /></BlockList>", "<BlockList/>"] {
            let list: BlockList = read(text.as_bytes(), Operation::Stat, "az://c/b").unwrap();
            assert!(list.uncommitted.blocks.is_empty(), "{text}");
        }
    }
}
