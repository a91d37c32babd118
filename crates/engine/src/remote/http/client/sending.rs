//! Requests that change something: a body that can be sent again, and few headers.
//!
//! A signed URL allows the headers that were signed, so nothing is sent that the request does not
//! need: `Host`, `User-Agent`, the length, and what the caller asks for.

use std::time::Duration;

use http::{HeaderMap, HeaderValue, Method, header};
use object_store::client::HttpRequestBody;

use super::{HttpClient, REDIRECTS_MAX, Stop, USER_AGENT, unanswered};
use crate::error::{Error, ErrorKind, Operation, Result};
use crate::remote::http::display;
use crate::remote::write::{Payload, source_error};
use crate::transport::{self, RequestBody, ResponseHead};

/// A request.
pub(in crate::remote::http) struct Change<'a> {
    pub(in crate::remote::http) method: Method,
    pub(in crate::remote::http) operation: Operation,
    pub(in crate::remote::http) headers: HeaderMap,
    pub(in crate::remote::http) payload: Option<&'a Payload>,
}

impl Change<'_> {
    /// A request without a body.
    pub(in crate::remote::http) fn new(method: Method, operation: Operation) -> Self {
        Self { method, operation, headers: HeaderMap::new(), payload: None }
    }
}

/// The response, and where it came from. Its text is not read: servers explain themselves in pages
/// for people.
pub(in crate::remote::http) struct Changed {
    pub(in crate::remote::http) head: ResponseHead,
    pub(in crate::remote::http) stop: Stop,
}

impl HttpClient {
    /// Sends a request. Redirects that keep the method are followed (307, 308), as for reads; each
    /// one gets the whole body again.
    pub(in crate::remote::http) async fn change(
        &self,
        mut stop: Stop,
        change: &Change<'_>,
    ) -> Result<Changed> {
        let mut waited = Duration::ZERO;
        for requests in 1..=REDIRECTS_MAX + 1 {
            let target = display(&stop.url);
            let answer = self.transport.send(build(&stop, change)?).await;
            let (mut head, _body) = answer.map_err(|error| {
                let of_source = source_error(&error);
                of_source.unwrap_or_else(|| unanswered(error, change.operation, &target))
            })?;
            waited += head.waited;
            (head.waited, head.requests) = (waited, requests);
            if !matches!(head.status.as_u16(), 307 | 308) {
                return Ok(Changed { head, stop });
            }
            stop = stop.next(&head, change.operation)?;
            self.authorize(&stop.url, false, &mut stop.own);
        }
        let message = format!("more than {REDIRECTS_MAX} redirects");
        Err(Error::new(ErrorKind::Unsupported, change.operation, display(&stop.url), message))
    }
}

fn build(Stop { url, own }: &Stop, change: &Change<'_>) -> Result<http::Request<RequestBody>> {
    let mut request = http::Request::builder()
        .method(change.method.clone())
        .uri(url.as_str())
        .header(header::USER_AGENT, USER_AGENT)
        .body(())
        .map_err(|error| {
            let message = "it makes no valid request";
            Error::new(ErrorKind::Invalid, change.operation, display(url), message).caused_by(error)
        })?;
    let len_bytes = change.payload.map_or(0, Payload::len_bytes);
    if change.payload.is_some() {
        request.headers_mut().insert(header::CONTENT_LENGTH, HeaderValue::from(len_bytes));
    }
    request.headers_mut().extend(change.headers.clone());
    transport::replace(request.headers_mut(), own);
    let body = match change.payload {
        Some(payload) if len_bytes > 0 => RequestBody::stream(payload.open(), len_bytes),
        _ => HttpRequestBody::empty().into(),
    };
    Ok(request.map(|()| body))
}
