//! Amazon S3 and what speaks its protocol: `s3://bucket/key`.
//!
//! Credentials, region and endpoint as AWS's own tools find them: `AWS_*` variables, then the
//! profile that `AWS_PROFILE` names in the shared files, then the container's or instance's role.
//!
//! A ranged answer of S3 lacks the checksum of the whole object, so that a second store, whose
//! requests carry `x-amz-checksum-mode: ENABLED` under the signature, answers
//! [`super::Remote::stat`].
//!
//! The caller's headers are under the signature, too, as S3 takes no `x-amz-` header that is not.
//! `Accept-Encoding` is not: what speaks the protocol is often behind a proxy that changes it.

use std::sync::Arc;

use http::{HeaderMap, HeaderValue, header};
use object_store::ClientOptions;
use object_store::aws::{AmazonS3, AmazonS3Builder, AmazonS3ConfigKey};

use super::customer_key::require_tls;
use super::object::{ObjectRemote, no_retries};
use super::response::Dialect;
use super::s3_profile::Profile;
use super::{RemoteOptions, Selection};
use crate::error::{Error, ErrorKind, Operation, Result};
use crate::transport::Transport;

/// How `object_store` calls the setting, and in capitals the variable.
const CUSTOMER_KEY: &str = "aws_sse_customer_key_base64";

pub(super) fn connect(
    prefix: &str,
    options: &RemoteOptions,
    transport: &Transport,
) -> Result<ObjectRemote> {
    let builder = configure(prefix, options)?.with_http_connector(transport.clone());
    let builder = match &options.customer_key {
        Some(key) => builder.with_ssec_encryption(key.base64()),
        None => builder,
    };
    // The environment may give one, too.
    let keyed = CUSTOMER_KEY.parse().is_ok_and(|key| builder.get_config_value(&key).is_some());
    if keyed {
        require_tls(endpoint(&builder).as_deref())?;
    }
    let selection = selection(prefix, options, &builder);
    let mut headers = options.headers.for_store(options.anonymous)?;
    if options.request_payer {
        headers.insert("x-amz-request-payer", HeaderValue::from_static("requester"));
    }
    let plain =
        build(builder.clone().with_client_options(client_options(headers.clone())), prefix)?;
    headers.insert("x-amz-checksum-mode", HeaderValue::from_static("ENABLED"));
    let stat = build(builder.with_client_options(client_options(headers)), prefix)?;
    let mut unsigned = HeaderMap::new();
    unsigned.insert(header::ACCEPT_ENCODING, HeaderValue::from_static("identity"));
    Ok(ObjectRemote::new(Arc::new(plain), Dialect::S3, prefix, selection)
        .with_stat_store(Arc::new(stat))
        .with_headers(unsigned)
        .keyed(keyed))
}

/// What selects an object. A bucket of Amazon's has one name for all accounts; elsewhere, each
/// account may have its own buckets, and the access key tells which.
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

/// The address that was configured, by whatever means.
fn endpoint(builder: &AmazonS3Builder) -> Option<String> {
    builder
        .get_config_value(&AmazonS3ConfigKey::S3Endpoint)
        .or_else(|| builder.get_config_value(&AmazonS3ConfigKey::Endpoint))
}

fn configure(prefix: &str, options: &RemoteOptions) -> Result<AmazonS3Builder> {
    let bucket = prefix.strip_prefix("s3://").unwrap_or(prefix);
    let mut builder = AmazonS3Builder::from_env();
    let has = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    if !has("AWS_ACCESS_KEY_ID") || has("AWS_PROFILE") {
        let profile = Profile::load()?;
        // Variables win over the profile, as in AWS's own tools.
        if let (Some(id), Some(secret)) = (&profile.access_key_id, &profile.secret_access_key)
            && !has("AWS_ACCESS_KEY_ID")
            && !options.anonymous
        {
            builder = builder.with_access_key_id(id).with_secret_access_key(secret);
            if let Some(token) = &profile.session_token {
                builder = builder.with_token(token);
            }
        }
        if let Some(region) = &profile.region
            && !has("AWS_REGION")
            && !has("AWS_DEFAULT_REGION")
        {
            builder = builder.with_region(region);
        }
        if let Some(endpoint) = &profile.endpoint_url
            && !has("AWS_ENDPOINT_URL")
            && !has("AWS_ENDPOINT_URL_S3")
        {
            builder = builder.with_endpoint(endpoint);
        }
    }
    if let Some(endpoint) = &options.endpoint {
        url::Url::parse(endpoint).map_err(|error| {
            super::locate::invalid(endpoint, "the endpoint is not a valid URL").caused_by(error)
        })?;
        // The service's own variable would win over the endpoint given by hand.
        builder =
            builder.with_config(AmazonS3ConfigKey::S3Endpoint, endpoint).with_endpoint(endpoint);
    }
    if options.anonymous {
        builder = builder.with_skip_signature(true);
    }
    Ok(builder.with_bucket_name(bucket).with_retry(no_retries()))
}

fn client_options(headers: HeaderMap) -> ClientOptions {
    ClientOptions::new().with_allow_http(true).with_default_headers(headers)
}

fn build(builder: AmazonS3Builder, prefix: &str) -> Result<AmazonS3> {
    builder.build().map_err(|error| {
        Error::new(ErrorKind::NoAccess, Operation::Connect, prefix, "the settings cannot be used")
            .caused_by(error)
            .with_hint("check the AWS_* variables, the profile and --endpoint")
    })
}
