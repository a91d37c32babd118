//! [`TidegateStore`]: the store. Each operation is in a file of its own.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use futures_util::stream::BoxStream;
use object_store::path::Path;
use object_store::{
    CopyOptions, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore,
    PutMultipartOptions, PutOptions, PutPayload, PutResult,
};
use tidegate::Client;

use crate::place::Place;
use crate::{copy, delete, get, list, multipart, put};

/// The blobs below one URL, as a store of the crate [`object_store`]. Clones are cheap and share
/// everything. See the docs of the crate.
#[derive(Clone)]
pub struct TidegateStore(Arc<Place>);

impl TidegateStore {
    /// The blobs below `url`: `s3://bucket`, `gs://bucket/prefix`, `az://container`,
    /// `https://host/folder`, `file:///folder`, or the path of a folder. Paths of the store are
    /// relative to it. No request is sent.
    ///
    /// ```no_run
    /// # fn example() -> tidegate::Result<()> {
    /// use tidegate_object_store::TidegateStore;
    ///
    /// let store = TidegateStore::new(&tidegate::Client::default(), "s3://bucket/prefix")?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// As [`Client::locate`]; also `Invalid` for a URL with a query, and `Unsupported` for a cache,
    /// whose blobs are named by their content.
    pub fn new(client: &Client, url: &str) -> tidegate::Result<Self> {
        Place::new(client, url).map(|place| Self(Arc::new(place)))
    }
}

impl fmt::Debug for TidegateStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("TidegateStore").field(&self.0.display()).finish()
    }
}

impl fmt::Display for TidegateStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Tidegate({})", self.0.display())
    }
}

#[async_trait]
impl ObjectStore for TidegateStore {
    async fn put_opts(
        &self,
        location: &Path,
        payload: PutPayload,
        opts: PutOptions,
    ) -> object_store::Result<PutResult> {
        put::put(&self.0, location, payload, &opts).await
    }

    async fn put_multipart_opts(
        &self,
        location: &Path,
        opts: PutMultipartOptions,
    ) -> object_store::Result<Box<dyn MultipartUpload>> {
        multipart::open(&self.0, location, &opts)
    }

    async fn get_opts(
        &self,
        location: &Path,
        options: GetOptions,
    ) -> object_store::Result<GetResult> {
        get::get(&self.0, location, &options).await
    }

    fn delete_stream(
        &self,
        locations: BoxStream<'static, object_store::Result<Path>>,
    ) -> BoxStream<'static, object_store::Result<Path>> {
        delete::delete(&self.0, locations)
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, object_store::Result<ObjectMeta>> {
        list::list(&self.0, prefix)
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> object_store::Result<ListResult> {
        list::list_with_delimiter(&self.0, prefix).await
    }

    async fn copy_opts(
        &self,
        from: &Path,
        to: &Path,
        options: CopyOptions,
    ) -> object_store::Result<()> {
        copy::copy(&self.0, from, to, options.mode).await
    }
}
