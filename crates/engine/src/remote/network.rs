//! The remotes behind a network: one for each bucket, so that its blobs share credentials, and one
//! for each URL over HTTP. All share one transport, and so its connections.

#[cfg(any(feature = "gcs", feature = "s3", feature = "azure", feature = "reapi"))]
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use tidegate_core::printable::escaped;

#[cfg(feature = "_http1")]
use super::Remote;
#[cfg(feature = "reapi")]
use super::Stored;
#[cfg(any(feature = "gcs", feature = "s3", feature = "azure"))]
use super::locate::invalid;
use super::locate::unsupported;
#[cfg(feature = "reapi")]
use super::reapi::{CacheUrl, ReapiCache};
use super::{Location, RemoteOptions};
use crate::error::Result;
#[cfg(any(feature = "gcs", feature = "s3", feature = "azure"))]
use crate::error::{Error, ErrorKind, Operation};
#[cfg(feature = "_http1")]
use crate::transport::Transport;
use crate::transport::TransportOptions;

/// The parts of a URL.
#[cfg(feature = "_http1")]
pub(super) struct Named {
    /// Identifies the remote: the bucket, or one value for all of HTTP.
    pub(super) remote: String,
    pub(super) blob: String,
    /// The text that is safe to print.
    pub(super) display: String,
    pub(super) file_name: Option<String>,
}

#[derive(Debug)]
pub(super) struct Network {
    options: RemoteOptions,
    #[cfg(any(feature = "gcs", feature = "s3", feature = "azure"))]
    made: Mutex<HashMap<String, Arc<dyn Remote>>>,
    #[cfg(feature = "http")]
    http: Mutex<Option<Arc<super::http::HttpClient>>>,
    #[cfg(feature = "reapi")]
    caches: Mutex<HashMap<String, ReapiCache>>,
    #[cfg(feature = "_http1")]
    transport: Mutex<Option<Transport>>,
}

impl Network {
    pub(super) fn new(options: RemoteOptions) -> Self {
        Self {
            options,
            #[cfg(any(feature = "gcs", feature = "s3", feature = "azure"))]
            made: Mutex::default(),
            #[cfg(feature = "http")]
            http: Mutex::default(),
            #[cfg(feature = "reapi")]
            caches: Mutex::default(),
            #[cfg(feature = "_http1")]
            transport: Mutex::default(),
        }
    }

    pub(super) fn locate(&self, scheme: &str, text: &str) -> Result<Location> {
        match scheme {
            #[cfg(feature = "reapi")]
            "grpc" | "grpcs" => self.blob_in_cache(text),
            #[cfg(feature = "_http1")]
            _ => self.blob_over_http(scheme, text),
            #[cfg(not(feature = "_http1"))]
            _ => Err(unsupported(scheme)),
        }
    }

    #[cfg(feature = "_http1")]
    fn blob_over_http(&self, scheme: &str, text: &str) -> Result<Location> {
        let Named { remote, blob, display, file_name } = match scheme {
            #[cfg(feature = "http")]
            "http" | "https" => super::http::name(text)?,
            #[cfg(feature = "gcs")]
            "gs" => object(text)?,
            #[cfg(feature = "s3")]
            "s3" => object(text)?,
            #[cfg(feature = "azure")]
            "az" => object(text)?,
            _ => return Err(unsupported(scheme)),
        };
        let _ = &remote;
        let remote = match scheme {
            #[cfg(feature = "http")]
            "http" | "https" => self.http()?,
            #[cfg(any(feature = "gcs", feature = "s3", feature = "azure"))]
            _ => self.bucket(scheme, &remote)?,
            #[cfg(not(any(feature = "gcs", feature = "s3", feature = "azure")))]
            _ => return Err(unsupported(scheme)),
        };
        let display = escaped(&display).into_owned();
        Ok(Location { remote, blob, display, file_name, stored: None })
    }

    /// A bucket, with the beginning of names in it.
    #[cfg(any(feature = "gcs", feature = "s3", feature = "azure"))]
    pub(super) fn locate_prefix(&self, scheme: &str, text: &str) -> Result<Location> {
        let (_, rest) = text.split_once("://").unwrap_or_default();
        let (bucket, prefix) = rest.split_once('/').unwrap_or((rest, ""));
        let remote = check_bucket(scheme, bucket, prefix)?;
        let display = escaped(&format!("{remote}/{prefix}")).into_owned();
        let remote = self.bucket(scheme, &remote)?;
        Ok(Location { remote, blob: prefix.to_owned(), display, file_name: None, stored: None })
    }

    /// Each blob has its own remote, which knows its redirects; all of them share the client.
    #[cfg(feature = "http")]
    fn http(&self) -> Result<Arc<dyn Remote>> {
        let transport = self.transport()?;
        let mut client = self.http.lock().unwrap_or_else(PoisonError::into_inner);
        let client = client.get_or_insert_with(|| {
            let RemoteOptions { headers, netrc, .. } = &self.options;
            Arc::new(super::http::HttpClient::new(transport, headers, netrc.clone()))
        });
        Ok(Arc::new(super::http::HttpRemote::new(Arc::clone(client), &self.options)))
    }

    #[cfg(any(feature = "gcs", feature = "s3", feature = "azure"))]
    fn bucket(&self, scheme: &str, key: &str) -> Result<Arc<dyn Remote>> {
        let lock = || self.made.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(remote) = lock().get(key) {
            return Ok(Arc::clone(remote));
        }
        let transport = self.transport()?;
        let remote: Arc<dyn Remote> = match scheme {
            #[cfg(feature = "gcs")]
            "gs" => Arc::new(super::gcs::connect(key, &self.options, &transport)?),
            #[cfg(feature = "s3")]
            "s3" => Arc::new(super::s3::connect(key, &self.options, &transport)?),
            #[cfg(feature = "azure")]
            "az" => Arc::new(super::azure::connect(key, &self.options, &transport)?),
            _ => return Err(unsupported(scheme)),
        };
        lock().insert(key.to_owned(), Arc::clone(&remote));
        Ok(remote)
    }

    /// One cache client for each instance of a cache, so that its blobs share connections.
    #[cfg(feature = "reapi")]
    fn cache(&self, url: &CacheUrl) -> Result<ReapiCache> {
        let key = url.with_digest(None).to_string();
        let mut caches = self.caches.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(cache) = caches.get(&key) {
            return Ok(cache.clone());
        }
        let RemoteOptions { reapi, headers, netrc, .. } = &self.options;
        let mut headers = headers.clone();
        if let Some(netrc) = netrc {
            let authority = url.authority().parse::<http::uri::Authority>().ok();
            let host = authority.as_ref().map(http::uri::Authority::host);
            netrc.authorize(host, true, headers.as_map_mut());
        }
        let cache = ReapiCache::new(url, reapi, &headers, &self.transport_options())?;
        caches.insert(key, cache.clone());
        Ok(cache)
    }

    #[cfg(feature = "reapi")]
    fn blob_in_cache(&self, text: &str) -> Result<Location> {
        let location = self.locate_in_cache(text)?;
        if location.blob.is_empty() {
            return Err(super::location::no_blob(location.display()));
        }
        Ok(location)
    }

    /// The cache of a URL, without the blob in it.
    #[cfg(feature = "reapi")]
    pub(super) fn cache_of(&self, text: &str) -> Result<ReapiCache> {
        self.cache(&CacheUrl::parse(text)?)
    }

    /// A blob in a cache, or the cache without a blob.
    #[cfg(feature = "reapi")]
    pub(super) fn locate_in_cache(&self, text: &str) -> Result<Location> {
        let url = CacheUrl::parse(text)?;
        let display = escaped(&url.to_string()).into_owned();
        let (cache, digest) = (self.cache(&url)?, url.digest());
        let stored = Stored { store: Arc::new(cache.clone()), digest, is_only: false };
        Ok(Location {
            remote: Arc::new(cache),
            blob: digest.map(|digest| digest.to_string()).unwrap_or_default(),
            display,
            // A copy in a folder is named by its hash.
            file_name: digest.map(|digest| digest.checksum().hex()),
            stored: Some(stored),
        })
    }

    fn transport_options(&self) -> TransportOptions {
        let mut options = self.options.transport.clone();
        options.ca_certs.extend(self.options.ca_certs.iter().cloned());
        options
    }

    #[cfg(feature = "_http1")]
    fn transport(&self) -> Result<Transport> {
        let mut made = self.transport.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(transport) = made.as_ref() {
            return Ok(transport.clone());
        }
        let transport = Transport::new(&self.transport_options())?;
        *made = Some(transport.clone());
        Ok(transport)
    }
}

/// The name of a bucket as a remote, if it can be one.
#[cfg(any(feature = "gcs", feature = "s3", feature = "azure"))]
fn check_bucket(scheme: &str, bucket: &str, key: &str) -> Result<String> {
    // Text before the bucket may be credentials and must not be printed.
    let shown_bucket = bucket.rsplit('@').next().unwrap_or_default();
    let shown = format!("{scheme}://{shown_bucket}/{key}");
    if bucket.is_empty() {
        return Err(invalid(&shown, "the bucket is missing")
            .with_hint(format!("write {scheme}://BUCKET/KEY")));
    }
    if bucket.contains(['@', ':', '?', '#', '%', ' ']) {
        return Err(invalid(&shown, "the bucket's name has characters that no bucket can have")
            .with_hint("credentials do not belong in the URL; give them by environment"));
    }
    Ok(format!("{scheme}://{bucket}"))
}

/// Splits `scheme://BUCKET/KEY` into the remote's name, the key, and the text that is safe to
/// print. The key is taken literally, as the clouds' own tools do: it is not percent-decoded.
#[cfg(any(feature = "gcs", feature = "s3", feature = "azure"))]
fn object(text: &str) -> Result<Named> {
    let (scheme, rest) = text.split_once("://").unwrap_or_default();
    let scheme = scheme.to_ascii_lowercase();
    let (bucket, key) = rest.split_once('/').unwrap_or((rest, ""));
    let remote = check_bucket(&scheme, bucket, key)?;
    let shown = format!("{remote}/{key}");
    if key.is_empty() {
        return Err(invalid(&shown, "the key is missing")
            .with_hint("name one blob; whole buckets are not copied yet"));
    }
    if let Err(flaw) = super::key::path(key) {
        return Err(Error::new(ErrorKind::Unsupported, Operation::Locate, shown, flaw).with_hint(
            "a signed https:// URL can name such an object, unless its key has `.` or `..` between \
             slashes",
        ));
    }
    Ok(Named {
        remote,
        blob: key.to_owned(),
        display: shown,
        file_name: super::locate::last_segment(key),
    })
}
