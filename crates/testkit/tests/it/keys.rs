//! A cloud's requirements for a request besides its target: the blob's key, the payer, a coding.

use tidegate_testkit::{Blob, Flavour, Payer, Server, ServerOptions};

use crate::client::{Client, get};

/// 32 times the byte 7: its base64, MD5 and SHA-256 by an independent tool.
const KEY: [u8; 32] = [7; 32];
const KEY_BASE64: &str = "BwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwc=";
const KEY_MD5: &str = "y4HAEFCYWuvAXWFTtA1Qpg==";
const KEY_SHA256: &str = "S7Bvjk46dxXSAdVz0KpCN2LlXavWGiwCJ4+lbMbSlOA=";
const OTHER_BASE64: &str = "CAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAg=";
const OTHER_MD5: &str = "ry9sFyn8WYF9Mz2zWfMQhQ==";
const OTHER_SHA256: &str = "JXjM+GRbLR3BDEZe/4Q1hZcPOn4iKWqSytVdSJonIHI=";

struct Cloud {
    flavour: Flavour,
    path: &'static str,
    prefix: &'static str,
    suffix: &'static str,
    right: &'static str,
    other: &'static str,
    /// Status and code without a key, and with another.
    missing: (u16, &'static str),
    wrong: (u16, &'static str),
}

const CLOUDS: [Cloud; 3] = [
    Cloud {
        flavour: Flavour::Gcs,
        path: "/b/k",
        prefix: "x-goog-encryption",
        suffix: "-sha256",
        right: KEY_SHA256,
        other: OTHER_SHA256,
        missing: (400, "ResourceIsEncryptedWithCustomerEncryptionKey"),
        wrong: (400, "CustomerEncryptionKeyIsIncorrect"),
    },
    Cloud {
        flavour: Flavour::S3,
        path: "/b/k",
        prefix: "x-amz-server-side-encryption-customer",
        suffix: "-MD5",
        right: KEY_MD5,
        other: OTHER_MD5,
        missing: (400, "InvalidRequest"),
        wrong: (403, "AccessDenied"),
    },
    Cloud {
        flavour: Flavour::Azure,
        path: "/a/b/k",
        prefix: "x-ms-encryption",
        suffix: "-sha256",
        right: KEY_SHA256,
        other: OTHER_SHA256,
        missing: (409, "BlobUsesCustomerSpecifiedEncryption"),
        wrong: (409, "BlobCustomerSpecifiedEncryptionMismatch"),
    },
];

impl Cloud {
    fn fields(&self, key: &str, hash: &str) -> [String; 3] {
        let Self { prefix, suffix, .. } = self;
        [
            format!("{prefix}-algorithm: AES256"),
            format!("{prefix}-key: {key}"),
            format!("{prefix}-key{suffix}: {hash}"),
        ]
    }
}

#[tokio::test]
async fn a_blob_with_a_key_opens_to_that_key_alone() {
    for cloud in CLOUDS {
        let server = Server::start(ServerOptions::of(cloud.flavour)).await.unwrap();
        server.put(cloud.path, Blob::new(&b"locked"[..]).with_customer_key(KEY));
        let ask = async |fields: &[String]| {
            let fields: Vec<&str> = fields.iter().map(String::as_str).collect();
            let reply = get(&server, cloud.path, &fields).await;
            (reply.status, reply.text().to_owned())
        };
        let right = cloud.fields(KEY_BASE64, cloud.right);
        assert_eq!(ask(&right).await, (200, "locked".to_owned()), "{:?}", cloud.flavour);
        let wrong = cloud.fields(OTHER_BASE64, cloud.other);
        for (fields, (status, code)) in [(&[][..], cloud.missing), (&wrong, cloud.wrong)] {
            let (got, text) = ask(fields).await;
            assert_eq!(got, status, "{text}");
            assert!(text.contains(&format!("<Code>{code}</Code>")), "{text}");
        }
        // A key with the hash of another key, and an incomplete set of fields.
        assert_eq!(ask(&cloud.fields(KEY_BASE64, cloud.other)).await.0, 400);
        assert_eq!(ask(&right[..2]).await.0, 400);
        server.put(cloud.path, Blob::new(&b"open"[..]));
        assert_ne!(ask(&right).await.0, 200, "a key for a blob that has none");
        assert_eq!(ask(&[]).await, (200, "open".to_owned()));
    }
}

#[tokio::test]
async fn facts_need_the_key_except_at_google() {
    for cloud in CLOUDS {
        let server = Server::start(ServerOptions::of(cloud.flavour)).await.unwrap();
        server.put(cloud.path, Blob::new(&b"locked"[..]).with_customer_key(KEY));
        let reply = Client::connect(&server).await.ask("HEAD", cloud.path, &[]).await;
        if cloud.flavour == Flavour::Gcs {
            assert_eq!((reply.status, reply.field("x-goog-hash")), (200, None));
        } else {
            assert_eq!(reply.status, cloud.missing.0);
        }
    }
}

#[tokio::test]
async fn a_requester_who_must_pay_says_so() {
    for (flavour, status, field) in [
        (Flavour::Gcs, 400, "x-goog-user-project: p"),
        (Flavour::S3, 403, "x-amz-request-payer: requester"),
    ] {
        let options = ServerOptions { payer: Payer::Requester, ..ServerOptions::of(flavour) };
        let server = Server::start(options).await.unwrap();
        server.put("/b/k", Blob::new(&b"dear"[..]));
        assert_eq!(get(&server, "/b/k", &[]).await.status, status);
        assert_eq!(get(&server, "/b/k", &[field]).await.text(), "dear");
    }
}

#[tokio::test]
async fn google_decompresses_for_clients_that_do_not_accept_gzip() {
    for flavour in [Flavour::Gcs, Flavour::S3] {
        let server = Server::start(ServerOptions::of(flavour)).await.unwrap();
        server.put("/b/k", Blob::new(&b"stored"[..]).with_gzip_of(&b"much longer"[..]));
        let stored = get(&server, "/b/k", &["Accept-Encoding: br, GZIP"]).await;
        assert_eq!((stored.text(), stored.field("content-encoding")), ("stored", Some("gzip")));
        let ranged = ["Accept-Encoding: identity", "Range: bytes=0-1"];
        let reply = get(&server, "/b/k", &ranged).await;
        if flavour == Flavour::Gcs {
            assert_eq!((reply.status, reply.text()), (200, "much longer"));
            assert_eq!(reply.field("content-encoding"), None);
            assert_eq!(reply.field("content-length"), None);
            assert_eq!(reply.field("x-goog-stored-content-encoding"), Some("gzip"));
            assert_eq!(reply.all("x-goog-hash"), stored.all("x-goog-hash"));
        } else {
            assert_eq!((reply.status, reply.text()), (206, "st"));
        }
    }
}
