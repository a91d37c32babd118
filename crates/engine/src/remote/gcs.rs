//! Google Cloud Storage: `gs://bucket/key`.
//!
//! Credentials as Google's own clients find them: application default credentials,
//! `GOOGLE_APPLICATION_CREDENTIALS`, the metadata service. With `STORAGE_EMULATOR_HOST`, or an
//! endpoint given by hand together with `anonymous`, none are asked for.

use std::sync::Arc;

use http::{HeaderMap, HeaderValue, header};
use object_store::ClientOptions;
use object_store::gcp::GoogleCloudStorageBuilder;

use super::RemoteOptions;
use super::locate::invalid;
use super::object::{ObjectRemote, no_retries};
use super::response::Dialect;
use crate::error::{Error, ErrorKind, Operation, Result};
use crate::transport::Transport;

pub(super) fn connect(
    prefix: &str,
    options: &RemoteOptions,
    transport: &Transport,
) -> Result<ObjectRemote> {
    let bucket = prefix.strip_prefix("gs://").unwrap_or(prefix);
    let emulator = std::env::var("STORAGE_EMULATOR_HOST").ok().filter(|host| !host.is_empty());
    let anonymous = options.anonymous || (emulator.is_some() && options.endpoint.is_none());
    let endpoint = options.endpoint.clone().or(emulator).map(|host| with_scheme(&host));

    let mut builder = if anonymous {
        // Credentials in the environment must not even be read.
        GoogleCloudStorageBuilder::new()
    } else {
        GoogleCloudStorageBuilder::from_env()
    };
    if let Some(endpoint) = &endpoint {
        url::Url::parse(endpoint).map_err(|error| {
            invalid(endpoint, "the endpoint is not a valid URL").caused_by(error)
        })?;
        builder = builder.with_base_url(endpoint.trim_end_matches('/'));
    }
    let store = builder
        .with_bucket_name(bucket)
        .with_skip_signature(anonymous)
        .with_retry(no_retries())
        .with_client_options(client_options())
        .with_http_connector(transport.clone())
        .build()
        .map_err(|error| {
            Error::new(
                ErrorKind::NoAccess,
                Operation::Connect,
                prefix,
                "the credentials cannot be used",
            )
            .caused_by(error)
        })?;
    Ok(ObjectRemote::new(Arc::new(store), Dialect::Gcs, prefix))
}

/// `Accept-Encoding: gzip` keeps blobs that are stored compressed as they are stored: without it
/// the service decompresses on the way, and neither length, range nor checksum fit.
fn client_options() -> ClientOptions {
    let mut headers = HeaderMap::new();
    headers.insert(header::ACCEPT_ENCODING, HeaderValue::from_static("gzip"));
    ClientOptions::new().with_allow_http(true).with_default_headers(headers)
}

/// `STORAGE_EMULATOR_HOST` is written with and without a scheme.
fn with_scheme(host: &str) -> String {
    if host.contains("://") { host.to_owned() } else { format!("http://{host}") }
}
