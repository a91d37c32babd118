//! nginx as a GCS media server, for the readers of the Google clients.
//!
//! Two ports: one responds at once, the other waits 20 ms before each response, metadata included.
//! The older Java reader and Go request `/storage/v1/b/…` and `/bench/…`; both are the same file.
//! Checksum, generation and stored length are sent as GCS sends them.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use clap::ValueEnum;
use serde::Serialize;

use crate::nginx::{Nginx, free_ports};
use crate::object::Object;

/// One link between server and reader.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Link {
    /// No added delay.
    Plain,
    /// 20 ms before each response.
    Delay,
}

impl Link {
    /// Heading in the report.
    pub(crate) fn title(self) -> &'static str {
        match self {
            Self::Plain => "one stream",
            Self::Delay => "one stream, +20 ms",
        }
    }
}

/// An object that the server has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Blob {
    #[value(name = "o256k")]
    O256k,
    #[value(name = "o4m")]
    O4m,
    #[value(name = "o64m")]
    O64m,
    #[value(name = "o256m")]
    O256m,
    #[value(name = "o1g")]
    O1g,
}

impl Blob {
    /// Its key.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::O256k => "o256k",
            Self::O4m => "o4m",
            Self::O64m => "o64m",
            Self::O256m => "o256m",
            Self::O1g => "o1g",
        }
    }

    /// Its length.
    pub(crate) fn len_bytes(self) -> u64 {
        match self {
            Self::O256k => 256 << 10,
            Self::O4m => 4 << 20,
            Self::O64m => 64 << 20,
            Self::O256m => 256 << 20,
            Self::O1g => 1 << 30,
        }
    }

    /// Label in tables.
    pub(crate) fn label(self) -> &'static str {
        match self {
            Self::O256k => "256 KiB",
            Self::O4m => "4 MiB",
            Self::O64m => "64 MiB",
            Self::O256m => "256 MiB",
            Self::O1g => "1 GiB",
        }
    }
}

/// The server; ends when dropped.
#[derive(Debug)]
pub(crate) struct Server {
    nginx: Nginx,
    plain: u16,
    delay: u16,
}

impl Server {
    /// Creates the objects in `folder` and serves them.
    pub(crate) fn start(folder: &Path, blobs: &[Blob]) -> Result<Self> {
        for name in ["objects", "meta", "nginx"] {
            fs::create_dir(folder.join(name)).with_context(|| format!("creating {name}"))?;
        }
        let mut hashes = String::new();
        for blob in blobs {
            let path = folder.join("objects").join(blob.name());
            let object = Object::create(path, blob.len_bytes())?;
            object.warm().context("reading an object")?;
            let meta = folder.join("meta").join(blob.name());
            fs::write(&meta, metadata(*blob, &object)?)
                .with_context(|| format!("writing {}", meta.display()))?;
            // Writing to a string cannot fail.
            let _ = writeln!(hashes, "  {} 'crc32c={}';", blob.name(), object.crc32c);
        }
        let [plain, delay] = free_ports().context("finding free ports")?;
        let http = configure(folder, blobs, &hashes, plain, delay);
        let nginx = Nginx::start(&folder.join("nginx"), &http, delay)?;
        Ok(Self { nginx, plain, delay })
    }

    /// The base address.
    pub(crate) fn endpoint(&self, link: Link) -> String {
        let port = match link {
            Link::Plain => self.plain,
            Link::Delay => self.delay,
        };
        format!("http://127.0.0.1:{port}")
    }

    /// The server's name and version, for the report.
    pub(crate) fn version(&self) -> &str {
        &self.nginx.version
    }
}

/// The JSON API's metadata of an object.
fn metadata(blob: Blob, object: &Object) -> Result<String> {
    let name = blob.name();
    let said = serde_json::json!({
        "kind": "storage#object",
        "id": format!("bench/{name}/1700000000000001"),
        "name": name,
        "bucket": "bench",
        "generation": "1700000000000001",
        "metageneration": "1",
        "contentType": "application/octet-stream",
        "storageClass": "STANDARD",
        "size": object.len_bytes.to_string(),
        "crc32c": object.crc32c,
        "etag": "CIHAs+XQ/4IDEAE=",
        "timeCreated": "2024-01-01T00:00:00.000Z",
        "updated": "2024-01-01T00:00:00.000Z",
    });
    Ok(serde_json::to_string(&said)?)
}

fn configure(folder: &Path, blobs: &[Blob], hashes: &str, plain: u16, delay: u16) -> String {
    let root = folder.display();
    let mut lens = String::new();
    for blob in blobs {
        // Writing to a string cannot fail.
        let _ = writeln!(lens, "  {} {};", blob.name(), blob.len_bytes());
    }
    let headers = "add_header x-goog-generation 1700000000000001;
    add_header x-goog-metageneration 1;
    add_header x-goog-storage-class STANDARD;
    add_header x-goog-stored-content-encoding identity;
    add_header x-goog-stored-content-length $stored_len;
    add_header x-goog-hash $stored_hash;";
    // The path of the JSON API, then that of the XML API.
    let json = "^/(download/)?storage/v1/b/bench/o";
    let meta = format!(
        "location /meta/ {{ internal; default_type application/json; alias {root}/meta/; }}"
    );
    format!(
        "map $key $stored_hash {{ default '';
{hashes}}}
map $key $stored_len {{ default '';
{lens}}}
server {{
  listen 127.0.0.1:{plain};
  location ~ {json}/(?<key>[a-z0-9]+)$ {{
    if ($arg_alt != media) {{ rewrite ^ /meta/$key last; }}
    {headers}
    alias {root}/objects/$key;
  }}
  location ~ ^/bench/(?<key>[a-z0-9]+)$ {{
    {headers}
    alias {root}/objects/$key;
  }}
  {meta}
}}
server {{
  listen 127.0.0.1:{delay};
  location ~ {json}/(?<asked>[a-z0-9]+)$ {{
    if ($arg_alt != media) {{ rewrite ^ /late/$asked last; }}
    echo_sleep 0.020; echo_exec /direct/$asked;
  }}
  location ~ ^/bench/(?<asked>[a-z0-9]+)$ {{ echo_sleep 0.020; echo_exec /direct/$asked; }}
  location ~ ^/direct/(?<key>[a-z0-9]+)$ {{
    internal;
    {headers}
    alias {root}/objects/$key;
  }}
  location ~ ^/late/(?<asked>[a-z0-9]+)$ {{
    internal; echo_sleep 0.020; echo_exec /meta/$asked;
  }}
  {meta}
}}
"
    )
}
