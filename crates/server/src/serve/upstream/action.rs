//! An action result of the upstream, with everything that it needs.

use std::sync::Arc;

use bytes::Bytes;
use futures_util::StreamExt as _;
use tidegate::store::BlobStore as _;
use tidegate::{Digest, Error, ErrorKind, Operation};

use super::{ANSWER_TIME_MAX, Upstream};
use crate::serve::fill::{FillError, FlightOutcome};
use crate::store::closure::{ClosureError, ClosureLimits, ClosureWalk, UnknownFields};
use crate::store::{ActionName, ActionPut};

impl Upstream {
    /// Fills an action result; `false` if the upstream does not give it, or not all that it needs.
    /// `name` is its name here, with the tenant, and `instance` the one that the upstream is asked for.
    /// Cancel-safe: the fill goes on.
    pub(in crate::serve) async fn fill_action(
        &self,
        name: &ActionName<'_>,
        instance: &str,
    ) -> bool {
        if self.is_down() {
            return false;
        }
        let (upstream, action) = (self.clone(), name.action);
        let (key, instance) = ((name.instance.to_owned(), action), instance.to_owned());
        let joined = self.0.actions.join(key.clone(), move |_| async move {
            let outcome: FlightOutcome =
                upstream.bring(&key.0, &instance, action).await.map(|()| action).map_err(Arc::new);
            outcome.inspect_err(|error| upstream.failed(&action, error))
        });
        match joined {
            Ok(flight) => flight.ended().await.is_ok(),
            Err(error) => {
                self.failed(&action, &error);
                false
            }
        }
    }

    async fn bring(
        &self,
        own_instance: &str,
        instance: &str,
        action: Digest,
    ) -> Result<(), FillError> {
        let asked = self.0.cache.action_result(instance, &action);
        let Ok(answer) = tokio::time::timeout(ANSWER_TIME_MAX, asked).await else {
            return Err(failed(&action, ErrorKind::Timeout, "the upstream did not answer in time"));
        };
        let missing = || failed(&action, ErrorKind::NotFound, "the upstream has no result");
        let result = answer.map_err(FillError::Remote)?.ok_or_else(missing)?;
        let needed = self.closure(&action, &result).await?;
        self.fill_missing(needed).await.map_err(FillError::Store)?;
        let name = ActionName { instance: own_instance, action };
        let put = self.0.store.put_action(&name, result, UnknownFields::Skip).await;
        match put.map_err(FillError::Store)? {
            ActionPut::Stored => Ok(()),
            ActionPut::Incomplete(blob) => {
                let message = format!("the result needs {blob}, which the upstream did not give");
                Err(failed(&action, ErrorKind::Integrity, message))
            }
            ActionPut::Refused(error) => Err(refused(&action, error)),
            ActionPut::NameTooLong => Err(missing()),
        }
    }

    /// The blobs that a result needs. Its trees and directories are filled to find them.
    async fn closure(&self, action: &Digest, result: &Bytes) -> Result<Vec<Digest>, FillError> {
        let limits = ClosureLimits::default();
        let refused = |error| refused(action, error);
        let mut walk = ClosureWalk::new(result, action.function, UnknownFields::Skip, limits)
            .map_err(refused)?;
        while let Some(blob) = walk.next_blob().map_err(refused)? {
            self.fill_missing(vec![blob]).await.map_err(FillError::Store)?;
            let read = self.0.store.get(&blob, 0, &self.0.budget).await;
            let mut body = read.map_err(FillError::Store)?;
            while let Some(piece) = body.next().await {
                walk.piece(&piece.map_err(FillError::Store)?).map_err(refused)?;
            }
            walk.end_blob().map_err(refused)?;
        }
        Ok(walk.finish().blobs().to_vec())
    }
}

fn failed(action: &Digest, kind: ErrorKind, message: impl Into<String>) -> FillError {
    FillError::Remote(Error::new(kind, Operation::Read, action.to_string(), message))
}

fn refused(action: &Digest, error: ClosureError) -> FillError {
    let message = "the upstream gave no valid action result";
    let target = action.to_string();
    let failed = Error::new(ErrorKind::Integrity, Operation::Read, target, message);
    FillError::Remote(failed.caused_by(error))
}
