//! One response: its status, its frames and its end.

use arbitrary::Arbitrary;
use bytes::{BufMut as _, Bytes, BytesMut};
use http::{HeaderMap, HeaderName, HeaderValue};
use prost::Message as _;

use crate::message::{GrpcStatus, Message};

#[derive(Arbitrary, Clone, Debug)]
pub(crate) struct Answer {
    pub(crate) http_status: Option<u16>,
    pub(crate) content_type: Option<String>,
    pub(crate) messages: Vec<Framed>,
    /// Bytes of one DATA frame.
    pub(crate) frame_bytes: u8,
    pub(crate) end: End,
}

#[derive(Arbitrary, Clone, Debug)]
pub(crate) struct Framed {
    pub(crate) flag: Option<u8>,
    pub(crate) len: Option<u32>,
    pub(crate) message: Message,
}

#[derive(Arbitrary, Clone, Debug)]
pub(crate) enum End {
    Ok,
    Status {
        code: String,
        message: String,
        details: Option<Vec<u8>>,
    },
    Detailed(GrpcStatus),
    /// No trailers.
    Silent,
    Reset(u32),
}

impl Answer {
    pub(crate) fn of(message: Message) -> Self {
        Self {
            http_status: None,
            content_type: None,
            messages: vec![Framed { flag: None, len: None, message }],
            frame_bytes: 0,
            end: End::Ok,
        }
    }

    pub(crate) fn body(&self) -> Bytes {
        let mut body = BytesMut::new();
        for framed in &self.messages {
            let message = framed.message.encoded();
            body.put_u8(framed.flag.unwrap_or(0));
            body.put_u32(framed.len.unwrap_or(message.len() as u32));
            body.put_slice(&message);
        }
        body.freeze()
    }
}

pub(crate) fn header(headers: &mut HeaderMap, name: &'static str, value: &[u8]) {
    // The HTTP library cannot send invalid values, so they are left out.
    if let Ok(value) = HeaderValue::from_bytes(value) {
        headers.insert(HeaderName::from_static(name), value);
    }
}

impl End {
    pub(crate) fn trailers(&self) -> Option<HeaderMap> {
        let mut headers = HeaderMap::new();
        match self {
            Self::Ok => header(&mut headers, "grpc-status", b"0"),
            Self::Status { code, message, details } => {
                header(&mut headers, "grpc-status", code.as_bytes());
                header(&mut headers, "grpc-message", message.as_bytes());
                if let Some(details) = details {
                    header(&mut headers, "grpc-status-details-bin", details);
                }
            }
            Self::Detailed(status) => {
                use base64::Engine as _;
                let encoded = status.proto().encode_to_vec();
                let details = base64::engine::general_purpose::STANDARD_NO_PAD.encode(encoded);
                header(&mut headers, "grpc-status", status.code.to_string().as_bytes());
                header(&mut headers, "grpc-message", status.message.as_bytes());
                header(&mut headers, "grpc-status-details-bin", details.as_bytes());
            }
            Self::Silent | Self::Reset(_) => return None,
        }
        Some(headers)
    }
}
