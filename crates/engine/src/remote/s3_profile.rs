//! The shared files of AWS's tools: the credentials, region and endpoint of one profile.
//!
//! `object_store` reads the environment but not these files. Of the indirect ways to keys, the
//! profile's program (`credential_process`), a web identity and a role assumed with other keys are
//! supported. Single sign-on and codes of a device (`mfa_serial`) are not. A profile with such a
//! setting is refused by the setting's name, not silently ignored.
//!
//! The order of the ways is that of the AWS CLI: a role, keys in the credentials file, a process,
//! keys in the config file. There is one difference: a process has priority over single sign-on,
//! which is not supported.
//!
//! Format: the AWS SDKs and Tools Reference Guide, "Shared config and credentials files".

use std::path::PathBuf;
use std::sync::Arc;

use configparser::ini::Ini;
use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey};

use super::s3_process::CredentialProcess;
use super::s3_role::Role;
use super::s3_role_source::{RoleSource, Roles};
use super::{RemoteOptions, s3_sources};
use crate::error::{Error, ErrorKind, Operation, Result, Setting};
use crate::transport::Transport;

/// The supported settings of a profile.
pub(super) struct Profile {
    pub(super) name: String,
    /// Whether `AWS_PROFILE` names it.
    is_named: bool,
    pub(super) keys: Option<Keys>,
    /// Its static keys, which may stand beside a role.
    pub(super) own_keys: Option<Keys>,
    pub(super) region: Option<String>,
    endpoint_url: Option<String>,
}

/// A profile's way to credentials.
#[derive(Clone, PartialEq, Eq)]
pub(super) enum Keys {
    Static {
        id: String,
        secret: String,
        token: Option<String>,
    },
    /// The command.
    Process(String),
    WebIdentity {
        role_arn: String,
        token_file: String,
        session_name: Option<String>,
    },
    /// A role that is assumed with other keys.
    Role(Role, RoleSource),
    /// What is not supported.
    Unsupported(&'static str),
}

/// The shared files.
pub(super) struct Files {
    credentials: Ini,
    config: Ini,
}

const EXPORT_HINT: &str = "make a profile with the line `credential_process = aws configure \
     export-credentials --profile NAME --format process`, where NAME is this profile, and set \
     AWS_PROFILE to the new one";

/// Whether the variable has a value.
pub(super) fn has(name: &str) -> bool {
    std::env::var_os(name).is_some_and(|value| !value.is_empty())
}

/// The profile that the caller names, or else `AWS_PROFILE`.
fn named(options: &RemoteOptions) -> Option<String> {
    let variable = || std::env::var("AWS_PROFILE").ok().filter(|name| !name.is_empty());
    options.aws_profile.clone().or_else(variable)
}

/// Whether keys in the environment are used in place of the profile's.
fn has_keys(options: &RemoteOptions) -> bool {
    options.aws_profile.is_none() && has("AWS_ACCESS_KEY_ID")
}

/// The name of this source in a list of those that were tried; `None` if it is not tried.
pub(super) fn tried(options: &RemoteOptions) -> Option<String> {
    match named(options) {
        Some(name) => Some(format!("profile {name}")),
        None => (!has_keys(options)).then(|| "profile".to_owned()),
    }
}

/// The same settings, with those of the profile, unless keys in the environment make it needless.
/// Variables have priority over the profile, as in AWS's own tools.
pub(super) fn apply(
    builder: AmazonS3Builder,
    options: &RemoteOptions,
    transport: &Transport,
) -> Result<AmazonS3Builder> {
    if tried(options).is_none() {
        return Ok(builder);
    }
    let named = named(options);
    let name = named.as_deref().unwrap_or("default");
    let files = Files {
        credentials: read("AWS_SHARED_CREDENTIALS_FILE", ".aws/credentials")?,
        config: read("AWS_CONFIG_FILE", ".aws/config")?,
    };
    let profile = files.profile(name, named.is_some())?;
    let unsigned = builder.get_config_value(&AmazonS3ConfigKey::SkipSignature);
    let anonymous = options.anonymous || unsigned.is_some_and(|unsigned| unsigned == "true");
    let mut builder = if anonymous || has_keys(options) || options.credential_process.is_some() {
        builder
    } else {
        profile.apply_keys(builder, &Roles { files: &files, transport })?
    };
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
    Ok(builder)
}

impl Files {
    /// The profile with this name; one that `is_named` must be there.
    pub(super) fn profile(&self, name: &str, is_named: bool) -> Result<Profile> {
        let Self { credentials, config } = self;
        let has = |ini: &Ini, section: &str| ini.get_map_ref().contains_key(section);
        // In the config file every section is named "profile NAME". The default's may lack the word.
        let section = format!("profile {name}");
        let is_short = name == "default" && !has(config, &section);
        let section = if is_short { name.to_owned() } else { section };
        if is_named && !has(credentials, name) && !has(config, &section) {
            return Err(refusal(name, "no such profile in the shared AWS files")
                .with_hint(Setting::AwsCredentials));
        }
        let get =
            |key: &str| value(credentials, name, key).or_else(|| value(config, &section, key));
        let plain = |key: &str| get(key).map(without_comment);
        let (first, last) = (static_keys(credentials, name), static_keys(config, &section));
        let keys = role(plain)
            .or_else(|| first.clone())
            .or_else(|| get("credential_process").map(Keys::Process))
            .or_else(|| last.clone())
            .or_else(|| {
                let mut settings = ["sso_session", "sso_start_url", "login_session"].into_iter();
                settings.find(|key| get(key).is_some()).map(Keys::Unsupported)
            });
        let (region, endpoint_url) = (plain("region"), plain("endpoint_url"));
        let own_keys = first.or(last);
        Ok(Profile { name: name.to_owned(), is_named, keys, own_keys, region, endpoint_url })
    }
}

impl Profile {
    /// The same settings with the profile's way to credentials.
    fn apply_keys(&self, builder: AmazonS3Builder, roles: &Roles<'_>) -> Result<AmazonS3Builder> {
        match &self.keys {
            None => Ok(builder),
            // The environment names a web identity, or a container's role, for this program only.
            // An unnamed profile is for all programs.
            Some(Keys::WebIdentity { .. } | Keys::Role(..) | Keys::Unsupported(_))
                if !self.is_named && s3_sources::role(&builder).is_some() =>
            {
                Ok(builder)
            }
            Some(keys) => self.with(keys, builder, roles),
        }
    }

    /// The same settings with this way to credentials.
    pub(super) fn with(
        &self,
        keys: &Keys,
        builder: AmazonS3Builder,
        roles: &Roles<'_>,
    ) -> Result<AmazonS3Builder> {
        Ok(match keys {
            Keys::Static { id, secret, token } => {
                let builder = builder.with_access_key_id(id).with_secret_access_key(secret);
                match token {
                    Some(token) => builder.with_token(token),
                    None => builder,
                }
            }
            Keys::Process(command) => {
                let process =
                    CredentialProcess::new(&format!("AWS profile {}", self.name), command)
                        .map_err(|flaw| {
                            refusal(
                                &self.name,
                                &format!("credential_process cannot be run: {flaw}"),
                            )
                            .with_hint("correct the line in the shared AWS files")
                        })?;
                builder.with_credentials(Arc::new(process))
            }
            Keys::WebIdentity { role_arn, token_file, session_name } => {
                let builder = builder
                    .with_config(AmazonS3ConfigKey::RoleArn, role_arn)
                    .with_config(AmazonS3ConfigKey::WebIdentityTokenFile, token_file);
                match session_name {
                    Some(name) => builder.with_config(AmazonS3ConfigKey::RoleSessionName, name),
                    None => builder,
                }
            }
            Keys::Role(role, source) => {
                builder.with_credentials(roles.provider(self, role, source)?)
            }
            Keys::Unsupported(setting) => {
                let message = format!("profiles with {setting} are not supported");
                return Err(refusal(&self.name, &message).with_hint(EXPORT_HINT));
            }
        })
    }
}

pub(super) fn refusal(name: &str, message: &str) -> Error {
    let target = format!("AWS profile {name}");
    Error::new(ErrorKind::NoAccess, Operation::Locate, target, message)
}

/// The role that the profile names. Keys beside it are those of another identity.
fn role(get: impl Fn(&str) -> Option<String>) -> Option<Keys> {
    Some(match (get("role_arn"), get("web_identity_token_file")) {
        (None, None) => return None,
        (Some(role_arn), Some(token_file)) => {
            Keys::WebIdentity { role_arn, token_file, session_name: get("role_session_name") }
        }
        (Some(_), None) if get("mfa_serial").is_some() => Keys::Unsupported("mfa_serial"),
        (Some(arn), None) => {
            let named = get("credential_source");
            match RoleSource::read(get("source_profile"), named.as_deref()) {
                Err(unsupported) => Keys::Unsupported(unsupported),
                Ok(source) => {
                    let role = Role {
                        arn,
                        session_name: get("role_session_name"),
                        external_id: get("external_id"),
                        duration_seconds: get("duration_seconds"),
                    };
                    Keys::Role(role, source)
                }
            }
        }
        (None, Some(_)) => Keys::Unsupported("web_identity_token_file but no role_arn"),
    })
}

/// Keys and token belong together, so they come from one file.
fn static_keys(ini: &Ini, section: &str) -> Option<Keys> {
    let get = |key| value(ini, section, key).map(without_comment);
    let (id, secret) = (get("aws_access_key_id")?, get("aws_secret_access_key")?);
    Some(Keys::Static { id, secret, token: get("aws_session_token") })
}

fn value(ini: &Ini, section: &str, key: &str) -> Option<String> {
    ini.get(section, key).filter(|value| !value.is_empty())
}

/// The value up to a comment on the same line, which begins after white space. A command has none:
/// there `#` and `;` are text.
fn without_comment(value: String) -> String {
    let starts = [" #", " ;", "\t#", "\t;"];
    match starts.into_iter().filter_map(|start| value.find(start)).min() {
        Some(index) => value[..index].trim_end().to_owned(),
        None => value,
    }
}

fn parser() -> Ini {
    let mut ini = Ini::new_cs();
    ini.set_inline_comment_symbols(Some(&[]));
    ini
}

fn read(variable: &str, default: &str) -> Result<Ini> {
    let path = std::env::var_os(variable)
        .map(PathBuf::from)
        .or_else(|| std::env::var_os("HOME").map(|home| PathBuf::from(home).join(default)));
    let mut ini = parser();
    let Some(text) = path.as_ref().and_then(|path| std::fs::read_to_string(path).ok()) else {
        return Ok(ini);
    };
    ini.read(text).map_err(|message| {
        let shown = path.map(|path| path.display().to_string()).unwrap_or_default();
        // The parser's message quotes lines of the file, which holds secrets.
        drop(message);
        Error::new(ErrorKind::Invalid, Operation::Connect, shown, "it is not a valid profile file")
    })?;
    Ok(ini)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transport::TransportOptions;

    fn ini(text: &str) -> Ini {
        let mut ini = parser();
        ini.read(text.to_owned()).unwrap();
        ini
    }

    fn files(credentials: &str, config: &str) -> Files {
        Files { credentials: ini(credentials), config: ini(config) }
    }

    fn applied(profile: &Profile) -> Result<AmazonS3Builder> {
        let transport = Transport::new(&TransportOptions::default()).unwrap();
        let roles = Roles { files: &files("", ""), transport: &transport };
        profile.apply_keys(AmazonS3Builder::new(), &roles)
    }

    /// The profile `work`, by name.
    fn work(credentials: &str, config: &str) -> Profile {
        files(credentials, config).profile("work", true).ok().unwrap()
    }

    fn refused(profile: &Profile) -> String {
        let error = applied(profile).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NoAccess);
        format!("{error}; {}", error.hint().unwrap())
    }

    const KEYS: &str = "aws_access_key_id = AK\naws_secret_access_key = s/e+c=r\n";

    #[test]
    fn keys_come_from_credentials_and_settings_from_config() {
        let profile = work(
            &format!("[work] # mine\n{KEYS}"),
            "[profile work]\nregion = eu-west-1 ; home\nendpoint_url = http://localhost:1\n",
        );
        let (id, secret) = ("AK".to_owned(), "s/e+c=r".to_owned());
        assert!(profile.keys == Some(Keys::Static { id, secret, token: None }));
        assert_eq!(profile.region.as_deref(), Some("eu-west-1"));
        assert_eq!(profile.endpoint_url.as_deref(), Some("http://localhost:1"));
    }

    #[test]
    fn a_profile_that_is_not_there_is_an_error_only_if_named() {
        let none = files("", "");
        assert!(none.profile("default", false).is_ok());
        let error = none.profile("work", true).err().unwrap();
        assert_eq!(error.kind(), ErrorKind::NoAccess);
        assert!(work("", "[profile work]\noutput = json\n").keys.is_none(), "it is there");
    }

    #[test]
    fn a_command_is_the_whole_line() {
        let config = "[profile work]\ncredential_process = /bin/x 'a;b' \"c #d\" -e=f:g\n";
        let command = "/bin/x 'a;b' \"c #d\" -e=f:g".to_owned();
        assert!(work("", config).keys == Some(Keys::Process(command.clone())));
        assert!(work("", &format!("{config}{KEYS}")).keys == Some(Keys::Process(command.clone())));
        assert!(
            work("", &format!("{config}sso_session = x\n")).keys == Some(Keys::Process(command))
        );
        let keys = work(&format!("[work]\n{KEYS}"), config).keys;
        assert!(matches!(keys, Some(Keys::Static { .. })));
    }

    #[test]
    fn a_command_without_an_end_is_refused() {
        let text = refused(&work("", "[profile work]\ncredential_process = x 'hidden\n"));
        assert!(text.contains("AWS profile work: credential_process cannot be run"), "{text}");
        assert!(!text.contains("hidden"), "{text}");
    }

    #[test]
    fn a_web_identity_is_passed_on() {
        let config = "[profile work]\nrole_arn = arn:r\nweb_identity_token_file = /t\n\
                      role_session_name = me\n";
        let builder = applied(&work(&format!("[work]\n{KEYS}"), config)).unwrap();
        let get = |key| builder.get_config_value(&key).unwrap_or_default();
        assert_eq!(get(AmazonS3ConfigKey::RoleArn), "arn:r");
        assert_eq!(get(AmazonS3ConfigKey::WebIdentityTokenFile), "/t");
        assert_eq!(get(AmazonS3ConfigKey::RoleSessionName), "me");
        assert_eq!(get(AmazonS3ConfigKey::AccessKeyId), "");
    }

    #[test]
    fn what_needs_another_service_is_refused_by_name_with_a_way() {
        for (settings, part) in [
            ("sso_session = x\n", "sso_session"),
            ("role_arn = arn:r\nsource_profile = base\nmfa_serial = arn:m\n", "mfa_serial"),
            ("role_arn = arn:r\n", "role_arn but no source_profile"),
            ("role_arn = arn:r\ncredential_source = Other\n", "credential_source"),
            ("role_arn = arn:r\nsource_profile = a\ncredential_source = Environment\n", "both"),
            ("web_identity_token_file = /t\n", "no role_arn"),
        ] {
            let text = refused(&work("", &format!("[profile work]\n{settings}")));
            assert!(text.contains("AWS profile work: profiles with"), "{text}");
            assert!(text.contains(part) && text.contains("export-credentials"), "{text}");
        }
    }

    #[test]
    fn the_default_profile_has_two_names() {
        let region = |config| files("", config).profile("default", false).ok().unwrap().region;
        assert_eq!(region("[default]\nregion = a\n").as_deref(), Some("a"));
        assert_eq!(region("[profile default]\nregion = b\n").as_deref(), Some("b"));
        let both = "[default]\nregion = a\n[profile default]\nregion = b\n";
        assert_eq!(region(both).as_deref(), Some("b"));
    }

    #[test]
    fn a_role_needs_a_source_with_keys() {
        let transport = Transport::new(&TransportOptions::default()).unwrap();
        let role = |config: &str| {
            let files = files("", &format!("[profile work]\nrole_arn = arn:r\n{config}"));
            let roles = Roles { files: &files, transport: &transport };
            let profile = files.profile("work", true)?;
            profile.apply_keys(AmazonS3Builder::new(), &roles).map(drop)
        };
        let own = format!("source_profile = work\n{KEYS}");
        let other = format!("source_profile = base\n[profile base]\n{KEYS}");
        let chain = format!("source_profile = a\n[profile a]\nrole_arn = arn:a\n{other}");
        for config in [own, other, chain] {
            assert!(role(&config).is_ok(), "{config}");
        }
        for (config, part) in [
            ("source_profile = gone\n", "AWS profile gone: no such profile"),
            ("source_profile = work\n", "which has no keys"),
            ("source_profile = a\n[profile a]\nregion = r\n", "source_profile a has no keys"),
            ("source_profile = a\n[profile a]\nsso_session = s\n", "AWS profile a: profiles with"),
            (
                "source_profile = a\n[profile a]\nrole_arn = arn:a\nsource_profile = work\n",
                "has no end",
            ),
        ] {
            let error = role(config).unwrap_err();
            assert!(error.to_string().contains(part), "{config}: {error}");
            assert_eq!(error.kind(), ErrorKind::NoAccess);
        }
    }
}
