//! Opaque values, as the dialects share them. Each dialect chooses its own status codes.

use bytes::Bytes;
use futures_util::TryStreamExt as _;
use http::StatusCode;
use tidegate::remote::Body;

use super::cas::RESPONSE_MEMORY_BYTES;
use super::upload::Upload;
use super::{Call, HttpCache, Reply, reply};
use crate::serve::access::Tenant;
use crate::serve::error::ServeError;
use crate::serve::observe::MissReason;
use crate::store::ValueWriter;

/// The name of a value in the store: tenant, dialect, and the parts of the key. Zero bytes separate
/// them. No part contains one: a path of HTTP has none.
pub(super) fn value_name(tenant: &Tenant, dialect: &str, parts: &[&str]) -> Vec<u8> {
    let parts: Vec<&str> = [tenant.name(), dialect].iter().chain(parts).copied().collect();
    parts.join("\0").into_bytes()
}

impl HttpCache {
    /// Receives a value: `head`, and the body of the request. Nothing has the name yet.
    ///
    /// CANCEL: dropping the writer, or this future, keeps nothing.
    pub(super) async fn receive_value(
        &self,
        call: &Call<'_>,
        name: &[u8],
        head: &[u8],
        upload: &mut Upload,
    ) -> Result<ValueWriter, ServeError> {
        let bytes_max = self.limits.value_bytes_max;
        let mut writer = self.store.begin_value(name).ok_or(ServeError::NameTooLong)?;
        upload.check_len(bytes_max)?;
        if !head.is_empty() {
            writer = writer.write(Bytes::copy_from_slice(head)).await?;
        }
        self.quotas.check(&call.caller, &call.instance, upload.declared().unwrap_or(0))?;
        while let Some(piece) = upload.piece(bytes_max).await? {
            writer = writer.write(piece).await?;
        }
        // A value that is refused later counts, too: its bytes were written.
        self.quotas.count(&call.caller, &call.instance, writer.len());
        Ok(writer)
    }

    /// Stores the body of the request under a name, and replaces what was there.
    pub(super) async fn put_value(
        &self,
        call: &Call<'_>,
        name: &[u8],
        upload: &mut Upload,
    ) -> Result<(), ServeError> {
        Ok(self.receive_value(call, name, b"", upload).await?.finish().await?)
    }

    /// The response of a value, or 404.
    pub(super) async fn get_value(&self, call: &Call<'_>, name: &[u8]) -> Reply {
        if let Some((len, body)) = self.store.value(name).await? {
            return self.send_value(call, len, body).await;
        }
        let reason = MissReason::of_loss(self.store.take_loss_of_value(name));
        Ok(reply::not_found_because(reason))
    }

    /// Whether there is a value.
    pub(super) async fn has_value(&self, name: &[u8]) -> Result<bool, ServeError> {
        Ok(self.store.value(name).await?.is_some())
    }

    /// A value of `len` bytes, or its headers.
    pub(super) async fn send_value(&self, call: &Call<'_>, len: u64, body: Body) -> Reply {
        if call.is_head() {
            return Ok(reply::stream::<Body>(StatusCode::OK, len, None));
        }
        let permit = self.budget.bytes(len.min(RESPONSE_MEMORY_BYTES)).await;
        Ok(reply::stream(StatusCode::OK, len, Some((body.into_stream(), permit))))
    }
}
