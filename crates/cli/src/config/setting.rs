//! The settings that the configuration file may hold. Most are flags, and have the flag's name and
//! the syntax of its value.

/// Where a setting may stand in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scope {
    /// For the whole process: in the defaults only.
    Process,
    /// In the defaults or under a prefix.
    Url,
    /// Under a prefix only.
    Prefix,
}

/// What an environment variable does to a setting in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Effect {
    /// It has priority.
    Replaces,
    /// Both apply.
    Adds,
}

/// An environment variable that is another source of a setting.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Variable {
    pub(crate) name: &'static str,
    /// The schemes that it is for; none stands for all.
    schemes: &'static [&'static str],
    pub(crate) effect: Effect,
    pub(crate) is_secret: bool,
}

/// One setting.
#[derive(Debug)]
pub(crate) struct Setting {
    pub(crate) name: &'static str,
    pub(crate) scope: Scope,
    /// The schemes that it is for; none stands for all.
    schemes: &'static [&'static str],
    /// Settings of one group exclude each other: the one with priority replaces the others.
    pub(crate) group: &'static str,
    pub(crate) variables: &'static [Variable],
    /// Whether its value is not shown.
    pub(crate) is_secret: bool,
    /// Whether no flag has its name.
    pub(crate) is_in_file_only: bool,
}

/// The name of the table of header fields under a prefix.
pub(crate) const HEADERS: &str = "headers";

const S3: &[&str] = &["s3"];
const GCS: &[&str] = &["gs"];
const AZURE: &[&str] = &["az"];
const STORES: &[&str] = &["gs", "s3", "az"];
const CACHES: &[&str] = &["grpc", "grpcs"];
const HOSTS: &[&str] = &["http", "https", "grpc", "grpcs"];
const PLAIN: &[&str] = &["http", "grpc"];
const TLS: &[&str] = &["gs", "s3", "az", "https", "grpcs"];

const fn replaces(name: &'static str, schemes: &'static [&'static str]) -> Variable {
    Variable { name, schemes, effect: Effect::Replaces, is_secret: false }
}

const fn adds(name: &'static str, schemes: &'static [&'static str]) -> Variable {
    Variable { name, schemes, effect: Effect::Adds, is_secret: false }
}

const fn secret(name: &'static str, schemes: &'static [&'static str]) -> Variable {
    Variable { is_secret: true, ..replaces(name, schemes) }
}

const ENDPOINT: &[Variable] = &[
    replaces("AWS_ENDPOINT_URL_S3", S3),
    replaces("AWS_ENDPOINT_URL", S3),
    replaces("AWS_ENDPOINT", S3),
    replaces("STORAGE_EMULATOR_HOST", GCS),
    replaces("GOOGLE_BASE_URL", GCS),
    replaces("AZURE_STORAGE_ENDPOINT", AZURE),
    replaces("AZURE_ENDPOINT", AZURE),
];
const REGION: &[Variable] = &[replaces("AWS_REGION", S3), replaces("AWS_DEFAULT_REGION", S3)];
const UNSIGNED: &[Variable] = &[
    replaces("AWS_SKIP_SIGNATURE", S3),
    replaces("GOOGLE_SKIP_SIGNATURE", GCS),
    replaces("AZURE_SKIP_SIGNATURE", AZURE),
];
const AWS_KEYS: &[Variable] = &[secret("AWS_ACCESS_KEY_ID", S3), replaces("AWS_PROFILE", S3)];
const GOOGLE_KEYS: &[Variable] = &[
    secret("GOOGLE_SERVICE_ACCOUNT_KEY", GCS),
    replaces("GOOGLE_SERVICE_ACCOUNT", GCS),
    replaces("GOOGLE_SERVICE_ACCOUNT_PATH", GCS),
    replaces("GOOGLE_APPLICATION_CREDENTIALS", GCS),
];
const PROXY: &[Variable] = &[
    secret("http_proxy", PLAIN),
    secret("https_proxy", TLS),
    secret("HTTPS_PROXY", TLS),
    secret("all_proxy", &[]),
    secret("ALL_PROXY", &[]),
];
const AUTHORITIES: &[Variable] = &[adds("AWS_CA_BUNDLE", S3), adds("CURL_CA_BUNDLE", &[])];

/// Every setting, in the order of `config show`.
pub(crate) static SETTINGS: [Setting; 30] = [
    of_url("endpoint").under_prefix().schemes(STORES).variables(ENDPOINT),
    of_url("region").schemes(S3).variables(REGION).in_file_only(),
    of_url("anonymous").group("credentials").variables(UNSIGNED),
    of_url("profile").group("credentials").schemes(S3).variables(AWS_KEYS).in_file_only(),
    of_url("credential-process")
        .group("credentials")
        .schemes(S3)
        .variables(AWS_KEYS)
        .in_file_only()
        .secret(),
    of_url("credentials-file")
        .group("credentials")
        .schemes(GCS)
        .variables(GOOGLE_KEYS)
        .in_file_only(),
    of_url("netrc").group("netrc").schemes(HOSTS),
    of_url("netrc-file").group("netrc").schemes(HOSTS),
    of_url("proxy").group("proxy").variables(PROXY),
    of_url("no-proxy").group("proxy"),
    of_url("ca-cert").variables(AUTHORITIES),
    of_url("client-cert"),
    of_url("client-key"),
    of_url("user-project").schemes(GCS),
    of_url("request-payer").schemes(S3),
    of_url("trust-conditions").schemes(S3),
    of_url("customer-key-file").schemes(STORES),
    of_url("compress").schemes(CACHES),
    of_url("window"),
    of_url("shard-size"),
    of_url("verify"),
    of_url("retries"),
    of_url("deadline"),
    of_url("stall"),
    of_url("min-speed"),
    of_url("min-speed-time"),
    of_url("connect-timeout"),
    of_process("requests"),
    of_process("memory"),
    of_process("limit-rate"),
];

const fn of_url(name: &'static str) -> Setting {
    Setting {
        name,
        scope: Scope::Url,
        schemes: &[],
        group: name,
        variables: &[],
        is_secret: false,
        is_in_file_only: false,
    }
}

const fn of_process(name: &'static str) -> Setting {
    Setting { scope: Scope::Process, ..of_url(name) }
}

impl Setting {
    const fn under_prefix(self) -> Self {
        Self { scope: Scope::Prefix, ..self }
    }

    const fn schemes(self, schemes: &'static [&'static str]) -> Self {
        Self { schemes, ..self }
    }

    const fn group(self, group: &'static str) -> Self {
        Self { group, ..self }
    }

    const fn variables(self, variables: &'static [Variable]) -> Self {
        Self { variables, ..self }
    }

    const fn in_file_only(self) -> Self {
        Self { is_in_file_only: true, ..self }
    }

    const fn secret(self) -> Self {
        Self { is_secret: true, ..self }
    }

    /// The setting with this name.
    pub(crate) fn named(name: &str) -> Option<&'static Self> {
        SETTINGS.iter().find(|setting| setting.name == name)
    }

    /// Whether it has an effect on URLs of this scheme.
    pub(crate) fn is_for(&self, scheme: &str) -> bool {
        self.schemes.is_empty() || self.schemes.contains(&scheme)
    }
}

impl Variable {
    /// Whether it has an effect on URLs of this scheme.
    pub(crate) fn is_for(&self, scheme: &str) -> bool {
        self.schemes.is_empty() || self.schemes.contains(&scheme)
    }

    /// Its value, if it is set.
    pub(crate) fn value(&self) -> Option<std::ffi::OsString> {
        std::env::var_os(self.name).filter(|value| !value.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::UrlArgs;

    #[test]
    fn settings_are_flags_or_are_in_the_file_only() {
        let command = UrlArgs::definition();
        for setting in &SETTINGS {
            let is_flag =
                command.get_arguments().any(|argument| argument.get_long() == Some(setting.name));
            assert_ne!(is_flag, setting.is_in_file_only, "{}", setting.name);
        }
    }
}
