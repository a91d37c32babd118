//! Object stores as remotes: `object_store` builds the URL, finds credentials and signs; the
//! bytes come through the engine's transport.
//!
//! What `object_store` makes of a response is not enough to act on: it hides `Retry-After`,
//! checksums and the status of a refused range, and drops the body of a server that ignores
//! ranges. So each request carries a [`Probe`] that brings the answer back past it, body and all;
//! `object_store` reads only what a refusal says. Its own retries are off: a restart belongs to the
//! reader, which knows which bytes were delivered.
//!
//! One call may take more than one request: a credential that is rejected is asked for once more
//! (`credentials`), and a redirect of S3 is followed (`s3_redirect`).
//!
//! Headers that need no signature travel with the probe, so that they are put on requests for
//! blobs and on no others: `object_store` sends requests of its own when it looks for credentials.

use std::sync::Arc;
use std::time::SystemTime;

use async_trait::async_trait;
use http::HeaderMap;
use object_store::path::Path;
use object_store::{GetOptions, GetRange, ObjectStore, RetryConfig};
use tidegate_core::range::ByteRange;

use super::credentials::Renew;
use super::refusal::{Asked, Refused};
use super::response::{self, Dialect};
use super::{BlobInfo, OpenRequest, Opened, Read, Remote, Selection, Version};
use super::{key, refusal};
use crate::budget::Budget;
use crate::error::{Error, ErrorKind, Operation, Result};
use crate::transport::{Added, Answer, Probe, ResponseHead, classify};

/// S3 redirects once, to where the bucket is; one more is followed.
const REDIRECTS_MAX: u32 = 2;

/// The clients of one bucket at one address.
#[derive(Clone, Debug)]
pub(super) struct Stores {
    pub(super) plain: Arc<dyn ObjectStore>,
    /// Asks for what plain requests do not bring; S3's checksums come only when a header asks.
    pub(super) stat: Arc<dyn ObjectStore>,
}

impl From<Arc<dyn ObjectStore>> for Stores {
    fn from(store: Arc<dyn ObjectStore>) -> Self {
        Self { plain: Arc::clone(&store), stat: store }
    }
}

/// Finds the bucket where a redirect says it is.
pub(super) trait Elsewhere: std::fmt::Debug + Send + Sync {
    /// The clients of the bucket there; `None` where `head` is of no redirect. The error says why it
    /// is not followed.
    fn stores(&self, head: &ResponseHead, key: &str) -> Result<Option<Stores>, String>;
}

/// One bucket or container.
#[derive(Debug)]
pub(super) struct ObjectRemote {
    stores: Stores,
    elsewhere: Option<Box<dyn Elsewhere>>,
    // None where none are sent.
    credentials: Option<Arc<dyn Renew>>,
    dialect: Dialect,
    // "s3://bucket": what a key is shown behind.
    prefix: String,
    added: Added,
    // Whether a customer's key goes with the requests: a refusal means another thing then.
    keyed: bool,
    // What selects an object, but for its key.
    selection: Selection,
}

/// What became of a request that was sent.
enum Outcome {
    Answer(ResponseHead, Answer),
    /// No success, as `object_store` tells it; without a head where the connection failed.
    Failure(Option<ResponseHead>, object_store::Error),
}

impl Outcome {
    /// Counts the requests that led to an answer.
    fn after(mut self, more: u32) -> Self {
        if let Self::Answer(head, _) = &mut self {
            head.requests += more;
        }
        self
    }
}

impl ObjectRemote {
    /// The objects of `stores`; what selects one of them is `selection` and its key.
    pub(super) fn new(
        stores: impl Into<Stores>,
        dialect: Dialect,
        prefix: &str,
        selection: Selection,
    ) -> Self {
        Self {
            stores: stores.into(),
            elsewhere: None,
            credentials: None,
            dialect,
            prefix: prefix.to_owned(),
            added: Added::default(),
            keyed: false,
            selection,
        }
    }

    /// Asks here for credentials once more, where they are rejected; `None` where none are sent.
    pub(super) fn with_credentials(mut self, credentials: Option<Arc<dyn Renew>>) -> Self {
        self.credentials = credentials;
        self
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
    pub(super) fn with_redirects(mut self, elsewhere: impl Elsewhere + 'static) -> Self {
        self.elsewhere = Some(Box::new(elsewhere));
        self
    }

    fn target(&self, blob: &str) -> String {
        format!("{}/{blob}", self.prefix)
    }

    fn asked(&self) -> Asked {
        let Self { dialect, keyed, .. } = *self;
        Asked { dialect, keyed, signed: self.credentials.is_some() }
    }

    /// One request, and those that it takes to have it answered where and by whom it should be.
    async fn get(&self, blob: &str, operation: Operation, options: GetOptions) -> Result<Outcome> {
        let path = key::path(blob).map_err(|flaw| {
            Error::new(ErrorKind::Unsupported, Operation::Locate, self.target(blob), flaw)
        })?;
        let mut stores = self.stores.clone();
        let (mut renewed, mut redirects) = (false, 0);
        loop {
            let generation = match &self.credentials {
                Some(credentials) => credentials.generation().await,
                None => 0,
            };
            let store = if options.head { &stores.stat } else { &stores.plain };
            let outcome = self.send(store, &path, operation, options.clone()).await?;
            let Outcome::Failure(Some(head), error) = &outcome else {
                return Ok(outcome.after(redirects + u32::from(renewed)));
            };
            if let Some(there) = self.elsewhere(head, blob, operation, redirects)? {
                (stores, redirects) = (there, redirects + 1);
            } else if !renewed && self.renew(generation, head, error, blob).await? {
                renewed = true;
            } else {
                return Ok(outcome);
            }
        }
    }

    async fn send(
        &self,
        store: &Arc<dyn ObjectStore>,
        path: &Path,
        operation: Operation,
        mut options: GetOptions,
    ) -> Result<Outcome> {
        let probe = Probe::new(self.added.clone());
        options.extensions.insert(probe.clone());
        // An answer never comes this way, so that nothing can be found wrong with it here.
        let result = store.get_opts(path, options).await;
        match (probe.take(), result) {
            (Some((head, Some(body))), _) => Ok(Outcome::Answer(head, body)),
            (_, Err(error)) if !probe.was_sent() => Err(self.unsent(path.as_ref(), error)),
            (refusal, Err(error)) => Ok(Outcome::Failure(refusal.map(|(head, _)| head), error)),
            (_, Ok(_)) => Err(Error::new(
                ErrorKind::Integrity,
                operation,
                self.target(path.as_ref()),
                "the answer came without its head",
            )),
        }
    }

    /// Where a redirect leads, if `head` is of one that is known here.
    fn elsewhere(
        &self,
        head: &ResponseHead,
        blob: &str,
        operation: Operation,
        redirects: u32,
    ) -> Result<Option<Stores>> {
        let Some(elsewhere) = &self.elsewhere else { return Ok(None) };
        let refused = |message: String| {
            Error::new(ErrorKind::Unsupported, operation, self.target(blob), message)
                .with_hint("check the endpoint and the bucket's region")
        };
        let there = elsewhere.stores(head, blob).map_err(refused)?;
        if there.is_some() && redirects >= REDIRECTS_MAX {
            return Err(refused(format!("more than {REDIRECTS_MAX} redirects")));
        }
        Ok(there)
    }

    /// Asks for the credentials once more, if that is what was refused. Says whether there are others
    /// now.
    async fn renew(
        &self,
        generation: u64,
        head: &ResponseHead,
        error: &object_store::Error,
        blob: &str,
    ) -> Result<bool> {
        let Some(credentials) = &self.credentials else { return Ok(false) };
        if !Refused::of(head, error, self.asked()).is_of_credentials(head, self.asked()) {
            return Ok(false);
        }
        tracing::debug!(blob = self.target(blob), status = %head.status, "credentials rejected");
        credentials.renew(generation).await.map_err(|error| {
            let message = "the credentials were rejected, and no others were found";
            Error::new(ErrorKind::NoAccess, Operation::Connect, self.target(blob), message)
                .caused_by(error)
                .with_hint(refusal::REJECTED_HINT)
        })
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
            Some(head) => {
                let refusal = response::refusal(head, operation, &target, pinned);
                Refused::of(head, &error, self.asked()).explain(refusal)
            }
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
impl Read for ObjectRemote {
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

    fn selection(&self, blob: &str) -> Option<Selection> {
        Some(self.selection.clone().with("key", blob))
    }

    async fn open(&self, blob: &str, request: &OpenRequest, budget: &Budget) -> Result<Opened> {
        #[cfg(feature = "azure")]
        if let (Dialect::Azure, ByteRange::Last(count)) = (self.dialect, &request.range) {
            return self.open_last(blob, *count, request, budget).await;
        }
        if let Some(version) = &request.version {
            self.check_version(version)?;
        }
        let target = self.target(blob);
        let pinned = request.version.is_some();
        let options = get_options(&request.range, request.version.as_ref());
        match self.get(blob, Operation::Read, options).await? {
            Outcome::Answer(head, body) => {
                let info = response::info(&head, self.dialect, request.version.as_ref());
                let placement = response::place(&head, request, &info, &target)?;
                let encoded_unasked = self.asks_identity() && response::is_encoded(&head);
                let body = response::frames(body, target);
                let opened = response::opened(&head, info, &placement, body);
                Ok(Opened { encoded_unasked, ..opened })
            }
            Outcome::Failure(head, error) => {
                if let Some(head) = &head {
                    if response::may_be_the_end(head, request) {
                        // The refusal of a range carries no version; one more request tells it.
                        let info = self.facts(blob, request.version.as_ref()).await?;
                        if let Some(opened) = response::at_the_end(head, request, info) {
                            return Ok(opened.after_one_more());
                        }
                    }
                    if response::proves_nothing(head, request) {
                        let (range, version) = (ByteRange::All, request.version.clone());
                        let whole = OpenRequest { range, version };
                        return self.open(blob, &whole, budget).await.map(Opened::after_one_more);
                    }
                }
                Err(self.failure(blob, Operation::Read, head.as_ref(), pinned, error))
            }
        }
    }

    #[cfg(feature = "s3")]
    fn open_gives_checksums(&self) -> bool {
        self.dialect != Dialect::S3
    }
}

impl Remote for ObjectRemote {
    fn scheme(&self) -> &str {
        self.prefix.split_once("://").map_or(&self.prefix, |(scheme, _)| scheme)
    }
}

impl ObjectRemote {
    async fn facts(&self, blob: &str, version: Option<&Version>) -> Result<BlobInfo> {
        let mut options = get_options(&ByteRange::All, version);
        options.head = true;
        match self.get(blob, Operation::Stat, options).await? {
            Outcome::Answer(head, _) => {
                let info = response::info(&head, self.dialect, version);
                response::same_version(version, info, &self.target(blob))
            }
            Outcome::Failure(head, error) => {
                let pinned = version.is_some();
                Err(self.failure(blob, Operation::Stat, head.as_ref(), pinned, error))
            }
        }
    }

    /// Azure has no suffix ranges: the length is asked for first, and the range is then pinned to
    /// the version that had it. Facts without a length, or with none left, prove nothing: then the
    /// whole blob is asked for.
    #[cfg(feature = "azure")]
    async fn open_last(
        &self,
        blob: &str,
        count: u64,
        request: &OpenRequest,
        budget: &Budget,
    ) -> Result<Opened> {
        let info = self.facts(blob, request.version.as_ref()).await?;
        let range = match info.len_bytes {
            None | Some(0) => ByteRange::All,
            Some(len) => ByteRange::Bounded(len.saturating_sub(count)..len),
        };
        let version = request.version.clone().or(info.version);
        let request = OpenRequest { range, version };
        self.open(blob, &request, budget).await.map(Opened::after_one_more)
    }

    /// Google's storage is asked for what it stores, in the coding that it has; see `gcs`.
    fn asks_identity(&self) -> bool {
        match self.dialect {
            #[cfg(feature = "gcs")]
            Dialect::Gcs => false,
            #[cfg(any(feature = "http", feature = "s3", feature = "azure"))]
            _ => true,
        }
    }
}
