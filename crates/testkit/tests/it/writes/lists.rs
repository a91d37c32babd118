//! Lists page by page.

use tidegate_testkit::{Blob, Flavour, WriteOptions};

use super::{begin, complete, element, elements, named, part, refusal, upload, with};
use crate::client::{Reply, ask, get};

fn pages_of(page_len: usize) -> WriteOptions {
    WriteOptions { page_len, part_bytes_min: 0, ..WriteOptions::default() }
}

/// Follows the pages of a list from `target`, which has a query already.
async fn pages(
    server: &tidegate_testkit::Server,
    target: &str,
    next: &[(&str, &str)],
) -> Vec<Reply> {
    let mut pages: Vec<Reply> = Vec::new();
    loop {
        let mut url = target.to_owned();
        if let Some(page) = pages.last() {
            for (parameter, name) in next {
                url = format!("{url}&{parameter}={}", element(page, name).unwrap());
            }
        }
        let page = get(server, &url, &[]).await;
        assert_eq!(page.status, 200, "{url}: {}", page.text());
        let is_truncated = element(&page, "IsTruncated") == Some("true");
        pages.push(page);
        if !is_truncated {
            return pages;
        }
    }
}

fn all(pages: &[Reply], name: &str) -> Vec<String> {
    pages.iter().flat_map(|page| elements(page, name)).map(str::to_owned).collect()
}

const TOKEN: &[(&str, &str)] = &[("continuation-token", "NextContinuationToken")];

#[tokio::test]
async fn objects_come_in_pages_in_the_order_of_bytes() {
    for flavour in [Flavour::S3, Flavour::Gcs] {
        let server = with(flavour, pages_of(2)).await;
        for key in ["b", "a b&c", "dir/", "dir/1", "dir.x", "ü", "B"] {
            server.put(&format!("/box/{key}"), Blob::new(key.to_owned()));
        }
        server.put("/boxes/other", Blob::new("x"));
        let pages = pages(&server, "/box?list-type=2", TOKEN).await;
        assert_eq!(pages.len(), 4);
        assert_eq!(element(&pages[0], "KeyCount"), Some("2"));
        let expected = ["B", "a b&amp;c", "b", "dir.x", "dir/", "dir/1", "ü"];
        assert_eq!(all(&pages, "Key"), expected);
        assert_eq!(all(&pages, "Size"), ["1", "5", "1", "5", "4", "5", "2"]);
        assert_eq!(element(&pages[0], "ETag").map(|tag| tag.starts_with("&quot;")), Some(true));
        let one = get(&server, "/box?list-type=2&max-keys=1&encoding-type=url&prefix=a", &[]).await;
        assert_eq!(element(&one, "Key"), Some("a%20b%26c"));
    }
}

#[tokio::test]
async fn folders_end_at_the_delimiter() {
    let server = with(Flavour::S3, pages_of(2)).await;
    for key in ["a/1", "a/2", "b", "c/1", "c/d/1"] {
        server.put(&format!("/box/{key}"), Blob::new("x"));
    }
    let top = pages(&server, "/box?list-type=2&delimiter=/", TOKEN).await;
    assert_eq!(all(&top, "Key"), ["b"]);
    let prefixes: Vec<_> =
        all(&top, "Prefix").into_iter().filter(|text| !text.is_empty()).collect();
    // The opening tag of a group is followed by its prefix.
    assert_eq!(prefixes, ["a/", "c/"]);
    let below = pages(&server, "/box?list-type=2&delimiter=/&prefix=c/", TOKEN).await;
    assert_eq!(all(&below, "Key"), ["c/1"]);
    assert!(below.iter().any(|page| page.text().contains("<Prefix>c/d/</Prefix>")));
    let after = pages(&server, "/box?list-type=2&start-after=b", TOKEN).await;
    assert_eq!(all(&after, "Key"), ["c/1", "c/d/1"]);
    let wrong = get(&server, "/box?list-type=2&continuation-token=%25", &[]).await;
    assert_eq!(refusal(&wrong), (400, "InvalidArgument"));
    let empty = get(&server, "/none?list-type=2", &[]).await;
    assert_eq!((empty.status, element(&empty, "KeyCount")), (200, Some("0")));
    assert_eq!(ask(&server, "HEAD", "/box", &[]).await.status, 200);
    assert_eq!(ask(&server, "HEAD", "/none", &[]).await.status, 404);
    assert_eq!(ask(&server, "PUT", "/none", &[]).await.status, 200);
    assert_eq!(ask(&server, "HEAD", "/none", &[]).await.status, 200);
    let older = get(&server, "/box?prefix=&delimiter=/&marker=a/", &[]).await;
    assert_eq!(elements(&older, "Key"), ["b"]);
    assert_eq!(element(&older, "NextContinuationToken"), None);
}

#[tokio::test]
async fn a_store_may_repeat_the_key_of_start_after() {
    let writes = WriteOptions { start_after_included: true, ..pages_of(2) };
    let server = with(Flavour::S3, writes).await;
    for key in ["a", "b", "c", "d"] {
        server.put(&format!("/box/{key}"), Blob::new("x"));
    }
    let pages = pages(&server, "/box?list-type=2&start-after=b", TOKEN).await;
    assert_eq!(all(&pages, "Key"), ["b", "c", "d"]);
}

#[tokio::test]
async fn parts_come_in_pages_with_their_checksums() {
    let server = with(Flavour::S3, pages_of(2)).await;
    let fields = ["x-amz-checksum-algorithm: CRC64NVME"];
    let (id, _) = upload(&server, "/b/k", &fields, &[b"1", b"22", b"333", b"4444", b"5"]).await;
    let target = format!("/b/k?uploadId={id}");
    let marker = [("part-number-marker", "NextPartNumberMarker")];
    let pages = pages(&server, &target, &marker).await;
    assert_eq!(pages.len(), 3);
    assert_eq!(all(&pages, "PartNumber"), ["1", "2", "3", "4", "5"]);
    assert_eq!(all(&pages, "Size"), ["1", "2", "3", "4", "1"]);
    assert_eq!(all(&pages, "ChecksumCRC64NVME").len(), 5);
    assert_eq!(element(&pages[0], "ChecksumType"), Some("FULL_OBJECT"));
    let one = get(&server, &format!("{target}&max-parts=1&part-number-marker=3"), &[]).await;
    assert_eq!(elements(&one, "PartNumber"), ["4"]);
    // What the list names is enough for a Complete.
    let parts: Vec<_> = (1..).zip(all(&pages, "ETag")).collect();
    assert_eq!(complete(&server, "/b/k", &id, &[], &named(&parts)).await.status, 200);
}

#[tokio::test]
async fn unfinished_uploads_come_in_pages() {
    let server = with(Flavour::S3, pages_of(2)).await;
    let mut ids = Vec::new();
    for path in ["/b/x/1", "/b/x/1", "/b/x/1", "/b/x/2", "/b/y"] {
        ids.push(begin(&server, path, &[]).await);
    }
    begin(&server, "/other/x/1", &[]).await;
    let next = [("key-marker", "NextKeyMarker"), ("upload-id-marker", "NextUploadIdMarker")];
    let pages = pages(&server, "/b?uploads=&prefix=x/", &next).await;
    assert_eq!(all(&pages, "Key"), ["x/1", "x/1", "x/1", "x/2"]);
    let mut listed = all(&pages, "UploadId");
    listed.sort();
    let mut expected = ids[..4].to_vec();
    expected.sort();
    assert_eq!(listed, expected);
    let after = get(&server, "/b?uploads=&key-marker=x/1", &[]).await;
    assert_eq!(elements(&after, "Key"), ["x/2", "y"]);
}

#[tokio::test]
async fn a_store_may_list_uploads_only_by_whole_keys() {
    let writes = WriteOptions { uploads_listed_by_whole_key: true, ..pages_of(10) };
    let server = with(Flavour::S3, writes).await;
    let id = begin(&server, "/b/x/1", &[]).await;
    assert_eq!(part(&server, "/b/x/1", &id, 1, &[], b"1").await.status, 200);
    let folder = get(&server, "/b?uploads=&prefix=x/", &[]).await;
    assert_eq!(elements(&folder, "Key"), Vec::<&str>::new());
    let whole = get(&server, "/b?uploads=&prefix=x/1", &[]).await;
    assert_eq!(elements(&whole, "Key"), ["x/1"]);
}
