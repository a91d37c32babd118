//! Block lists, for fuzz targets.

use super::blocks;
use super::document::{self, BlobsPage, BlockList};
use crate::error::Operation;

/// Reads a list of blocks or of blobs. The id of a block that is ours is made of its own parts.
pub fn block_list(text: &[u8]) {
    if let Ok(list) = document::read::<BlockList>(text, Operation::Stat, "az://container/blob") {
        for block in &list.uncommitted.blocks {
            if let Some((prefix, number)) = blocks::parse(&block.name) {
                let again = blocks::parse(&blocks::block_id(&prefix, number));
                assert_eq!(again, Some((prefix, number)));
            }
        }
    }
    if let Ok(page) = document::read::<BlobsPage>(text, Operation::List, "az://container") {
        for blob in &page.blobs.blobs {
            let _ = blob.is_folder();
        }
    }
}
