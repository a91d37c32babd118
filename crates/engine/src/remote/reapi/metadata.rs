//! The headers of every request: the caller's headers, the user agent, and for the server's logs
//! the build that the requests belong to (`RequestMetadata` in `remote_execution.proto`).

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use http::{HeaderMap, HeaderName, HeaderValue, header};
use prost::Message as _;
use tidegate_reapi::v2;

use super::super::ExtraHeaders;
use super::super::locate::invalid;
use super::ReapiOptions;
use crate::error::Result;
use crate::transport::{self, CallerHash};

/// The header's name in the API; values of headers that end in `-bin` are base64.
const REQUEST_METADATA: HeaderName =
    HeaderName::from_static("build.bazel.remote.execution.v2.requestmetadata-bin");

/// Headers that are part of every gRPC call (PROTOCOL-HTTP2.md): another value would break the
/// call.
fn is_grpcs_own(name: &str) -> bool {
    matches!(name, "content-type" | "te") || name.starts_with("grpc-")
}

/// The headers of every request to one cache. The caller's headers replace ours.
///
/// Fails with `Invalid` for headers that gRPC itself sets.
pub(super) fn headers(options: &ReapiOptions, extra: &ExtraHeaders) -> Result<HeaderMap> {
    let correlated = options.correlated_invocations_id.clone();
    let metadata = v2::RequestMetadata {
        tool_details: Some(v2::ToolDetails {
            tool_name: "tidegate".to_owned(),
            tool_version: env!("CARGO_PKG_VERSION").to_owned(),
        }),
        tool_invocation_id: invocation(),
        correlated_invocations_id: correlated.unwrap_or_default(),
        ..v2::RequestMetadata::default()
    };
    let encoded = STANDARD_NO_PAD.encode(metadata.encode_to_vec());
    let value = HeaderValue::try_from(encoded)
        .map_err(|error| invalid("the invocation's id", "it makes no header").caused_by(error))?;
    for name in extra.as_map().keys() {
        if is_grpcs_own(name.as_str()) {
            return Err(
                invalid(name.as_str(), "this header is gRPC's own").with_hint("leave it out")
            );
        }
    }
    let mut headers = HeaderMap::new();
    headers.insert(REQUEST_METADATA, value);
    let agent = HeaderValue::from_static(concat!("tidegate/", env!("CARGO_PKG_VERSION")));
    headers.insert(header::USER_AGENT, agent);
    transport::replace(&mut headers, extra.as_map());
    Ok(headers)
}

/// Adds the headers that the caller chose.
pub(super) fn identify(options: &ReapiOptions, extra: &ExtraHeaders, caller: &mut CallerHash) {
    for (name, value) in extra.as_map() {
        caller.add(name.as_str(), value.as_bytes());
    }
    if let Some(id) = &options.correlated_invocations_id {
        caller.add("correlated invocations", id.as_bytes());
    }
}

/// A new id for each run, so that logs can distinguish runs.
fn invocation() -> String {
    uuid::Uuid::new_v4().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_grpcs_own_is_refused() {
        for line in ["Content-Type: text/plain", "TE: x", "grpc-timeout: 1S"] {
            let mut extra = ExtraHeaders::new();
            // `add_line` refuses some of them first.
            if extra.add_line(line).is_ok() {
                let error = headers(&ReapiOptions::default(), &extra).unwrap_err();
                assert!(error.chain().contains("gRPC's own"), "{}", error.chain());
            }
        }
    }

    #[test]
    fn a_name_that_only_begins_alike_is_the_callers() {
        let mut extra = ExtraHeaders::new();
        extra.add_line("Tenant: mine").unwrap();
        let headers = headers(&ReapiOptions::default(), &extra).unwrap();
        assert_eq!(headers["tenant"], "mine");
    }

    #[test]
    fn a_request_names_the_tool_and_the_callers_headers_win() {
        let options = ReapiOptions {
            correlated_invocations_id: Some("build-7".to_owned()),
            ..ReapiOptions::default()
        };
        let mut extra = ExtraHeaders::new();
        extra.add_line("User-Agent: mine").unwrap();
        extra.add_line("Authorization: Bearer x").unwrap();
        let headers = headers(&options, &extra).unwrap();
        assert_eq!(headers[header::USER_AGENT], "mine");
        assert_eq!(headers[header::AUTHORIZATION], "Bearer x");
        let bytes = STANDARD_NO_PAD.decode(headers[REQUEST_METADATA].as_bytes()).unwrap();
        let metadata = v2::RequestMetadata::decode(bytes.as_slice()).unwrap();
        assert_eq!(metadata.tool_details.unwrap().tool_name, "tidegate");
        assert_eq!(metadata.correlated_invocations_id, "build-7");
        assert_eq!(metadata.tool_invocation_id.len(), 36);
        assert_ne!(invocation(), invocation());
    }
}
