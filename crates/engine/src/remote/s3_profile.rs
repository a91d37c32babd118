//! The shared files of AWS's tools: keys, region and endpoint of one profile.
//!
//! `object_store` reads the environment but not these files. Some settings need another service to
//! get keys (single sign-on, an assumed role, a credential process). If `AWS_PROFILE` names a
//! profile with such a setting, it is refused by the setting's name, not silently ignored.
//!
//! Format: the AWS SDKs and Tools Reference Guide, "Shared config and credentials files".

use std::path::PathBuf;

use configparser::ini::Ini;

use crate::error::{Error, ErrorKind, Operation, Result, Setting};

/// The supported settings of a profile.
#[derive(Clone, Default, PartialEq, Eq)]
pub(super) struct Profile {
    pub(super) access_key_id: Option<String>,
    pub(super) secret_access_key: Option<String>,
    pub(super) session_token: Option<String>,
    pub(super) region: Option<String>,
    pub(super) endpoint_url: Option<String>,
}

/// Settings that need another service to get keys.
const INDIRECT: [&str; 4] = ["sso_session", "sso_start_url", "role_arn", "credential_process"];

impl Profile {
    /// The profile that `AWS_PROFILE` names, or `default`; empty if there are no files.
    pub(super) fn load() -> Result<Self> {
        let named = std::env::var("AWS_PROFILE").ok().filter(|name| !name.is_empty());
        let name = named.as_deref().unwrap_or("default");
        let credentials = read("AWS_SHARED_CREDENTIALS_FILE", ".aws/credentials")?;
        let config = read("AWS_CONFIG_FILE", ".aws/config")?;
        Self::from_files(&credentials, &config, name, named.is_some())
    }

    fn from_files(
        credentials: &Ini,
        config: &Ini,
        name: &str,
        named_by_hand: bool,
    ) -> Result<Self> {
        // In the config file every section except the default's is named "profile NAME".
        let section = if name == "default" { name.to_owned() } else { format!("profile {name}") };
        let get = |key: &str| credentials.get(name, key).or_else(|| config.get(&section, key));
        let refuse = |message: String| {
            Error::new(
                ErrorKind::NoAccess,
                Operation::Locate,
                format!("AWS profile {name}"),
                message,
            )
            .with_hint(Setting::AwsCredentials)
        };
        let profile = Self {
            access_key_id: get("aws_access_key_id"),
            secret_access_key: get("aws_secret_access_key"),
            session_token: get("aws_session_token"),
            region: get("region"),
            endpoint_url: get("endpoint_url"),
        };
        if named_by_hand && profile.access_key_id.is_none() {
            if let Some(setting) = INDIRECT.iter().find(|key| get(key).is_some()) {
                return Err(refuse(format!("profiles with {setting} are not supported")));
            }
            if profile == Self::default() {
                return Err(refuse("no such profile in the shared AWS files".to_owned()));
            }
        }
        Ok(profile)
    }
}

fn read(variable: &str, default: &str) -> Result<Ini> {
    let path = std::env::var_os(variable)
        .map(PathBuf::from)
        .or_else(|| std::env::var_os("HOME").map(|home| PathBuf::from(home).join(default)));
    let mut ini = Ini::new_cs();
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

    fn ini(text: &str) -> Ini {
        let mut ini = Ini::new_cs();
        ini.read(text.to_owned()).unwrap();
        ini
    }

    #[test]
    fn keys_come_from_credentials_and_settings_from_config() {
        let credentials = ini("[work]\naws_access_key_id = AK\naws_secret_access_key = s/e+c=r\n");
        let config = ini("[profile work]\nregion = eu-west-1\nendpoint_url = http://localhost:1\n");
        let profile = Profile::from_files(&credentials, &config, "work", true).unwrap();
        assert_eq!(profile.access_key_id.as_deref(), Some("AK"));
        assert_eq!(profile.secret_access_key.as_deref(), Some("s/e+c=r"));
        assert_eq!(profile.region.as_deref(), Some("eu-west-1"));
        assert_eq!(profile.endpoint_url.as_deref(), Some("http://localhost:1"));
    }

    #[test]
    fn a_profile_that_is_not_there_is_an_error_only_if_named() {
        let none = Ini::new_cs();
        assert!(Profile::from_files(&none, &none, "default", false).is_ok());
        let error = Profile::from_files(&none, &none, "work", true).err().unwrap();
        assert_eq!(error.kind(), ErrorKind::NoAccess);
    }

    #[test]
    fn single_sign_on_is_refused_by_name() {
        let config = ini("[profile work]\nsso_session = x\n");
        let error = Profile::from_files(&Ini::new_cs(), &config, "work", true).err().unwrap();
        assert!(error.to_string().contains("sso_session"), "{error}");
    }
}
