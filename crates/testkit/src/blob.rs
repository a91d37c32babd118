//! A blob as a remote holds it: content, version and the remote's metadata about them.
//!
//! Content is shared memory or an open file that is read by position, so a blob is cheap to clone
//! and a big file needs no memory. The metadata (version, `ETag`, checksums) is independent of the
//! content, so that tests can make it false.

use std::{
    borrow::Cow,
    fmt, fs, io,
    os::unix::fs::FileExt,
    path::Path,
    sync::Arc,
    time::{Duration, SystemTime},
};

use bytes::Bytes;

use crate::{
    checksums::{Checksums, Computed, Kind, Sums},
    random::mix,
    uploaded::{PartsAlgorithm, Uploaded, md5_etag},
    write::StoredChecksum,
};

/// Bytes read from a file at once; with the page cache warm, larger reads gain nothing.
pub(crate) const READ_BYTES: usize = 1024 * 1024;

/// The source of the bytes.
#[derive(Clone)]
pub(crate) enum Content {
    Memory(Bytes),
    File {
        file: Arc<fs::File>,
        len_bytes: u64,
    },
    /// Written bytes that were hashed and dropped.
    Dropped {
        len_bytes: u64,
    },
}

impl Content {
    pub(crate) fn len(&self) -> u64 {
        match self {
            Self::Memory(bytes) => u64::try_from(bytes.len()).unwrap_or(u64::MAX),
            Self::File { len_bytes, .. } | Self::Dropped { len_bytes } => *len_bytes,
        }
    }

    /// Calls `each` with the bytes of `start..end` in order. Blocks if the content is a file.
    pub(crate) fn scan(&self, start: u64, end: u64, mut each: impl FnMut(&[u8])) -> io::Result<()> {
        match self {
            Self::Memory(bytes) => each(slice(bytes, start, end)),
            Self::Dropped { .. } => return Err(io::Error::other("the written bytes were dropped")),
            Self::File { file, .. } => {
                let mut buffer = vec![0; READ_BYTES];
                let mut at = start;
                while at < end {
                    let want = usize::try_from(end - at).map_or(READ_BYTES, |n| n.min(READ_BYTES));
                    file.read_exact_at(&mut buffer[..want], at)?;
                    each(&buffer[..want]);
                    at += u64::try_from(want).unwrap_or(u64::MAX);
                }
            }
        }
        Ok(())
    }
}

/// The part of `bytes` in `start..end`, cut to the existing bytes.
pub(crate) fn slice(bytes: &[u8], start: u64, end: u64) -> &[u8] {
    let clamp = |n: u64| usize::try_from(n).map_or(bytes.len(), |n| n.min(bytes.len()));
    bytes.get(clamp(start)..clamp(end)).unwrap_or_default()
}

/// A blob to put behind a [`Server`](crate::Server). Cloning shares the content.
#[derive(Clone)]
pub struct Blob {
    pub(crate) content: Content,
    pub(crate) content_type: String,
    pub(crate) content_encoding: Option<String>,
    pub(crate) version: u64,
    etag: Option<String>,
    last_modified: Option<SystemTime>,
    pub(crate) checksums: Checksums,
    pub(crate) md5: bool,
    pub(crate) customer_key: Option<[u8; 32]>,
    /// The storage class, if it is one of an archive.
    pub(crate) archive: Option<&'static str>,
    decoded: Option<Bytes>,
    pub(crate) uploaded: Option<Arc<Uploaded>>,
    pub(crate) fields: Vec<(Cow<'static, str>, String)>,
    /// The user's metadata, by names without the prefix of the flavour; `fields` has it, too.
    pub(crate) metadata: Vec<(String, String)>,
    pub(crate) tags: Vec<(String, String)>,
    /// The checksum that S3 keeps with a written object.
    pub(crate) stored: Option<StoredChecksum>,
    computed: Arc<Computed>,
}

impl fmt::Debug for Blob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Blob")
            .field("len_bytes", &self.len_bytes())
            .field("version", &self.version)
            .field("checksums", &self.checksums)
            .finish_non_exhaustive()
    }
}

impl Blob {
    /// A blob of these bytes: version 1, an `ETag` and a date derived from it, correct checksums.
    pub fn new(bytes: impl Into<Bytes>) -> Self {
        Self::of(Content::Memory(bytes.into()))
    }

    /// A blob that is read from a file on request, in bounded pieces.
    ///
    /// The size is taken now; the file must not shrink while the blob is served.
    pub fn from_file(path: impl AsRef<Path>) -> io::Result<Self> {
        let file = fs::File::open(path)?;
        let len_bytes = file.metadata()?.len();
        Ok(Self::of(Content::File { file: Arc::new(file), len_bytes }))
    }

    pub(crate) fn of(content: Content) -> Self {
        Self {
            content,
            content_type: "application/octet-stream".to_owned(),
            content_encoding: None,
            version: 1,
            etag: None,
            last_modified: None,
            checksums: Checksums::Correct,
            md5: true,
            customer_key: None,
            archive: None,
            decoded: None,
            uploaded: None,
            fields: Vec::new(),
            metadata: Vec::new(),
            tags: Vec::new(),
            stored: None,
            computed: Arc::default(),
        }
    }

    /// Sets the version of this content: the GCS generation. The S3 version id, and by default the
    /// `ETag` and the date, are derived from it.
    #[must_use]
    pub fn with_version(mut self, version: u64) -> Self {
        self.version = version;
        self
    }

    /// Sets the `ETag`, without quotes and without `W/`.
    #[must_use]
    pub fn with_etag(mut self, etag: impl Into<String>) -> Self {
        self.etag = Some(etag.into());
        self
    }

    /// Sets the date of `Last-Modified`, which has a resolution of one second.
    #[must_use]
    pub fn with_last_modified(mut self, time: SystemTime) -> Self {
        self.last_modified = Some(time);
        self
    }

    /// Adds a field to the head of every response about the blob, whole or ranged.
    #[must_use]
    pub fn with_field(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.fields.push((name.into(), value.into()));
        self
    }

    /// Sets the media type; `application/octet-stream` unless set.
    #[must_use]
    pub fn with_content_type(mut self, content_type: impl Into<String>) -> Self {
        self.content_type = content_type.into();
        self
    }

    /// Says that the content is encoded, for example `gzip`. The bytes are served as they are.
    #[must_use]
    pub fn with_content_encoding(mut self, encoding: impl Into<String>) -> Self {
        self.content_encoding = Some(encoding.into());
        self
    }

    /// Marks the content as stored in the `gzip` coding; `decoded` is the content without it. GCS
    /// sends `decoded` to a client that does not accept `gzip`: whole, without a length, and with
    /// the checksums of the stored bytes. The other flavours never do.
    #[must_use]
    pub fn with_gzip_of(self, decoded: impl Into<Bytes>) -> Self {
        let decoded = Some(decoded.into());
        Self { decoded, ..self.with_content_encoding("gzip") }
    }

    /// Encrypts the blob with a customer's key. A reader must send the key in the fields of its
    /// cloud. A plain HTTP origin has no such keys and asks for none.
    #[must_use]
    pub fn with_customer_key(mut self, key: [u8; 32]) -> Self {
        self.customer_key = Some(key);
        self
    }

    /// Puts the blob into an archive: S3 and Azure describe it, and refuse to send or copy its bytes.
    /// `class` is such as `DEEP_ARCHIVE` or `Archive`.
    #[must_use]
    pub fn with_archive(mut self, class: &'static str) -> Self {
        self.archive = Some(class);
        self
    }

    /// Sets the checksums that the remote sends for the content.
    #[must_use]
    pub fn with_checksums(mut self, checksums: Checksums) -> Self {
        self.checksums = checksums;
        self
    }

    /// Says that the blob was uploaded in parts of these sizes; the last one has the rest. S3 then
    /// stores the composite checksum of the parts and no other, describes each part at
    /// `?partNumber=`, and makes the entity tag of the parts' MD5s. The other flavours do not
    /// remember parts. Fails if the content cannot be read.
    pub fn with_parts(mut self, sizes: &[u64], algorithm: PartsAlgorithm) -> io::Result<Self> {
        let uploaded = Uploaded::new(&self.content, sizes, algorithm)?;
        self.etag = Some(uploaded.etag());
        self.uploaded = Some(Arc::new(uploaded));
        Ok(self)
    }

    /// Sets the `ETag` to the MD5 of the content, as S3 does for an object that was uploaded in one
    /// request. Fails if the content cannot be read.
    pub fn with_md5_etag(self) -> io::Result<Self> {
        let etag = md5_etag(&self.content)?;
        Ok(self.with_etag(etag))
    }

    /// Leaves out the MD5, which takes two seconds per GiB to compute. The CRCs stay.
    #[must_use]
    pub fn without_md5(mut self) -> Self {
        self.md5 = false;
        self
    }

    /// Size in bytes.
    pub fn len_bytes(&self) -> u64 {
        self.content.len()
    }

    /// The version of this content at its remote.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// The `ETag` without quotes.
    ///
    /// By default it looks like an MD5 but is not one, as with S3's encrypted objects. A client
    /// that treats it as an MD5 fails.
    pub fn etag(&self) -> String {
        if let Some(etag) = &self.etag {
            return etag.clone();
        }
        let key = mix(self.version ^ mix(self.len_bytes()));
        let hex = format!("{key:016x}{:016x}", mix(key));
        match self.checksums {
            Checksums::Composite { parts } => format!("{hex}-{}", parts.max(1)),
            _ => hex,
        }
    }

    /// The date of the content: unless set, 14 November 2023 and one second for each version.
    pub fn last_modified(&self) -> SystemTime {
        self.last_modified.unwrap_or_else(|| {
            let seconds = 1_700_000_000 + self.version % 100_000_000;
            SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)
        })
    }

    /// The version id of S3 and Azure: opaque, not a number.
    pub fn version_id(&self) -> String {
        format!("v.{:016x}", mix(self.version))
    }

    /// The decoded content, which GCS sends to a client that does not accept the coding.
    pub(crate) fn decoded(&self) -> Option<Self> {
        let content = Content::Memory(self.decoded.clone()?);
        Some(Self { content, ..self.clone() })
    }

    /// Sets a checksum that was computed while the content arrived.
    pub(crate) fn preset(&self, kind: Kind, raw: Vec<u8>) {
        self.computed.preset(kind, raw);
    }

    /// A checksum that was computed or set before.
    pub(crate) fn known(&self, kind: Kind) -> Option<Vec<u8>> {
        self.computed.known(kind)
    }

    pub(crate) async fn sums(&self, kinds: &[Kind]) -> io::Result<Sums> {
        let wrong = self.checksums == Checksums::Wrong;
        self.computed.sums(&self.content, kinds, wrong).await
    }
}
