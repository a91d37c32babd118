//! The response of a server without deviations.

use super::content::{Content, NOW, http_date};
use super::draft::Draft;
use super::manners::{Dates, Framing, Heads, MIRRORS, Manners, ORIGIN, Route, Tags};
use super::scenario::Asked;
use super::sum::{Sum, base64};
use crate::Flavour;
use crate::range::{self, Asked as Range};

/// The facts that decide one response.
pub(crate) struct Stand<'a> {
    pub(crate) manners: &'a Manners,
    /// The contents, and the index of the current one.
    pub(crate) contents: &'a [Content; 2],
    pub(crate) current: usize,
    pub(crate) asked: &'a Asked,
}

impl<'a> Stand<'a> {
    pub(crate) fn content(&self) -> &'a Content {
        &self.contents[self.current]
    }

    pub(crate) fn other(&self) -> &'a Content {
        &self.contents[1 - self.current]
    }

    /// The same stand for a version that the request names, if the server keeps old versions.
    fn selected(&self) -> Option<Self> {
        let manners = self.manners;
        let asked = self.asked;
        let named = match manners.flavour {
            Flavour::Gcs => asked.request.parameter("generation"),
            Flavour::S3 => asked.request.parameter("versionId"),
            Flavour::Azure => asked.request.parameter("versionid"),
            Flavour::Http => None,
        };
        let same = |current| Self { manners, contents: self.contents, current, asked };
        let Some(named) = named else { return Some(same(self.current)) };
        let is_named = |content: &Content| match manners.flavour {
            Flavour::Gcs => content.generation() == named,
            _ => content.version_id() == named,
        };
        let found = self.contents.iter().position(is_named)?;
        (manners.versioned || found == self.current).then(|| same(found))
    }

    /// The response and its content.
    pub(crate) fn answer(&self) -> (Draft, usize) {
        let request = &self.asked.request;
        let refusal = |status| (Draft::new(status), self.current);
        if request.method != "GET" && !request.is_head() {
            return refusal(405);
        }
        let Some(stand) = self.selected() else { return refusal(404) };
        if let (true, Heads::Refused(status)) = (request.is_head(), self.manners.heads) {
            return refusal(status);
        }
        if self.manners.conditions && stand.precondition_fails() {
            return refusal(412);
        }
        (stand.blob(), stand.current)
    }

    fn precondition_fails(&self) -> bool {
        let (request, content) = (&self.asked.request, self.content());
        if let Some(tags) = request.field("if-match") {
            let strong = self.manners.tags == Tags::Strong;
            let own = format!("\"{}\"", content.tag(self.asked.port));
            return !strong || !tags.split(',').any(|tag| tag.trim() == own);
        }
        let since = request.field("if-unmodified-since").and_then(parse_date);
        let modified = modified(self.manners, content);
        since.zip(modified).is_some_and(|(since, modified)| modified > since)
    }

    fn blob(&self) -> Draft {
        let (manners, content) = (self.manners, self.content());
        let request = &self.asked.request;
        let len = content.len();
        let field = request.field("x-ms-range").or_else(|| request.field("range"));
        let asked = if manners.ranges && !request.is_head() {
            range::resolve(field, len)
        } else {
            Range::Whole
        };
        let mut draft = match &asked {
            Range::Unsatisfiable => {
                let mut draft = Draft::new(416);
                draft.add("Content-Range", format!("bytes */{len}"));
                return draft;
            }
            Range::Whole => Draft { range: 0..len, ..Draft::new(200) },
            Range::Part(part) => {
                let mut draft = Draft { range: part.clone(), ..Draft::new(206) };
                let total = if manners.total { len.to_string() } else { "*".to_owned() };
                draft
                    .add("Content-Range", format!("bytes {}-{}/{total}", part.start, part.end - 1));
                draft
            }
        };
        draft.label = Some(content.label());
        draft.total = len;
        draft.body = content.slice(draft.range.start, draft.range.end);
        draft.is_head = request.is_head();
        draft.framing = match manners.heads {
            Heads::WithoutLength if draft.is_head => Framing::Chunked,
            _ => manners.framing,
        };
        draft.add("Content-Type", "application/octet-stream");
        describe(&mut draft, manners, content, self.asked.port);
        sums(&mut draft, manners, content, &manners.sums, request.field("x-amz-checksum-mode"));
        draft
    }
}

/// The location of the origin's redirect after `redirects` redirects. `None` if the server sends
/// the blob itself.
pub(crate) fn mirror(manners: &Manners, asked: &Asked) -> Option<u16> {
    let mirror = match manners.route {
        Route::Direct => return None,
        Route::Mirror => 1,
        Route::Mirrors => 1 + u16::try_from(asked.redirects % usize::from(MIRRORS)).unwrap_or(0),
    };
    (asked.port == ORIGIN).then_some(ORIGIN + mirror)
}

fn parse_date(text: &str) -> Option<u64> {
    let time = httpdate::parse_http_date(text).ok()?;
    time.duration_since(std::time::UNIX_EPOCH).ok().map(|since| since.as_secs())
}

fn modified(manners: &Manners, content: &Content) -> Option<u64> {
    match manners.dates {
        Dates::Old => Some(content.modified()),
        Dates::Fresh => Some(NOW),
        Dates::None => None,
    }
}

/// The fields that name the version.
fn describe(draft: &mut Draft, manners: &Manners, content: &Content, port: u16) {
    if manners.clock {
        draft.add("Date", http_date(NOW));
    }
    match manners.tags {
        Tags::Strong => draft.add("ETag", format!("\"{}\"", content.tag(port))),
        Tags::Weak => draft.add("ETag", format!("W/\"{}\"", content.tag(port))),
        Tags::None => {}
    }
    if let Some(modified) = modified(manners, content) {
        draft.add("Last-Modified", http_date(modified));
    }
    match manners.flavour {
        Flavour::Gcs => {
            draft.add("x-goog-generation", content.generation());
            draft.add("x-goog-stored-content-encoding", "identity");
            draft.add("x-goog-stored-content-length", content.len().to_string());
        }
        Flavour::S3 if manners.versioned => {
            draft.add("x-amz-version-id", content.version_id());
        }
        Flavour::Azure if manners.versioned => {
            draft.add("x-ms-version-id", content.version_id());
        }
        Flavour::S3 | Flavour::Azure | Flavour::Http => {}
    }
}

/// The fields with these checksums of the whole, if the flavour sends them in such a response.
pub(crate) fn sums(
    draft: &mut Draft,
    manners: &Manners,
    content: &Content,
    sums: &[Sum],
    mode: Option<&str>,
) {
    let ranged = draft.is_ranged();
    for sum in sums {
        let value = base64(&sum.of(content.bytes()));
        match (manners.flavour, sum) {
            (Flavour::Http, Sum::Sha256) => draft.add("Repr-Digest", format!("sha-256=:{value}:")),
            (Flavour::Http, Sum::Md5) if !ranged => draft.add("Content-MD5", value),
            (Flavour::Http | Flavour::Gcs, Sum::Crc32c) => {
                draft.add("x-goog-hash", format!("crc32c={value}"));
            }
            (Flavour::Gcs, Sum::Md5) => draft.add("x-goog-hash", format!("md5={value}")),
            (Flavour::S3, Sum::Crc64Nvme) if !ranged && mode.is_some() => {
                draft.add("x-amz-checksum-crc64nvme", value);
                draft.add("x-amz-checksum-type", "FULL_OBJECT");
            }
            (Flavour::S3, Sum::Sha256) if !ranged && mode.is_some() => {
                draft.add("x-amz-checksum-sha256", value);
            }
            (Flavour::Azure, Sum::Md5) if ranged => draft.add("x-ms-blob-content-md5", value),
            (Flavour::Azure, Sum::Md5) => draft.add("Content-MD5", value),
            _ => {}
        }
    }
}
