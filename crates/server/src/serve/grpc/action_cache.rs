//! `ActionCache`: action results.
//!
//! The bytes of a result are stored and returned as they came, with fields that this server does not
//! know. The store keeps what a result needs, and a result that lacks any of it is not found.

use bytes::Bytes;
use tidegate_reapi::digest::required;
use tidegate_reapi::v2;
use tonic::Status;

use super::fields::{Fields, Value, digest};
use super::reply::Reply;
use super::request::RequestMessage;
use super::{Api, Outcome, RESPONSE_BYTES_MAX, decode, function, status};
use crate::serve::observe::{MissReason, StatusMark};
use crate::store::closure::UnknownFields;
use crate::store::{ActionName, ActionPut};

impl Api {
    pub(super) async fn get_action_result(&self, message: RequestMessage) -> Outcome {
        let request: v2::GetActionResultRequest = decode(&message)?;
        self.check_instance(&request.instance_name)?;
        let function = function(request.digest_function)?;
        let action = required(request.action_digest.as_ref(), function)
            .map_err(|error| status::invalid(&error))?;
        let asked = instance(&request.instance_name);
        let own = self.caller.own_name(asked);
        let name = ActionName { instance: &own, action };
        let mut found = self.store.action(&name).await.map_err(|error| status::of(&error))?;
        if let (None, Some(upstream)) = (&found, &self.parts.upstream)
            && upstream.fill_action(&name, asked).await
        {
            found = self.store.action(&name).await.map_err(|error| status::of(&error))?;
        }
        let result = found.ok_or_else(|| {
            let reason = MissReason::of_loss(self.store.take_loss_of_action(&name));
            let message = format!("there is no complete result of action {action}");
            StatusMark::Miss(reason).on(Status::not_found(message))
        })?;
        Reply::encoded(&result)
    }

    /// `invocation` is what the client says of itself; empty if it says nothing.
    pub(super) async fn update_action_result(
        &self,
        message: RequestMessage,
        invocation: &str,
    ) -> Outcome {
        let update = Update::decode(&message.bytes)?;
        self.check_instance(update.instance)?;
        let own = self.caller.own_name(instance(update.instance));
        let name = ActionName { instance: &own, action: update.action };
        let result = update.result.clone();
        if result.len() > RESPONSE_BYTES_MAX - 1024 {
            let max = RESPONSE_BYTES_MAX - 1024;
            return Err(Status::invalid_argument(format!(
                "the result is larger than max ({} vs. {max} bytes); its outputs belong into blobs",
                result.len()
            )));
        }
        let result_bytes = result.len() as u64;
        self.check_quota(update.instance, result_bytes)?;
        let put = self.store.put_action_of(&name, result, UnknownFields::Skip, invocation).await;
        match put.map_err(|error| status::of(&error))? {
            ActionPut::Stored => {
                self.count_written(update.instance, result_bytes);
                Reply::encoded(&update.result)
            }
            ActionPut::Incomplete(blob) => Err(Status::failed_precondition(format!(
                "the cache does not have {blob}, which the result of action {} needs",
                update.action
            ))),
            ActionPut::Refused(error) => Err(Status::invalid_argument(error.to_string())),
            ActionPut::NameTooLong => {
                Err(Status::invalid_argument("the name of the instance is too long"))
            }
        }
    }
}

/// The name of an instance, which some clients write with a slash before it.
fn instance(name: &str) -> &str {
    name.strip_prefix('/').unwrap_or(name)
}

/// An `UpdateActionResultRequest`, decoded in place.
struct Update<'a> {
    instance: &'a str,
    action: tidegate_core::digest::Digest,
    result: Bytes,
}

impl<'a> Update<'a> {
    fn decode(message: &'a Bytes) -> Outcome<Self> {
        let invalid = |error: tidegate_reapi::Error| status::invalid(&error);
        let malformed = || invalid(tidegate_reapi::Error::Malformed);
        let (mut instance, mut action, mut result, mut number) = ("", None, None, 0);
        for field in Fields::of(message) {
            match field.map_err(invalid)? {
                (1, Value::Bytes(name)) => {
                    instance = std::str::from_utf8(name).ok().ok_or_else(malformed)?;
                }
                (2, Value::Bytes(value)) => action = Some(value),
                (3, Value::Bytes(value)) if result.is_none() => result = Some(value),
                (5, Value::Number(value)) => number = value,
                (1 | 2 | 3 | 5, _) => return Err(malformed()),
                _ => {}
            }
        }
        let function = function(i32::try_from(number).unwrap_or(i32::MAX))?;
        let action = action.ok_or(tidegate_reapi::Error::DigestMissing).map_err(invalid)?;
        let action = digest(action, function).map_err(invalid)?;
        let result = result.ok_or_else(|| Status::invalid_argument("the result is missing"))?;
        Ok(Self { instance, action, result: message.slice_ref(result) })
    }
}
