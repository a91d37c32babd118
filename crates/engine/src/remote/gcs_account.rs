//! Credentials for Google Cloud from a file that a person or an administrator made: the application
//! default credentials.
//!
//! | `type` | how a token is made |
//! |---|---|
//! | `service_account` | `object_store` signs it with the key in the file |
//! | `authorized_user` | the refresh token of `gcloud auth application-default login` is exchanged |
//! | `impersonated_service_account` | another credential asks for the token of a service account |
//! | `external_account` | the token of another identity provider is exchanged; see `gcs_external` |
//!
//! Other types are refused by name. A token is kept in a [`CredentialCache`], and so it is replaced
//! before it expires.
//!
//! Source: <https://google.aip.dev/auth/4110> and the pages that it names.

use std::fmt;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use async_trait::async_trait;
use http::{Method, header};
use object_store::CredentialProvider;
use object_store::client::{HttpRequest, HttpRequestBody};
use object_store::gcp::{GcpCredential, GoogleCloudStorageBuilder, GoogleConfigKey};
use serde::Deserialize;
use serde_json::{Value, json};
use url::{Host, Url, form_urlencoded};

use super::credential_cache::{CredentialCache, Expiring, moment};
use super::credentials::{NoCredentials, Provider};
use super::gcs_external::ExternalAccount;
use super::object_request::no_retries;
use super::token_service;
use crate::error::{Error, ErrorKind, Operation, Result};
use crate::transport::Transport;

pub(super) const SCOPE: &str = "https://www.googleapis.com/auth/cloud-platform";

/// The token service for refresh tokens, if the file names none.
const TOKEN_URI: &str = "https://oauth2.googleapis.com/token";

/// gcloud's own file, in the home folder.
const USUAL_FILE: &str = ".config/gcloud/application_default_credentials.json";

/// A file of credentials has a few KiB. This limit only stops a wrong file.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// Accounts that impersonate each other, in one file.
const DEPTH_MAX: usize = 4;

const HINT: &str = "check the file of credentials, or make a new one with `gcloud auth \
                    application-default login`";

/// A token and its source, one inside the other.
type Token = Expiring<GcpCredential>;
type TokenFuture<'a> = Pin<Box<dyn Future<Output = Result<Token, String>> + Send + 'a>>;

/// How a token is made.
enum Account {
    /// By `object_store`, with the key of a service account.
    Key(Provider<GcpCredential>),
    User(AuthorizedUser),
    Impersonated {
        account: Box<Account>,
        impersonation: Impersonation,
    },
    External(Box<ExternalAccount>),
}

#[derive(Deserialize)]
struct AuthorizedUser {
    client_id: String,
    client_secret: String,
    refresh_token: String,
    token_uri: Option<String>,
}

/// A service account whose tokens another credential may ask for.
#[derive(Deserialize)]
pub(super) struct Impersonation {
    #[serde(rename = "service_account_impersonation_url")]
    url: String,
    #[serde(default)]
    delegates: Vec<String>,
}

/// The answer to a request for a token.
#[derive(Deserialize)]
struct TokenAnswer {
    access_token: String,
    expires_in: u64,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ImpersonationAnswer {
    access_token: String,
    expire_time: String,
}

/// The credentials of one file.
struct FileAccount {
    /// The file and its type, for messages.
    name: String,
    account: Account,
    transport: Transport,
    cache: CredentialCache<GcpCredential>,
}

impl fmt::Debug for FileAccount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FileAccount").field("name", &self.name).finish_non_exhaustive()
    }
}

/// The provider for the file that the settings name, or for gcloud's own file. `None` if there is
/// none, or if `object_store` finds the credentials itself. Reads the file.
pub(super) fn find(
    builder: &GoogleCloudStorageBuilder,
    transport: &Transport,
) -> Result<Option<Provider<GcpCredential>>> {
    let Some((file, value)) = file(builder)? else { return Ok(None) };
    let kind = kind_of(&value);
    let account =
        Account::read(&value, transport, 1).map_err(|message| refused(&file, &message))?;
    let name = format!("the credentials in {file} ({kind})");
    let (transport, cache) = (transport.clone(), CredentialCache::default());
    Ok(Some(match account {
        Account::Key(provider) => provider,
        account => Arc::new(FileAccount { name, account, transport, cache }),
    }))
}

/// The type of the account that [`find`] finds, or that the settings give to `object_store`; `None`
/// if the credentials are those of a machine in Google's cloud.
pub(super) fn kind(builder: &GoogleCloudStorageBuilder) -> Result<Option<String>> {
    if has_key(builder) {
        return Ok(Some("service_account".to_owned()));
    }
    Ok(file(builder)?.map(|(_, value)| kind_of(&value)))
}

fn kind_of(value: &Value) -> String {
    value.get("type").and_then(Value::as_str).unwrap_or_default().to_owned()
}

/// Whether the settings give the key of a service account.
fn has_key(builder: &GoogleCloudStorageBuilder) -> bool {
    [GoogleConfigKey::ServiceAccount, GoogleConfigKey::ServiceAccountKey]
        .iter()
        .any(|key| builder.get_config_value(key).is_some())
}

fn refused(file: &str, message: &str) -> Error {
    Error::new(ErrorKind::NoAccess, Operation::Connect, file, message).with_hint(HINT)
}

/// The file of credentials, its name and its content; `None` if `object_store` needs none.
fn file(builder: &GoogleCloudStorageBuilder) -> Result<Option<(String, Value)>> {
    if has_key(builder) {
        return Ok(None);
    }
    let named = builder.get_config_value(&GoogleConfigKey::ApplicationCredentials);
    let usual = || std::env::var_os("HOME").map(|home| Path::new(&home).join(USUAL_FILE));
    let Some(path) = named.clone().map(PathBuf::from).or_else(usual) else { return Ok(None) };
    if named.is_none() && !path.exists() {
        return Ok(None);
    }
    let file = path.display().to_string();
    let text = read(&path).map_err(|error| {
        refused(&file, "the file of credentials cannot be read").caused_by(error)
    })?;
    // The parser's message may quote the file, which holds secrets.
    let value = serde_json::from_str(&text)
        .map_err(|_secret| refused(&file, "the file of credentials is not JSON"))?;
    Ok(Some((file, value)))
}

fn read(path: &Path) -> std::io::Result<String> {
    use std::io::Read as _;

    let mut text = String::new();
    let file = std::fs::File::open(path)?;
    let read = file.take(FILE_BYTES_MAX + 1).read_to_string(&mut text)?;
    if read as u64 > FILE_BYTES_MAX {
        Err(std::io::ErrorKind::FileTooLarge.into())
    } else {
        Ok(text)
    }
}

impl Account {
    /// Reads an account. The error says what is wrong, without the values.
    fn read(value: &Value, transport: &Transport, depth: usize) -> Result<Self, String> {
        let kind = value.get("type").and_then(Value::as_str).unwrap_or_default();
        let account = match kind {
            "service_account" => Self::Key(signed(value, transport)?),
            "authorized_user" => Self::User(parse(value)?),
            "impersonated_service_account" if depth >= DEPTH_MAX => {
                return Err("too many accounts impersonate each other".to_owned());
            }
            "impersonated_service_account" => {
                let source = value.get("source_credentials");
                let source = source.ok_or("there are no source_credentials")?;
                let account = Box::new(Self::read(source, transport, depth + 1)?);
                let impersonation: Impersonation = parse(value)?;
                impersonation.check()?;
                Self::Impersonated { account, impersonation }
            }
            "external_account" => {
                let account = Self::External(Box::new(ExternalAccount::read(value)?));
                if value.get("service_account_impersonation_url").is_none() {
                    return Ok(account);
                }
                let impersonation: Impersonation = parse(value)?;
                impersonation.check()?;
                Self::Impersonated { account: Box::new(account), impersonation }
            }
            "" => return Err("the file of credentials has no type".to_owned()),
            other => return Err(format!("credentials of the type {other} are not supported")),
        };
        if let Self::User(AuthorizedUser { token_uri: Some(uri), .. }) = &account {
            check_url(uri)?;
        }
        Ok(account)
    }

    /// CANCEL: the request is dropped.
    fn token<'a>(&'a self, transport: &'a Transport) -> TokenFuture<'a> {
        Box::pin(async move {
            match self {
                Self::Key(provider) => {
                    let credential = provider.get_credential().await;
                    let credential = credential.map_err(|_error| "the key cannot sign a token")?;
                    Ok(Expiring { credential, expires: None })
                }
                Self::User(user) => user.token(transport).await,
                Self::Impersonated { account, impersonation } => {
                    let source = account.token(transport).await?;
                    impersonation.token(&source.credential.bearer, transport).await
                }
                Self::External(external) => external.token(transport).await,
            }
        })
    }
}

/// The provider for a service account's key. `object_store` signs the tokens.
fn signed(value: &Value, transport: &Transport) -> Result<Provider<GcpCredential>, String> {
    let builder = GoogleCloudStorageBuilder::new()
        .with_service_account_key(value.to_string())
        // The bucket's name has no effect on credentials.
        .with_bucket_name("any")
        .with_retry(no_retries())
        .with_http_connector(transport.clone());
    // The library's error may quote the key.
    let store = builder.build().map_err(|_secret| "the key of the service account is not valid")?;
    Ok(Arc::clone(store.credentials()))
}

/// Reads the fields of an account; the error names the first that is missing.
pub(super) fn parse<T: serde::de::DeserializeOwned>(value: &Value) -> Result<T, String> {
    serde_json::from_value(value.clone()).map_err(|error| {
        // Only this message quotes no value.
        let text = error.to_string();
        let missing = text.split(" at ").next().filter(|text| text.starts_with("missing field"));
        missing.unwrap_or("a field of the credentials has a wrong value").to_owned()
    })
}

/// Secrets are sent over TLS only, except to this machine.
pub(super) fn check_url(text: &str) -> Result<(), String> {
    let url = Url::parse(text).map_err(|_invalid| "a URL in the credentials is not valid")?;
    let is_loopback = match url.host() {
        Some(Host::Domain(name)) => name == "localhost",
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        None => false,
    };
    if url.scheme() == "https" || (url.scheme() == "http" && is_loopback) {
        return Ok(());
    }
    Err(format!("{} in the credentials is not https", url.host_str().unwrap_or("a URL")))
}

impl AuthorizedUser {
    async fn token(&self, transport: &Transport) -> Result<Token, String> {
        let form = [
            ("grant_type", "refresh_token"),
            ("client_id", &self.client_id),
            ("client_secret", &self.client_secret),
            ("refresh_token", &self.refresh_token),
        ];
        let url = self.token_uri.as_deref().unwrap_or(TOKEN_URI);
        exchange(url, &form, None, transport).await
    }
}

impl Impersonation {
    fn check(&self) -> Result<(), String> {
        check_url(&self.url)
    }

    async fn token(&self, bearer: &str, transport: &Transport) -> Result<Token, String> {
        let body = json!({ "scope": [SCOPE], "delegates": self.delegates, "lifetime": "3600s" });
        let authorization = format!("Bearer {bearer}");
        let request = post(&self.url, "application/json", Some(&authorization), body.to_string())?;
        let answer: ImpersonationAnswer = answer(request, transport).await?;
        let expires = moment(&answer.expire_time).ok_or("the answer has no valid expireTime")?;
        let credential = Arc::new(GcpCredential { bearer: answer.access_token });
        Ok(Expiring { credential, expires: Some(expires) })
    }
}

/// Exchanges what `form` says for a token.
pub(super) async fn exchange(
    url: &str,
    form: &[(&str, &str)],
    authorization: Option<&str>,
    transport: &Transport,
) -> Result<Token, String> {
    let body = form_urlencoded::Serializer::new(String::new()).extend_pairs(form).finish();
    let request = post(url, "application/x-www-form-urlencoded", authorization, body)?;
    let asked = SystemTime::now();
    let answer: TokenAnswer = answer(request, transport).await?;
    let expires = asked.checked_add(Duration::from_secs(answer.expires_in));
    let credential = Arc::new(GcpCredential { bearer: answer.access_token });
    Ok(Expiring { credential, expires })
}

fn post(
    url: &str,
    content_type: &str,
    authorization: Option<&str>,
    body: String,
) -> Result<HttpRequest, String> {
    let mut request = http::Request::builder()
        .method(Method::POST)
        .uri(url)
        .header(header::CONTENT_TYPE, content_type)
        .header(header::ACCEPT, "application/json");
    if let Some(authorization) = authorization {
        request = request.header(header::AUTHORIZATION, authorization);
    }
    request
        .body(HttpRequestBody::from(body))
        .map_err(|_invalid| "the request for a token cannot be made".to_owned())
}

/// Sends a request and reads the JSON of the answer.
async fn answer<T: serde::de::DeserializeOwned>(
    request: HttpRequest,
    transport: &Transport,
) -> Result<T, String> {
    let host = request.uri().authority().map(ToString::to_string).unwrap_or_default();
    let (status, body) = token_service::ask(transport, request).await?;
    if !status.is_success() {
        let reason = reason(&body).unwrap_or_default();
        return Err(format!("{host} answered {}{reason}", status.as_u16()));
    }
    // The parser's message may quote the token.
    serde_json::from_slice(&body).map_err(|_secret| format!("{host} answered without a token"))
}

/// What the service says of a refusal: `error` and `error_description` of OAuth, or `error.message`
/// of Google's other services.
fn reason(body: &[u8]) -> Option<String> {
    let value: Value = serde_json::from_slice(body).ok()?;
    let error = value.get("error")?;
    let text = |value: Option<&Value>| value.and_then(Value::as_str).map(str::to_owned);
    let parts = match error.as_str() {
        Some(code) => [Some(code.to_owned()), text(value.get("error_description"))],
        None => [text(error.get("status")), text(error.get("message"))],
    };
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    (!parts.is_empty()).then(|| format!(": {}", token_service::shown(&parts.join(": "))))
}

#[async_trait]
impl CredentialProvider for FileAccount {
    type Credential = GcpCredential;

    async fn get_credential(&self) -> object_store::Result<Arc<GcpCredential>> {
        let token = || async {
            self.account.token(&self.transport).await.map_err(|reason| {
                NoCredentials::new(&format!("{} give no token: {reason}", self.name), HINT)
            })
        };
        self.cache.get(token).await.map_err(NoCredentials::into)
    }
}
