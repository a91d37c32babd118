//! The Remote Execution API over HTTP/2: capabilities, content-addressable storage, byte streams,
//! action cache.
//!
//! | file or folder | idea |
//! |---|---|
//! | `method` | the calls by their paths |
//! | `request` | the message of a call, charged to the budget as it arrives; frames of a stream |
//! | `reply` | messages and a status as the body of a response |
//! | `status` | failures of the store and of the wire as statuses |
//! | `deadline` | `grpc-timeout` |
//! | `fields` | the fields of a message, in place |
//! | `capabilities` | what the server can do |
//! | `find_missing`, `batch_update`, `batch_read` | many blobs in one message |
//! | `tree` | the directories below a directory |
//! | `split`, `splice` | blobs as chunks |
//! | `byte_stream` | one blob as a stream |
//! | `action_cache` | action results |
//! | `asset` | blobs of other servers |
//!
//! There is no gRPC library below: large messages are decoded where they lie, blobs stay slices of
//! the frames in which they arrived, and a call can be answered before its request has ended.
//!
//! Invariants:
//! - A call names an instance, which may be any name or empty. Blobs are shared by all instances;
//!   action results belong to one.
//! - The empty blob exists always.
//! - A message to the client is at most 4 MiB long, the limit of gRPC's libraries.

mod action_cache;
mod asset;
mod batch_read;
mod batch_update;
mod byte_stream;
mod capabilities;
mod deadline;
pub(in crate::serve) mod fields;
mod find_missing;
mod method;
mod reply;
mod request;
mod splice;
mod split;
mod status;
mod tree;

use std::sync::Arc;

use http::header::{CONTENT_TYPE, HeaderValue};
use http::{HeaderMap, Request, Response, Version};
use prost::Message;
use tidegate::{Budget, BytesPermit};
use tidegate_core::digest::DigestFunction;
use tokio::sync::Semaphore;
use tokio::time::Instant;
use tonic::{Code, Status};

use self::byte_stream::Uploads;
pub(in crate::serve) use self::method::Method;
use self::reply::Reply;
use self::request::{RequestFrames, RequestMessage};
use super::access::{Caller, Quotas, Refusal, Tenant};
use super::body::ResponseBody;
use super::clients::TooManyRequests;
use super::observe::{
    CallName, CallNotes, Lookups, MetadataHeader, MissReason, Observer, RequestBody, StatusMark,
};
use super::origin::Origins;
use super::upstream::Upstream;
use crate::store::LocalStore;

/// The outcome of a call.
type Outcome<T = Reply> = Result<T, Status>;

/// The longest message that is sent: the limit of gRPC's libraries.
const RESPONSE_BYTES_MAX: usize = 4 << 20;

/// The longest message that is accepted. Clients split their lists at 4,000,000 bytes, but some send
/// longer ones.
const REQUEST_BYTES_MAX: u64 = 64 << 20;

/// The API for one caller. Clones are the same.
#[derive(Clone, Debug)]
pub(super) struct Api {
    parts: Arc<ApiParts>,
    /// With the blobs that count for the caller.
    store: LocalStore,
    caller: Caller,
}

#[derive(Debug)]
struct ApiParts {
    budget: Budget,
    quotas: Arc<Quotas>,
    observer: Arc<Observer>,
    uploads: Uploads,
    /// Writes that may decompress a stream at a time: half of the memory at most.
    inflaters: Semaphore,
    upstream: Option<Upstream>,
    origins: Origins,
}

impl Api {
    /// The API for anyone.
    pub(super) fn new(
        store: LocalStore,
        budget: Budget,
        quotas: Arc<Quotas>,
        observer: Arc<Observer>,
        origins: Origins,
    ) -> Self {
        let inflaters = budget.limits().bytes / 2 / byte_stream::PACKED_WRITE_BYTES;
        let inflaters = usize::try_from(inflaters).unwrap_or(usize::MAX);
        let parts = Arc::new(ApiParts {
            uploads: Uploads::new(store.bytes_max()),
            budget,
            quotas,
            observer,
            inflaters: Semaphore::new(inflaters.clamp(1, Semaphore::MAX_PERMITS)),
            upstream: None,
            origins,
        });
        Self { parts, store, caller: Caller::anyone(Tenant::default()) }
    }

    /// The same API for a caller.
    pub(super) fn of(&self, caller: Caller) -> Self {
        let store = caller.store(&self.store).clone();
        Self { parts: Arc::clone(&self.parts), store, caller }
    }

    /// The same, with what the store lacks filled from another cache. Call it before it is cloned.
    pub(super) fn with_upstream(mut self, upstream: Upstream) -> Self {
        if let Some(parts) = Arc::get_mut(&mut self.parts) {
            parts.upstream = Some(upstream);
        }
        self
    }

    /// Drops interrupted uploads when their time is over. Never ends.
    pub(super) fn expire_uploads(&self) -> impl Future<Output = ()> + Send + 'static {
        let parts = Arc::clone(&self.parts);
        async move { parts.uploads.expire().await }
    }

    /// The response to one call. `None` is a call that the server does not have.
    pub(super) async fn answer(
        &self,
        method: Option<Method>,
        request: Request<RequestBody>,
    ) -> Response<ResponseBody> {
        let (head, body) = request.into_parts();
        let name = method.map_or(CallName::Unknown, CallName::Grpc);
        let outcome = match (method, head.version) {
            (_, version) if version != Version::HTTP_2 => {
                Err(Status::unimplemented("gRPC needs HTTP/2"))
            }
            (None, _) => Err(Status::unimplemented("this server does not have the call")),
            (Some(method), _) => {
                let frames = RequestFrames::new(body);
                match deadline::of(&head.headers) {
                    Ok(None) => self.call(method, &head.headers, frames, None).await,
                    Ok(Some(deadline)) => {
                        let call = self.call(method, &head.headers, frames, Some(deadline));
                        let ended = tokio::time::timeout_at(deadline, call).await;
                        ended.unwrap_or_else(|_| Err(deadline::exceeded()))
                    }
                    Err(status) => Err(status),
                }
            }
        };
        let body = match outcome {
            Ok(reply) => reply,
            Err(status) => {
                tracing::debug!(path = head.uri.path(), %status, "a call failed");
                return notes_of(name, &status).on(status::response(&status));
            }
        };
        let notes = CallNotes { lookups: body.lookups(name), ..CallNotes::new(name) };
        let mut response = Response::new(body.into_body());
        response
            .headers_mut()
            .insert(CONTENT_TYPE, HeaderValue::from_static("application/grpc+proto"));
        notes.on(response)
    }

    async fn call(
        &self,
        method: Method,
        headers: &HeaderMap,
        frames: RequestFrames,
        deadline: Option<Instant>,
    ) -> Outcome {
        match method {
            Method::Write => return self.write(frames).await,
            Method::Read => return self.read(self.message(frames).await?, deadline).await,
            _ => {}
        }
        let message = self.message(frames).await?;
        match method {
            Method::GetCapabilities => self.get_capabilities(&message),
            Method::FindMissing => self.find_missing(message).await,
            Method::BatchUpdate => Box::pin(self.batch_update(message)).await,
            Method::BatchRead => self.batch_read(message).await,
            Method::GetTree => self.get_tree(message).await,
            Method::SplitBlob => self.split(message).await,
            Method::SpliceBlob => Box::pin(self.splice(message)).await,
            Method::QueryWriteStatus => self.query_write_status(message).await,
            Method::GetActionResult => self.get_action_result(message).await,
            Method::UpdateActionResult => {
                let metadata = MetadataHeader::of(headers);
                let invocation = metadata.as_ref().map_or("", MetadataHeader::invocation);
                self.update_action_result(message, invocation).await
            }
            Method::FetchBlob => Box::pin(self.fetch_blob(message)).await,
            // They are answered above.
            Method::Read | Method::Write => Err(Status::internal("not a unary call")),
        }
    }

    /// Checks the name of an instance, and whether the caller may use it.
    fn check_instance(&self, name: &str) -> Outcome<()> {
        let short = name.strip_prefix('/').unwrap_or(name);
        let checked = tidegate_reapi::resource::check_instance(short);
        checked.map_err(|error| status::invalid(&error))?;
        if self.caller.may_use(name) {
            return Ok(());
        }
        let message = format!("these credentials are not for the instance {name:?}");
        Err(Status::permission_denied(message))
    }

    /// Whether the instance may write this number of bytes more.
    fn check_quota(&self, instance: &str, bytes: u64) -> Outcome<()> {
        let checked = self.parts.quotas.check(&self.caller, instance, bytes);
        checked.map_err(|used| status::of_quota(&used))
    }

    fn count_written(&self, instance: &str, bytes: u64) {
        self.parts.quotas.count(&self.caller, instance, bytes);
    }

    async fn message(&self, frames: RequestFrames) -> Outcome<RequestMessage> {
        frames.message(&self.parts.budget.share(), REQUEST_BYTES_MAX).await
    }

    /// Waits for bytes of the budget, for a call that holds none.
    async fn bytes(&self, bytes: u64) -> Outcome<BytesPermit> {
        request::wait_for_bytes(&self.parts.budget.share(), bytes).await
    }
}

/// The response to a call that was not let in.
pub(super) fn refuse(method: Option<Method>, refusal: Refusal) -> Response<ResponseBody> {
    let message = refusal.message();
    let status = match refusal {
        Refusal::Unknown => Status::unauthenticated(message),
        Refusal::Role(_) => Status::permission_denied(message),
    };
    let name = method.map_or(CallName::Unknown, CallName::Grpc);
    notes_of(name, &status).on(status::response(&status))
}

/// The response to a call beyond the limit of its client.
pub(super) fn refuse_too_many(
    method: Option<Method>,
    error: TooManyRequests,
) -> Response<ResponseBody> {
    let status = status::too_many_requests(error);
    let name = method.map_or(CallName::Unknown, CallName::Grpc);
    notes_of(name, &status).on(status::response(&status))
}

/// What a failed call says of itself.
fn notes_of(name: CallName, status: &Status) -> CallNotes {
    let mut notes = CallNotes::new(name);
    match (StatusMark::of(status), status.code()) {
        (Some(StatusMark::Refusal(reason)), _) => notes.refusal = Some(reason),
        (Some(StatusMark::Miss(reason)), _) if name.reads_one() => {
            notes.lookups = Lookups::miss(reason);
        }
        (None, Code::NotFound) if name.reads_one() => {
            notes.lookups = Lookups::miss(MissReason::Absent);
        }
        _ => {}
    }
    notes.message = Some(status.message().to_owned());
    notes
}

/// The hash function of a request.
fn function(number: i32) -> Outcome<DigestFunction> {
    tidegate_reapi::digest::function_of(number).map_err(|error| status::invalid(&error))
}

/// Decodes a message that is short, so that its decoded form is not charged.
fn decode<M: Message + Default>(message: &RequestMessage) -> Outcome<M> {
    M::decode(message.bytes.clone()).map_err(|error| status::invalid(&error.into()))
}
