//! The write side, as an upload client sees it.
//!
//! | promise | test |
//! |---|---|
//! | one object a request of S3: metadata, checksums, preconditions, copies, deletes | `s3` |
//! | S3's uploads in parts, and their refusals | `multipart` |
//! | lists of objects, uploads and parts, page by page | `lists` |
//! | GCS's XML and JSON APIs, resumable sessions | `gcs`, `sessions` |
//! | Azure's blobs, blocks and lists | `azure` |
//! | PUT, DELETE, MOVE and OPTIONS of plain HTTP | `webdav` |
//! | options change what they name | `choices` |
//! | each fault of a write | `faults` |

mod azure;
mod choices;
mod faults;
mod gcs;
mod lists;
mod multipart;
mod s3;
mod sessions;
mod webdav;

use tidegate_testkit::{Flavour, Server, ServerOptions, WriteOptions};

use crate::client::{Reply, write};

/// The content whose checksums everyone publishes.
pub(crate) const CHECK: &[u8] = b"123456789";
pub(crate) const CHECK_CRC32: &str = "y/Q5Jg==";
pub(crate) const CHECK_CRC32C: &str = "4waSgw==";
pub(crate) const CHECK_MD5: &str = "JfnnlDI7RTiF9RgfG2JNCw==";
pub(crate) const CHECK_MD5_HEX: &str = "25f9e794323b453885f5181f1b624d0b";
pub(crate) const CHECK_CRC64_NVME: &str = "rosUhgp5mIg=";
pub(crate) const CHECK_CRC64_NVME_LITTLE_ENDIAN: &str = "iJh5CoYUi64=";
pub(crate) const CHECK_SHA256: &str = "FeKw08M4keuw8e9gnsQZQgwg4yDOlMZfvIwzEkSOsiU=";
pub(crate) const ENABLED: &str = "x-amz-checksum-mode: ENABLED";

/// A server that takes parts of any length.
pub(crate) async fn start(flavour: Flavour) -> Server {
    with(flavour, WriteOptions { part_bytes_min: 0, ..WriteOptions::default() }).await
}

pub(crate) async fn with(flavour: Flavour, writes: WriteOptions) -> Server {
    Server::start(ServerOptions { writes, ..ServerOptions::of(flavour) }).await.unwrap()
}

/// The text of an XML element.
pub(crate) fn element<'a>(reply: &'a Reply, name: &str) -> Option<&'a str> {
    elements(reply, name).first().copied()
}

/// The texts of all XML elements of this name.
pub(crate) fn elements<'a>(reply: &'a Reply, name: &str) -> Vec<&'a str> {
    let open = format!("<{name}>");
    let pieces = reply.text().split(open.as_str()).skip(1);
    pieces.map(|piece| piece.split("</").next().unwrap_or_default()).collect()
}

/// The status and the code of an error.
pub(crate) fn refusal(reply: &Reply) -> (u16, &str) {
    (reply.status, element(reply, "Code").unwrap_or_default())
}

/// Starts an upload in parts and returns its id.
pub(crate) async fn begin(server: &Server, path: &str, fields: &[&str]) -> String {
    let reply = write(server, "POST", &format!("{path}?uploads="), fields, b"").await;
    assert_eq!(reply.status, 200, "{}", reply.text());
    element(&reply, "UploadId").unwrap().to_owned()
}

/// Sends a part and returns the answer.
pub(crate) async fn part(
    server: &Server,
    path: &str,
    id: &str,
    number: u64,
    fields: &[&str],
    bytes: &[u8],
) -> Reply {
    let target = format!("{path}?partNumber={number}&uploadId={id}");
    write(server, "PUT", &target, fields, bytes).await
}

/// The document of a Complete with these parts.
pub(crate) fn parts_document(parts: &[(u64, &str)]) -> String {
    let parts = parts.iter().map(|(number, etag)| {
        format!("<Part><PartNumber>{number}</PartNumber><ETag>{etag}</ETag></Part>")
    });
    format!("<CompleteMultipartUpload>{}</CompleteMultipartUpload>", parts.collect::<String>())
}

/// Sends a Complete.
pub(crate) async fn complete(
    server: &Server,
    path: &str,
    id: &str,
    fields: &[&str],
    parts: &[(u64, &str)],
) -> Reply {
    let document = parts_document(parts);
    write(server, "POST", &format!("{path}?uploadId={id}"), fields, document.as_bytes()).await
}

/// Uploads these parts and returns the id and their `ETag`s.
pub(crate) async fn upload(
    server: &Server,
    path: &str,
    fields: &[&str],
    parts: &[&[u8]],
) -> (String, Vec<(u64, String)>) {
    let id = begin(server, path, fields).await;
    let mut named = Vec::new();
    for (number, bytes) in (1..).zip(parts) {
        let reply = part(server, path, &id, number, &[], bytes).await;
        assert_eq!(reply.status, 200, "{}", reply.text());
        named.push((number, reply.field("etag").unwrap().to_owned()));
    }
    (id, named)
}

/// Borrows what [`upload`] returned.
pub(crate) fn named(parts: &[(u64, String)]) -> Vec<(u64, &str)> {
    parts.iter().map(|(number, etag)| (*number, etag.as_str())).collect()
}
