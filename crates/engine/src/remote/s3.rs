//! Amazon S3 and services that speak its protocol: `s3://bucket/key`.
//!
//! Finds credentials, region and endpoint as AWS's own tools do: `AWS_*` variables, then the
//! profile that `AWS_PROFILE` names in the shared files, then a web identity, or the container's or
//! instance's role.
//!
//! A ranged response of S3 lacks the checksum of the whole object. So a second client, whose
//! requests carry `x-amz-checksum-mode: ENABLED` under the signature, serves
//! [`super::Remote::stat`].
//!
//! The caller's headers are signed, too, because S3 accepts no unsigned `x-amz-` header.
//! `Accept-Encoding` is not signed: proxies in front of such services often change it.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use base64::Engine as _;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use object_store::ClientOptions;
use object_store::aws::{AmazonS3, AmazonS3Builder, AmazonS3ConfigKey, AwsCredential};
use tidegate_core::checksum::{ChecksumAlgorithm, Checksummer};
use url::Url;

use super::credentials::{Provider, Renew, Renewable};
use super::customer_key::require_tls;
use super::object::{Elsewhere, ObjectRemote, Stores};
use super::object_abilities::Abilities;
use super::object_client::ObjectClient;
use super::object_presign::{FindSigner, ObjectPresigner};
use super::object_request::no_retries;
use super::response::Dialect;
use super::s3_authorize::S3Authorize;
use super::s3_bucket::S3Bucket;
use super::s3_parts::{self, PartHeads};
use super::s3_presign::S3Signers;
use super::s3_process::CredentialProcess;
use super::s3_redirect::{self, Address};
use super::s3_sources::{self, Sourced};
use super::xml_api::{XmlDialect, XmlWriter};
use super::{List, RemoteOptions, Selection, Write, blob_headers, s3_profile};
use crate::error::{Error, ErrorKind, Operation, Result, Setting};
use crate::transport::{ResponseHead, Transport};

/// The region of requests that name none, as in `object_store`.
const DEFAULT_REGION: &str = "us-east-1";

/// The setting's name in `object_store`, and in capitals the variable's name.
const CUSTOMER_KEY: &str = "aws_sse_customer_key_base64";

/// The headers that carry a customer's key, with the key in base64.
fn key_headers(base64: &str) -> Option<HeaderMap> {
    let raw = base64::engine::general_purpose::STANDARD.decode(base64).ok()?;
    let md5 = Checksummer::of(ChecksumAlgorithm::Md5, &raw).ok()?.to_base64();
    let mut headers = HeaderMap::new();
    for (name, value) in [("algorithm", "AES256"), ("key", base64), ("key-md5", &md5)] {
        let name = format!("x-amz-server-side-encryption-customer-{name}");
        let mut value = HeaderValue::from_str(value).ok()?;
        value.set_sensitive(true);
        headers.insert(HeaderName::try_from(name).ok()?, value);
    }
    Some(headers)
}

pub(super) fn connect(
    prefix: &str,
    options: &RemoteOptions,
    transport: &Transport,
) -> Result<ObjectRemote> {
    let builder = configure(prefix, options, transport)?.with_http_connector(transport.clone());
    let mut builder = match &options.customer_key {
        Some(key) => builder.with_ssec_encryption(key.base64()),
        None => builder,
    };
    // The environment can also set a key.
    let keyed = CUSTOMER_KEY.parse().is_ok_and(|key| builder.get_config_value(&key).is_some());
    if keyed {
        require_tls(endpoint(&builder).as_deref())?;
    }
    let credentials = credentials(&builder, prefix, options, transport)?;
    if let Some(credentials) = &credentials {
        builder = builder.with_credentials(Arc::clone(credentials) as Provider<_>);
    }
    let selection = selection(prefix, options, &builder);
    let mut headers = options.headers.for_store(options.anonymous)?;
    if options.request_payer {
        headers.insert("x-amz-request-payer", HeaderValue::from_static("requester"));
    }
    let (transport, is_signed) = (transport.clone(), credentials.is_some());
    let bucket = Bucket {
        builder,
        headers,
        prefix: prefix.to_owned(),
        keyed,
        is_signed,
        trusts_conditions: options.trust_conditions,
        transport,
    };
    let stores = bucket.stores(None)?;
    let mut unsigned = HeaderMap::new();
    unsigned.insert(header::ACCEPT_ENCODING, HeaderValue::from_static("identity"));
    let abilities = bucket.abilities(credentials.as_ref(), &unsigned);
    Ok(ObjectRemote::new(stores, Dialect::S3, prefix, selection)
        .with_headers(unsigned)
        .with_credentials(credentials.map(|credentials| credentials as Arc<dyn Renew>))
        .with_redirects(Redirects { bucket, known: Mutex::default() })
        .with_abilities(abilities)
        .keyed(keyed))
}

/// The selection of an object. A bucket name at Amazon is unique across all accounts. Elsewhere
/// each account may have its own buckets, and the access key identifies the account.
fn selection(prefix: &str, options: &RemoteOptions, builder: &AmazonS3Builder) -> Selection {
    let setting = |key| builder.get_config_value(&key).unwrap_or_default();
    let selection =
        Selection::of_caller(prefix, options).with("region", setting(AmazonS3ConfigKey::Region));
    let selection = match CUSTOMER_KEY.parse() {
        Ok(key) => selection.with("customer key", setting(key)),
        Err(_) => selection,
    };
    match endpoint(builder) {
        Some(endpoint) if options.anonymous => selection.with("endpoint", endpoint),
        Some(endpoint) => selection
            .with("endpoint", endpoint)
            .with("account", setting(AmazonS3ConfigKey::AccessKeyId)),
        None => selection,
    }
}

/// The credentials for signing; `None` if requests are not signed. A new lookup reads the profile
/// again, runs its process, or asks the container's or instance's role; credentials from the
/// environment stay the same.
fn credentials(
    builder: &AmazonS3Builder,
    prefix: &str,
    options: &RemoteOptions,
    transport: &Transport,
) -> Result<Option<Arc<Renewable<AwsCredential>>>> {
    let unsigned = builder.get_config_value(&AmazonS3ConfigKey::SkipSignature);
    if unsigned.is_some_and(|unsigned| unsigned == "true") {
        return Ok(None);
    }
    let (prefix, options, transport) = (prefix.to_owned(), options.clone(), transport.clone());
    let find = move || {
        let builder =
            configure(&prefix, &options, &transport)?.with_http_connector(transport.clone());
        let builder = builder.with_client_options(client_options(HeaderMap::new()));
        let store = build(builder.clone(), &prefix)?;
        let sourced = Sourced::new(&builder, &options, store.credentials());
        Ok(Arc::new(sourced) as Provider<_>)
    };
    Renewable::new(find).map(|credentials| Some(Arc::new(credentials)))
}

/// The settings for one bucket, at any address.
struct Bucket {
    builder: AmazonS3Builder,
    headers: HeaderMap,
    prefix: String,
    keyed: bool,
    is_signed: bool,
    trusts_conditions: bool,
    transport: Transport,
}

impl fmt::Debug for Bucket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The other fields may be secret.
        f.debug_struct("Bucket").field("prefix", &self.prefix).finish_non_exhaustive()
    }
}

impl Bucket {
    fn name(&self) -> &str {
        self.prefix.strip_prefix("s3://").unwrap_or(&self.prefix)
    }

    /// Its clients, at the configured address or at another one.
    fn stores(&self, address: Option<&Address>) -> Result<Stores> {
        let mut builder = self.builder.clone();
        if let Some(Address { endpoint, bucket_in_host, region }) = address {
            builder = builder
                .with_config(AmazonS3ConfigKey::S3Endpoint, endpoint)
                .with_virtual_hosted_style_request(*bucket_in_host);
            if let Some(region) = region {
                builder = builder.with_region(region);
            }
        }
        let mut headers = self.headers.clone();
        let plain = builder.clone().with_client_options(client_options(headers.clone()));
        headers.insert("x-amz-checksum-mode", HeaderValue::from_static("ENABLED"));
        let parts = self.part_heads(builder.clone(), headers.clone())?;
        let stat = builder.with_client_options(client_options(headers));
        Ok(Stores {
            plain: Arc::new(build(plain, &self.prefix)?),
            stat: Arc::new(build(stat, &self.prefix)?),
            parts: Some(Arc::new(parts)),
        })
    }

    fn part_heads(
        &self,
        mut builder: AmazonS3Builder,
        mut headers: HeaderMap,
    ) -> Result<PartHeads> {
        if !self.is_signed {
            builder = builder.with_credentials(s3_parts::no_credentials());
        }
        let key = CUSTOMER_KEY.parse().ok().and_then(|key| builder.get_config_value(&key));
        headers.extend(key.and_then(|key| key_headers(&key)).unwrap_or_default());
        Ok(PartHeads {
            store: build(builder, &self.prefix)?,
            is_signed: self.is_signed,
            headers,
            transport: self.transport.clone(),
        })
    }

    /// Writing, listing and deleting.
    fn abilities(
        &self,
        credentials: Option<&Arc<Renewable<AwsCredential>>>,
        unsigned: &HeaderMap,
    ) -> Abilities {
        let key = CUSTOMER_KEY.parse().ok().and_then(|key| self.builder.get_config_value(&key));
        let (mut headers, of_blobs) = blob_headers::split(&self.headers);
        headers.extend(key.and_then(|key| key_headers(&key)).unwrap_or_default());
        let region = self.builder.get_config_value(&AmazonS3ConfigKey::Region);
        let authorize = S3Authorize {
            base: self.base(),
            bucket: self.name().to_owned(),
            region: region.unwrap_or_else(|| DEFAULT_REGION.to_owned()),
            headers,
            credentials: credentials.map(|credentials| Arc::clone(credentials) as Provider<_>),
            keyed: self.keyed,
            home: self.home(),
        };
        let renew = credentials.map(|credentials| Arc::clone(credentials) as Arc<dyn Renew>);
        let transport = self.transport.clone();
        let signing = Arc::new(authorize.clone());
        let client = ObjectClient::new(transport, signing, renew, Dialect::S3, &self.prefix)
            .with_headers(unsigned.clone())
            .keyed(self.keyed);
        let is_regional = endpoint(&self.builder).is_none();
        let buckets = S3Bucket { client: client.clone(), authorize, is_regional };
        let writer = XmlWriter::new(client, XmlDialect::S3).describing(of_blobs);
        let writer = Arc::new(if self.trusts_conditions { writer.trusting() } else { writer });
        Abilities {
            write: Some(Arc::clone(&writer) as Arc<dyn Write>),
            list: Some(Arc::clone(&writer) as Arc<dyn List>),
            delete: Some(writer),
            presign: Some(Arc::new(self.presigner(credentials))),
            buckets: Some(Arc::new(buckets)),
        }
    }

    fn presigner(&self, credentials: Option<&Arc<Renewable<AwsCredential>>>) -> ObjectPresigner {
        ObjectPresigner {
            dialect: Dialect::S3,
            prefix: self.prefix.clone(),
            keyed: self.keyed,
            signers: credentials.map(|found| -> Box<dyn FindSigner> {
                Box::new(S3Signers {
                    builder: self.builder.clone(),
                    credentials: Arc::clone(found) as Provider<_>,
                    request_payer: self.headers.contains_key("x-amz-request-payer"),
                })
            }),
        }
    }

    /// The bucket's URL at the configured address. An endpoint whose host contains the bucket is
    /// given with it.
    fn base(&self) -> String {
        let setting = |key| self.builder.get_config_value(&key);
        let region = setting(AmazonS3ConfigKey::Region);
        let region = region.as_deref().unwrap_or(DEFAULT_REGION);
        let in_host = setting(AmazonS3ConfigKey::VirtualHostedStyleRequest);
        let in_host = in_host.is_some_and(|value| value == "true");
        let bucket = self.name();
        match (endpoint(&self.builder), in_host) {
            (Some(endpoint), true) => endpoint.trim_end_matches('/').to_owned(),
            (Some(endpoint), false) => format!("{}/{bucket}", endpoint.trim_end_matches('/')),
            (None, true) => format!("https://{bucket}.s3.{region}.amazonaws.com"),
            (None, false) => format!("https://s3.{region}.amazonaws.com/{bucket}"),
        }
    }

    /// The configured address, where requests go first.
    fn home(&self) -> Option<Url> {
        let region = self.builder.get_config_value(&AmazonS3ConfigKey::Region);
        let region = region.as_deref().unwrap_or(DEFAULT_REGION).to_owned();
        let endpoint = endpoint(&self.builder);
        let endpoint = endpoint.unwrap_or_else(|| format!("https://s3.{region}.amazonaws.com"));
        Url::parse(&endpoint).ok()
    }
}

/// Follows S3's redirects for a bucket that its global address does not know yet.
#[derive(Debug)]
struct Redirects {
    bucket: Bucket,
    // Usually there is one address.
    known: Mutex<HashMap<Address, Stores>>,
}

/// The map is cleared at this size, so that a server with invented addresses cannot fill the
/// memory.
const KNOWN_MAX: usize = 16;

impl Elsewhere for Redirects {
    fn stores(&self, head: &ResponseHead, key: &str) -> Result<Option<Stores>, String> {
        if head.status != StatusCode::TEMPORARY_REDIRECT {
            return Ok(None);
        }
        let home = self.bucket.home().ok_or("it redirects, and the endpoint is no address")?;
        let address = s3_redirect::address(head, &home, self.bucket.name(), key)?;
        if self.bucket.keyed {
            require_tls(Some(&address.endpoint)).map_err(|error| error.to_string())?;
        }
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(stores) = known.get(&address) {
            return Ok(Some(stores.clone()));
        }
        let stores = self.bucket.stores(Some(&address)).map_err(|error| error.chain())?;
        if known.len() >= KNOWN_MAX {
            known.clear();
        }
        known.insert(address, stores.clone());
        Ok(Some(stores))
    }
}

/// The configured address, from any source.
fn endpoint(builder: &AmazonS3Builder) -> Option<String> {
    builder
        .get_config_value(&AmazonS3ConfigKey::S3Endpoint)
        .or_else(|| builder.get_config_value(&AmazonS3ConfigKey::Endpoint))
}

fn configure(
    prefix: &str,
    options: &RemoteOptions,
    transport: &Transport,
) -> Result<AmazonS3Builder> {
    let bucket = prefix.strip_prefix("s3://").unwrap_or(prefix);
    let mut builder = s3_profile::apply(environment(options), options, transport)?;
    if let Some(region) = &options.region {
        builder = builder.with_region(region);
    }
    if let Some(command) = &options.credential_process {
        let process = CredentialProcess::new("the settings", command).map_err(|flaw| {
            let message = format!("it cannot be run: {flaw}");
            super::locate::invalid("credential_process", &message)
        })?;
        builder = builder.with_credentials(Arc::new(process));
    }
    if let Some(endpoint) = &options.endpoint {
        Url::parse(endpoint).map_err(|error| {
            super::locate::invalid(endpoint, "the endpoint is not a valid URL").caused_by(error)
        })?;
        // Otherwise the service's own variable would have priority over the caller's endpoint.
        builder =
            builder.with_config(AmazonS3ConfigKey::S3Endpoint, endpoint).with_endpoint(endpoint);
    }
    if options.anonymous {
        builder = builder.with_skip_signature(true);
    }
    Ok(builder.with_bucket_name(bucket).with_retry(no_retries()))
}

/// The settings of the environment, without its credentials if the caller names others.
fn environment(options: &RemoteOptions) -> AmazonS3Builder {
    let is_replaced = options.aws_profile.is_some() || options.credential_process.is_some();
    if !is_replaced {
        return AmazonS3Builder::from_env();
    }
    let variables = std::env::vars_os().filter_map(|(name, value)| {
        let name = name.to_str().filter(|name| name.starts_with("AWS_"))?;
        let key = name.to_ascii_lowercase().parse::<AmazonS3ConfigKey>().ok()?;
        Some((key, value.to_str()?.to_owned()))
    });
    variables
        .filter(|(key, _)| !s3_sources::is_credential(*key))
        .fold(AmazonS3Builder::new(), |builder, (key, value)| builder.with_config(key, value))
}

fn client_options(headers: HeaderMap) -> ClientOptions {
    ClientOptions::new().with_allow_http(true).with_default_headers(headers)
}

pub(super) fn build(builder: AmazonS3Builder, prefix: &str) -> Result<AmazonS3> {
    builder.build().map_err(|error| {
        Error::new(ErrorKind::NoAccess, Operation::Connect, prefix, "the settings cannot be used")
            .caused_by(error)
            .with_hint(Setting::Endpoint)
    })
}
