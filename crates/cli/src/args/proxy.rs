//! Options for proxies.

use clap::{Args, ValueHint};
use tidegate::transport::Proxies;
use tidegate::{Error, ErrorKind, Operation, Result};

/// Schemes whose servers are connected over the network.
const NETWORK_SCHEMES: [&str; 7] = ["gs", "s3", "az", "http", "https", "grpc", "grpcs"];

/// Not a doc comment, where the names of variables would need quotes.
const PROXY: &str = "\
Connect through this HTTP proxy: [http://][USER:PASSWORD@]HOST[:PORT], except to the hosts in no_proxy \
[default: as http_proxy, https_proxy, all_proxy and no_proxy say]";

#[derive(Clone, Debug, Args)]
pub(crate) struct ProxyArgs {
    #[arg(long, value_name = "URL", value_hint = ValueHint::Url, help = PROXY)]
    proxy: Option<String>,
    /// Connect directly, whatever the environment says
    #[arg(long, conflicts_with = "proxy")]
    no_proxy: bool,
}

impl ProxyArgs {
    /// The proxies for these URLs and paths. The environment is read only if one of them is on the
    /// network, so that its mistakes do not fail a local copy.
    pub(crate) fn proxies(&self, names: &[&str]) -> Result<Proxies> {
        let is_network =
            names.iter().filter_map(|name| name.split_once("://")).any(|(scheme, _)| {
                NETWORK_SCHEMES.iter().any(|known| scheme.eq_ignore_ascii_case(known))
            });
        match &self.proxy {
            Some(_) if !is_network => {
                let message = "it is for servers, and no URL here names one";
                Err(Error::new(ErrorKind::Invalid, Operation::Locate, "--proxy", message))
            }
            Some(url) => Proxies::through(url),
            None if self.no_proxy || !is_network => Ok(Proxies::none()),
            None => Proxies::from_environment(),
        }
    }
}
