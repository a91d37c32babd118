//! Object stores as remotes: `object_store` builds the URL, finds credentials and signs; the
//! engine's transport delivers the bytes.
//!
//! `object_store` hides facts of a response that the engine needs: `Retry-After`, checksums and the
//! status of a refused range. It drops the body of a server that ignores ranges. So each request
//! carries a [`Probe`] that passes the response around `object_store`, body included.
//! `object_store` reads only the text of a refusal. Its own retries are off: the reader restarts,
//! because it knows which bytes were delivered.
//!
//! One call may take more than one request: a rejected credential is looked up once more
//! (`credentials`), and a redirect of S3 is followed (`s3_redirect`).
//!
//! Headers that need no signature travel with the probe. So they are added to requests for blobs
//! only: `object_store` sends its own requests when it looks for credentials.

use std::sync::Arc;

use async_trait::async_trait;
use http::HeaderMap;
use object_store::path::Path;
use object_store::{GetOptions, ObjectStore};
use tidegate_core::range::ByteRange;

#[cfg(feature = "s3")]
use super::UploadedPart;
use super::credentials::Renew;
use super::object_abilities::Abilities;
use super::object_request::get_options;
use super::refusal::{Asked, Refused};
use super::response::{self, Dialect};
use super::{BlobInfo, OpenRequest, Opened, Read, Selection, Version};
use super::{key, refusal};
use crate::budget::Budget;
use crate::error::{Error, ErrorKind, Operation, Result};
use crate::transport::{Added, Probe, ResponseBody, ResponseHead, classify};

/// S3 redirects once, to the bucket's own address; one more redirect is allowed.
const REDIRECTS_MAX: u32 = 2;

/// The clients of one bucket at one address.
#[derive(Clone, Debug)]
pub(super) struct Stores {
    pub(super) plain: Arc<dyn ObjectStore>,
    /// Asks for facts that plain responses lack: S3 sends checksums only if a header asks for them.
    pub(super) stat: Arc<dyn ObjectStore>,
    /// Asks for the parts of uploads; `None` if the service does not remember them.
    #[cfg(feature = "s3")]
    pub(super) parts: Option<Arc<super::s3_parts::PartHeads>>,
}

impl From<Arc<dyn ObjectStore>> for Stores {
    fn from(store: Arc<dyn ObjectStore>) -> Self {
        Self {
            plain: Arc::clone(&store),
            stat: store,
            #[cfg(feature = "s3")]
            parts: None,
        }
    }
}

/// Finds the bucket at the address that a redirect names.
pub(super) trait Elsewhere: std::fmt::Debug + Send + Sync {
    /// The clients for the bucket at the new address; `None` if `head` is not a redirect. The error
    /// says why the redirect is not followed.
    fn stores(&self, head: &ResponseHead, key: &str) -> Result<Option<Stores>, String>;
}

/// One bucket or container.
#[derive(Debug)]
pub(super) struct ObjectRemote {
    stores: Stores,
    elsewhere: Option<Box<dyn Elsewhere>>,
    // `None` if requests carry no credentials.
    credentials: Option<Arc<dyn Renew>>,
    dialect: Dialect,
    // "s3://bucket": shown before a key.
    pub(super) prefix: String,
    added: Added,
    // Whether requests carry a customer's key: then a refusal has another meaning.
    keyed: bool,
    // Everything that selects an object, except its key.
    selection: Selection,
    pub(super) abilities: Abilities,
}

/// The outcome of a request that was sent.
enum Outcome {
    Response(ResponseHead, ResponseBody),
    /// A failure, as `object_store` reports it; without a head if the connection failed.
    Failure(Option<ResponseHead>, object_store::Error),
}

impl Outcome {
    /// Counts the requests that led to a response.
    fn after(mut self, more: u32) -> Self {
        if let Self::Response(head, _) = &mut self {
            head.requests += more;
        }
        self
    }
}

impl ObjectRemote {
    /// The objects of `stores`; `selection` and a key select one of them.
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
            abilities: Abilities::default(),
        }
    }

    /// Adds abilities.
    pub(super) fn with_abilities(mut self, abilities: Abilities) -> Self {
        self.abilities = abilities;
        self
    }

    /// Looks credentials up here once more if they are rejected; `None` if requests carry none.
    pub(super) fn with_credentials(mut self, credentials: Option<Arc<dyn Renew>>) -> Self {
        self.credentials = credentials;
        self
    }

    /// Adds these headers to requests, unsigned.
    pub(super) fn with_headers(mut self, headers: HeaderMap) -> Self {
        self.added = Added(Arc::new(headers));
        self
    }

    /// Sets whether requests carry a customer's key.
    pub(super) fn keyed(mut self, keyed: bool) -> Self {
        self.keyed = keyed;
        self
    }

    #[cfg(feature = "s3")]
    pub(super) fn with_redirects(mut self, elsewhere: impl Elsewhere + 'static) -> Self {
        self.elsewhere = Some(Box::new(elsewhere));
        self
    }

    pub(super) fn target(&self, blob: &str) -> String {
        format!("{}/{blob}", self.prefix)
    }

    #[cfg(feature = "s3")]
    pub(super) fn stores(&self) -> &Stores {
        &self.stores
    }

    fn asked(&self) -> Asked {
        let Self { dialect, keyed, .. } = *self;
        Asked { dialect, keyed, signed: self.credentials.is_some() }
    }

    /// Sends one request, and repeats it after a redirect or with renewed credentials.
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
        // A response bypasses `object_store`, so its checks here cannot fail.
        let result = store.get_opts(path, options).await;
        match (probe.take(), result) {
            (Some((head, Some(body))), _) => Ok(Outcome::Response(head, body)),
            (_, Err(error)) if !probe.was_sent() => {
                Err(refusal::unsent(self.dialect, &self.target(path.as_ref()), error))
            }
            (refusal, Err(error)) => Ok(Outcome::Failure(refusal.map(|(head, _)| head), error)),
            (_, Ok(_)) => Err(Error::new(
                ErrorKind::Integrity,
                operation,
                self.target(path.as_ref()),
                "the answer came without its head",
            )),
        }
    }

    /// The clients for the redirect's target, if `head` is a known redirect.
    pub(super) fn elsewhere(
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

    /// Looks the credentials up once more, if they were refused. Returns whether the lookup found
    /// different ones.
    async fn renew(
        &self,
        generation: u64,
        head: &ResponseHead,
        error: &object_store::Error,
        blob: &str,
    ) -> Result<bool> {
        let Some(credentials) = &self.credentials else { return Ok(false) };
        if !Refused::of(head, &refusal::document(error), self.asked())
            .is_of_credentials(head, self.asked())
        {
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

    /// The error for a failed call that got no usable response.
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
                Refused::of(head, &refusal::document(&error), self.asked()).explain(refusal)
            }
            None => unanswered(target, operation, error),
        }
    }
}

/// The error for a request without a response: the connection failed.
pub(super) fn unanswered(
    target: String,
    operation: Operation,
    error: impl std::error::Error + Send + Sync + 'static,
) -> Error {
    let failure = classify(&error);
    let result = Error::new(failure.kind, operation, target, failure.message)
        .caused_by(error)
        .retryable(failure.retry);
    match failure.hint {
        Some(hint) => result.with_hint(hint),
        None => result,
    }
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
            Outcome::Response(head, body) => {
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
                        // The refusal of a range carries no version, so one more request asks for
                        // it.
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

    #[cfg(feature = "s3")]
    async fn uploaded_part(
        &self,
        blob: &str,
        number: u32,
        version: Option<&Version>,
    ) -> Result<Option<UploadedPart>> {
        self.part(blob, number, version).await
    }
}

impl ObjectRemote {
    async fn facts(&self, blob: &str, version: Option<&Version>) -> Result<BlobInfo> {
        let mut options = get_options(&ByteRange::All, version);
        options.head = true;
        match self.get(blob, Operation::Stat, options).await? {
            Outcome::Response(head, _) => {
                let info = response::info(&head, self.dialect, version);
                response::same_version(version, info, &self.target(blob))
            }
            Outcome::Failure(head, error) => {
                let pinned = version.is_some();
                Err(self.failure(blob, Operation::Stat, head.as_ref(), pinned, error))
            }
        }
    }

    /// Azure has no suffix ranges. So this asks for the length first, and pins the range to the
    /// version of that length. A missing or zero length is not reliable; then it requests the whole
    /// blob.
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

    /// Google's storage is asked for the stored bytes in their own coding; see `gcs`.
    fn asks_identity(&self) -> bool {
        match self.dialect {
            #[cfg(feature = "gcs")]
            Dialect::Gcs => false,
            #[cfg(any(feature = "http", feature = "s3", feature = "azure"))]
            _ => true,
        }
    }
}
