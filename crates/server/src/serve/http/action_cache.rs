//! `/ac/KEY`: action results, and opaque values of tools that use the same paths.
//!
//! A value that is exactly an `ActionResult` is checked as one: it is stored only if everything that
//! it needs is there, and it is a hit only while all of that is there. Any other value, such as an
//! entry of ccache or moon's JSON, is opaque. A hit is given back byte for byte.

use http::{Method, StatusCode};
use tidegate_core::digest::DigestFunction;

use super::upload::Upload;
use super::values::value_name;
use super::{Call, HttpCache, Reply, reply};
use crate::serve::error::ServeError;
use crate::serve::observe::MissReason;
use crate::store::CachedPut;

/// The dialect in keys.
const DIALECT: &str = "ac";

impl HttpCache {
    pub(super) async fn action(
        &self,
        call: &Call<'_>,
        function: DigestFunction,
        key: &str,
        upload: &mut Upload,
    ) -> Reply {
        let name = value_name(call.tenant(), DIALECT, &[function.name(), &call.instance, key]);
        match call.parts.method {
            Method::PUT => self.put_action_value(call, &name, function, upload).await,
            Method::DELETE => {
                self.store.remove_value(&name).await?;
                Ok(reply::empty(StatusCode::NO_CONTENT))
            }
            _ => {
                if let Some((len, body)) = self.store.cached(&name, function).await? {
                    return self.send_value(call, len, body).await;
                }
                let reason = MissReason::of_loss(self.store.take_loss_of_value(&name));
                Ok(reply::not_found_because(reason))
            }
        }
    }

    async fn put_action_value(
        &self,
        call: &Call<'_>,
        name: &[u8],
        function: DigestFunction,
        upload: &mut Upload,
    ) -> Reply {
        let writer = self.receive_value(call, name, b"", upload).await?;
        // Its bytes are in a file now, or charged here again.
        upload.release();
        let _permit = self.budget.bytes(writer.len().saturating_mul(2)).await;
        match writer.finish_cached(function).await? {
            CachedPut::Opaque | CachedPut::Result => Ok(reply::empty(StatusCode::OK)),
            CachedPut::Incomplete(missing) => {
                let message = format!("the blob {missing} is missing; upload it first");
                Ok(reply::text(StatusCode::CONFLICT, &message))
            }
            CachedPut::Refused(error) => {
                tracing::debug!(%error, "refused an action result");
                Err(ServeError::Invalid("the action result names a tree that is none"))
            }
        }
    }
}
