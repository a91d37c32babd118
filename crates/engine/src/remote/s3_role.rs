//! A role of AWS that is assumed with other keys: the action `AssumeRole` of the token service.
//!
//! The request is signed with the source's keys. The role's keys are kept in a [`CredentialCache`],
//! and so they are replaced before they expire. Each new request takes the source's current keys,
//! which may be those of another role.
//!
//! Source: the AWS Security Token Service API reference, `AssumeRole`.

use std::fmt;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use async_trait::async_trait;
use http::{Method, header};
use object_store::CredentialProvider;
use object_store::aws::{AwsAuthorizer, AwsCredential};
use object_store::client::{HttpRequest, HttpRequestBody};
use serde::Deserialize;
use url::form_urlencoded;

use super::credential_cache::{CredentialCache, Expiring, moment};
use super::credentials::{NoCredentials, Provider};
use super::token_service;
use crate::transport::Transport;

/// What a profile says of its role.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Role {
    pub(super) arn: String,
    pub(super) session_name: Option<String>,
    pub(super) external_id: Option<String>,
    pub(super) duration_seconds: Option<String>,
}

/// The token service of a region.
#[derive(Clone, Debug)]
pub(super) struct TokenService {
    pub(super) endpoint: String,
    pub(super) region: String,
    pub(super) transport: Transport,
}

/// See the module docs.
pub(super) struct AssumedRole {
    /// The profile, for messages.
    profile: String,
    role: Role,
    source: Provider<AwsCredential>,
    service: TokenService,
    cache: CredentialCache<AwsCredential>,
}

impl fmt::Debug for AssumedRole {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AssumedRole").field("profile", &self.profile).finish_non_exhaustive()
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Answer {
    assume_role_result: AssumeRoleResult,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct AssumeRoleResult {
    credentials: Keys,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Keys {
    access_key_id: String,
    secret_access_key: String,
    session_token: String,
    expiration: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Refusal {
    error: RefusalError,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct RefusalError {
    code: String,
    message: String,
}

impl AssumedRole {
    pub(super) fn new(
        profile: &str,
        role: Role,
        source: Provider<AwsCredential>,
        service: TokenService,
    ) -> Self {
        let cache = CredentialCache::default();
        Self { profile: profile.to_owned(), role, source, service, cache }
    }

    fn failure(&self, reason: &str) -> NoCredentials {
        let Self { profile, role, .. } = self;
        let message = format!("AWS profile {profile} cannot assume {}: {reason}", role.arn);
        NoCredentials::new(&message, "check role_arn and the keys of its source")
    }

    // CANCEL: the request is dropped.
    async fn assume(&self) -> Result<Expiring<AwsCredential>, NoCredentials> {
        let source = self.source.get_credential().await.map_err(|error| {
            // The source may be another role or a process, which explain themselves.
            let cause = NoCredentials::below(&error).cloned();
            cause.unwrap_or_else(|| self.failure("no credentials found for its source"))
        })?;
        let request = self.request(&source).map_err(|error| self.failure(&error))?;
        let answer = token_service::ask(&self.service.transport, request).await;
        let (status, body) = answer.map_err(|reason| self.failure(&reason))?;
        let text = String::from_utf8_lossy(&body);
        if !status.is_success() {
            let reason = match quick_xml::de::from_str::<Refusal>(&text) {
                Ok(Refusal { error }) => {
                    token_service::shown(&format!("{}: {}", error.code, error.message))
                }
                Err(_) => format!("the token service answered {status}"),
            };
            return Err(self.failure(&reason));
        }
        let keys = quick_xml::de::from_str::<Answer>(&text).ok();
        let keys = keys.map(|answer| answer.assume_role_result.credentials);
        // The parser's own message may quote the keys.
        let invalid = || self.failure("the answer of the token service has no keys");
        let keys = keys.ok_or_else(invalid)?;
        let expires = Some(moment(&keys.expiration).ok_or_else(invalid)?);
        let credential = AwsCredential {
            key_id: keys.access_key_id,
            secret_key: keys.secret_access_key,
            token: Some(keys.session_token),
        };
        Ok(Expiring { credential: Arc::new(credential), expires })
    }

    fn request(&self, source: &AwsCredential) -> Result<HttpRequest, String> {
        let role = &self.role;
        let seconds = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        let session = role.session_name.clone().unwrap_or_else(|| format!("tidegate-{seconds}"));
        let mut form = form_urlencoded::Serializer::new(String::new());
        form.append_pair("Action", "AssumeRole")
            .append_pair("Version", "2011-06-15")
            .append_pair("RoleArn", &role.arn)
            .append_pair("RoleSessionName", &session);
        if let Some(id) = &role.external_id {
            form.append_pair("ExternalId", id);
        }
        if let Some(seconds) = &role.duration_seconds {
            form.append_pair("DurationSeconds", seconds);
        }
        let request = http::Request::builder()
            .method(Method::POST)
            .uri(format!("{}/", self.service.endpoint.trim_end_matches('/')))
            .header(header::CONTENT_TYPE, "application/x-www-form-urlencoded; charset=utf-8")
            .header(header::ACCEPT, "application/xml")
            .body(HttpRequestBody::from(form.finish()));
        let mut request = request.map_err(|error| error.to_string())?;
        AwsAuthorizer::new(source, "sts", &self.service.region)
            .try_authorize(&mut request, None)
            .map_err(|_unsigned| "the request cannot be signed".to_owned())?;
        Ok(request)
    }
}

#[async_trait]
impl CredentialProvider for AssumedRole {
    type Credential = AwsCredential;

    async fn get_credential(&self) -> object_store::Result<Arc<AwsCredential>> {
        let assume = || async {
            self.assume().await.inspect_err(|failure| {
                tracing::debug!(profile = self.profile, "{failure}");
            })
        };
        self.cache.get(assume).await.map_err(NoCredentials::into)
    }
}
