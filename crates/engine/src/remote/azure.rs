//! Azure Blob Storage: `az://container/key`. `AZURE_STORAGE_ACCOUNT_NAME` names the account.
//!
//! Credentials come from the `AZURE_STORAGE_*` variables (key, SAS token, service principal,
//! managed identity). If the caller gives an endpoint, it is the account's URL, as Azurite prints
//! it.

use std::sync::Arc;

use http::{HeaderMap, HeaderName, HeaderValue, header};
use object_store::azure::{AzureConfigKey, AzureCredential, MicrosoftAzure, MicrosoftAzureBuilder};
use object_store::{ClientOptions, ObjectStore};

use super::azure_api::{AzureWriter, VERSION};
use super::azure_authorize::AzureAuthorize;
use super::azure_presign::AzureSigners;
use super::credentials::{Provider, Renew, Renewable};
use super::customer_key::require_tls;
use super::locate::invalid;
use super::object::ObjectRemote;
use super::object_abilities::Abilities;
use super::object_client::{Authorize, ObjectClient};
use super::object_presign::{FindSigner, ObjectPresigner};
use super::object_request::no_retries;
use super::response::Dialect;
use super::{Buckets, CustomerKey, Delete, List, RemoteOptions, Selection, Write, blob_headers};
use crate::error::{Error, ErrorKind, Operation, Result, Setting};
use crate::transport::Transport;

/// The account of Azurite, if the settings name none.
const EMULATOR_ACCOUNT: &str = "devstoreaccount1";

pub(super) fn connect(
    prefix: &str,
    options: &RemoteOptions,
    transport: &Transport,
) -> Result<ObjectRemote> {
    let container = prefix.strip_prefix("az://").unwrap_or(prefix);
    let builder = settings(options)?;
    // The environment can also set a key.
    let keyed = builder.get_config_value(&AzureConfigKey::EncryptionKey).is_some();
    if keyed {
        require_tls(builder.get_config_value(&AzureConfigKey::Endpoint).as_deref())?;
    }
    let by_key = builder.get_config_value(&AzureConfigKey::AccessKey).is_some();
    let setting = |key| builder.get_config_value(&key).unwrap_or_default();
    let selection = Selection::of_caller(prefix, options)
        .with("account", setting(AzureConfigKey::AccountName))
        .with("endpoint", setting(AzureConfigKey::Endpoint))
        .with("encryption key", setting(AzureConfigKey::EncryptionKey));
    let (headers, of_blobs) = headers(options, by_key && !options.anonymous)?;
    let mut builder = builder
        .with_container_name(container)
        .with_retry(no_retries())
        .with_client_options(ClientOptions::new().with_allow_http(true))
        .with_http_connector(transport.clone());
    // The environment can also switch signatures off.
    let unsigned = builder.get_config_value(&AzureConfigKey::SkipSignature);
    let signed = unsigned.is_none_or(|unsigned| unsigned != "true");
    let credentials = signed.then(|| credentials(&builder, prefix)).transpose()?;
    if let Some(credentials) = &credentials {
        builder = builder.with_credentials(Arc::clone(credentials) as Provider<_>);
    }
    let presign = Arc::new(ObjectPresigner {
        dialect: Dialect::Azure,
        prefix: prefix.to_owned(),
        keyed,
        signers: credentials.clone().map(|credentials| -> Box<dyn FindSigner> {
            Box::new(AzureSigners { builder: builder.clone(), credentials })
        }),
    });
    let mut signed_headers = headers.clone();
    signed_headers.insert("x-ms-version", HeaderValue::from_static(VERSION));
    let authorize = Arc::new(AzureAuthorize {
        base: base(&builder, container),
        account: account(&builder),
        headers: signed_headers,
        credentials: credentials.clone().map(|credentials| credentials as Provider<_>),
    });
    let encryption = builder.get_config_value(&AzureConfigKey::EncryptionKey);
    let encryption =
        encryption.map(|key| encryption_headers(&key)).transpose()?.unwrap_or_default();
    let renew = credentials.clone().map(|credentials| credentials as Arc<dyn Renew>);
    let authorizing = Arc::clone(&authorize) as Arc<dyn Authorize>;
    let client = ObjectClient::new(transport.clone(), authorizing, renew, Dialect::Azure, prefix)
        .keyed(keyed);
    let writer = Arc::new(AzureWriter::new(client, authorize, encryption, of_blobs));
    let store: Arc<dyn ObjectStore> = Arc::new(build(builder, prefix)?);
    Ok(ObjectRemote::new(store, Dialect::Azure, prefix, selection)
        .with_headers(headers)
        .with_abilities(Abilities {
            write: Some(Arc::clone(&writer) as Arc<dyn Write>),
            list: Some(Arc::clone(&writer) as Arc<dyn List>),
            delete: Some(Arc::clone(&writer) as Arc<dyn Delete>),
            presign: Some(presign),
            buckets: Some(writer as Arc<dyn Buckets>),
        })
        .with_credentials(credentials.map(|credentials| credentials as Arc<dyn Renew>))
        .keyed(keyed))
}

/// The settings of the environment, with those of the caller in their place.
fn settings(options: &RemoteOptions) -> Result<MicrosoftAzureBuilder> {
    let mut builder = MicrosoftAzureBuilder::from_env();
    if let Some(endpoint) = &options.endpoint {
        let url = url::Url::parse(endpoint).map_err(|error| {
            invalid(endpoint, "the endpoint is not a valid URL").caused_by(error)
        })?;
        builder = builder.with_endpoint(endpoint.trim_end_matches('/').to_owned());
        // An emulator's URL ends in the account's name; Azure's own URL begins with it.
        let account = url.path().trim_matches('/');
        if !account.is_empty() && std::env::var_os("AZURE_STORAGE_ACCOUNT_NAME").is_none() {
            builder = builder.with_account(account);
        }
    }
    if let (Ok(account), None) =
        (std::env::var("AZURE_STORAGE_ACCOUNT"), std::env::var_os("AZURE_STORAGE_ACCOUNT_NAME"))
    {
        builder = builder.with_account(account);
    }
    if options.anonymous {
        builder = builder.with_skip_signature(true);
    }
    if let Some(key) = &options.customer_key {
        builder = builder.with_encryption_key(key.base64());
    }
    Ok(builder)
}

fn is_set(builder: &MicrosoftAzureBuilder, key: AzureConfigKey) -> bool {
    builder.get_config_value(&key).is_some_and(|value| value == "true")
}

fn account(builder: &MicrosoftAzureBuilder) -> String {
    let account = builder.get_config_value(&AzureConfigKey::AccountName);
    let emulator = is_set(builder, AzureConfigKey::UseEmulator);
    account.unwrap_or_else(|| if emulator { EMULATOR_ACCOUNT.to_owned() } else { String::new() })
}

/// The container's URL, as `object_store` makes it of the same settings.
fn base(builder: &MicrosoftAzureBuilder, container: &str) -> String {
    let account = account(builder);
    let host = if is_set(builder, AzureConfigKey::UseEmulator) {
        let url = std::env::var("AZURITE_BLOB_STORAGE_URL").ok();
        let url = url.unwrap_or_else(|| "http://127.0.0.1:10000".to_owned());
        format!("{}/{account}", url.trim_end_matches('/'))
    } else if let Some(endpoint) = builder.get_config_value(&AzureConfigKey::Endpoint) {
        endpoint
    } else if is_set(builder, AzureConfigKey::UseFabricEndpoint) {
        format!("https://{account}.blob.fabric.microsoft.com")
    } else {
        format!("https://{account}.blob.core.windows.net")
    };
    format!("{}/{container}", host.trim_end_matches('/'))
}

/// The headers of a customer's key, which is in base64.
fn encryption_headers(key: &str) -> Result<HeaderMap> {
    let key = CustomerKey::parse(key.as_bytes())?;
    let mut headers = HeaderMap::new();
    for (name, text) in [
        ("x-ms-encryption-key", key.base64()),
        ("x-ms-encryption-key-sha256", key.sha256_base64()),
        ("x-ms-encryption-algorithm", "AES256".to_owned()),
    ] {
        let mut value = HeaderValue::try_from(text)
            .map_err(|error| invalid("the customer key", "it makes no header").caused_by(error))?;
        value.set_sensitive(true);
        headers.insert(HeaderName::from_static(name), value);
    }
    Ok(headers)
}

fn credentials(
    builder: &MicrosoftAzureBuilder,
    prefix: &str,
) -> Result<Arc<Renewable<AzureCredential>>> {
    let (builder, prefix) = (builder.clone(), prefix.to_owned());
    let find = move || Ok(Arc::clone(build(builder.clone(), &prefix)?.credentials()));
    Renewable::new(find).map(Arc::new)
}

pub(super) fn build(builder: MicrosoftAzureBuilder, prefix: &str) -> Result<MicrosoftAzure> {
    builder.build().map_err(|error| {
        let message = "the settings cannot be used";
        Error::new(ErrorKind::NoAccess, Operation::Connect, prefix, message)
            .caused_by(error)
            .with_hint(Setting::AzureCredentials)
    })
}

/// The caller's headers for every request, and those that describe a blob. The transport adds the
/// former after the request is signed. A signature with the account's key (`signed`) covers all
/// headers named `x-ms-*`, so such headers are refused then.
fn headers(options: &RemoteOptions, signed: bool) -> Result<(HeaderMap, HeaderMap)> {
    let headers = options.headers.for_store(options.anonymous)?;
    let (mut headers, of_blobs) = blob_headers::split(&headers);
    let covered = headers.keys().find(|name| name.as_str().starts_with("x-ms-"));
    if let Some(name) = covered.filter(|_| signed) {
        return Err(Error::new(
            ErrorKind::Unsupported,
            Operation::Locate,
            format!("header {name}"),
            "it cannot be signed with an account key",
        )
        .with_hint("use a SAS token or a managed identity"));
    }
    headers.insert(header::ACCEPT_ENCODING, HeaderValue::from_static("identity"));
    Ok((headers, of_blobs))
}
