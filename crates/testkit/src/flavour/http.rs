//! A plain HTTP origin: no versions, no buckets, checksums only if the options ask for them.

use super::{Dialect, Document, Problem, View};
use crate::{
    blob::Blob,
    checksums::{Checksums, Kind},
    head::Head,
    options::ServerOptions,
    request::Request,
};

pub(super) struct Http;

impl Dialect for Http {
    fn dated(&self, options: &ServerOptions) -> bool {
        options.last_modified
    }

    fn bucket_segments(&self) -> usize {
        0
    }

    fn kinds(&self, blob: &Blob, options: &ServerOptions) -> Vec<Kind> {
        let mut kinds = Vec::new();
        if matches!(blob.checksums, Checksums::Correct | Checksums::Wrong) {
            kinds.extend(options.digests.repr_digest.then_some(Kind::Sha256));
            kinds.extend((options.digests.content_md5 && blob.md5).then_some(Kind::Md5));
        }
        kinds
    }

    fn describe(&self, view: &View<'_>, head: &mut Head) {
        if let Some(sum) = view.sums.get(Kind::Sha256) {
            head.add("Repr-Digest", format!("sha-256=:{sum}:"));
        }
        if let (true, Some(sum)) = (view.whole, view.sums.get(Kind::Md5)) {
            head.add("Content-MD5", sum);
        }
    }

    fn document(&self, problem: Problem, _request: &Request) -> Document {
        let body = format!("error {}\n", problem.status());
        Document { content_type: "text/plain", body, field: None }
    }
}
