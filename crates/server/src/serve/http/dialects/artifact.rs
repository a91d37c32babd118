//! An artifact of Turborepo: headers of the upload, then its bytes, as one value.
//!
//! ```text
//! headers u8, then each: name u8 (its place in NAMES), length u16, text; then the bytes
//! ```
//!
//! Numbers are big-endian. One value holds both, so no reader sees the headers of one upload with
//! the bytes of another one.

use bytes::{Buf as _, BufMut as _, Bytes};
use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use http::{HeaderMap, HeaderValue};
use tidegate::remote::Body;

/// The headers that a download gives back.
const NAMES: [&str; 3] = ["x-artifact-duration", "x-artifact-tag", "x-artifact-dirty-hash"];
/// A tag is a signature in base 64, some 50 bytes.
const TEXT_BYTES_MAX: usize = 1024;

/// The headers of an artifact.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ArtifactHeaders(Vec<(u8, Bytes)>);

impl ArtifactHeaders {
    /// Those of an upload. `None` if one is too long.
    pub(super) fn of_upload(headers: &HeaderMap) -> Option<Self> {
        let mut kept = Vec::new();
        for (number, name) in (0..).zip(NAMES) {
            if let Some(value) = headers.get(name) {
                if value.len() > TEXT_BYTES_MAX {
                    return None;
                }
                kept.push((number, Bytes::copy_from_slice(value.as_bytes())));
            }
        }
        Some(Self(kept))
    }

    /// The head of the value.
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut head = vec![u8::try_from(self.0.len()).unwrap_or_default()];
        for (number, text) in &self.0 {
            head.put_u8(*number);
            // At most TEXT_BYTES_MAX.
            head.put_u16(u16::try_from(text.len()).unwrap_or_default());
            head.put_slice(text);
        }
        head
    }

    /// Takes the headers from the front; `None` if they are not there.
    fn decode(bytes: &mut Bytes) -> Option<Self> {
        let count = bytes.try_get_u8().ok()?;
        let mut headers = Vec::new();
        for _ in 0..count {
            let number = bytes.try_get_u8().ok()?;
            let len = usize::from(bytes.try_get_u16().ok()?);
            if bytes.len() < len || usize::from(number) >= NAMES.len() {
                return None;
            }
            headers.push((number, bytes.split_to(len)));
        }
        Some(Self(headers))
    }

    /// Adds them to a response.
    pub(super) fn apply(&self, headers: &mut HeaderMap) {
        for (number, text) in &self.0 {
            if let Some(name) = NAMES.get(usize::from(*number))
                && let Ok(value) = HeaderValue::from_bytes(text)
            {
                headers.insert(*name, value);
            }
        }
    }

    /// The text of a header.
    pub(super) fn text(&self, name: &str) -> Option<&str> {
        let number = NAMES.iter().position(|one| *one == name)?;
        let (_, text) = self.0.iter().find(|(one, _)| usize::from(*one) == number)?;
        std::str::from_utf8(text).ok()
    }
}

/// An artifact that is read.
pub(super) struct Artifact {
    pub(super) headers: ArtifactHeaders,
    /// Bytes without the headers.
    pub(super) len: u64,
    pub(super) body: Body,
}

impl Artifact {
    /// Takes a value apart. `None` if it is no artifact.
    pub(super) async fn open(len: u64, mut body: Body) -> tidegate::Result<Option<Self>> {
        // The first piece of the store has at least 64 KiB, or is the whole value.
        let Some(mut first) = body.try_next().await? else { return Ok(None) };
        let before = first.len();
        let Some(headers) = ArtifactHeaders::decode(&mut first) else { return Ok(None) };
        let head = (before - first.len()) as u64;
        let body = stream::once(async move { Ok(first) }).chain(body).boxed();
        Ok(Some(Self { headers, len: len.saturating_sub(head), body }))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn headers_come_back() {
        let mut upload = HeaderMap::new();
        upload.insert(NAMES[0], HeaderValue::from_static("1234"));
        upload.insert(NAMES[2], HeaderValue::from_static(""));
        upload.insert("content-type", HeaderValue::from_static("other"));
        let headers = ArtifactHeaders::of_upload(&upload).unwrap();
        let mut value = Bytes::from([&headers.encode()[..], b"body"].concat());
        let read = ArtifactHeaders::decode(&mut value).unwrap();
        assert_eq!((read.clone(), &value[..]), (headers, &b"body"[..]));
        assert_eq!((read.text(NAMES[0]), read.text(NAMES[1])), (Some("1234"), None));
        upload.remove("content-type");
        let mut response = HeaderMap::new();
        read.apply(&mut response);
        assert_eq!(response, upload);
        upload.insert(NAMES[1], HeaderValue::from_str(&"x".repeat(1025)).unwrap());
        assert_eq!(ArtifactHeaders::of_upload(&upload), None);
    }

    proptest! {
        #[test]
        fn any_bytes_are_safe(bytes in prop::collection::vec(any::<u8>(), 0..60)) {
            let _ = ArtifactHeaders::decode(&mut bytes.into());
        }
    }
}
