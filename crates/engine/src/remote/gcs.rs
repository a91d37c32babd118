//! Google Cloud Storage: `gs://bucket/key`.
//!
//! Finds credentials as Google's own clients do: application default credentials,
//! `GOOGLE_APPLICATION_CREDENTIALS`, the metadata service. It looks for none if the caller asks for
//! `anonymous`, or if `STORAGE_EMULATOR_HOST` is set and the caller gives no endpoint.

use std::sync::Arc;

use http::{HeaderMap, HeaderName, HeaderValue, header};
use object_store::gcp::{
    GcpCredential, GoogleCloudStorage, GoogleCloudStorageBuilder, GoogleConfigKey,
};
use object_store::{ClientOptions, ObjectStore};

use super::credentials::{Provider, Renew, Renewable};
use super::customer_key::require_tls;
use super::gcs_authorize::GcsAuthorize;
use super::gcs_bucket::GcsBucket;
use super::gcs_presign::GcsSigners;
use super::gcs_session::{GcsWriter, JsonBucket};
use super::locate::invalid;
use super::object::ObjectRemote;
use super::object_abilities::Abilities;
use super::object_client::ObjectClient;
use super::object_presign::{FindSigner, ObjectPresigner};
use super::object_request::no_retries;
use super::response::Dialect;
use super::xml_api::{XmlDialect, XmlWriter};
use super::{
    CustomerKey, Delete, List, RemoteOptions, Selection, Write, blob_headers, gcs_account,
};
use crate::error::{Error, ErrorKind, Operation, Result};
use crate::transport::Transport;

pub(super) fn connect(
    prefix: &str,
    options: &RemoteOptions,
    transport: &Transport,
) -> Result<ObjectRemote> {
    let bucket = prefix.strip_prefix("gs://").unwrap_or(prefix);
    let (builder, anonymous) = configured(options)?;
    let headers = headers(options, anonymous)?;
    let (of_requests, of_blobs) = blob_headers::split(&headers);
    let base = builder.get_config_value(&GoogleConfigKey::BaseUrl).unwrap_or_default();
    let selection = Selection::of_caller(prefix, options).with("endpoint", base);
    let mut builder = builder
        .with_bucket_name(bucket)
        .with_skip_signature(anonymous)
        .with_retry(no_retries())
        .with_client_options(ClientOptions::new().with_allow_http(true))
        .with_http_connector(transport.clone());
    // The environment can also switch signatures off.
    let unsigned = builder.get_config_value(&GoogleConfigKey::SkipSignature);
    let signed = unsigned.is_none_or(|unsigned| unsigned != "true");
    let presign = Arc::new(ObjectPresigner {
        dialect: Dialect::Gcs,
        prefix: prefix.to_owned(),
        keyed: options.customer_key.is_some(),
        signers: signed.then(|| -> Box<dyn FindSigner> {
            let (builder, user_project) = (builder.clone(), options.user_project.clone());
            Box::new(GcsSigners { builder, user_project })
        }),
    });
    let credentials = signed.then(|| credentials(&builder, prefix, transport)).transpose()?;
    if let Some(credentials) = &credentials {
        builder = builder.with_credentials(Arc::clone(credentials) as Provider<_>);
    }
    let base = builder.get_config_value(&GoogleConfigKey::BaseUrl);
    let base = base.unwrap_or_else(|| "https://storage.googleapis.com".to_owned());
    let authorize = GcsAuthorize {
        base: format!("{}/{bucket}", base.trim_end_matches('/')),
        headers: of_requests.clone(),
        credentials: credentials.clone().map(|credentials| credentials as Provider<_>),
    };
    let renew = credentials.clone().map(|credentials| credentials as Arc<dyn Renew>);
    let client =
        ObjectClient::new(transport.clone(), Arc::new(authorize), renew, Dialect::Gcs, prefix)
            .keyed(options.customer_key.is_some());
    let buckets = GcsBucket { client: client.clone(), base: base.clone(), name: bucket.to_owned() };
    let json = JsonBucket::new(&base, bucket, &of_requests)?;
    let xml = XmlWriter::new(client, XmlDialect::Gcs).describing(of_blobs);
    let writer = Arc::new(GcsWriter::new(xml, json));
    let store: Arc<dyn ObjectStore> = Arc::new(build(builder, prefix)?);
    Ok(ObjectRemote::new(store, Dialect::Gcs, prefix, selection)
        .with_headers(headers)
        .with_abilities(Abilities {
            write: Some(Arc::clone(&writer) as Arc<dyn Write>),
            list: Some(Arc::clone(&writer) as Arc<dyn List>),
            delete: Some(writer as Arc<dyn Delete>),
            presign: Some(presign),
            buckets: Some(Arc::new(buckets)),
        })
        .with_credentials(credentials.map(|credentials| credentials as Arc<dyn Renew>))
        .keyed(options.customer_key.is_some()))
}

/// The settings of the caller and the environment, and whether requests are not signed.
fn configured(options: &RemoteOptions) -> Result<(GoogleCloudStorageBuilder, bool)> {
    let emulator = std::env::var("STORAGE_EMULATOR_HOST").ok().filter(|host| !host.is_empty());
    let anonymous = options.anonymous || (emulator.is_some() && options.endpoint.is_none());
    let endpoint = options.endpoint.clone().or(emulator).map(|host| with_scheme(&host));
    let mut builder = if anonymous {
        // Anonymous access must not even read credentials in the environment.
        GoogleCloudStorageBuilder::new()
    } else {
        environment(options)
    };
    if let Some(endpoint) = &endpoint {
        url::Url::parse(endpoint).map_err(|error| {
            invalid(endpoint, "the endpoint is not a valid URL").caused_by(error)
        })?;
        builder = builder.with_base_url(endpoint.trim_end_matches('/'));
    }
    if options.customer_key.is_some() {
        require_tls(builder.get_config_value(&GoogleConfigKey::BaseUrl).as_deref())?;
    }
    Ok((builder, anonymous))
}

fn credentials(
    builder: &GoogleCloudStorageBuilder,
    prefix: &str,
    transport: &Transport,
) -> Result<Arc<Renewable<GcpCredential>>> {
    let (builder, prefix, transport) = (builder.clone(), prefix.to_owned(), transport.clone());
    let find = move || match gcs_account::find(&builder, &transport)? {
        Some(account) => Ok(account),
        None => Ok(Arc::clone(build(builder.clone(), &prefix)?.credentials())),
    };
    Renewable::new(find).map(Arc::new)
}

/// The settings of the environment, without its credentials if the caller names others.
fn environment(options: &RemoteOptions) -> GoogleCloudStorageBuilder {
    let Some(file) = &options.google_credentials else {
        return GoogleCloudStorageBuilder::from_env();
    };
    let builder = GoogleCloudStorageBuilder::new();
    let base = std::env::var("GOOGLE_BASE_URL").ok().filter(|base| !base.is_empty());
    let builder = match base {
        Some(base) => builder.with_base_url(&base),
        None => builder,
    };
    builder.with_application_credentials(file.display().to_string())
}

/// Builds the client. Reads the files that the builder names: a service account's key, the
/// application default credentials.
pub(super) fn build(
    builder: GoogleCloudStorageBuilder,
    prefix: &str,
) -> Result<GoogleCloudStorage> {
    builder.build().map_err(|error| {
        let message = "the credentials cannot be used";
        Error::new(ErrorKind::NoAccess, Operation::Connect, prefix, message).caused_by(error)
    })
}

/// `Accept-Encoding: gzip` makes the service send compressed blobs as they are stored. Without it,
/// the service decompresses them, and then length, ranges and checksums do not match.
fn headers(options: &RemoteOptions, anonymous: bool) -> Result<HeaderMap> {
    let mut headers = options.headers.for_store(anonymous)?;
    headers.insert(header::ACCEPT_ENCODING, HeaderValue::from_static("gzip"));
    if let Some(project) = &options.user_project {
        let value = HeaderValue::from_str(project).ok().filter(|value| !value.is_empty());
        let value = value.ok_or_else(|| {
            invalid("the user project", "a project is named by its id or its number")
        })?;
        headers.insert("x-goog-user-project", value);
    }
    if let Some(key) = &options.customer_key {
        add_key(&mut headers, key)?;
    }
    Ok(headers)
}

/// Source: <https://cloud.google.com/storage/docs/encryption/customer-supplied-keys>.
fn add_key(headers: &mut HeaderMap, key: &CustomerKey) -> Result<()> {
    for (name, text) in [
        ("x-goog-encryption-algorithm", "AES256".to_owned()),
        ("x-goog-encryption-key", key.base64()),
        ("x-goog-encryption-key-sha256", key.sha256_base64()),
    ] {
        let mut value = HeaderValue::try_from(text)
            .map_err(|error| invalid("the customer key", "it makes no header").caused_by(error))?;
        value.set_sensitive(true);
        headers.insert(HeaderName::from_static(name), value);
    }
    Ok(())
}

/// `STORAGE_EMULATOR_HOST` is written with and without a scheme.
fn with_scheme(host: &str) -> String {
    if host.contains("://") { host.to_owned() } else { format!("http://{host}") }
}
