//! [`MetadataHeader`]: the `RequestMetadata` of the Remote Execution API, which a client sends with each
//! call: the tool, the invocation, the target, the action.

use base64::Engine as _;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use http::HeaderMap;

use crate::serve::grpc::fields::{Fields, Value};

/// The header.
const HEADER: &str = "build.bazel.remote.execution.v2.requestmetadata-bin";

/// The longest message that is read. Bazel's are some 200 bytes, with long labels of targets 500.
const BYTES_MAX: usize = 1024;

/// gRPC sends base64 without padding, and accepts both.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// The decoded header of one request.
pub(in crate::serve) struct MetadataHeader {
    bytes: [u8; BYTES_MAX],
    len: usize,
}

/// What a client says of a request. Absent fields are empty. All of it is any text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Metadata<'a> {
    pub(super) tool: &'a str,
    pub(super) tool_version: &'a str,
    pub(super) action: &'a str,
    pub(super) invocation: &'a str,
    pub(super) mnemonic: &'a str,
    pub(super) target: &'a str,
}

impl MetadataHeader {
    /// `None` without the header, or if it is longer than Bazel's can be, or not base64.
    pub(in crate::serve) fn of(headers: &HeaderMap) -> Option<Self> {
        let value = headers.get(HEADER)?.as_bytes();
        let mut decoded = Self { bytes: [0; BYTES_MAX], len: 0 };
        decoded.len = BASE64.decode_slice(value, &mut decoded.bytes).ok()?;
        Some(decoded)
    }

    /// The name of the invocation; empty if there is none.
    pub(in crate::serve) fn invocation(&self) -> &str {
        self.metadata().invocation
    }

    /// The fields. What is malformed is left out.
    pub(super) fn metadata(&self) -> Metadata<'_> {
        let mut metadata = Metadata::default();
        for (number, value) in texts(&self.bytes[..self.len]) {
            match number {
                1 => {
                    for (number, value) in texts(value) {
                        match number {
                            1 => metadata.tool = text(value),
                            2 => metadata.tool_version = text(value),
                            _ => {}
                        }
                    }
                }
                2 => metadata.action = text(value),
                3 => metadata.invocation = text(value),
                5 => metadata.mnemonic = text(value),
                6 => metadata.target = text(value),
                _ => {}
            }
        }
        metadata
    }
}

fn texts(message: &[u8]) -> impl Iterator<Item = (u64, &[u8])> {
    Fields::of(message).filter_map(|field| match field {
        Ok((number, Value::Bytes(value))) => Some((number, value)),
        _ => None,
    })
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use prost::Message as _;
    use tidegate_reapi::v2::{RequestMetadata, ToolDetails};

    use super::*;

    fn headers(encoded: &str) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert(HEADER, encoded.parse().unwrap());
        headers
    }

    #[test]
    fn the_fields_are_those_of_the_message() {
        let message = RequestMetadata {
            tool_details: Some(ToolDetails {
                tool_name: "bazel".into(),
                tool_version: "8.4.2".into(),
            }),
            action_id: "a1".into(),
            tool_invocation_id: "<script>".into(),
            correlated_invocations_id: "c".into(),
            action_mnemonic: "CppCompile".into(),
            target_id: "//a:b".into(),
            configuration_id: "k8".into(),
        };
        let expected = Metadata {
            tool: "bazel",
            tool_version: "8.4.2",
            action: "a1",
            invocation: "<script>",
            mnemonic: "CppCompile",
            target: "//a:b",
        };
        let padded = base64::engine::general_purpose::STANDARD.encode(message.encode_to_vec());
        for encoded in [padded.as_str(), padded.trim_end_matches('=')] {
            let header = MetadataHeader::of(&headers(encoded)).unwrap();
            assert_eq!(header.metadata(), expected);
        }
    }

    #[test]
    fn what_is_malformed_is_left_out() {
        assert!(MetadataHeader::of(&HeaderMap::new()).is_none());
        assert!(MetadataHeader::of(&headers("!")).is_none());
        assert!(MetadataHeader::of(&headers(&"A".repeat(2000))).is_none());
        for encoded in ["", "/w", "GgP//w", "Cv8B"] {
            let header = MetadataHeader::of(&headers(encoded)).unwrap();
            assert_eq!(header.metadata(), Metadata::default(), "{encoded}");
        }
    }
}
