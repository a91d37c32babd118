//! The sources of S3's credentials, by name, for the error if none of them has any.
//!
//! `object_store` asks one of: web identity, container, instance role. Which one depends on the
//! settings. So the error names only what was really asked.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use object_store::CredentialProvider;
use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey, AwsCredential};

use super::credentials::{NoCredentials, Provider};
use super::{RemoteOptions, s3_profile};
use crate::error::Setting;

/// A provider whose error names the sources that were tried.
pub(super) struct Sourced {
    provider: Provider<AwsCredential>,
    tried: String,
}

impl fmt::Debug for Sourced {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sourced").field("tried", &self.tried).finish_non_exhaustive()
    }
}

impl Sourced {
    /// `provider` is the one that a client with the settings of `builder` uses.
    pub(super) fn new(
        builder: &AmazonS3Builder,
        options: &RemoteOptions,
        provider: &Provider<AwsCredential>,
    ) -> Self {
        let mut tried = Vec::new();
        if options.aws_profile.is_none() {
            tried.push("environment".to_owned());
        }
        tried.extend(s3_profile::tried(options));
        tried.push(role(builder).unwrap_or("instance role").to_owned());
        Self { provider: Arc::clone(provider), tried: tried.join(", ") }
    }
}

/// The service that the settings name as the source of a role's keys, if they name one.
pub(super) fn role(builder: &AmazonS3Builder) -> Option<&'static str> {
    use AmazonS3ConfigKey as Key;
    let has = |key| builder.get_config_value(&key).is_some();
    let full = has(Key::ContainerCredentialsFullUri) && has(Key::ContainerAuthorizationTokenFile);
    if has(Key::WebIdentityTokenFile) && has(Key::RoleArn) {
        Some("web identity")
    } else if has(Key::ContainerCredentialsRelativeUri) || full {
        Some("container")
    } else {
        None
    }
}

/// The settings with which a client asks the instance's role.
pub(super) fn instance() -> AmazonS3Builder {
    use AmazonS3ConfigKey as Key;
    with_variables(&[
        (Key::MetadataEndpoint, "AWS_METADATA_ENDPOINT"),
        (Key::ImdsV1Fallback, "AWS_IMDSV1_FALLBACK"),
    ])
}

/// The settings with which a client asks the container's role.
pub(super) fn container() -> AmazonS3Builder {
    use AmazonS3ConfigKey as Key;
    with_variables(&[
        (Key::ContainerCredentialsRelativeUri, "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI"),
        (Key::ContainerCredentialsFullUri, "AWS_CONTAINER_CREDENTIALS_FULL_URI"),
        (Key::ContainerAuthorizationTokenFile, "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE"),
    ])
}

fn with_variables(settings: &[(AmazonS3ConfigKey, &str)]) -> AmazonS3Builder {
    settings.iter().fold(AmazonS3Builder::new(), |builder, (key, name)| {
        match std::env::var(name).ok().filter(|value| !value.is_empty()) {
            Some(value) => builder.with_config(*key, value),
            None => builder,
        }
    })
}

/// Whether a setting holds or names credentials.
pub(super) fn is_credential(key: AmazonS3ConfigKey) -> bool {
    use AmazonS3ConfigKey as Key;
    matches!(
        key,
        Key::AccessKeyId
            | Key::SecretAccessKey
            | Key::Token
            | Key::WebIdentityTokenFile
            | Key::RoleArn
            | Key::RoleSessionName
            | Key::ContainerCredentialsRelativeUri
            | Key::ContainerCredentialsFullUri
            | Key::ContainerAuthorizationTokenFile
            | Key::SkipSignature
    )
}

#[async_trait]
impl CredentialProvider for Sourced {
    type Credential = AwsCredential;

    async fn get_credential(&self) -> object_store::Result<Arc<AwsCredential>> {
        self.provider.get_credential().await.map_err(|error| {
            if NoCredentials::below(&error).is_some() {
                return error;
            }
            // The library's text is about its last lookup, and can show a token's address.
            let cause: &dyn std::error::Error = &error;
            tracing::debug!(error = cause, "no credentials");
            let message = format!("no credentials found (tried {})", self.tried);
            NoCredentials::new(&message, Setting::AwsCredentials).into()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_role_is_the_one_that_the_library_asks() {
        use AmazonS3ConfigKey as Key;
        let builder = AmazonS3Builder::new();
        assert_eq!(role(&builder), None);
        let uri = Key::ContainerCredentialsFullUri;
        let builder = builder.with_config(uri, "http://169.254.170.23/v1/credentials");
        assert_eq!(role(&builder), None, "no token for the service");
        let builder = builder.with_config(Key::ContainerAuthorizationTokenFile, "/token");
        assert_eq!(role(&builder), Some("container"));
        let builder = builder.with_config(Key::WebIdentityTokenFile, "/token");
        assert_eq!(role(&builder), Some("container"));
        let builder = builder.with_config(Key::RoleArn, "arn:aws:iam::1:role/x");
        assert_eq!(role(&builder), Some("web identity"));
    }
}
