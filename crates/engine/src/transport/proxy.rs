//! [`Proxies`]: which connections go through a proxy, by the rules of curl.
//!
//! Source: curl's manual page, sections "ENVIRONMENT" and "PROXY PROTOCOL PREFIXES"
//! (<https://curl.se/docs/manpage.html>). The rules of `no_proxy` are those of
//! [`hyper_util::client::proxy::matcher`].
//!
//! | variable | what it is for |
//! |---|---|
//! | `http_proxy` | `http://` and `grpc://` addresses; in upper case it is ignored, because a CGI server sets `HTTP_PROXY` from a request's header |
//! | `https_proxy`, `HTTPS_PROXY` | `https://` and `grpcs://` addresses, and so all buckets |
//! | `all_proxy`, `ALL_PROXY` | both, if the variable above is not set |
//! | `no_proxy`, `NO_PROXY` | hosts that are connected directly: names with their subdomains, addresses, networks such as `10.0.0.0/8`, or `*` |
//!
//! The name in lower case is read first. An empty value counts as not set.
//!
//! Invariant: metadata services are connected directly. They hold the credentials of this machine,
//! and a proxy would answer with its own machine's.

use std::fmt;
use std::sync::Arc;

use http::{HeaderValue, Uri};
use hyper_util::client::proxy::matcher::Matcher;

use crate::error::{Error, ErrorKind, Operation, Result, Setting};

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// The port of a proxy whose URL names none, as in curl.
const PROXY_PORT: u16 = 1080;

/// Hosts of the metadata services of Google, AWS, Azure and Alibaba.
const METADATA_HOSTS: [&str; 6] = [
    "metadata.google.internal",
    "169.254.169.254",
    "169.254.170.2",
    "169.254.170.23",
    "[fd00:ec2::254]",
    "[fd00:ec2::23]",
];

/// Variables that hold the URL, or the host, of a metadata service elsewhere.
const METADATA_VARIABLES: [&str; 5] = [
    "AWS_CONTAINER_CREDENTIALS_FULL_URI",
    "IDENTITY_ENDPOINT",
    "MSI_ENDPOINT",
    "GCE_METADATA_HOST",
    "GCE_METADATA_ROOT",
];

/// Which connections go through a proxy. Clones share the rules. The default uses no proxy.
///
/// ```
/// use tidegate::transport::Proxies;
///
/// let proxies = Proxies::through("http://proxy.example:3128")?;
/// assert!(Proxies::through("socks5://proxy.example").is_err());
/// # Ok::<(), tidegate::Error>(())
/// ```
#[derive(Clone, Default)]
pub struct Proxies(Option<Arc<Rules>>);

struct Rules {
    matcher: Matcher,
    /// Authorities of the metadata services that the environment names.
    services: Vec<String>,
}

/// A proxy for one connection.
#[derive(Clone)]
pub(super) struct Proxy {
    /// Scheme `http`, host and port.
    pub(super) uri: Uri,
    /// The value of `Proxy-Authorization`.
    pub(super) auth: Option<HeaderValue>,
}

/// The proxy itself could not be connected.
#[derive(Debug, thiserror::Error)]
#[error("the proxy {proxy} cannot be reached")]
pub(crate) struct ProxyUnreachable {
    /// Host and port.
    proxy: String,
    source: BoxError,
}

impl Proxy {
    /// Host and port, for messages.
    pub(super) fn authority(&self) -> String {
        self.uri.authority().map(ToString::to_string).unwrap_or_default()
    }

    pub(super) fn unreachable(&self, source: BoxError) -> BoxError {
        ProxyUnreachable { proxy: self.authority(), source }.into()
    }
}

impl Proxies {
    /// No proxies: every server is connected directly.
    #[must_use]
    pub fn none() -> Self {
        Self(None)
    }

    /// The proxies that the process's environment names; see the table above.
    ///
    /// Fails with `Invalid` if a variable holds no URL, and with `Unsupported` if it holds the URL
    /// of a proxy that is not spoken to over HTTP, such as `socks5://`.
    pub fn from_environment() -> Result<Self> {
        Self::from_variables(None, |name| std::env::var(name).ok())
    }

    /// One proxy for all connections, except for the hosts in `no_proxy`.
    ///
    /// `url` is `[http://][USER:PASSWORD@]HOST[:PORT]`; the default port is 1080. Fails as
    /// [`Self::from_environment`] does.
    pub fn through(url: &str) -> Result<Self> {
        Self::from_variables(Some(url), |name| std::env::var(name).ok())
    }

    fn from_variables(
        given: Option<&str>,
        variable: impl Fn(&str) -> Option<String>,
    ) -> Result<Self> {
        let first = |names: &[&'static str]| {
            let mut set = names.iter().map(|name| (*name, variable(name).unwrap_or_default()));
            set.find(|(_, value)| !value.is_empty())
        };
        let read = |names| first(names).map(|(name, value)| checked(name, &value)).transpose();
        let (all, http, https) = match given {
            Some(url) => (Some(checked("proxy", url)?), None, None),
            None => (
                read(&["all_proxy", "ALL_PROXY"])?,
                read(&["http_proxy"])?,
                read(&["https_proxy", "HTTPS_PROXY"])?,
            ),
        };
        if all.is_none() && http.is_none() && https.is_none() {
            return Ok(Self(None));
        }
        let except = first(&["no_proxy", "NO_PROXY"]).map(|(_, value)| value).unwrap_or_default();
        let matcher = Matcher::builder()
            .all(all.unwrap_or_default())
            .http(http.unwrap_or_default())
            .https(https.unwrap_or_default())
            .no(except)
            .build();
        let services = METADATA_VARIABLES.iter().filter_map(|name| variable(name));
        let services = services.filter_map(|service| {
            let uri = with_scheme(&service).parse::<Uri>().ok()?;
            uri.authority().map(|authority| authority.as_str().to_ascii_lowercase())
        });
        Ok(Self(Some(Arc::new(Rules { matcher, services: services.collect() }))))
    }

    /// The proxy for connections to `address`; `None` if they are direct.
    pub(super) fn proxy(&self, address: &Uri) -> Option<Proxy> {
        let rules = self.0.as_deref()?;
        let host = address.host()?;
        let is_metadata = METADATA_HOSTS.iter().any(|metadata| metadata.eq_ignore_ascii_case(host));
        let authority = address.authority()?.as_str();
        if is_metadata || rules.services.iter().any(|s| s.eq_ignore_ascii_case(authority)) {
            return None;
        }
        let found = rules.matcher.intercept(address)?;
        Some(Proxy { uri: found.uri().clone(), auth: found.basic_auth().cloned() })
    }
}

impl fmt::Debug for Proxies {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Some(rules) => f.debug_tuple("Proxies").field(&rules.matcher).finish(),
            None => f.write_str("Proxies(none)"),
        }
    }
}

/// The proxy's URL with its scheme and port. `name` is the variable that holds it.
fn checked(name: &str, url: &str) -> Result<String> {
    let invalid = |message: String, kind| {
        Error::new(kind, Operation::Locate, name, message).with_hint(Setting::Proxy)
    };
    let url = with_scheme(url);
    // The text may hold a password, so neither the error nor its cause shows it.
    let parsed = url.parse::<Uri>().ok();
    let parts = parsed.as_ref().and_then(|uri| Some((uri.scheme_str()?, uri.authority()?)));
    let parts =
        parts.filter(|(scheme, authority)| !scheme.is_empty() && !authority.host().is_empty());
    let Some((scheme, authority)) = parts else {
        return Err(invalid("it is not the URL of a proxy".to_owned(), ErrorKind::Invalid));
    };
    if scheme != "http" {
        let message = format!("proxies with the scheme {scheme} are not supported");
        return Err(invalid(message, ErrorKind::Unsupported));
    }
    Ok(match authority.port_u16() {
        Some(_) => format!("http://{authority}"),
        None => format!("http://{authority}:{PROXY_PORT}"),
    })
}

/// As in curl, a proxy without a scheme is one for HTTP.
fn with_scheme(url: &str) -> String {
    if url.contains("://") { url.to_owned() } else { format!("http://{url}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(variables: &[(&str, &str)]) -> Result<Proxies> {
        Proxies::from_variables(None, |name| {
            let found = variables.iter().find(|(other, _)| *other == name);
            found.map(|(_, value)| (*value).to_owned())
        })
    }

    /// The proxy's host and port for an address; empty if the connection is direct.
    fn route(proxies: &Proxies, address: &str) -> String {
        let proxy = proxies.proxy(&address.parse().unwrap());
        proxy.map_or_else(String::new, |proxy| proxy.uri.authority().unwrap().to_string())
    }

    #[test]
    fn each_scheme_has_its_variable() {
        let proxies = of(&[("http_proxy", "http://a:1"), ("HTTPS_PROXY", "b:2")]).unwrap();
        assert_eq!(route(&proxies, "http://host/x"), "a:1");
        assert_eq!(route(&proxies, "https://host/x"), "b:2");
        let proxies = of(&[("ALL_PROXY", "c"), ("https_proxy", "b:2")]).unwrap();
        assert_eq!(route(&proxies, "http://host/x"), "c:1080");
        assert_eq!(route(&proxies, "https://host/x"), "b:2");
        assert_eq!(route(&of(&[]).unwrap(), "http://host/x"), "");
    }

    #[test]
    fn lower_case_wins_and_http_proxy_in_upper_case_is_ignored() {
        let all = [("HTTP_PROXY", "x:1"), ("https_proxy", "a:1"), ("HTTPS_PROXY", "b:1")];
        let proxies = of(&all).unwrap();
        assert_eq!(route(&proxies, "http://host/"), "");
        assert_eq!(route(&proxies, "https://host/"), "a:1");
        let proxies = of(&[("https_proxy", ""), ("HTTPS_PROXY", "b:1")]).unwrap();
        assert_eq!(route(&proxies, "https://host/"), "b:1", "an empty value counts as not set");
    }

    #[test]
    fn exceptions_are_names_addresses_and_networks() {
        let except = "corp.example, .other.example,10.0.0.0/8, 192.168.1.7,::1";
        let proxies = of(&[("all_proxy", "p:1"), ("no_proxy", except)]).unwrap();
        for direct in [
            "corp.example",
            "a.corp.example",
            "b.other.example",
            "10.1.2.3",
            "192.168.1.7",
            "[::1]",
        ] {
            assert_eq!(route(&proxies, &format!("https://{direct}/")), "", "{direct}");
        }
        for proxied in ["notcorp.example", "11.0.0.1", "192.168.1.8", "127.0.0.1", "localhost"] {
            assert_eq!(route(&proxies, &format!("https://{proxied}/")), "p:1", "{proxied}");
        }
        let proxies = of(&[("all_proxy", "p:1"), ("NO_PROXY", "*")]).unwrap();
        assert_eq!(route(&proxies, "https://anything/"), "");
    }

    #[test]
    fn metadata_services_are_connected_directly() {
        let service = ("AWS_CONTAINER_CREDENTIALS_FULL_URI", "http://127.0.0.1:8080/role");
        let proxies = of(&[("all_proxy", "p:1"), service]).unwrap();
        for direct in
            METADATA_HOSTS.into_iter().chain(["127.0.0.1:8080", "Metadata.Google.Internal"])
        {
            assert_eq!(route(&proxies, &format!("http://{direct}/x")), "", "{direct}");
        }
        assert_eq!(route(&proxies, "http://127.0.0.1:8081/x"), "p:1", "another port");
    }

    #[test]
    fn credentials_are_decoded_and_never_shown() {
        let proxies = of(&[("all_proxy", "http://us%65r:pa%40ss@p:1")]).unwrap();
        let proxy = proxies.proxy(&"https://host/".parse().unwrap()).unwrap();
        // `user:pa@ss`.
        assert_eq!(proxy.auth.unwrap(), "Basic dXNlcjpwYUBzcw==");
        assert_eq!(proxy.uri, "http://p:1/");
        assert!(!format!("{proxies:?}").contains("pa"), "{proxies:?}");
    }

    #[test]
    fn other_proxies_are_refused_by_name() {
        for scheme in ["socks5", "socks5h", "socks4", "https", "ftp"] {
            let error = of(&[("all_proxy", &format!("{scheme}://user:secret@p:1"))]).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Unsupported);
            let text = error.chain();
            assert!(text.contains(&format!("scheme {scheme} ")), "{text}");
            assert!(text.contains("all_proxy") && !text.contains("secret"), "{text}");
        }
        for wrong in ["http://", "http://a b", "http://user:secret@", "://x"] {
            let error = of(&[("https_proxy", wrong)]).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Invalid, "{wrong}");
            assert!(!error.chain().contains("secret"), "{}", error.chain());
        }
    }
}
