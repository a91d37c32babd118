//! Makes the connections of `http1`: TCP settings, and TLS for `https` addresses.

use std::error::Error as StdError;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use http::Uri;
use http::uri::Scheme;
use hyper_rustls::{HttpsConnector, MaybeHttpsStream};
use tower_service::Service;

use super::TransportOptions;
use super::dial::{self, Dialer, Forwarding};
use super::prompt::Prompt;
use super::proxy::Proxy;
use super::trust::Trust;
use crate::error::Result;

type BoxError = Box<dyn StdError + Send + Sync>;
type Connecting<S> = Pin<Box<dyn Future<Output = Result<S, BoxError>> + Send>>;
type Stream = Prompt<dial::Dialed>;
/// A connection, with TLS if the address is `https`.
pub(super) type Secured = MaybeHttpsStream<Stream>;

/// Makes connections for both schemes; clones share the TLS trust.
#[derive(Clone, Debug)]
pub(super) struct Connector {
    tcp: Tcp,
    trust: Arc<Trust>,
}

impl Connector {
    pub(super) fn new(options: &TransportOptions) -> Result<Self> {
        let tcp = Tcp(Dialer::new(options, Forwarding::Requests));
        Ok(Self { tcp, trust: Arc::new(Trust::new(options)?) })
    }

    /// The proxy that forwards requests to `address`; `None` if the connection leads to the server
    /// itself.
    pub(super) fn forwarder(&self, address: &Uri) -> Option<Proxy> {
        self.tcp.0.forwarder(address)
    }
}

impl Service<Uri> for Connector {
    type Response = Secured;
    type Error = BoxError;
    type Future = Connecting<Self::Response>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.tcp.poll_ready(cx)
    }

    fn call(&mut self, address: Uri) -> Self::Future {
        if address.scheme() == Some(&Scheme::HTTP) {
            let connecting = self.tcp.call(address);
            return Box::pin(async move { connecting.await.map(MaybeHttpsStream::Http) });
        }
        let (tcp, trust) = (self.tcp.clone(), Arc::clone(&self.trust));
        Box::pin(async move {
            let mut tls = HttpsConnector::from((tcp, trust.config().await?));
            poll_fn(|cx| tls.poll_ready(cx)).await?;
            tls.call(address).await
        })
    }
}

/// Makes TCP connections that deliver the first bytes of a response early; see `prompt`.
#[derive(Clone, Debug)]
struct Tcp(Dialer);

impl Service<Uri> for Tcp {
    type Response = Stream;
    type Error = BoxError;
    type Future = Connecting<Stream>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.0.poll_ready(cx)
    }

    fn call(&mut self, address: Uri) -> Self::Future {
        let connecting = self.0.call(address);
        Box::pin(async move { Ok(Prompt::new(connecting.await?)) })
    }
}
