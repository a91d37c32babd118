//! The options of the write side, which a test chooses.

/// How a [`Server`](crate::Server) takes uploads when no fault is scripted.
///
/// The default is strict and as AWS does it: parts of at least 5 MiB, pages of 1,000 entries, a
/// repeated Complete succeeds, preconditions and checksums count, bytes are kept in memory.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each is a property of its own of a service")]
pub struct WriteOptions {
    /// Whether every write is refused with 405.
    pub read_only: bool,
    /// The shortest part of a multipart upload, except the last one.
    pub part_bytes_min: u64,
    /// The longest part, block or object of one request.
    pub put_bytes_max: u64,
    /// The highest part number, and the most blocks of a list.
    pub parts_max: u64,
    /// Whether all parts must have one length, and the last one at most this length (R2).
    pub parts_equal: bool,
    /// The most entries of a page of any list. Clients may ask for fewer.
    pub page_len: usize,
    /// The answer to a Complete of an upload that is already complete.
    pub complete_again: CompleteAgain,
    /// Whether preconditions of writes count.
    pub preconditions: Preconditions,
    /// What happens with the checksums of requests.
    pub checksums: WriteChecksums,
    /// The code of S3's error for a wrong `x-amz-checksum-*`: `BadDigest` at AWS,
    /// `XAmzContentChecksumMismatch` at `MinIO`.
    pub checksum_code: &'static str,
    /// Whether S3 and GCS have multipart uploads. If not, S3 answers 501 and GCS 403.
    pub multipart: bool,
    /// Whether bytes are hashed, counted and dropped, so that an object of any size needs no memory.
    /// GET of such an object is 500; HEAD and lists are right.
    pub discard: bool,
    /// What the `ETag`s of S3 and GCS are.
    pub etags: WriteEtags,
    /// Whether S3 lists unfinished uploads only if the prefix is the whole key (`MinIO`).
    pub uploads_listed_by_whole_key: bool,
    /// Whether S3's list contains the key of `start-after`, too (`IDrive` E2).
    pub start_after_included: bool,
    /// The most bytes that a resumable session of GCS keeps of one request that does not finish it,
    /// in whole multiples of 256 KiB; `None` keeps all whole multiples.
    pub session_kept_bytes_max: Option<u64>,
    /// Whether Azure knows `x-ms-content-crc64`. If not, it answers 500 (Azurite).
    pub azure_crc64: bool,
    /// Whether the HTTP flavour knows MOVE, COPY and MKCOL, and says so in OPTIONS.
    pub dav: bool,
    /// Whether a PUT of the HTTP flavour replaces what is there. If not, it is 409.
    pub replaces: bool,
}

impl Default for WriteOptions {
    fn default() -> Self {
        Self {
            read_only: false,
            part_bytes_min: 5 * 1024 * 1024,
            put_bytes_max: 5 * 1024 * 1024 * 1024,
            parts_max: 10_000,
            parts_equal: false,
            page_len: 1000,
            complete_again: CompleteAgain::Succeeds,
            preconditions: Preconditions::Kept,
            checksums: WriteChecksums::Verified,
            checksum_code: "BadDigest",
            multipart: true,
            discard: false,
            etags: WriteEtags::Md5,
            uploads_listed_by_whole_key: false,
            start_after_included: false,
            session_kept_bytes_max: None,
            azure_crc64: true,
            dav: true,
            replaces: true,
        }
    }
}

/// The answer to a Complete of an upload that is already complete.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum CompleteAgain {
    /// The same answer once more (AWS).
    #[default]
    Succeeds,
    /// 404 `NoSuchUpload` (`MinIO`).
    NoSuchUpload,
}

/// Whether preconditions of writes count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Preconditions {
    /// They are evaluated together with the write.
    #[default]
    Kept,
    /// They are ignored.
    Ignored,
    /// They are ignored when an upload in parts is completed.
    IgnoredAtComplete,
    /// They are evaluated before the write, so that two writers at once can both succeed. A write
    /// with a precondition waits up to a second for another one at its path, so that a race is won
    /// twice in every run. One after the other, writers see the right answers.
    Racing,
}

/// What happens with the checksums of requests.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum WriteChecksums {
    /// A wrong one is an error.
    #[default]
    Verified,
    /// They are ignored.
    Ignored,
    /// A request with one of these header fields is refused with 501, and the error names the
    /// field. Of S3, `x-amz-checksum-algorithm` is refused, too, if it names the algorithm of one of
    /// the fields. Other checksums are verified.
    Refused(&'static [&'static str]),
}

/// What the `ETag`s of written objects are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum WriteEtags {
    /// The MD5, or the MD5 of the parts' MD5s and their count.
    #[default]
    Md5,
    /// Not an MD5 (R2, `SeaweedFS`). The server then computes no MD5, which takes two seconds per GiB.
    Opaque,
}
