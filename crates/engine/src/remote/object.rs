//! Object stores as remotes: `object_store` builds the URL, finds credentials and signs; the
//! bytes come through the engine's transport.
//!
//! What `object_store` makes of a response is not enough to act on: it hides `Retry-After`,
//! checksums and the status of a refused range, and drops the body of a server that ignores
//! ranges. So each request carries a [`Probe`] that brings the response's head back, and that head,
//! not `object_store`'s error, decides what happened. Its own retries are off: a restart belongs
//! to the reader, which knows which bytes were delivered.
//!
//! Headers that need no signature travel beside the probe, so that they are put on requests for
//! blobs and on no others: `object_store` sends requests of its own when it looks for credentials.

use std::sync::Arc;
use std::time::SystemTime;

use async_trait::async_trait;
use futures_util::StreamExt;
use http::{HeaderMap, StatusCode};
use object_store::path::Path;
use object_store::{GetOptions, GetRange, GetResult, ObjectStore, RetryConfig};
use tidegate_core::range::ByteRange;
use tidegate_core::retry::RetryClass;

use super::refusal::Refused;
use super::response::{self, Dialect};
use super::{BlobInfo, Body, OpenRequest, Opened, Remote, Version};
use crate::error::{Error, ErrorKind, Operation, Result};
use crate::transport::{Added, Probe, ResponseHead, classify};

/// One bucket or container.
#[derive(Debug)]
pub(super) struct ObjectRemote {
    store: Arc<dyn ObjectStore>,
    // Asks for what plain requests do not bring; S3's checksums come only when a header asks.
    stat_store: Arc<dyn ObjectStore>,
    dialect: Dialect,
    // "s3://bucket": what a key is shown behind.
    prefix: String,
    added: Added,
    // Whether a customer's key goes with the requests: a refusal means another thing then.
    keyed: bool,
}

impl ObjectRemote {
    pub(super) fn new(store: Arc<dyn ObjectStore>, dialect: Dialect, prefix: &str) -> Self {
        let stat_store = Arc::clone(&store);
        let added = Added::default();
        Self { store, stat_store, dialect, prefix: prefix.to_owned(), added, keyed: false }
    }

    /// Sends these headers along, unsigned.
    pub(super) fn with_headers(mut self, headers: HeaderMap) -> Self {
        self.added = Added(Arc::new(headers));
        self
    }

    /// Says that a customer's key goes with the requests.
    pub(super) fn keyed(mut self, keyed: bool) -> Self {
        self.keyed = keyed;
        self
    }

    #[cfg(feature = "s3")]
    pub(super) fn with_stat_store(mut self, store: Arc<dyn ObjectStore>) -> Self {
        self.stat_store = store;
        self
    }

    fn target(&self, blob: &str) -> String {
        format!("{}/{blob}", self.prefix)
    }

    async fn get(
        &self,
        store: &Arc<dyn ObjectStore>,
        blob: &str,
        mut options: GetOptions,
    ) -> Result<(Option<ResponseHead>, object_store::Result<GetResult>)> {
        let path = Path::parse(blob).map_err(|error| {
            Error::new(
                ErrorKind::Unsupported,
                Operation::Locate,
                self.target(blob),
                "keys with empty, `.` or `..` segments cannot be asked for",
            )
            .caused_by(error)
        })?;
        let probe = Probe::default();
        options.extensions.insert(probe.clone());
        options.extensions.insert(self.added.clone());
        match store.get_opts(&path, options).await {
            Err(error) if !probe.was_sent() => Err(self.unsent(blob, error)),
            result => Ok((probe.take(), result)),
        }
    }

    /// What failed before the request was sent: nothing but credentials is asked for then.
    fn unsent(&self, blob: &str, error: object_store::Error) -> Error {
        let (kind, message) = match &error {
            object_store::Error::NotSupported { .. }
            | object_store::Error::NotImplemented { .. } => {
                (ErrorKind::Unsupported, "this store cannot be asked for such a range")
            }
            _ => (ErrorKind::NoAccess, "no credentials could be had"),
        };
        Error::new(kind, Operation::Connect, self.target(blob), message).caused_by(error)
    }

    /// The error behind a failed call that got no usable answer.
    fn failure(
        &self,
        blob: &str,
        operation: Operation,
        head: Option<&ResponseHead>,
        pinned: bool,
        error: object_store::Error,
    ) -> Error {
        let target = self.target(blob);
        match head {
            Some(head) if !head.status.is_success() => {
                let refusal = response::refusal(head, operation, &target, pinned);
                Refused::of(head, &error, self.dialect, self.keyed).explain(refusal)
            }
            Some(_) => Error::new(
                ErrorKind::Integrity,
                operation,
                target,
                "the answer cannot be understood",
            )
            .caused_by(error)
            .retryable(RetryClass::Now),
            None => unanswered(target, operation, error),
        }
    }
}

/// No answer to the request: the connection failed.
fn unanswered(target: String, operation: Operation, error: object_store::Error) -> Error {
    let failure = classify(&error);
    let result = Error::new(failure.kind, operation, target, failure.message)
        .caused_by(error)
        .retryable(failure.retry);
    match failure.hint {
        Some(hint) => result.with_hint(hint),
        None => result,
    }
}

fn get_range(range: &ByteRange) -> Option<GetRange> {
    match range {
        ByteRange::From(start) => Some(GetRange::Offset(*start)),
        ByteRange::Bounded(range) => Some(GetRange::Bounded(range.clone())),
        ByteRange::Last(n) => Some(GetRange::Suffix(*n)),
        _ => None,
    }
}

fn get_options(range: &ByteRange, version: Option<&Version>) -> GetOptions {
    let mut options = GetOptions { range: get_range(range), ..GetOptions::default() };
    match version {
        Some(Version::Generation(generation)) => options.version = Some(generation.clone()),
        Some(Version::VersionId(id)) => options.version = Some(id.clone()),
        Some(Version::ETag(tag)) => options.if_match = Some(tag.clone()),
        Some(Version::LastModified(date)) => {
            // Where it is no date, the answer's own is compared all the same.
            let date = httpdate::parse_http_date(date).ok();
            options.if_unmodified_since = date.map(SystemTime::into);
        }
        _ => {}
    }
    options
}

/// `object_store`'s retries off: the reader restarts, with what it knows of delivered bytes.
pub(super) fn no_retries() -> RetryConfig {
    RetryConfig { max_retries: 0, ..RetryConfig::default() }
}

#[async_trait]
impl Remote for ObjectRemote {
    async fn stat(&self, blob: &str) -> Result<BlobInfo> {
        self.facts(blob, None).await
    }

    async fn stat_version(&self, blob: &str, version: &Version) -> Result<BlobInfo> {
        self.check_version(version)?;
        self.facts(blob, Some(version)).await
    }

    fn check_version(&self, version: &Version) -> Result<()> {
        self.dialect.check(version)
    }

    async fn open(&self, blob: &str, request: &OpenRequest) -> Result<Opened> {
        #[cfg(feature = "azure")]
        if let (Dialect::Azure, ByteRange::Last(count)) = (self.dialect, &request.range) {
            return self.open_last(blob, *count, request).await;
        }
        if let Some(version) = &request.version {
            self.check_version(version)?;
        }
        let target = self.target(blob);
        let pinned = request.version.is_some();
        let options = get_options(&request.range, request.version.as_ref());
        let (head, result) = self.get(&self.store, blob, options).await?;
        match (head, result) {
            (Some(head), Ok(result)) => {
                let info = response::info(&head, self.dialect, request.version.as_ref());
                let placement = response::place(&head, request, &info, &target)?;
                Ok(response::opened(&head, info, &placement, frames(result, target)))
            }
            (Some(head), Err(_)) if head.status == StatusCode::OK => {
                // The server ignored the range, and object_store dropped the body for it.
                self.open_whole(blob, request).await.map(Opened::after_one_more)
            }
            (Some(head), Err(error)) if response::may_be_the_end(&head, request) => {
                // The refusal of a range carries no version; one more request tells it.
                let info = self.facts(blob, request.version.as_ref()).await?;
                response::at_the_end(&head, request, info)
                    .map(Opened::after_one_more)
                    .ok_or_else(|| self.failure(blob, Operation::Read, Some(&head), pinned, error))
            }
            (Some(head), Err(error)) if head.status.is_success() => {
                let info = response::info(&head, self.dialect, request.version.as_ref());
                // Says what contradicts what, where that is what object_store stumbled over.
                let placement = response::place(&head, request, &info, &target)?;
                match fewer(&placement, request) {
                    Some(given) => self
                        .open_part(blob, given, request.version.as_ref())
                        .await
                        .map(Opened::after_one_more),
                    None => Err(self.failure(blob, Operation::Read, Some(&head), pinned, error)),
                }
            }
            (head, Err(error)) => {
                Err(self.failure(blob, Operation::Read, head.as_ref(), pinned, error))
            }
            (None, Ok(_)) => Err(headless(target, Operation::Read)),
        }
    }

    #[cfg(feature = "s3")]
    fn open_gives_checksums(&self) -> bool {
        self.dialect != Dialect::S3
    }
}

impl ObjectRemote {
    async fn facts(&self, blob: &str, version: Option<&Version>) -> Result<BlobInfo> {
        let mut options = get_options(&ByteRange::All, version);
        options.head = true;
        let (head, result) = self.get(&self.stat_store, blob, options).await?;
        match (head, result) {
            (Some(head), result) if head.status.is_success() => {
                if let Err(error) = result {
                    tracing::debug!(%error, "facts taken from the head of the answer alone");
                }
                let info = response::info(&head, self.dialect, version);
                response::same_version(version, info, &self.target(blob))
            }
            (head, Err(error)) => {
                let pinned = version.is_some();
                Err(self.failure(blob, Operation::Stat, head.as_ref(), pinned, error))
            }
            (_, Ok(_)) => Err(headless(self.target(blob), Operation::Stat)),
        }
    }

    /// Azure has no suffix ranges: the length is asked for first, and the range is then pinned to
    /// the version that had it.
    #[cfg(feature = "azure")]
    async fn open_last(&self, blob: &str, count: u64, request: &OpenRequest) -> Result<Opened> {
        let info = self.facts(blob, request.version.as_ref()).await?;
        let len = info.len_bytes.unwrap_or(0);
        let range = ByteRange::Bounded(len.saturating_sub(count)..len);
        if range.is_empty() {
            let head = ResponseHead { requests: 1, ..ResponseHead::default() };
            let at_end = OpenRequest { range: ByteRange::From(len), version: None };
            return response::at_the_end(&head, &at_end, info)
                .ok_or_else(|| headless(self.target(blob), Operation::Read));
        }
        let version = request.version.clone().or(info.version);
        self.open(blob, &OpenRequest { range, version }).await.map(Opened::after_one_more)
    }

    /// A server may give less than it was asked for (RFC 9110 section 15.3.7), but `object_store`
    /// drops the body of such an answer; so what the server gives is what it is asked for.
    async fn open_part(
        &self,
        blob: &str,
        given: ByteRange,
        version: Option<&Version>,
    ) -> Result<Opened> {
        let target = self.target(blob);
        let request = OpenRequest { range: given, version: version.cloned() };
        let options = get_options(&request.range, version);
        let (head, result) = self.get(&self.store, blob, options).await?;
        match (head, result) {
            (Some(head), Ok(result)) => {
                let info = response::info(&head, self.dialect, version);
                let placement = response::place(&head, &request, &info, &target)?;
                Ok(response::opened(&head, info, &placement, frames(result, target)))
            }
            (head, Err(error)) => {
                let pinned = version.is_some();
                Err(self.failure(blob, Operation::Read, head.as_ref(), pinned, error))
            }
            (None, Ok(_)) => Err(headless(target, Operation::Read)),
        }
    }

    async fn open_whole(&self, blob: &str, request: &OpenRequest) -> Result<Opened> {
        let target = self.target(blob);
        let options = get_options(&ByteRange::All, request.version.as_ref());
        let (head, result) = self.get(&self.store, blob, options).await?;
        let result = result.map_err(|error| {
            let pinned = request.version.is_some();
            self.failure(blob, Operation::Read, head.as_ref(), pinned, error)
        })?;
        let Some(head) = head else { return Err(headless(target, Operation::Read)) };
        let info = response::info(&head, self.dialect, request.version.as_ref());
        let placement = response::place(&head, request, &info, &target)?;
        Ok(response::opened(&head, info, &placement, frames(result, target)))
    }
}

fn headless(target: String, operation: Operation) -> Error {
    Error::new(ErrorKind::Integrity, operation, target, "the answer came without its head")
}

/// The range of a partial answer that brings less than it was asked for.
fn fewer(placement: &response::Placement, request: &OpenRequest) -> Option<ByteRange> {
    let given = placement.start..placement.end.filter(|_| !placement.whole)?;
    let given = ByteRange::Bounded(given);
    (given != request.range).then_some(given)
}

fn frames(result: GetResult, target: String) -> Body {
    Box::pin(result.into_stream().map(move |frame| {
        frame.map_err(|error| {
            let failure = classify(&error);
            Error::new(failure.kind, Operation::Read, target.clone(), failure.message)
                .caused_by(error)
                .retryable(failure.retry)
        })
    }))
}
