//! Directories and pages.

use prost::Message as _;
use tidegate::DigestFunction;
use tidegate_reapi::v2;
use tonic::{Code, Status};

use super::bed::{Bed, Blob, blob_of, fails, worked};
use super::{Case, Outcome, ensure};

pub(super) fn cases(bed: &Bed) -> Vec<Case<'_>> {
    vec![
        ("a tree has all its directories", Box::pin(whole(bed))),
        ("a directory that is missing is left out of its tree", Box::pin(part_missing(bed))),
        ("a tree whose root is missing is NOT_FOUND", Box::pin(root_missing(bed))),
        ("a page token skips the pages before it", Box::pin(pages(bed))),
    ]
}

fn directory(children: &[&Blob], name: &str) -> Blob {
    let nodes = children.iter().enumerate().map(|(number, child)| v2::DirectoryNode {
        name: format!("{name}-{number}"),
        digest: Some(child.digest.clone()),
    });
    let directory = v2::Directory {
        directories: nodes.collect(),
        symlinks: vec![v2::SymlinkNode {
            name: name.to_owned(),
            target: "target".to_owned(),
            ..v2::SymlinkNode::default()
        }],
        ..v2::Directory::default()
    };
    blob_of(DigestFunction::Sha256, directory.encode_to_vec())
}

/// A root, two directories below it, and one that both of them hold.
struct Tree {
    root: Blob,
    below: [Blob; 2],
    shared: Blob,
}

impl Tree {
    fn new(bed: &Bed) -> Self {
        let unique = bed.blob(8).digest.hash;
        let shared = directory(&[], &format!("shared-{unique}"));
        let below = ["a", "b"].map(|name| directory(&[&shared], &format!("{name}-{unique}")));
        let root = directory(&[&below[0], &below[1]], &format!("root-{unique}"));
        Self { root, below, shared }
    }

    fn all(&self) -> [&Blob; 4] {
        [&self.root, &self.below[0], &self.below[1], &self.shared]
    }
}

/// The pages: the encoded directories of each, and the token of the next.
async fn get(
    bed: &Bed,
    root: &Blob,
    page_size: i32,
    page_token: &str,
) -> Result<Vec<(Vec<Vec<u8>>, String)>, Status> {
    let request = v2::GetTreeRequest {
        instance_name: bed.instance.clone(),
        root_digest: Some(root.digest.clone()),
        page_size,
        page_token: page_token.to_owned(),
        digest_function: 0,
    };
    let mut responses = bed.cas().get_tree(request).await?.into_inner();
    let mut pages = Vec::new();
    while let Some(page) = responses.message().await? {
        let directories = page.directories.iter().map(v2::Directory::encode_to_vec).collect();
        pages.push((directories, page.next_page_token));
    }
    Ok(pages)
}

/// Without order and duplicates: the definitions give no order, and a directory that is in two
/// others may come twice.
fn set(pages: &[(Vec<Vec<u8>>, String)]) -> Vec<Vec<u8>> {
    let mut all: Vec<Vec<u8>> = pages.iter().flat_map(|(page, _)| page.iter().cloned()).collect();
    all.sort();
    all.dedup();
    all
}

fn bytes_of(blobs: &[&Blob]) -> Vec<Vec<u8>> {
    let mut all: Vec<Vec<u8>> = blobs.iter().map(|blob| blob.bytes.to_vec()).collect();
    all.sort();
    all
}

async fn whole(bed: &Bed) -> Outcome {
    let tree = Tree::new(bed);
    bed.put(&tree.all()).await?;
    let pages = worked("GetTree", get(bed, &tree.root, 0, "").await)?;
    ensure(set(&pages) == bytes_of(&tree.all()), || format!("{} directories", set(&pages).len()))
}

async fn part_missing(bed: &Bed) -> Outcome {
    let tree = Tree::new(bed);
    let present = [&tree.root, &tree.below[0], &tree.shared];
    bed.put(&present).await?;
    let pages = worked("GetTree", get(bed, &tree.root, 0, "").await)?;
    ensure(set(&pages) == bytes_of(&present), || format!("{} directories", set(&pages).len()))
}

async fn root_missing(bed: &Bed) -> Outcome {
    let tree = Tree::new(bed);
    fails("GetTree", get(bed, &tree.root, 0, "").await, &[Code::NotFound])
}

async fn pages(bed: &Bed) -> Outcome {
    let tree = Tree::new(bed);
    bed.put(&tree.all()).await?;
    let pages = worked("GetTree", get(bed, &tree.root, 1, "").await)?;
    ensure(set(&pages) == bytes_of(&tree.all()), || format!("{} directories", set(&pages).len()))?;
    let last = pages.last().map(|(_, token)| token.as_str());
    ensure(last == Some(""), || format!("the last page has the token {last:?}"))?;
    for number in 1..pages.len() {
        let token = &pages[number - 1].1;
        ensure(!token.is_empty(), || format!("page {number} has no token"))?;
        let rest = worked("GetTree", get(bed, &tree.root, 1, token).await)?;
        ensure(set(&rest) == set(&pages[number..]), || format!("other pages from {number} on"))?;
    }
    Ok(())
}
