//! Certificate authorities that the environment names.
//!
//! The engine reads `SSL_CERT_FILE` and `SSL_CERT_DIR` in place of the system's store, as OpenSSL
//! does. The files here are trusted in addition, so that a private proxy's authority does not lock
//! out public servers.

use std::fs::File;
use std::path::PathBuf;

use tidegate::{Error, ErrorKind, Operation, Result};

/// Variables, and the schemes that they are for; none stands for all.
const VARIABLES: [(&str, Option<&str>); 2] =
    [("AWS_CA_BUNDLE", Some("s3")), ("CURL_CA_BUNDLE", None)];

/// The files of authorities for these URLs. Fails with `Invalid` if one cannot be read.
pub(crate) fn from_environment(names: &[&str]) -> Result<Vec<PathBuf>> {
    let is_for = |scheme: Option<&str>| {
        names
            .iter()
            .filter_map(|name| name.split_once("://"))
            .any(|(given, _)| scheme.is_none_or(|scheme| given.eq_ignore_ascii_case(scheme)))
    };
    let mut files = Vec::new();
    for (variable, scheme) in VARIABLES {
        let path = std::env::var_os(variable).filter(|path| !path.is_empty()).map(PathBuf::from);
        let Some(path) = path.filter(|_| is_for(scheme)) else { continue };
        File::open(&path).map_err(|error| {
            let message = format!("{} cannot be read", path.display());
            Error::new(ErrorKind::Invalid, Operation::Locate, variable, message)
                .caused_by(error)
                .with_hint(format!(
                    "name a PEM file of certificate authorities in {variable}, or unset it"
                ))
        })?;
        files.push(path);
    }
    Ok(files)
}
