//! [`ServeError`]: why a request fails.

use std::sync::Arc;

use http::StatusCode;
use tidegate::ErrorKind;

use super::access::QuotaUsed;
use super::clients::TooManyRequests;
use super::fill::FillError;
use super::observe::RequestBodyError;
use crate::store::StoreError;

/// Why a request fails.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    /// The store failed or refused.
    #[error("the store failed")]
    Store(#[source] tidegate::Error),
    /// The blob could not be fetched from its remote.
    #[error("the blob could not be fetched")]
    Fill(#[source] Arc<FillError>),
    /// The body of the request ended early.
    #[error("the body of the request ended early")]
    BodyCutOff(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The client sent too little of the body of the request for too long.
    #[error("the body of the request stalled")]
    BodyStalled(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The body of the request is too long.
    #[error("expected a body of at most {bytes_max} bytes")]
    BodyTooLong {
        /// The limit.
        bytes_max: u64,
    },
    /// The client has too many requests in flight.
    #[error(transparent)]
    TooManyRequests(#[from] TooManyRequests),
    /// The name is too long for a key of the store.
    #[error("the path is too long")]
    NameTooLong,
    /// The body of the request is compressed, so its bytes are not those of the name.
    #[error("expected a body without Content-Encoding")]
    BodyEncoded,
    /// The caller's credentials are not for the instance of the path.
    #[error("these credentials are not for this instance")]
    Forbidden,
    /// The instance has written what it may.
    #[error(transparent)]
    Quota(#[from] QuotaUsed),
    /// The request is not what its path requires.
    #[error("{0}")]
    Invalid(&'static str),
}

impl From<tidegate::Error> for ServeError {
    fn from(error: tidegate::Error) -> Self {
        Self::Store(error)
    }
}

impl From<Arc<FillError>> for ServeError {
    fn from(error: Arc<FillError>) -> Self {
        Self::Fill(error)
    }
}

impl From<FillError> for ServeError {
    fn from(error: FillError) -> Self {
        Self::Fill(Arc::new(error))
    }
}

impl ServeError {
    /// Why the body of a request ended early.
    pub(crate) fn of_body(error: Box<dyn std::error::Error + Send + Sync>) -> Self {
        match error.downcast_ref() {
            Some(RequestBodyError::Stalled { .. }) => Self::BodyStalled(error),
            _ => Self::BodyCutOff(error),
        }
    }

    /// The status of the response.
    pub(crate) fn status(&self) -> StatusCode {
        match self {
            Self::Store(error) => of_store(error),
            Self::Fill(error) => match &**error {
                FillError::Store(error) => of_store(error),
                error => error.status(),
            },
            Self::BodyCutOff(_) | Self::Invalid(_) => StatusCode::BAD_REQUEST,
            Self::BodyStalled(_) => StatusCode::REQUEST_TIMEOUT,
            Self::BodyTooLong { .. } => StatusCode::PAYLOAD_TOO_LARGE,
            Self::Forbidden => StatusCode::FORBIDDEN,
            Self::Quota(_) => StatusCode::INSUFFICIENT_STORAGE,
            Self::TooManyRequests(_) => StatusCode::TOO_MANY_REQUESTS,
            Self::NameTooLong => StatusCode::URI_TOO_LONG,
            Self::BodyEncoded => StatusCode::UNSUPPORTED_MEDIA_TYPE,
        }
    }

    /// The message of the response: what is wrong with the request. It says nothing of the disk.
    pub(crate) fn message(&self) -> String {
        match self {
            Self::Store(error) => message_of_store(error),
            Self::Fill(error) => match &**error {
                FillError::Store(error) => message_of_store(error),
                error => error.message(),
            },
            other => other.to_string(),
        }
    }
}

fn message_of_store(error: &tidegate::Error) -> String {
    match cause(error) {
        Some(StoreError::Mismatch) => "the bytes differ from the hash".to_owned(),
        Some(StoreError::Full { .. } | StoreError::DiskFull) => {
            "the store is full; retry later".to_owned()
        }
        Some(error @ StoreError::TooLarge { .. }) => error.to_string(),
        _ => "the store failed; see the log of the server".to_owned(),
    }
}

fn of_store(error: &tidegate::Error) -> StatusCode {
    match (cause(error), error.kind()) {
        (Some(StoreError::Mismatch), _) => StatusCode::BAD_REQUEST,
        (Some(StoreError::Full { .. } | StoreError::DiskFull), _) => {
            StatusCode::INSUFFICIENT_STORAGE
        }
        (Some(StoreError::TooLarge { .. }), _) => StatusCode::PAYLOAD_TOO_LARGE,
        (Some(StoreError::Closed), _) | (_, ErrorKind::Cancelled) => {
            StatusCode::SERVICE_UNAVAILABLE
        }
        _ => StatusCode::INTERNAL_SERVER_ERROR,
    }
}

/// What the store itself said.
fn cause(error: &tidegate::Error) -> Option<&StoreError> {
    std::error::Error::source(error)?.downcast_ref()
}
