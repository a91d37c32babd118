//! Requests and responses of the protocol as JSON. The names are those of Go's package
//! `cmd/go/internal/cacheprog`; byte strings are in base 64.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A request without its body.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub(super) struct Request {
    #[serde(rename = "ID")]
    pub(super) id: i64,
    #[serde(rename = "Command")]
    pub(super) command: String,
    #[serde(rename = "ActionID", default, deserialize_with = "bytes")]
    pub(super) action: Vec<u8>,
    #[serde(rename = "OutputID", default, deserialize_with = "bytes")]
    pub(super) output: Vec<u8>,
    #[serde(rename = "BodySize", default)]
    pub(super) body_size: u64,
}

/// A response.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub(super) struct Response {
    #[serde(rename = "ID")]
    pub(super) id: i64,
    #[serde(rename = "Err", skip_serializing_if = "Option::is_none")]
    pub(super) error: Option<String>,
    #[serde(rename = "KnownCommands", skip_serializing_if = "<[_]>::is_empty")]
    pub(super) known_commands: &'static [&'static str],
    #[serde(rename = "Miss", skip_serializing_if = "std::ops::Not::not")]
    pub(super) miss: bool,
    #[serde(rename = "OutputID", skip_serializing_if = "<[_]>::is_empty", serialize_with = "text")]
    pub(super) output: Vec<u8>,
    #[serde(rename = "Size", skip_serializing_if = "Option::is_none")]
    pub(super) size: Option<u64>,
    #[serde(rename = "Time", skip_serializing_if = "Option::is_none")]
    pub(super) time: Option<String>,
    #[serde(rename = "DiskPath", skip_serializing_if = "Option::is_none")]
    pub(super) disk_path: Option<String>,
}

impl Response {
    /// The first message.
    pub(super) fn greeting() -> Self {
        Self { known_commands: &["get", "put", "close"], ..Self::default() }
    }

    pub(super) fn miss(id: i64) -> Self {
        Self { id, miss: true, ..Self::default() }
    }

    pub(super) fn failed(id: i64, error: impl Into<String>) -> Self {
        Self { id, error: Some(error.into()), ..Self::default() }
    }
}

fn bytes<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u8>, D::Error> {
    let text = Option::<String>::deserialize(deserializer)?.unwrap_or_default();
    STANDARD.decode(text).map_err(serde::de::Error::custom)
}

fn text<S: Serializer>(bytes: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&STANDARD.encode(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_those_of_go() {
        let line = r#"{"ID":7,"Command":"put","ActionID":"AQI=","OutputID":"Aw==","BodySize":5}"#;
        let request: Request = serde_json::from_str(line).unwrap();
        let expected = Request {
            id: 7,
            command: "put".into(),
            action: vec![1, 2],
            output: vec![3],
            body_size: 5,
        };
        assert_eq!(request, expected);
        let close: Request = serde_json::from_str(r#"{"ID":8,"Command":"close"}"#).unwrap();
        assert!(close.action.is_empty() && close.body_size == 0);
        assert!(
            serde_json::from_str::<Request>(r#"{"ID":8,"Command":"get","ActionID":"!"}"#).is_err()
        );

        let json = |response: &Response| serde_json::to_string(response).unwrap();
        let greeting = r#"{"ID":0,"KnownCommands":["get","put","close"]}"#;
        assert_eq!(json(&Response::greeting()), greeting);
        assert_eq!(json(&Response::miss(3)), r#"{"ID":3,"Miss":true}"#);
        let hit = Response {
            id: 4,
            output: vec![3],
            size: Some(0),
            disk_path: Some("/a".into()),
            ..Response::default()
        };
        assert_eq!(json(&hit), r#"{"ID":4,"OutputID":"Aw==","Size":0,"DiskPath":"/a"}"#);
    }
}
