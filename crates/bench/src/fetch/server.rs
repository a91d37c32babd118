//! The server that all tools fetch from: nginx, on free loopback ports.
//!
//! It serves one object in several forms: as plain HTTP, as a read-only S3 endpoint (path style, a
//! `HEAD` and ranged `GET`s without signatures), and as GCS (`x-goog-*` headers). Each [`Link`] has
//! its own port.

use std::path::Path;

use anyhow::{Context, Result};

use super::case::Link;
use crate::nginx::{Nginx, free_ports};
use crate::object::Object;

/// The bucket's name for S3 and GCS tools.
pub(crate) const BUCKET: &str = "bench";

/// A running nginx; ends when dropped.
#[derive(Debug)]
pub(crate) struct Server {
    nginx: Nginx,
    ports: Ports,
    key: String,
}

#[derive(Clone, Copy, Debug)]
struct Ports {
    plain: u16,
    delay: u16,
    capped: u16,
}

impl Server {
    /// Serves the folder of `object`; configuration and logs go to `folder`.
    pub(crate) fn start(folder: &Path, object: &Object) -> Result<Self> {
        let [plain, delay, capped] = free_ports().context("finding free ports")?;
        let ports = Ports { plain, delay, capped };
        let nginx = Nginx::start(folder, &configure(object, ports)?, capped)?;
        Ok(Self { nginx, ports, key: file_name(object)?.to_owned() })
    }

    /// The server's name and version, for the report.
    pub(crate) fn version(&self) -> &str {
        &self.nginx.version
    }

    /// The object as plain HTTP.
    pub(crate) fn url(&self, link: Link) -> String {
        format!("{}/{BUCKET}/{}", self.endpoint(link), self.key)
    }

    /// The base address, for S3 and GCS tools.
    pub(crate) fn endpoint(&self, link: Link) -> String {
        let port = match link {
            Link::Plain => self.ports.plain,
            Link::Delay => self.ports.delay,
            Link::Capped => self.ports.capped,
        };
        format!("http://127.0.0.1:{port}")
    }

    /// `bench/KEY`, the part after `s3://` and `gs://`.
    pub(crate) fn bucket_and_key(&self) -> String {
        format!("{BUCKET}/{}", self.key)
    }
}

fn file_name(object: &Object) -> Result<&str> {
    object.path.file_name().and_then(|name| name.to_str()).context("the object has no plain name")
}

/// Checksums are sent as the clouds send them: GCS with every response, S3 only with responses that
/// have the whole object, and only on request.
fn configure(object: &Object, ports: Ports) -> Result<String> {
    let root = object.path.parent().context("the object has no folder")?.display();
    let Ports { plain, delay, capped } = ports;
    let Object { len_bytes, crc32c, crc64nvme, .. } = object;
    let listing = format!(
        "location = /{BUCKET} {{ default_type application/xml; return 200 '{}'; }}",
        list(object)?
    );
    let direct = format!("{listing} location /{BUCKET}/ {{ alias {root}/; }}");
    let delayed = format!(
        "{listing}
    location ~ ^/{BUCKET}/(?<key>[a-z0-9]+)$ {{ echo_sleep 0.020; echo_exec /direct/$key; }}
    location /direct/ {{ internal; alias {root}/; }}"
    );
    Ok(format!(
        "  map $http_x_amz_checksum_mode:$http_range $crc64nvme {{ 'ENABLED:' '{crc64nvme}'; }}
  map $crc64nvme $crc64nvme_type {{ '' ''; default FULL_OBJECT; }}
  add_header x-amz-checksum-crc64nvme $crc64nvme;
  add_header x-amz-checksum-type $crc64nvme_type;
  add_header x-goog-generation 1700000000000001;
  add_header x-goog-stored-content-length {len_bytes};
  add_header x-goog-stored-content-encoding identity;
  add_header x-goog-hash 'crc32c={crc32c}';
  server {{ listen 127.0.0.1:{plain}; {direct} }}
  server {{ listen 127.0.0.1:{delay}; {delayed} }}
  server {{ listen 127.0.0.1:{capped}; limit_rate 100m; {delayed} }}"
    ))
}

/// The bucket's listing in S3's format: `rclone cat` requests it even for one object.
fn list(object: &Object) -> Result<String> {
    Ok(format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\
         <ListBucketResult xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">\
         <Name>{BUCKET}</Name><Prefix></Prefix><MaxKeys>1000</MaxKeys>\
         <IsTruncated>false</IsTruncated><Contents><Key>{}</Key>\
         <LastModified>2026-01-01T00:00:00.000Z</LastModified><ETag>&quot;0&quot;</ETag>\
         <Size>{}</Size><StorageClass>STANDARD</StorageClass></Contents></ListBucketResult>",
        file_name(object)?,
        object.len_bytes
    ))
}
