//! Azure's blobs, blocks and lists.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use tidegate_testkit::{Blob, Flavour, WriteOptions, pseudo_random};

use super::{
    CHECK, CHECK_CRC64_NVME, CHECK_CRC64_NVME_LITTLE_ENDIAN, CHECK_MD5, element, elements, refusal,
    start, with,
};
use crate::client::{Reply, ask, get, write};

const BLOCK_BLOB: &str = "x-ms-blob-type: BlockBlob";
const PATH: &str = "/account/box/k";

fn id(number: u64) -> String {
    STANDARD.encode(format!("upload-{number:06}")).replace('+', "%2B").replace('/', "%2F")
}

async fn block(
    server: &tidegate_testkit::Server,
    number: u64,
    fields: &[&str],
    bytes: &[u8],
) -> Reply {
    let target = format!("{PATH}?comp=block&blockid={}", id(number));
    write(server, "PUT", &target, fields, bytes).await
}

async fn commit(
    server: &tidegate_testkit::Server,
    fields: &[&str],
    blocks: &[(&str, u64)],
) -> Reply {
    let blocks = blocks.iter().map(|(kind, number)| format!("<{kind}>{}</{kind}>", id(*number)));
    let document = format!(
        "<?xml version=\"1.0\" encoding=\"utf-8\"?><BlockList>{}</BlockList>",
        blocks.collect::<String>()
    );
    let target = format!("{PATH}?comp=blocklist");
    write(server, "PUT", &target, fields, document.as_bytes()).await
}

#[tokio::test]
async fn a_blob_has_what_its_put_said() {
    let server = start(Flavour::Azure).await;
    let crc = format!("x-ms-content-crc64: {CHECK_CRC64_NVME_LITTLE_ENDIAN}");
    let fields = [
        BLOCK_BLOB,
        &crc,
        "x-ms-blob-content-type: text/plain",
        "x-ms-blob-cache-control: no-store",
        "x-ms-meta-id: 7",
    ];
    let put = write(&server, "PUT", PATH, &fields, CHECK).await;
    assert_eq!(put.status, 201, "{}", put.text());
    assert_eq!(put.field("x-ms-content-crc64"), Some(CHECK_CRC64_NVME_LITTLE_ENDIAN));
    let head = ask(&server, "HEAD", PATH, &[]).await;
    let expected = [
        ("content-type", "text/plain"),
        ("cache-control", "no-store"),
        ("x-ms-meta-id", "7"),
        ("content-md5", CHECK_MD5),
        ("content-length", "9"),
    ];
    for (name, value) in expected {
        assert_eq!(head.field(name), Some(value), "{name}");
    }
    assert_eq!(head.field("etag"), put.field("etag"));
    let again = write(&server, "PUT", PATH, &[BLOCK_BLOB], CHECK).await;
    assert_ne!(again.field("etag"), put.field("etag"), "an ETag is no checksum");
}

#[tokio::test]
async fn a_put_refuses_what_is_wrong() {
    let server = start(Flavour::Azure).await;
    let both = format!("x-ms-content-crc64: {CHECK_CRC64_NVME_LITTLE_ENDIAN}");
    let md5 = format!("Content-MD5: {CHECK_MD5}");
    let big_endian = format!("x-ms-content-crc64: {CHECK_CRC64_NVME}");
    let other_md5 = "x-ms-blob-content-md5: AAAAAAAAAAAAAAAAAAAAAA==";
    let cases: [(&[&str], &[u8], &str); 7] = [
        (&[], CHECK, "MissingRequiredHeader"),
        (&["x-ms-blob-type: Tape"], CHECK, "InvalidHeaderValue"),
        (&[BLOCK_BLOB, &md5], b"12345678X", "Md5Mismatch"),
        (&[BLOCK_BLOB, &both], b"12345678X", "Crc64Mismatch"),
        (&[BLOCK_BLOB, &big_endian], CHECK, "Crc64Mismatch"),
        (&[BLOCK_BLOB, &both, &md5], CHECK, "InvalidHeaderValue"),
        (&[BLOCK_BLOB, other_md5], CHECK, "Md5Mismatch"),
    ];
    for (fields, bytes, code) in cases {
        let put = write(&server, "PUT", PATH, fields, bytes).await;
        assert_eq!((put.status, put.field("x-ms-error-code")), (400, Some(code)), "{fields:?}");
    }
    assert_eq!(server.object(PATH), None);
}

#[tokio::test]
async fn preconditions() {
    let server = start(Flavour::Azure).await;
    let put = async |field: &str| write(&server, "PUT", PATH, &[BLOCK_BLOB, field], CHECK).await;
    assert_eq!(refusal(&put("If-Match: \"x\"").await), (412, "ConditionNotMet"));
    let first = put("If-None-Match: *").await;
    assert_eq!(first.status, 201);
    assert_eq!(refusal(&put("If-None-Match: *").await), (409, "BlobAlreadyExists"));
    assert_eq!(refusal(&put("If-Match: \"x\"").await), (412, "ConditionNotMet"));
    let same = format!("If-Match: {}", first.field("etag").unwrap());
    assert_eq!(put(&same).await.status, 201);
    assert_eq!(put(&same).await.status, 412);
    assert_eq!(ask(&server, "DELETE", PATH, &[&same]).await.status, 412);
    assert_eq!(ask(&server, "DELETE", PATH, &[]).await.status, 202);
    assert_eq!(refusal(&ask(&server, "DELETE", PATH, &[]).await), (404, "BlobNotFound"));
}

#[tokio::test]
async fn blocks_become_the_blob_in_the_order_of_the_list() {
    let server = start(Flavour::Azure).await;
    let md5 = format!("Content-MD5: {CHECK_MD5}");
    assert_eq!(block(&server, 1, &[&md5], CHECK).await.status, 201);
    let sent = block(&server, 2, &[], b"0").await;
    assert_eq!((sent.status, sent.field("content-md5").is_some()), (201, true));
    assert_eq!(server.unfinished_uploads(), [(PATH.to_owned(), String::new())]);
    let target = format!("{PATH}?comp=blocklist&blocklisttype=");
    let listed = get(&server, &format!("{target}uncommitted"), &[]).await;
    assert_eq!(elements(&listed, "Size"), ["9", "1"]);
    assert_eq!(element(&listed, "Name"), Some(id(1).as_str()));
    let fields = ["x-ms-blob-content-type: text/plain", "x-ms-meta-id: 7"];
    let done = commit(&server, &fields, &[("Latest", 2), ("Uncommitted", 1)]).await;
    assert_eq!(done.status, 201, "{}", done.text());
    let whole = get(&server, PATH, &[]).await;
    assert_eq!((whole.text(), whole.field("content-type")), ("0123456789", Some("text/plain")));
    assert_eq!((whole.field("x-ms-meta-id"), whole.field("content-md5")), (Some("7"), None));
    let listed = get(&server, &format!("{target}all"), &[]).await;
    assert_eq!(elements(&listed, "Size"), ["1", "9"]);
    assert!(listed.text().contains("<UncommittedBlocks></UncommittedBlocks>"));
    assert!(server.unfinished_uploads().is_empty());
    // Committed blocks can be used again.
    assert_eq!(block(&server, 3, &[], b"X").await.status, 201);
    let done = commit(&server, &[], &[("Committed", 1), ("Latest", 3)]).await;
    assert_eq!(done.status, 201, "{}", done.text());
    assert_eq!(get(&server, PATH, &[]).await.text(), "123456789X");
    assert_eq!(server.blocks_received().values().sum::<u64>(), 3);
}

#[tokio::test]
async fn the_md5_of_a_list_is_kept_and_not_compared() {
    let server = start(Flavour::Azure).await;
    block(&server, 1, &[], CHECK).await;
    let other = "AAAAAAAAAAAAAAAAAAAAAA==";
    let field = format!("x-ms-blob-content-md5: {other}");
    assert_eq!(commit(&server, &[&field], &[("Latest", 1)]).await.status, 201);
    assert_eq!(ask(&server, "HEAD", PATH, &[]).await.field("content-md5"), Some(other));
}

#[tokio::test]
async fn blocks_refuse_what_is_wrong() {
    let server = start(Flavour::Azure).await;
    let query = "InvalidQueryParameterValue";
    for id in ["", "%21", &STANDARD.encode([7; 66])] {
        let target = format!("{PATH}?comp=block&blockid={id}");
        let reply = write(&server, "PUT", &target, &[], CHECK).await;
        assert_eq!(refusal(&reply), (400, query), "{id}");
    }
    let crc = format!("x-ms-content-crc64: {CHECK_CRC64_NVME_LITTLE_ENDIAN}");
    let wrong = block(&server, 1, &[&crc], b"12345678X").await;
    assert_eq!(refusal(&wrong), (400, "Crc64Mismatch"));
    assert_eq!(block(&server, 1, &[&crc], CHECK).await.status, 201);
    let short = format!("{PATH}?comp=block&blockid={}", STANDARD.encode("short"));
    let other = write(&server, "PUT", &short, &[], CHECK).await;
    assert_eq!(refusal(&other), (400, "InvalidBlobOrBlock"));
    for missing in [("Latest", 2), ("Committed", 1)] {
        let reply = commit(&server, &[], &[missing]).await;
        assert_eq!(refusal(&reply), (400, "InvalidBlockList"), "{missing:?}");
    }
    let target = format!("{PATH}?comp=blocklist");
    let broken = write(&server, "PUT", &target, &[], b"<BlockList>").await;
    assert_eq!(refusal(&broken), (400, "InvalidXmlDocument"));
    server.put(PATH, Blob::new("other"));
    let taken = commit(&server, &["If-None-Match: *"], &[("Latest", 1)]).await;
    assert_eq!(refusal(&taken), (409, "BlobAlreadyExists"));
    let changed = commit(&server, &["If-Match: \"x\""], &[("Latest", 1)]).await;
    assert_eq!(refusal(&changed), (412, "ConditionNotMet"));
    // A put to the name drops its uncommitted blocks.
    assert_eq!(write(&server, "PUT", PATH, &[BLOCK_BLOB], CHECK).await.status, 201);
    let late = commit(&server, &[], &[("Latest", 1)]).await;
    assert_eq!(refusal(&late), (400, "InvalidBlockList"));
    let none = get(&server, "/account/box/none?comp=blocklist", &[]).await;
    assert_eq!(refusal(&none), (404, "BlobNotFound"));
}

#[tokio::test]
async fn an_emulator_may_not_know_the_crc() {
    let writes = WriteOptions { azure_crc64: false, ..WriteOptions::default() };
    let server = with(Flavour::Azure, writes).await;
    let crc = format!("x-ms-content-crc64: {CHECK_CRC64_NVME_LITTLE_ENDIAN}");
    assert_eq!(block(&server, 1, &[&crc], CHECK).await.status, 500);
    assert_eq!(block(&server, 1, &[], CHECK).await.status, 201);
}

#[tokio::test]
async fn blobs_come_in_pages() {
    let server = with(Flavour::Azure, WriteOptions { page_len: 2, ..Default::default() }).await;
    for key in ["a", "b/1", "b/2", "c&"] {
        let path = format!("/account/box/{}", key.replace('&', "%26"));
        write(&server, "PUT", &path, &[BLOCK_BLOB, "x-ms-meta-id: 7"], CHECK).await;
    }
    let target = "/account/box?restype=container&comp=list";
    let first = get(&server, target, &[]).await;
    assert_eq!(elements(&first, "Name"), ["a", "b/1"]);
    assert_eq!(element(&first, "Content-Length"), Some("9"));
    let marker = element(&first, "NextMarker").unwrap();
    let second = get(&server, &format!("{target}&marker={marker}"), &[]).await;
    assert_eq!(elements(&second, "Name"), ["b/2", "c&amp;"]);
    assert_eq!(element(&second, "NextMarker"), Some(""));
    let query = format!("{target}&delimiter=/&prefix=b&include=metadata");
    let folder = get(&server, &query, &[]).await;
    assert!(folder.text().contains("<BlobPrefix><Name>b/</Name></BlobPrefix>"));
    let below =
        get(&server, &format!("{target}&prefix=b/&maxresults=1&include=metadata"), &[]).await;
    assert_eq!((elements(&below, "Name"), element(&below, "id")), (vec!["b/1"], Some("7")));
}

#[tokio::test]
async fn a_copy_takes_bytes_and_metadata() {
    let server = start(Flavour::Azure).await;
    let data = pseudo_random(1000, 1);
    let put = write(&server, "PUT", PATH, &[BLOCK_BLOB, "x-ms-meta-id: 7"], &data).await;
    let source = format!("x-ms-copy-source: {}?sig=x", server.url(PATH));
    let same = format!("x-ms-source-if-match: {}", put.field("etag").unwrap());
    let copy = write(&server, "PUT", "/account/box/copy", &[&source, &same], b"").await;
    assert_eq!((copy.status, copy.field("x-ms-copy-status")), (202, Some("success")));
    let stored = server.object("/account/box/copy").unwrap();
    assert_eq!((stored.bytes.as_ref(), stored.metadata("id")), (Some(&data), Some("7")));
    let taken = [source.as_str(), "If-None-Match: *"];
    let taken = write(&server, "PUT", "/account/box/copy", &taken, b"").await;
    assert_eq!(refusal(&taken), (409, "BlobAlreadyExists"));
    let other = [source.as_str(), "x-ms-source-if-match: \"x\""];
    let other = write(&server, "PUT", "/account/box/copy", &other, b"").await;
    assert_eq!(refusal(&other), (412, "SourceConditionNotMet"));
}
