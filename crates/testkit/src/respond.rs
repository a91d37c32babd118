//! Builds the response to a request by the rules of HTTP, with the deviations of a treatment.
//!
//! It sends nothing; [`delivery`](crate::delivery) does that.

use std::ops::Range;

use bytes::Bytes;

use crate::{
    blob::{Blob, Content},
    checksums::Checksums,
    conditional::{self, Validators, Verdict},
    customer_key,
    fault::ContentRangeLie,
    flavour::{Coded, Dialect, Problem, View},
    head::Head,
    options::{EtagStyle, Payer},
    origin::Origin,
    range::{self, Asked},
    request::Request,
    script::Facts,
    store::Selector,
    treatment::{Instead, Treatment},
};

/// A response before it is framed.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) head: Head,
    pub(crate) body: Body,
}

impl Answer {
    /// Adds the date of the response.
    pub(crate) fn date(&mut self) {
        let now = std::time::SystemTime::now();
        self.head.add("Date", httpdate::fmt_http_date(now));
    }
}

/// The body after the head.
#[derive(Debug)]
pub(crate) enum Body {
    /// No body and no length: 304.
    None,
    Text(Bytes),
    /// This range of the blob; it may be longer than the blob.
    Blob(Blob, Range<u64>),
    /// The same range, without a length in the head.
    Unmeasured(Blob, Range<u64>),
}

impl Body {
    /// The length that the head promises.
    pub(crate) fn promised_bytes(&self) -> Option<u64> {
        match self {
            Self::None => None,
            Self::Text(text) => u64::try_from(text.len()).ok(),
            Self::Blob(_, range) | Self::Unmeasured(_, range) => {
                Some(range.end.saturating_sub(range.start))
            }
        }
    }
}

/// The facts about a request that the script uses.
pub(crate) fn facts<'a>(origin: &Origin, request: &'a Request) -> Facts<'a> {
    let dialect = origin.dialect;
    let blob = origin.store.find(&request.path, &dialect.selector(request));
    let len_bytes = blob.map_or(0, |blob| blob.len_bytes());
    let (ranged, bytes) = match range::resolve(dialect.range(request), len_bytes) {
        Asked::Part(bytes) => (true, bytes),
        Asked::Whole | Asked::Unsatisfiable => (false, 0..len_bytes),
    };
    let fields = &request.fields;
    let query = request.query_text();
    let body_bytes = request.field("content-length").and_then(|value| value.parse().ok());
    Facts {
        method: &request.method,
        path: &request.path,
        query,
        fields,
        ranged,
        bytes,
        body_bytes: body_bytes.unwrap_or(0),
    }
}

/// Builds the response to `request` with the faults of `treatment`.
pub(crate) async fn answer(origin: &Origin, request: &Request, treatment: &Treatment) -> Answer {
    let mut answer = match decide(origin, request, treatment).await {
        Ok(answer) => answer,
        Err(refusal) => refusal.into_answer(origin.dialect, request),
    };
    answer.date();
    answer
}

/// The reason why the response has no blob, and its head fields.
#[derive(Debug)]
pub(crate) struct Refusal {
    problem: Problem,
    fields: Vec<(&'static str, String)>,
    body: Option<String>,
    /// What takes the place of `</Message>` in the error document.
    message_end: Option<String>,
}

impl From<Problem> for Refusal {
    fn from(problem: Problem) -> Self {
        Self { problem, fields: Vec::new(), body: None, message_end: None }
    }
}

impl Refusal {
    pub(crate) fn with(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.fields.push((name, value.into()));
        self
    }

    /// Names what the refusal is about, such as a field of the request, in the error document.
    pub(crate) fn about(mut self, text: impl Into<String>) -> Self {
        self.message_end = Some(format!(": {}</Message>", text.into()));
        self
    }

    /// Names the storage class of the object in the error document, as S3 does.
    fn in_class(mut self, class: &'static str) -> Self {
        self.message_end = Some(format!("</Message><StorageClass>{class}</StorageClass>"));
        self
    }

    fn unsatisfiable(len_bytes: u64) -> Self {
        Self::from(Problem::Status(416)).with("Content-Range", format!("bytes */{len_bytes}"))
    }

    pub(crate) fn into_answer(self, dialect: &dyn Dialect, request: &Request) -> Answer {
        let mut head = Head::new(self.problem.status());
        for (name, value) in self.fields {
            head.add(name, value);
        }
        if head.status == 304 {
            return Answer { head, body: Body::None };
        }
        let mut document = dialect.document(self.problem, request);
        if let Some(end) = &self.message_end {
            document.body = document.body.replace("</Message>", end);
        }
        head.add("Content-Type", document.content_type);
        if let Some((name, code)) = document.field {
            head.add(name, code);
        }
        let text = self.body.unwrap_or(document.body);
        Answer { head, body: Body::Text(Bytes::from(text)) }
    }
}

async fn decide(
    origin: &Origin,
    request: &Request,
    treatment: &Treatment,
) -> Result<Answer, Refusal> {
    let dialect = origin.dialect;
    if let Some(instead) = &treatment.instead {
        return Err(refused(origin, request, instead));
    }
    let selector = dialect.selector(request);
    let faults = &treatment.request;
    if let Some(instead) = faults.after_body.as_ref().or(faults.after_effect.as_ref()) {
        return Err(refused(origin, request, instead));
    }
    let Some(mut blob) = origin.store.find(&request.path, &selector) else {
        return Err(Refusal::from(missing(origin, request, &selector)));
    };
    admit(origin, request, &blob)?;
    if faults.lie_checksum {
        blob = blob.with_checksums(Checksums::Wrong);
    }
    if matches!(blob.content, Content::Dropped { .. }) && !request.is_head() {
        let body = Some("the written bytes were dropped".to_owned());
        return Err(Refusal { body, ..Refusal::from(Problem::Status(500)) });
    }
    if dialect.decodes(request)
        && let Some(decoded) = blob.decoded()
    {
        return decompressed(origin, request, &blob, decoded).await;
    }
    let validators = validators(origin, &blob);
    check(origin, request, &blob, &validators)?;
    if !request.is_head() {
        archived(origin, &blob)?;
    }
    if let (Some(number), Some(uploaded)) = (dialect.part_number(request), &blob.uploaded) {
        let number = number.parse().ok().and_then(|number: usize| number.checked_sub(1));
        let Some(part) = number.and_then(|index| uploaded.parts.get(index).cloned()) else {
            return Err(Refusal::unsatisfiable(blob.len_bytes()));
        };
        let count = uploaded.parts.len();
        let mut head = describe(origin, request, &blob, &validators, false).await?;
        head.status = 206;
        if let Some(value) = content_range(&part, blob.len_bytes(), treatment.content_range) {
            head.add("Content-Range", value);
        }
        head.add("x-amz-mp-parts-count", count.to_string());
        return Ok(Answer { head, body: Body::Blob(blob, part) });
    }
    let asked = if range_allowed(origin, request, treatment, &validators) {
        dialect.range(request)
    } else {
        None
    };
    let claimed_bytes = blob.len_bytes().saturating_add_signed(treatment.length_delta);
    let part = match range::resolve(asked, claimed_bytes) {
        Asked::Whole => None,
        Asked::Part(part) => Some(clipped(part, treatment.range_bytes_max)),
        Asked::Unsatisfiable => return Err(Refusal::unsatisfiable(claimed_bytes)),
    };
    let mut head = describe(origin, request, &blob, &validators, part.is_none()).await?;
    if let Some(part) = &part {
        head.status = 206;
        if let Some(value) = content_range(part, claimed_bytes, treatment.content_range) {
            head.add("Content-Range", value);
        }
    }
    Ok(Answer { head, body: Body::Blob(blob, part.unwrap_or(0..claimed_bytes)) })
}

pub(crate) fn refused(origin: &Origin, request: &Request, instead: &Instead) -> Refusal {
    match instead {
        Instead::Status { code, retry_after, body } => {
            let mut refusal = Refusal::from(Problem::Status(*code));
            refusal.body = (!body.is_empty()).then(|| body.clone());
            match retry_after {
                Some(value) => refusal.with("Retry-After", value.clone()),
                None => refusal,
            }
        }
        Instead::Coded { status, code } => {
            let coded = Coded { status: *status, code, message: "The request is refused." };
            Refusal::from(Problem::Coded(coded))
        }
        Instead::Redirect { status, location, linked_etag } => {
            let refusal =
                Refusal::from(Problem::Status(*status)).with("Location", location.clone());
            match linked_etag {
                Some(etag) => refusal.with("X-Linked-Etag", etag.clone()),
                None => refusal,
            }
        }
        Instead::NotSatisfiable => {
            let blob = origin.store.find(&request.path, &origin.dialect.selector(request));
            Refusal::unsatisfiable(blob.map_or(0, |blob| blob.len_bytes()))
        }
    }
}

fn missing(origin: &Origin, request: &Request, selector: &Selector) -> Problem {
    let has_buckets = origin.dialect.bucket_segments() > 0;
    if has_buckets && !origin.store.has_below(origin.bucket(&request.path)) {
        Problem::NoSuchBucket
    } else if *selector != Selector::Latest
        && origin.store.find(&request.path, &Selector::Latest).is_some()
    {
        Problem::NoSuchVersion
    } else {
        Problem::NoSuchKey
    }
}

/// Refuses the bytes of a blob that is in an archive.
pub(crate) fn archived(origin: &Origin, blob: &Blob) -> Result<(), Refusal> {
    match (blob.archive, origin.dialect.archive_problem()) {
        (Some(class), Some(coded)) => Err(Refusal::from(Problem::Coded(coded)).in_class(class)),
        _ => Ok(()),
    }
}

/// Checks whether the request may read the blob: the payer and the key.
fn admit(origin: &Origin, request: &Request, blob: &Blob) -> Result<(), Refusal> {
    let dialect = origin.dialect;
    let unpaid =
        || dialect.payer_problem(request).filter(|_| origin.options.payer == Payer::Requester);
    let locked = || {
        let fields = dialect.key_fields()?;
        let found = customer_key::compare(request, fields, blob.customer_key.as_ref());
        dialect.key_problem(found, request)
    };
    match unpaid().or_else(locked) {
        Some(coded) => Err(Refusal::from(Problem::Coded(coded))),
        None => Ok(()),
    }
}

/// The response for a client that does not accept the blob's coding: the decoded content under the
/// same version and the same checksums, and never a range of it.
async fn decompressed(
    origin: &Origin,
    request: &Request,
    blob: &Blob,
    decoded: Blob,
) -> Result<Answer, Refusal> {
    let validators = validators(origin, blob);
    check(origin, request, blob, &validators)?;
    let mut head = describe(origin, request, blob, &validators, true).await?;
    head.remove("Content-Encoding");
    head.remove("Accept-Ranges");
    head.add("Warning", "214 UploadServer gunzipped");
    let len_bytes = decoded.len_bytes();
    Ok(Answer { head, body: Body::Unmeasured(decoded, 0..len_bytes) })
}

fn validators(origin: &Origin, blob: &Blob) -> Validators {
    let etag = match origin.options.etag {
        EtagStyle::Strong => Some(format!("\"{}\"", blob.etag())),
        EtagStyle::Weak => Some(format!("W/\"{}\"", blob.etag())),
        EtagStyle::None => None,
    };
    let dated = origin.dialect.dated(&origin.options);
    Validators { etag, last_modified: dated.then(|| blob.last_modified()) }
}

fn check(
    origin: &Origin,
    request: &Request,
    blob: &Blob,
    validators: &Validators,
) -> Result<(), Refusal> {
    let verdict = match origin.dialect.precondition(request, blob) {
        Verdict::Proceed => conditional::evaluate(request, validators),
        decided => decided,
    };
    match verdict {
        Verdict::Proceed => Ok(()),
        Verdict::Failed => Err(Refusal::from(Problem::Status(412))),
        Verdict::NotModified => {
            let mut refusal = Refusal::from(Problem::Status(304));
            refusal.fields = fields(validators);
            Err(refusal)
        }
    }
}

fn fields(validators: &Validators) -> Vec<(&'static str, String)> {
    let etag = validators.etag.clone().map(|etag| ("ETag", etag));
    let date = validators.last_modified.map(httpdate::fmt_http_date);
    etag.into_iter().chain(date.map(|date| ("Last-Modified", date))).collect()
}

fn range_allowed(
    origin: &Origin,
    request: &Request,
    treatment: &Treatment,
    validators: &Validators,
) -> bool {
    origin.options.ranges
        && !treatment.ignore_range
        && (!request.is_head() || origin.dialect.ranges_on_head())
        && conditional::range_counts(request, validators)
}

fn clipped(part: Range<u64>, bytes_max: Option<u64>) -> Range<u64> {
    let most = bytes_max.unwrap_or(u64::MAX).max(1);
    part.start..part.end.min(part.start.saturating_add(most))
}

async fn describe(
    origin: &Origin,
    request: &Request,
    blob: &Blob,
    validators: &Validators,
    whole: bool,
) -> Result<Head, Refusal> {
    let options = &origin.options;
    let kinds = origin.dialect.kinds(blob, options);
    // Reading the file of a blob may fail. A real server also responds with 500.
    let sums = blob.sums(&kinds).await.map_err(|error| Refusal {
        body: Some(error.to_string()),
        ..Refusal::from(Problem::Status(500))
    })?;
    let mut head = Head::new(200);
    head.add("Content-Type", blob.content_type.clone());
    if let Some(encoding) = &blob.content_encoding {
        head.add("Content-Encoding", encoding.clone());
    }
    if options.ranges {
        head.add("Accept-Ranges", "bytes");
    }
    for (name, value) in fields(validators) {
        head.add(name, value);
    }
    origin.dialect.describe(&View { blob, sums: &sums, whole, request, options }, &mut head);
    for (name, value) in &blob.fields {
        head.add(name.clone(), value.clone());
    }
    Ok(head)
}

fn content_range(part: &Range<u64>, total: u64, lie: Option<ContentRangeLie>) -> Option<String> {
    let (first, last) = (part.start, part.end.saturating_sub(1));
    match lie {
        None => Some(format!("bytes {first}-{last}/{total}")),
        Some(ContentRangeLie::Shifted) => {
            Some(format!("bytes {}-{}/{total}", first.saturating_add(1), last.saturating_add(1)))
        }
        Some(ContentRangeLie::Longer) => {
            Some(format!("bytes {first}-{}/{total}", last.saturating_add(1)))
        }
        Some(ContentRangeLie::OtherTotal) => {
            Some(format!("bytes {first}-{last}/{}", total.saturating_add(1)))
        }
        Some(ContentRangeLie::UnknownTotal) => Some(format!("bytes {first}-{last}/*")),
        Some(ContentRangeLie::Malformed) => Some("bytes some-of/it".to_owned()),
        Some(ContentRangeLie::Missing) => None,
    }
}
