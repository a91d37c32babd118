//! The meaning of an object store's refusal: the error code in its response, if it says more than
//! the status.
//!
//! No other part of the response body is shown. If a signature does not match, S3 repeats the
//! request's headers there, including a customer's key.
//!
//! Sources: the error tables of Google Cloud Storage (XML API), Amazon S3 and Azure Blob Storage.

use http::StatusCode;
use tidegate_core::retry::RetryClass;

use super::archive::Archived;
#[cfg(any(feature = "gcs", feature = "s3"))]
use super::credentials::NoCredentials;
use super::response::Dialect;
use crate::error::{Error, ErrorKind, Hint, Operation, Setting};
use crate::transport::ResponseHead;

const KEY_MISSING: &str = "the blob is encrypted with a customer's key, and none was given";
const KEY_WRONG: &str = "the customer key is not the one that the blob is encrypted with";
const KEY_NEEDLESS: &str = "a customer key was given, but the blob is not encrypted with one";
const PAYER_MISSING: &str = "the requester pays here, and names no project that does";
const REJECTED: &str = "the credentials have expired, or are not valid here";
const GAVE_UP_WAITING: &str = "the remote gave up waiting for the request";
const TOO_MANY: &str = "the remote asks for fewer requests";

/// The hint for credentials that were rejected again after a new lookup.
pub(super) const REJECTED_HINT: &str = "get new credentials (such as by `aws sso login`, `gcloud auth \
     application-default login` or `az login`), and run the same command again to go on where it \
     stopped";

/// The message and the hint if no lookup gave credentials.
fn no_credentials(dialect: Dialect) -> (&'static str, Setting) {
    match dialect {
        #[cfg(feature = "s3")]
        // The lookup names its sources itself; see `s3_sources`.
        Dialect::S3 => ("no credentials found", Setting::AwsCredentials),
        #[cfg(feature = "gcs")]
        Dialect::Gcs => (
            "no credentials found (tried environment, gcloud's file, metadata server)",
            Setting::Anonymous,
        ),
        #[cfg(any(feature = "http", feature = "azure"))]
        _ => (
            "no credentials found (tried environment, managed identity)",
            Setting::AzureCredentials,
        ),
    }
}

/// Properties of a request that was refused.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asked {
    pub(super) dialect: Dialect,
    /// Whether it carried a customer's key.
    pub(super) keyed: bool,
    /// Whether it was signed.
    pub(super) signed: bool,
}

impl Asked {
    fn is_s3(self) -> bool {
        match self.dialect {
            #[cfg(feature = "s3")]
            Dialect::S3 => true,
            #[cfg(any(feature = "http", feature = "gcs", feature = "azure"))]
            _ => false,
        }
    }
}

/// A refusal, in the store's own terms.
#[derive(Debug)]
pub(super) struct Refused {
    /// Such as `InvalidAccessKeyId`.
    code: Option<String>,
    /// Its meaning and the hint, if the code or the status determines them.
    cause: Option<(ErrorKind, &'static str)>,
    hint: Option<Hint>,
    archived: Option<Archived>,
}

/// The code by which a service names a failure.
#[derive(Debug, thiserror::Error)]
#[error("the service says {0}")]
struct ServiceCode(String);

impl Refused {
    /// Examines a failed response and its body.
    pub(super) fn of(head: &ResponseHead, body: &str, asked: Asked) -> Self {
        let code = between(body, "<Code>", "</Code>")
            // A response to HEAD has no body; Azure repeats the code in a header.
            .or_else(|| head.text("x-ms-error-code"))
            .filter(|code| code.len() <= 64 && code.chars().all(|c| c.is_ascii_alphanumeric()))
            .map(str::to_owned);
        let cause = cause(code.as_deref().unwrap_or_default(), body);
        let hint = match cause {
            Some((_, message)) => hint(message),
            None => likely(head.status, code.is_some(), asked),
        };
        let archived = Archived::of(code.as_deref().unwrap_or_default(), body);
        Self { code, cause, hint, archived }
    }

    /// Whether the service rejected the request's credential, so that another one may be accepted.
    pub(super) fn is_of_credentials(&self, head: &ResponseHead, asked: Asked) -> bool {
        let is_rejected = self.message() == Some(REJECTED);
        // A response to HEAD has no body: for an expired token S3 sends only status 400.
        let may_be = self.code.is_none() && head.status == StatusCode::BAD_REQUEST && asked.is_s3();
        asked.signed && (head.status == StatusCode::UNAUTHORIZED || is_rejected || may_be)
    }

    /// The service's code for the failure; empty if it gave none.
    pub(super) fn code(&self) -> &str {
        self.code.as_deref().unwrap_or_default()
    }

    fn message(&self) -> Option<&'static str> {
        self.cause.map(|(_, message)| message)
    }

    /// The same error, with more details.
    pub(super) fn explain(self, error: Error) -> Error {
        if let Some(archived) = self.archived {
            return archived
                .error(error.operation(), error.target())
                .caused_by(ServiceCode(self.code.unwrap_or_default()));
        }
        let mut error = match self.cause {
            // The status already says that the failure is temporary, and when to retry.
            Some((_, GAVE_UP_WAITING | TOO_MANY)) if *error.retry() != RetryClass::Never => error,
            Some((kind, message)) => {
                let passes = matches!(message, GAVE_UP_WAITING | TOO_MANY);
                let retry = if passes { RetryClass::Now } else { RetryClass::Never };
                Error::new(kind, error.operation(), error.target(), message).retryable(retry)
            }
            None => error,
        };
        if let Some(code) = self.code {
            error = error.caused_by(ServiceCode(code));
        }
        match self.hint {
            Some(hint) => error.with_hint(hint),
            None => error,
        }
    }
}

/// The text with the XML of a failure, from any level of the chain of an error of `object_store`;
/// empty if there is none.
pub(super) fn document(error: &object_store::Error) -> String {
    let mut level: Option<&dyn std::error::Error> = Some(error);
    while let Some(error) = level {
        let text = error.to_string();
        if text.contains("<Code>") {
            return text;
        }
        level = error.source();
    }
    String::new()
}

/// The error for a request that was not sent: before sending, only credentials are requested.
pub(super) fn unsent(dialect: Dialect, target: &str, error: object_store::Error) -> Error {
    let failed = |kind, message: &str| Error::new(kind, Operation::Connect, target, message);
    if let object_store::Error::NotSupported { .. } | object_store::Error::NotImplemented { .. } =
        &error
    {
        let message = "this store cannot be asked for such a range";
        return failed(ErrorKind::Unsupported, message).caused_by(error);
    }
    #[cfg(any(feature = "gcs", feature = "s3"))]
    if let Some(found) = NoCredentials::below(&error) {
        return failed(ErrorKind::NoAccess, &found.to_string()).with_hint(found.hint.clone());
    }
    // The library's text is about its last lookup, which few users know of.
    let cause: &dyn std::error::Error = &error;
    tracing::debug!(blob = target, error = cause, "no credentials");
    let (message, hint) = no_credentials(dialect);
    failed(ErrorKind::NoAccess, message).with_hint(hint)
}

fn between<'a>(text: &'a str, start: &str, end: &str) -> Option<&'a str> {
    let (_, rest) = text.split_once(start)?;
    rest.split_once(end).map(|(inner, _)| inner)
}

fn cause(code: &str, body: &str) -> Option<(ErrorKind, &'static str)> {
    Some(match code {
        "ResourceIsEncryptedWithCustomerEncryptionKey" | "BlobUsesCustomerSpecifiedEncryption" => {
            (ErrorKind::NoAccess, KEY_MISSING)
        }
        // S3 has one code for many failures; only the message distinguishes them.
        "InvalidRequest" if body.contains("was stored using a form of Server Side Encryption") => {
            (ErrorKind::NoAccess, KEY_MISSING)
        }
        "CustomerEncryptionKeyIsIncorrect" | "BlobCustomerSpecifiedEncryptionMismatch" => {
            (ErrorKind::NoAccess, KEY_WRONG)
        }
        "ResourceNotEncryptedWithCustomerEncryptionKey"
        | "BlobDoesNotUseCustomerSpecifiedEncryption" => (ErrorKind::Invalid, KEY_NEEDLESS),
        "InvalidRequest" if body.contains("encryption parameters are not applicable") => {
            (ErrorKind::Invalid, KEY_NEEDLESS)
        }
        "UserProjectMissing" => (ErrorKind::NoAccess, PAYER_MISSING),
        // Amazon's own clients use these codes, regardless of the status, for rejected credentials,
        // temporary failures and throttling.
        "ExpiredToken" | "ExpiredTokenException" | "InvalidToken" | "TokenRefreshRequired" => {
            (ErrorKind::NoAccess, REJECTED)
        }
        "RequestTimeout" | "RequestTimeoutException" => (ErrorKind::Timeout, GAVE_UP_WAITING),
        "SlowDown"
        | "Throttling"
        | "ThrottlingException"
        | "ThrottledException"
        | "RequestThrottled"
        | "RequestThrottledException"
        | "RequestLimitExceeded"
        | "BandwidthLimitExceeded"
        | "TooManyRequestsException"
        | "PriorRequestNotComplete" => (ErrorKind::Throttled, TOO_MANY),
        _ => return None,
    })
}

fn hint(message: &str) -> Option<Hint> {
    Some(match message {
        KEY_MISSING | KEY_WRONG | KEY_NEEDLESS => Setting::CustomerKey.into(),
        PAYER_MISSING => Setting::UserProject.into(),
        REJECTED => REJECTED_HINT.into(),
        _ => return None,
    })
}

/// The likely cause, from the status alone: a response to `HEAD` has no body. S3 also uses the
/// status of any refused access for a wrong key, and for a requester who does not pay.
fn likely(status: StatusCode, explained: bool, asked: Asked) -> Option<Hint> {
    let Asked { keyed, signed, .. } = asked;
    Some(match status {
        StatusCode::UNAUTHORIZED if signed => REJECTED_HINT.into(),
        StatusCode::BAD_REQUEST if keyed && !explained => {
            "check that the customer key is the one that the blob was stored with".into()
        }
        StatusCode::BAD_REQUEST if asked.is_s3() && !explained => Setting::CustomerKey.into(),
        StatusCode::FORBIDDEN if asked.is_s3() && keyed => {
            "check the credentials, and that the customer key is the one of the blob".into()
        }
        StatusCode::FORBIDDEN if asked.is_s3() => Setting::RequestPayer.into(),
        _ => return None,
    })
}
