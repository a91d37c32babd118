//! `ActionCache`: action results.
//!
//! The bytes of a result are stored and returned as they came, with fields that this server does not
//! know. The store keeps what a result needs, and a result that lacks any of it is not found.
//!
//! A long result is charged to the budget until it was sent. Most results are short, and their number is
//! that of the requests: 4,096 requests of one client hold at most 64 MiB of them.

use bytes::{BufMut as _, Bytes, BytesMut};
use tidegate::BytesPermit;
use tidegate_reapi::digest::required;
use tidegate_reapi::framing::{PREFIX_BYTES, put_prefix};
use tidegate_reapi::v2;
use tonic::Status;

use super::fields::{Fields, Value, digest};
use super::reply::Reply;
use super::request::RequestMessage;
use super::{Api, Outcome, RESPONSE_BYTES_MAX, decode, function, status};
use crate::serve::observe::{MissReason, StatusMark};
use crate::store::closure::UnknownFields;
use crate::store::{ActionName, ActionPut};

/// Longer results are charged.
const CHARGED_ABOVE_BYTES: usize = 16 << 10;

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
        let permit = self.charge(&result)?;
        reply(&result, permit)
    }

    /// The right to hold a result until it was sent. It does not wait, because the result is there.
    fn charge(&self, result: &Bytes) -> Outcome<Option<BytesPermit>> {
        if result.len() <= CHARGED_ABOVE_BYTES {
            return Ok(None);
        }
        let bytes = result.len() as u64;
        let permit = self.parts.budget.try_bytes(bytes);
        permit.map(Some).ok_or_else(|| status::no_memory(bytes))
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
        let permit = self.charge(&result)?;
        let put = self.store.put_action_of(&name, result, UnknownFields::Skip, invocation).await;
        match put.map_err(|error| status::of(&error))? {
            ActionPut::Stored => {
                self.count_written(update.instance, result_bytes);
                reply(&update.result, permit)
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

/// A response that is the result.
fn reply(result: &[u8], permit: Option<BytesPermit>) -> Outcome {
    if permit.is_none() {
        return Reply::encoded(result);
    }
    let mut framed = BytesMut::with_capacity(PREFIX_BYTES + result.len());
    put_prefix(&mut framed, result.len()).map_err(|error| status::invalid(&error))?;
    framed.put_slice(result);
    Ok(Reply::pieces([framed.freeze()], permit))
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
