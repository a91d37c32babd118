//! Classifies a failed exchange. It looks at the whole chain of causes, because hyper, hyper-util,
//! rustls and the operating system each name one level of it.

use std::error::Error as StdError;
use std::io;

use http::StatusCode;
use tidegate_core::retry::RetryClass;

#[cfg(feature = "_http1")]
use super::framing::CodingRefused;
use super::proxy::ProxyUnreachable;
use super::tunnel::TunnelRefused;
use crate::error::{ErrorKind, Hint, Setting};

/// A transport failure, reduced to the fields that the engine acts on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    pub(crate) kind: ErrorKind,
    pub(crate) retry: RetryClass,
    pub(crate) message: &'static str,
    pub(crate) hint: Option<Hint>,
}

impl Failure {
    fn broken(message: &'static str) -> Self {
        Self { kind: ErrorKind::Transport, retry: RetryClass::Now, message, hint: None }
    }

    fn fatal(message: &'static str, hint: impl Into<Hint>) -> Self {
        let hint = Some(hint.into());
        Self { kind: ErrorKind::Transport, retry: RetryClass::Never, message, hint }
    }
}

/// Searches `error` and its causes; the innermost cause that is recognised decides.
pub(crate) fn classify(error: &(dyn StdError + 'static)) -> Failure {
    let mut level: Option<&(dyn StdError + 'static)> = Some(error);
    let mut failure = Failure::broken("the connection broke");
    while let Some(error) = level {
        if error.is::<ProxyUnreachable>() {
            // Its cause would read as a failure of the server.
            let hint = Some(Setting::Proxy.into());
            return Failure { hint, ..Failure::broken("the proxy cannot be reached") };
        }
        if let Some(found) = specific(error) {
            failure = found;
        }
        // An io::Error hides the error it wraps from `source`.
        level = match error.downcast_ref::<io::Error>().and_then(io::Error::get_ref) {
            Some(inner) => Some(inner),
            None => error.source(),
        };
    }
    failure
}

fn specific(error: &(dyn StdError + 'static)) -> Option<Failure> {
    if let Some(tls) = error.downcast_ref::<rustls::Error>() {
        return Some(tls_failure(tls));
    }
    if let Some(io) = error.downcast_ref::<io::Error>() {
        return io_failure(io);
    }
    #[cfg(feature = "_http1")]
    if error.is::<CodingRefused>() {
        return Some(Failure {
            kind: ErrorKind::Unsupported,
            ..Failure::fatal(
                "the response has a transfer coding other than chunked",
                "have the server, or the proxy before it, send the blob without a transfer coding",
            )
        });
    }
    if let Some(refused) = error.downcast_ref::<TunnelRefused>() {
        return Some(tunnel_failure(refused.status));
    }
    if let Some(http) = error.downcast_ref::<hyper::Error>() {
        if http.is_incomplete_message() {
            return Some(Failure::broken("the connection closed before the response was whole"));
        }
        if http.is_parse() {
            return Some(Failure::broken("the answer is not valid HTTP"));
        }
    }
    // The resolver's error type is private to hyper-util, so only its text can be matched.
    let text = error.to_string();
    if text.contains("Name or service not known") || text.contains("nodename nor servname") {
        return Some(Failure::fatal(
            "the host name cannot be resolved",
            "check the spelling of the host",
        ));
    }
    text.starts_with("dns error").then(|| Failure::broken("the host name could not be resolved"))
}

fn tunnel_failure(status: StatusCode) -> Failure {
    match status {
        StatusCode::PROXY_AUTHENTICATION_REQUIRED => Failure {
            kind: ErrorKind::NoAccess,
            ..Failure::fatal("the proxy requires credentials", Setting::Proxy)
        },
        status if status.is_client_error() => {
            Failure::fatal("the proxy refuses to connect to this host", Setting::Proxy)
        }
        _ => Failure::broken("the proxy could not connect to the server"),
    }
}

fn tls_failure(error: &rustls::Error) -> Failure {
    match error {
        rustls::Error::InvalidCertificate(_) | rustls::Error::NoCertificatesPresented => {
            Failure::fatal("the server's certificate is not trusted", Setting::CaCerts)
        }
        rustls::Error::InvalidMessage(_) => Failure::fatal(
            "the server does not speak TLS",
            "use http://, or grpc:// for a cache, where the server has no TLS",
        ),
        _ => Failure::broken("the TLS session failed"),
    }
}

fn io_failure(error: &io::Error) -> Option<Failure> {
    Some(match error.kind() {
        io::ErrorKind::ConnectionRefused => Failure {
            hint: Some("check the host, the port, and that the server runs".into()),
            ..Failure::broken("the connection was refused")
        },
        io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe => {
            Failure::broken("the connection was reset")
        }
        io::ErrorKind::TimedOut => Failure {
            kind: ErrorKind::Timeout,
            ..Failure::broken("the connection could not be made in time")
        },
        io::ErrorKind::HostUnreachable | io::ErrorKind::NetworkUnreachable => {
            Failure::broken("the host cannot be reached")
        }
        io::ErrorKind::UnexpectedEof => {
            Failure::broken("the connection closed before the response was whole")
        }
        _ => return None,
    })
}
