//! Credentials of the type `external_account`: the token of another identity provider, in a file or
//! at a URL, is exchanged for a token of Google. This is how a job of a CI service or of another
//! cloud gets access without a key.
//!
//! A program may print the token, too. It runs only if the user allows it by
//! `GOOGLE_EXTERNAL_ACCOUNT_ALLOW_EXECUTABLES=1`: another user may have made the file.
//!
//! Not supported, and refused by name: the keys of AWS, and certificates.
//!
//! Source: <https://google.aip.dev/auth/4117>.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::Method;
use object_store::client::HttpRequestBody;
use object_store::gcp::GcpCredential;
use serde::Deserialize;
use serde_json::Value;

use super::credential_cache::Expiring;
use super::credential_program::Program;
use super::gcs_account::{SCOPE, check_url, exchange, parse};
use super::token_service;
use crate::transport::Transport;

/// The variable that allows programs.
const ALLOW: &str = "GOOGLE_EXTERNAL_ACCOUNT_ALLOW_EXECUTABLES";

/// The time for a program, in milliseconds, if the file gives none. Google's own clients accept 5 s
/// to 2 minutes.
const PROGRAM_MS: (u64, u64, u64) = (5000, 30_000, 120_000);

/// A token has at most a few KiB. This limit only stops a wrong file.
const TOKEN_BYTES_MAX: u64 = 1 << 20;

/// The fields of the file.
#[derive(Deserialize)]
pub(super) struct ExternalAccount {
    audience: String,
    subject_token_type: String,
    token_url: String,
    credential_source: Source,
    client_id: Option<String>,
    client_secret: Option<String>,
    workforce_pool_user_project: Option<String>,
}

#[derive(Deserialize)]
struct Source {
    file: Option<PathBuf>,
    url: Option<String>,
    #[serde(default)]
    headers: BTreeMap<String, String>,
    #[serde(default)]
    format: Format,
    environment_id: Option<Value>,
    executable: Option<Executable>,
    certificate: Option<Value>,
}

/// A program that prints the token.
#[derive(Deserialize)]
struct Executable {
    command: String,
    timeout_millis: Option<u64>,
}

/// What the program prints.
#[derive(Deserialize)]
struct Printed {
    version: u64,
    success: bool,
    token_type: Option<String>,
    id_token: Option<String>,
    saml_response: Option<String>,
    code: Option<String>,
    message: Option<String>,
}

/// The form in which the source gives the token.
#[derive(Default, Deserialize)]
struct Format {
    #[serde(rename = "type")]
    kind: Option<String>,
    subject_token_field_name: Option<String>,
}

impl ExternalAccount {
    /// Reads an account. The error says what is wrong, without the values.
    pub(super) fn read(value: &Value) -> Result<Self, String> {
        let account: Self = parse(value)?;
        let source = &account.credential_source;
        for (name, field) in
            [("environment_id", &source.environment_id), ("certificate", &source.certificate)]
        {
            if field.is_some() {
                return Err(format!("a credential_source with {name} is not supported"));
            }
        }
        let sources = [source.file.is_some(), source.url.is_some(), source.executable.is_some()];
        if sources.into_iter().filter(|is_given| *is_given).count() != 1 {
            return Err("credential_source names one of file, url and executable".to_owned());
        }
        let is_allowed = std::env::var_os(ALLOW).is_some_and(|value| value == "1");
        if source.executable.is_some() && !is_allowed {
            return Err(format!("credential_source names an executable; set {ALLOW}=1 to run it"));
        }
        check_url(&account.token_url)?;
        Ok(account)
    }

    /// A token of Google.
    pub(super) async fn token(
        &self,
        transport: &Transport,
    ) -> Result<Expiring<GcpCredential>, String> {
        let subject = match &self.credential_source.executable {
            Some(executable) => self.printed(executable).await?,
            None => self.credential_source.token(transport).await?,
        };
        let mut form = vec![
            ("grant_type", "urn:ietf:params:oauth:grant-type:token-exchange"),
            ("requested_token_type", "urn:ietf:params:oauth:token-type:access_token"),
            ("audience", &self.audience),
            ("scope", SCOPE),
            ("subject_token_type", &self.subject_token_type),
            ("subject_token", &subject),
        ];
        let project = self.workforce_pool_user_project.as_ref();
        let options = project.map(|id| serde_json::json!({ "userProject": id }).to_string());
        // With a client's own id the project is known.
        if let Some(options) = options.as_ref().filter(|_| self.client_id.is_none()) {
            form.push(("options", options));
        }
        let basic = self.client_id.as_ref().map(|id| {
            let secret = self.client_secret.as_deref().unwrap_or_default();
            format!("Basic {}", STANDARD.encode(format!("{id}:{secret}")))
        });
        exchange(&self.token_url, &form, basic.as_deref(), transport).await
    }

    /// The token that the program prints.
    async fn printed(&self, executable: &Executable) -> Result<String, String> {
        let failed = |reason: &str| format!("the executable of its credential_source: {reason}");
        let mut program = Program::new(&executable.command)
            .map_err(failed)?
            .variable("GOOGLE_EXTERNAL_ACCOUNT_AUDIENCE", &self.audience)
            .variable("GOOGLE_EXTERNAL_ACCOUNT_TOKEN_TYPE", &self.subject_token_type)
            .variable("GOOGLE_EXTERNAL_ACCOUNT_INTERACTIVE", "0");
        let (min, usual, max) = PROGRAM_MS;
        let time_ms = executable.timeout_millis.unwrap_or(usual).clamp(min, max);
        program.time_max = Duration::from_millis(time_ms);
        let output = program.run().await.map_err(|reason| failed(&reason))?;
        // The parser's message may quote the token.
        let printed: Printed = serde_json::from_slice(&output)
            .map_err(|_secret| failed("its output is not the JSON that is expected"))?;
        if printed.version != 1 {
            return Err(failed("its output is not of version 1"));
        }
        if !printed.success {
            let parts = [printed.code, printed.message].into_iter().flatten();
            let reason = parts.collect::<Vec<_>>().join(": ");
            return Err(failed(&token_service::shown(&reason)));
        }
        if printed.token_type.as_ref() != Some(&self.subject_token_type) {
            return Err(failed("its token is of another type than the account's"));
        }
        let token = printed.id_token.or(printed.saml_response).filter(|token| !token.is_empty());
        token.ok_or_else(|| failed("its output has no token"))
    }
}

impl Source {
    /// The token of the other identity provider. It is read anew each time: its lifetime is short.
    async fn token(&self, transport: &Transport) -> Result<String, String> {
        let text = match (&self.file, &self.url) {
            (Some(file), _) => {
                let path = file.clone();
                let read = tokio::task::spawn_blocking(move || read(&path)).await;
                read.map_err(|error| error.to_string())?
                    .map_err(|error| format!("{} cannot be read: {error}", file.display()))?
            }
            (None, Some(url)) => self.fetch(url, transport).await?,
            (None, None) => return Err("there is no source of the token".to_owned()),
        };
        let text = text.trim();
        let token = if self.format.kind.as_deref() == Some("json") {
            let field = self.format.subject_token_field_name.as_deref().unwrap_or_default();
            let value: Option<Value> = serde_json::from_str(text).ok();
            let token = value.and_then(|value| Some(value.get(field)?.as_str()?.to_owned()));
            token.ok_or_else(|| format!("the source of the token has no field {field:?}"))?
        } else {
            text.to_owned()
        };
        if token.is_empty() {
            return Err("the source of the token is empty".to_owned());
        }
        Ok(token)
    }

    async fn fetch(&self, url: &str, transport: &Transport) -> Result<String, String> {
        let mut request = http::Request::builder().method(Method::GET).uri(url);
        for (name, value) in &self.headers {
            request = request.header(name, value);
        }
        let request = request.body(HttpRequestBody::empty());
        let request = request.map_err(|_secret| "the URL of the token or its headers are wrong")?;
        let host = request.uri().authority().map(ToString::to_string).unwrap_or_default();
        let (status, body) = token_service::ask(transport, request).await?;
        if !status.is_success() {
            return Err(format!("{host}, the source of the token, answered {}", status.as_u16()));
        }
        Ok(String::from_utf8_lossy(&body).into_owned())
    }
}

fn read(path: &std::path::Path) -> std::io::Result<String> {
    use std::io::Read as _;

    let mut text = String::new();
    std::fs::File::open(path)?.take(TOKEN_BYTES_MAX).read_to_string(&mut text)?;
    Ok(text)
}
