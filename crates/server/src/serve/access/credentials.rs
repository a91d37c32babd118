//! The file of tokens and certificates.
//!
//! ```toml
//! [anonymous]                  # requests without credentials; without this table, none get in
//! role = "read"
//!
//! [[token]]
//! name = "ci"                  # for the log
//! token = "at-least-16-characters"
//! role = "write"               # read, write or admin
//! tenant = "team-a"            # default: the tenant without a name
//! instances = ["main", "ci/*"] # default: all
//!
//! [[token]]
//! name = "operator"
//! token-sha256 = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"
//! role = "admin"
//!
//! [[certificate]]
//! dns = "builder.example"      # a name in a certificate that the authority of clients signed
//! role = "write"
//! ```

use std::collections::HashMap;

use serde::Deserialize;
use tidegate_core::checksum::Checksum;
use tidegate_core::digest::{Digest, DigestFunction};
use tidegate_reapi::resource::check_instance;
use toml::Spanned;

use super::tls::PeerCertificate;
use super::{Caller, Role, Tenant};
use crate::store::LocalStore;

/// Shorter tokens can be guessed.
const TOKEN_CHARS_MIN: usize = 16;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    anonymous: Option<Spanned<Anonymous>>,
    #[serde(default)]
    token: Vec<Spanned<TokenEntry>>,
    #[serde(default)]
    certificate: Vec<Spanned<Certificate>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Anonymous {
    role: Role,
    #[serde(default)]
    tenant: String,
    instances: Option<Vec<String>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct TokenEntry {
    name: String,
    token: Option<String>,
    token_sha256: Option<String>,
    role: Role,
    #[serde(default)]
    tenant: String,
    instances: Option<Vec<String>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Certificate {
    dns: String,
    role: Role,
    #[serde(default)]
    tenant: String,
    instances: Option<Vec<String>>,
}

/// Who is known.
#[derive(Debug, Default)]
pub(super) struct Credentials {
    anonymous: Option<Caller>,
    /// By the SHA-256 of the token.
    tokens: HashMap<[u8; 32], Caller>,
    certificates: Vec<(String, Caller)>,
}

impl Credentials {
    /// Reads the text of the file. The message of an error begins with the line.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let at = |start: usize, message: &str| {
            let line = text[..start.min(text.len())].matches('\n').count() + 1;
            format!("line {line}: {message}")
        };
        let file: File = toml::from_str(text).map_err(|error| {
            let start = error.span().map_or(0, |span| span.start);
            at(start, &error.message().lines().collect::<Vec<_>>().join(", "))
        })?;
        let mut known = Self::default();
        if let Some(entry) = file.anonymous {
            let start = entry.span().start;
            let Anonymous { role, tenant, instances } = entry.into_inner();
            let caller = caller("anonymous", role, &tenant, instances);
            known.anonymous = Some(caller.map_err(|message| at(start, &message))?);
        }
        for entry in file.token {
            let start = entry.span().start;
            known.add_token(entry.into_inner()).map_err(|message| at(start, &message))?;
        }
        for entry in file.certificate {
            let start = entry.span().start;
            let Certificate { dns, role, tenant, instances } = entry.into_inner();
            let caller = PeerCertificate::check_name(&dns)
                .and_then(|()| caller(&dns, role, &tenant, instances))
                .map_err(|message| at(start, &message))?;
            known.certificates.push((dns, caller));
        }
        Ok(known)
    }

    fn add_token(&mut self, entry: TokenEntry) -> Result<(), String> {
        let TokenEntry { name, token, token_sha256, role, tenant, instances } = entry;
        let hash = match (token, token_sha256) {
            (Some(token), None) => {
                let is_plain = token.bytes().all(|byte| byte.is_ascii_graphic());
                if token.len() < TOKEN_CHARS_MIN || !is_plain {
                    return Err(format!(
                        "expected a token of at least {TOKEN_CHARS_MIN} ASCII characters without spaces"
                    ));
                }
                hash(token.as_bytes())
            }
            (None, Some(hex)) => {
                let algorithm = DigestFunction::Sha256.algorithm();
                let hash = Checksum::from_hex(algorithm, &hex.to_ascii_lowercase()).ok();
                let hash = hash.and_then(|hash| hash.as_bytes().try_into().ok());
                hash.ok_or("expected 64 hexadecimal digits in token-sha256")?
            }
            _ => return Err("expected either token or token-sha256".into()),
        };
        let caller = caller(&name, role, &tenant, instances)?;
        match self.tokens.insert(hash, caller) {
            None => Ok(()),
            Some(other) => Err(format!("the token is that of {:?}", other.name())),
        }
    }

    /// Gives each caller the blobs of its tenant alone.
    pub(super) fn isolate(&mut self, shared: &LocalStore) {
        let certificates = self.certificates.iter_mut().map(|(_, caller)| caller);
        let callers = self.tokens.values_mut().chain(certificates).chain(&mut self.anonymous);
        callers.for_each(|caller| *caller = caller.clone().isolated(shared));
    }

    /// The caller with this token.
    pub(super) fn of_token(&self, token: &[u8]) -> Option<&Caller> {
        // A look-up by hash tells nothing of how much of a token is right.
        self.tokens.get(&hash(token))
    }

    /// The caller with this certificate.
    pub(super) fn of_certificate(&self, certificate: &PeerCertificate) -> Option<&Caller> {
        let mut known = self.certificates.iter();
        known.find(|(name, _)| certificate.has_name(name)).map(|(_, caller)| caller)
    }

    /// The caller without credentials.
    pub(super) const fn anonymous(&self) -> Option<&Caller> {
        self.anonymous.as_ref()
    }

    /// Whether a certificate is of use.
    pub(super) const fn has_certificates(&self) -> bool {
        !self.certificates.is_empty()
    }
}

fn hash(token: &[u8]) -> [u8; 32] {
    Digest::of(DigestFunction::Sha256, token).hash
}

fn caller(
    name: &str,
    role: Role,
    tenant: &str,
    instances: Option<Vec<String>>,
) -> Result<Caller, String> {
    let tenant = Tenant::new(tenant).ok_or("a tenant's name has no zero byte")?;
    for instance in instances.iter().flatten() {
        check_instance(instance.strip_suffix("/*").unwrap_or(instance))
            .map_err(|error| format!("instance {instance:?}: {error}"))?;
    }
    Ok(Caller::new(name, role, tenant, instances))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOKEN: &str = "0123456789abcdef";

    #[test]
    fn each_entry_is_found_by_what_it_says() {
        let text = format!(
            "[anonymous]\nrole = \"read\"\n\n[[token]]\nname = \"ci\"\ntoken = \"{TOKEN}\"\n\
             role = \"write\"\ntenant = \"a\"\ninstances = [\"main\"]\n\n[[token]]\n\
             name = \"op\"\ntoken-sha256 = \"{}\"\nrole = \"admin\"\n",
            Digest::of(DigestFunction::Sha256, b"secret").checksum().hex(),
        );
        let known = Credentials::parse(&text).unwrap();
        let ci = known.of_token(TOKEN.as_bytes()).unwrap();
        assert_eq!((ci.name(), ci.role(), ci.tenant().name()), ("ci", Role::Write, "a"));
        assert!(ci.may_use("main") && !ci.may_use("other"));
        let operator = known.of_token(b"secret").unwrap();
        assert_eq!((operator.role(), operator.tenant().name()), (Role::Admin, ""));
        assert_eq!(known.anonymous().unwrap().role(), Role::Read);
        for wrong in [&b""[..], b"0123456789abcde", b"0123456789abcdef0", b"Secret"] {
            assert!(known.of_token(wrong).is_none());
        }
        assert!(Credentials::parse("").unwrap().anonymous().is_none());
    }

    #[test]
    fn a_flaw_is_named_with_its_line() {
        let token = |rest: &str| format!("\n[[token]]\nname = \"a\"\nrole = \"read\"\n{rest}\n");
        let twice = token(&format!("token = \"{TOKEN}\"")).repeat(2);
        for (text, line, part) in [
            (token(""), 2, "either token or token-sha256"),
            (token("token = \"short\""), 2, "at least 16"),
            (token("token = \"with spaces in its text\""), 2, "without spaces"),
            (token("token-sha256 = \"12\""), 2, "64 hexadecimal digits"),
            (token("tokn = \"x\""), 5, "unknown field `tokn`"),
            (twice, 7, "the token is that of \"a\""),
            ("[anonymous]\nrole = \"owner\"".into(), 2, "unknown variant `owner`"),
            ("[[certificate]]\ndns = \"a b\"\nrole = \"read\"".into(), 1, "DNS name"),
            (token("instances = [\"a//b\"]\ntoken = \"0123456789abcdef\""), 2, "instance \"a//b\""),
            ("x".into(), 1, ""),
        ] {
            let flaw = Credentials::parse(&text).unwrap_err();
            assert!(flaw.starts_with(&format!("line {line}: ")), "{text}: {flaw}");
            assert!(flaw.contains(part), "{text}: {flaw}");
        }
    }
}
