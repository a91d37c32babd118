//! The keys that the role of an AWS profile is assumed with: those of another profile, of the
//! environment, of the container or of the instance.
//!
//! The other profile may have a role, too. A chain has at most [`ROLES_MAX`] roles, so profiles that
//! lead to each other are an error.

use std::sync::Arc;

use object_store::aws::{AmazonS3Builder, AwsCredential};

use super::credentials::Provider;
use super::object_request::no_retries;
use super::s3_profile::{Files, Keys, Profile, has, refusal};
use super::s3_role::{AssumedRole, Role, TokenService};
use super::s3_sources;
use crate::error::{Result, Setting};
use crate::transport::Transport;

/// AWS itself needs one or two.
const ROLES_MAX: usize = 8;

/// The source of a role's keys, as its profile names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum RoleSource {
    Profile(String),
    Environment,
    Instance,
    Container,
}

impl RoleSource {
    /// Reads `source_profile` and `credential_source`. The error is what is not supported.
    pub(super) fn read(
        profile: Option<String>,
        source: Option<&str>,
    ) -> std::result::Result<Self, &'static str> {
        match (profile, source) {
            (Some(name), None) => Ok(Self::Profile(name)),
            (None, Some("Environment")) => Ok(Self::Environment),
            (None, Some("Ec2InstanceMetadata")) => Ok(Self::Instance),
            (None, Some("EcsContainer")) => Ok(Self::Container),
            (None, Some(_)) => Err("such a credential_source"),
            (Some(_), Some(_)) => Err("both source_profile and credential_source"),
            (None, None) => Err("role_arn but no source_profile"),
        }
    }
}

/// Makes the providers of roles.
pub(super) struct Roles<'a> {
    pub(super) files: &'a Files,
    pub(super) transport: &'a Transport,
}

impl Roles<'_> {
    /// The provider of a profile's role.
    pub(super) fn provider(
        &self,
        profile: &Profile,
        role: &Role,
        source: &RoleSource,
    ) -> Result<Provider<AwsCredential>> {
        self.assumed(profile, role, source, 1)
    }

    /// The same for the role number `depth` of a chain.
    fn assumed(
        &self,
        profile: &Profile,
        role: &Role,
        source: &RoleSource,
        depth: usize,
    ) -> Result<Provider<AwsCredential>> {
        let keys = match source {
            RoleSource::Profile(name) => self.of_profile(profile, name, depth)?,
            RoleSource::Environment if !has("AWS_ACCESS_KEY_ID") => {
                let message = "credential_source is Environment, but AWS_ACCESS_KEY_ID is not set";
                return Err(refusal(&profile.name, message).with_hint(Setting::AwsCredentials));
            }
            RoleSource::Environment => self.built(&profile.name, AmazonS3Builder::from_env())?,
            RoleSource::Instance => self.built(&profile.name, s3_sources::instance())?,
            RoleSource::Container => {
                let builder = s3_sources::container();
                if s3_sources::role(&builder) != Some("container") {
                    let message = "credential_source is EcsContainer, but \
                                   AWS_CONTAINER_CREDENTIALS_RELATIVE_URI is not set";
                    return Err(refusal(&profile.name, message).with_hint(Setting::AwsCredentials));
                }
                self.built(&profile.name, builder)?
            }
        };
        let service = self.token_service(profile);
        Ok(Arc::new(AssumedRole::new(&profile.name, role.clone(), keys, service)))
    }

    /// The keys of the profile `name`, the source of the role of `profile`.
    fn of_profile(
        &self,
        profile: &Profile,
        name: &str,
        depth: usize,
    ) -> Result<Provider<AwsCredential>> {
        if name == profile.name {
            // A role that names its own profile is assumed with the static keys beside it.
            let own = profile.own_keys.as_ref().ok_or_else(|| {
                refusal(name, "source_profile is the profile itself, which has no keys")
                    .with_hint("name a profile with keys in source_profile")
            })?;
            return self.built(name, profile.with(own, AmazonS3Builder::new(), self)?);
        }
        if depth >= ROLES_MAX {
            let message = "the chain of source_profile has no end, or too many roles";
            return Err(refusal(&profile.name, message)
                .with_hint("correct source_profile in the shared AWS files"));
        }
        let source = self.files.profile(name, true)?;
        match &source.keys {
            Some(Keys::Role(role, next)) => self.assumed(&source, role, next, depth + 1),
            Some(keys) => self.built(name, source.with(keys, AmazonS3Builder::new(), self)?),
            None => {
                let message = format!("source_profile {name} has no keys and no role");
                Err(refusal(&profile.name, &message).with_hint(Setting::AwsCredentials))
            }
        }
    }

    /// The provider that a client with these settings uses.
    fn built(&self, name: &str, builder: AmazonS3Builder) -> Result<Provider<AwsCredential>> {
        // The bucket's name has no effect on credentials.
        let builder = builder.with_bucket_name("any").with_http_connector(self.transport.clone());
        let built = builder.with_retry(no_retries()).build();
        let store = built.map_err(|error| {
            refusal(name, "the settings of its source cannot be used").caused_by(error)
        })?;
        Ok(Arc::clone(store.credentials()))
    }

    /// The token service of the profile's region.
    fn token_service(&self, profile: &Profile) -> TokenService {
        let variable = |name| std::env::var(name).ok().filter(|value: &String| !value.is_empty());
        let region = variable("AWS_REGION")
            .or_else(|| variable("AWS_DEFAULT_REGION"))
            .or_else(|| profile.region.clone())
            .unwrap_or_else(|| "us-east-1".to_owned());
        // The regions in China have a domain of their own.
        let suffix = if region.starts_with("cn-") { ".cn" } else { "" };
        let usual = || format!("https://sts.{region}.amazonaws.com{suffix}");
        let endpoint = variable("AWS_ENDPOINT_URL_STS").unwrap_or_else(usual);
        TokenService { endpoint, region, transport: self.transport.clone() }
    }
}
