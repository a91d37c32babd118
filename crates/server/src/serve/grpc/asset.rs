//! `build.bazel.remote.asset.v1.Fetch/FetchBlob`: Bazel's remote downloader, answered through origins.
//!
//! A URI is fetched if an origin covers it. A failure of a URI is the status in the response, as the
//! API says; a request that is wrong is the status of the call.
//!
//! `checksum.sri` is compared with the bytes. A blob that has the checksum and is stored needs no
//! request to any URI. `bazel.canonical_id` is ignored: it says when contents differ, and here their
//! versions do. Other qualifiers are refused, as the API requires. Headers for a URI are among them:
//! what one client may read must not be stored for others.
//!
//! `FetchDirectory` and the service `Push` are not implemented.

use std::time::{Duration, UNIX_EPOCH};

use prost::Message as _;
use prost_types::{Any, Timestamp};
use tidegate::ErrorKind;
use tidegate_core::digest::{Digest, DigestFunction};
use tidegate_reapi::bounded::{self, EntryLimit};
use tidegate_reapi::digest::{function as function_number, to_proto};
use tidegate_reapi::{asset, rpc};
use tonic::{Code, Status};

use super::reply::Reply;
use super::request::RequestMessage;
use super::{Api, Outcome, function, status};
use crate::serve::fill::FillError;
use crate::serve::origin::{Integrity, Origins};

/// URIs of one call: an origin and its mirrors.
const URIS_MAX: usize = 100;
const QUALIFIERS_MAX: usize = 100;

/// The time of a fetch, if the request has none.
const FETCH_TIME: Duration = Duration::from_mins(10);

/// Why a URI gave nothing.
struct Failure {
    code: Code,
    message: String,
    uri: String,
}

impl Api {
    pub(super) async fn fetch_blob(&self, message: RequestMessage) -> Outcome {
        let limits = [
            EntryLimit { path: &[4], count_max: URIS_MAX },
            EntryLimit { path: &[5], count_max: QUALIFIERS_MAX },
        ];
        let request: asset::FetchBlobRequest = bounded::decode(message.bytes.clone(), &limits)
            .map_err(|error| status::invalid(&error))?;
        drop(message);
        self.check_instance(&request.instance_name)?;
        let function = function(request.digest_function)?;
        let integrity = integrity(&request.qualifiers)?;
        if request.uris.is_empty() {
            return Err(Status::invalid_argument("the request has no URI"));
        }
        let time = duration(request.timeout.as_ref())?;
        let fetched = tokio::time::timeout(time, self.fetch_any_of(&request, integrity, function));
        let outcome = fetched.await.unwrap_or_else(|_late| {
            let message = format!("the fetch took longer than {} seconds", time.as_secs());
            let uri = request.uris.first().cloned().unwrap_or_default();
            Ok(Err(Failure { code: Code::DeadlineExceeded, message, uri }))
        })?;
        Reply::message(&match outcome {
            Ok((digest, uri)) => asset::FetchBlobResponse {
                status: Some(rpc::Status::default()),
                uri,
                qualifiers: request.qualifiers,
                blob_digest: Some(to_proto(&digest)),
                digest_function: function_number(function),
                ..asset::FetchBlobResponse::default()
            },
            Err(Failure { code, message, uri }) => asset::FetchBlobResponse {
                status: Some(rpc::Status { code: code as i32, message, details: Vec::new() }),
                uri,
                digest_function: function_number(function),
                ..asset::FetchBlobResponse::default()
            },
        })
    }

    /// The first URI that gives the blob, or why the last one did not.
    async fn fetch_any_of(
        &self,
        request: &asset::FetchBlobRequest,
        integrity: Option<Integrity>,
        function: DigestFunction,
    ) -> Outcome<Result<(Digest, String), Failure>> {
        let origins = &self.parts.origins;
        let since_ms = since_ms(request.oldest_content_accepted.as_ref());
        let known = match &integrity {
            Some(wanted) => origins.known(wanted).await.map_err(|error| status::of(&error))?,
            None => None,
        };
        if let (Some(digest), Some(uri)) = (known, request.uris.first()) {
            let digest = renamed(origins, &digest, function).await?;
            return Ok(Ok((digest, uri.clone())));
        }
        let mut last = None;
        for uri in &request.uris {
            let failure = |code, message: String| Failure { code, message, uri: uri.clone() };
            let path = match origins.path_of_uri(uri) {
                Ok(path) => path,
                Err(flaw) => {
                    let refused = failure(Code::PermissionDenied, flaw.message().to_owned());
                    last.get_or_insert(refused);
                    continue;
                }
            };
            match origins.bring(&path, since_ms).await {
                Ok(digest) => {
                    let is_wanted = match &integrity {
                        Some(wanted) => origins.matches(&digest, wanted).await,
                        None => Ok(true),
                    };
                    if is_wanted.map_err(|error| status::of(&error))? {
                        let digest = renamed(origins, &digest, function).await?;
                        return Ok(Ok((digest, uri.clone())));
                    }
                    let hex = digest.checksum().hex();
                    let message = format!("the bytes, of SHA-256 {hex}, differ from checksum.sri");
                    last = Some(failure(Code::Aborted, message));
                }
                Err(error) if matches!(*error, FillError::Store(_) | FillError::Stopped) => {
                    return Err(of_fill(&error));
                }
                Err(error) => last = Some(failure(code_of(&error), error.message())),
            }
        }
        last.map(Err).ok_or_else(|| Status::invalid_argument("the request has no URI"))
    }
}

async fn renamed(origins: &Origins, digest: &Digest, function: DigestFunction) -> Outcome<Digest> {
    origins.rename(digest, function).await.map_err(|error| of_fill(&error))
}

/// A failure of this server.
fn of_fill(error: &FillError) -> Status {
    match error {
        FillError::Store(error) => status::of(error),
        FillError::Busy => status::exhausted(error.message()),
        _ => Status::unavailable(error.message()),
    }
}

/// A failure of a remote.
fn code_of(error: &FillError) -> Code {
    match error.remote_kind() {
        Some(ErrorKind::NotFound) => Code::NotFound,
        Some(ErrorKind::NoAccess) => Code::PermissionDenied,
        Some(ErrorKind::Timeout) => Code::DeadlineExceeded,
        Some(ErrorKind::Throttled) => Code::ResourceExhausted,
        Some(ErrorKind::Integrity | ErrorKind::Changed) => Code::Aborted,
        Some(ErrorKind::Invalid | ErrorKind::Unsupported) => Code::InvalidArgument,
        _ if matches!(error, FillError::Busy) => Code::ResourceExhausted,
        _ => Code::Unavailable,
    }
}

/// The checksum that the qualifiers ask for.
fn integrity(qualifiers: &[asset::Qualifier]) -> Outcome<Option<Integrity>> {
    let (mut found, mut unknown) = (None, Vec::new());
    for qualifier in qualifiers {
        match &*qualifier.name {
            "checksum.sri" if found.is_some() => {
                return Err(Status::invalid_argument("the qualifier checksum.sri is repeated"));
            }
            "checksum.sri" => {
                let parsed = Integrity::parse(&qualifier.value);
                found = Some(parsed.map_err(Status::invalid_argument)?);
            }
            "bazel.canonical_id" => {}
            other => unknown.push(other),
        }
    }
    if unknown.is_empty() { Ok(found) } else { Err(unsupported(&unknown)) }
}

/// The refusal of qualifiers, with the details that the API asks for.
fn unsupported(names: &[&str]) -> Status {
    let violation = |name: &&str| rpc::bad_request::FieldViolation {
        field: "qualifiers.name".to_owned(),
        description: format!("{name:?} not supported"),
        ..rpc::bad_request::FieldViolation::default()
    };
    let request = rpc::BadRequest { field_violations: names.iter().map(violation).collect() };
    let message = format!("qualifiers are not supported: {}", names.join(", "));
    let details = rpc::Status {
        code: Code::InvalidArgument as i32,
        message: message.clone(),
        details: vec![Any {
            type_url: "type.googleapis.com/google.rpc.BadRequest".to_owned(),
            value: request.encode_to_vec(),
        }],
    };
    Status::with_details(Code::InvalidArgument, message, details.encode_to_vec().into())
}

fn duration(timeout: Option<&prost_types::Duration>) -> Outcome<Duration> {
    let Some(timeout) = timeout else { return Ok(FETCH_TIME) };
    let time = Duration::try_from(*timeout);
    time.map_err(|_negative| Status::invalid_argument("the timeout is negative"))
}

/// Milliseconds since 1970.
fn since_ms(time: Option<&Timestamp>) -> u64 {
    let time = time.and_then(|time| std::time::SystemTime::try_from(*time).ok());
    let since = time.and_then(|time| time.duration_since(UNIX_EPOCH).ok());
    since.map_or(0, |since| u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}
