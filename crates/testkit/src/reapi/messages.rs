//! Received messages of a call: split from the stream by their lengths.
//!
//! Source: `doc/PROTOCOL-HTTP2.md` of gRPC. Compressed messages are refused: the server never
//! advertises compression.

use bytes::{Buf as _, Bytes, BytesMut};
use h2::RecvStream;

use super::status::{Code, GrpcStatus};

/// Each message has a prefix: a flag and four bytes of length.
pub(crate) const PREFIX_BYTES: usize = 5;

/// The messages of one call.
pub(crate) struct Messages {
    stream: RecvStream,
    buffer: BytesMut,
    message_bytes_max: usize,
}

/// The reason why there is no message.
#[derive(Debug)]
pub(crate) enum Broken {
    /// The client, or the connection to it, is gone.
    Gone,
    /// The received bytes violate the protocol.
    Refused(GrpcStatus),
}

impl Messages {
    pub(crate) fn new(stream: RecvStream, message_bytes_max: usize) -> Self {
        Self { stream, buffer: BytesMut::new(), message_bytes_max }
    }

    /// The next message, or `None` after the client's last message.
    pub(crate) async fn next(&mut self) -> Result<Option<Bytes>, Broken> {
        loop {
            if let Some(message) = self.cut()? {
                return Ok(Some(message));
            }
            let Some(data) = self.stream.data().await else {
                let rest = self.buffer.len();
                return if rest == 0 {
                    Ok(None)
                } else {
                    Err(refused(Code::Internal, format!("{rest} bytes of a message, then the end")))
                };
            };
            let Ok(data) = data else { return Err(Broken::Gone) };
            // An error means that the stream is gone. The next read will also report it.
            let _ = self.stream.flow_control().release_capacity(data.len());
            self.buffer.extend_from_slice(&data);
        }
    }

    /// The only message of a call.
    pub(crate) async fn only(&mut self) -> Result<Bytes, Broken> {
        let message = self.next().await?;
        message.ok_or_else(|| refused(Code::Internal, "there is no request".to_owned()))
    }

    fn cut(&mut self) -> Result<Option<Bytes>, Broken> {
        let Some(prefix) = self.buffer.first_chunk::<PREFIX_BYTES>() else { return Ok(None) };
        let [flag, length @ ..] = *prefix;
        if flag != 0 {
            let message = "messages must not be compressed".to_owned();
            return Err(refused(Code::Unimplemented, message));
        }
        let length = usize::try_from(u32::from_be_bytes(length)).unwrap_or(usize::MAX);
        if length > self.message_bytes_max {
            let max = self.message_bytes_max;
            let message = format!("expected a message of at most {max} bytes, got {length}");
            return Err(refused(Code::ResourceExhausted, message));
        }
        if self.buffer.len() - PREFIX_BYTES < length {
            self.buffer.reserve(PREFIX_BYTES + length - self.buffer.len());
            return Ok(None);
        }
        self.buffer.advance(PREFIX_BYTES);
        Ok(Some(self.buffer.split_to(length).freeze()))
    }
}

fn refused(code: Code, message: String) -> Broken {
    Broken::Refused(GrpcStatus::new(code, message))
}
