//! Heads of responses as real services send them, and the expected results.

use http::{HeaderMap, StatusCode};
use tidegate_core::range::ByteRange;

use super::*;
use crate::remote::{OpenRequest, Version};

fn head(status: u16, headers: &[(&str, &str)]) -> ResponseHead {
    let mut map = HeaderMap::new();
    for (name, value) in headers {
        map.append(
            http::HeaderName::from_bytes(name.as_bytes()).unwrap(),
            http::HeaderValue::from_str(value).unwrap(),
        );
    }
    ResponseHead {
        status: StatusCode::from_u16(status).unwrap(),
        headers: map,
        waited: Duration::ZERO,
        requests: 1,
    }
}

fn request(range: ByteRange, version: Option<&str>) -> OpenRequest {
    OpenRequest { range, version: version.map(|tag| Version::ETag(tag.to_owned())) }
}

fn placed(head: &ResponseHead, request: &OpenRequest) -> Result<Placement> {
    place(head, request, &info(head, Dialect::Http, request.version.as_ref()), "blob")
}

#[test]
fn a_partial_answer_is_placed_where_it_says() {
    let head = head(206, &[("content-range", "bytes 10-19/100"), ("etag", "\"A\"")]);
    let placement = placed(&head, &request(ByteRange::Bounded(10..20), Some("\"A\""))).unwrap();
    assert_eq!(placement, Placement { start: 10, end: Some(20), whole: false });
    assert_eq!(info(&head, Dialect::Http, None).len_bytes, Some(100));
}

#[test]
fn fewer_bytes_than_asked_are_allowed_and_others_are_not() {
    let ask = request(ByteRange::Bounded(10..20), None);
    assert!(placed(&head(206, &[("content-range", "bytes 10-14/100")]), &ask).is_ok());
    for wrong in ["bytes 11-19/100", "bytes 10-20/100", "bytes 0-9/100", "bytes */100", "x", ""] {
        let error = placed(&head(206, &[("content-range", wrong)]), &ask).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Integrity, "{wrong}");
    }
}

#[test]
fn another_version_is_changed_and_tags_keep_their_case() {
    let ask = request(ByteRange::From(5), Some("\"aB\""));
    let head_of = |tag| head(206, &[("content-range", "bytes 5-9/10"), ("etag", tag)]);
    assert!(placed(&head_of("\"aB\""), &ask).is_ok());
    assert_eq!(placed(&head_of("\"ab\""), &ask).unwrap_err().kind(), ErrorKind::Changed);
    assert_eq!(placed(&head_of("\"new\""), &ask).unwrap_err().kind(), ErrorKind::Changed);
}

/// RFC 9110 section 15.3.7: a part carries the same validators as the whole.
#[test]
fn a_part_without_the_version_is_not_of_it() {
    let ask = request(ByteRange::From(5), Some("\"a\""));
    let date = ("last-modified", "Tue, 15 Nov 1994 12:45:26 GMT");
    let tag = |text| ("etag", text);
    for fields in [vec![], vec![tag("W/\"a\"")], vec![date], vec![tag("\"a\""), tag("\"b\"")]] {
        let fields = [fields, vec![("content-range", "bytes 5-9/10")]].concat();
        let error = placed(&head(206, &fields), &ask).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Changed, "{fields:?}");
    }
}

#[test]
fn a_length_and_a_range_that_contradict_each_other_are_refused() {
    let ask = request(ByteRange::Bounded(10..20), None);
    let range = ("content-range", "bytes 10-19/100");
    assert!(placed(&head(206, &[range, ("content-length", "10")]), &ask).is_ok());
    for fields in [
        [range, ("content-length", "9")],
        [range, ("content-length", "11")],
        [range, ("content-range", "bytes 10-18/100")],
    ] {
        let error = placed(&head(206, &fields), &ask).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Integrity, "{fields:?}");
        assert_eq!(*error.retry(), RetryClass::Now, "{fields:?}");
    }
    // A complete response may have a range, if it covers the whole blob.
    for (range, len, fits) in [
        ("bytes 0-99/100", "100", true),
        ("bytes 0-99/*", "100", true),
        ("bytes 0-99/1000", "100", false),
        ("bytes 0-98/*", "100", false),
        ("bytes 10-19/100", "10", false),
        ("bytes */100", "100", true),
        ("nonsense", "100", true),
    ] {
        let head = head(200, &[("content-range", range), ("content-length", len)]);
        assert_eq!(placed(&head, &ask).is_ok(), fits, "{range}");
    }
}

#[test]
fn a_date_pins_only_what_is_older_than_the_response() {
    let modified = ("last-modified", "Tue, 15 Nov 1994 12:45:26 GMT");
    for (date, pins) in [
        ("Tue, 15 Nov 1994 12:45:27 GMT", true),
        ("Tuesday, 15-Nov-94 12:45:28 GMT", true),
        ("Tue, 15 Nov 1994 12:45:26 GMT", false),
        ("Tue, 15 Nov 1994 12:45:25 GMT", false),
        ("soon", false),
    ] {
        let info = info(&head(200, &[modified, ("date", date)]), Dialect::Http, None);
        assert_eq!(info.version.is_some(), pins, "{date}");
        assert_eq!(info.last_modified.as_deref(), Some(modified.1));
    }
    assert_eq!(info(&head(200, &[modified]), Dialect::Http, None).version, None);
}

#[test]
fn the_metadata_of_a_blob_is_the_callers() {
    let described = [
        ("x-amz-meta-owner", "me"),
        ("x-amz-meta-tidegate-upload", "0123"),
        ("content-language", "en"),
    ];
    let description = info(&head(200, &described), Dialect::S3, None).description.unwrap();
    assert_eq!(description.metadata, [("owner".to_owned(), "me".to_owned())]);
    assert_eq!(description.content_language.as_deref(), Some("en"));
    let unmarked = head(200, &[("x-ms-meta-tidegateupload", "0123")]);
    assert_eq!(info(&unmarked, Dialect::Azure, None).description, None);
}

#[test]
fn a_weak_tag_pins_nothing() {
    let weak =
        head(200, &[("etag", "W/\"a\""), ("last-modified", "Tue, 15 Nov 1994 12:45:26 GMT")]);
    assert_eq!(info(&weak, Dialect::Http, None).version, None);
}

#[test]
fn retry_after_is_read_as_seconds_and_as_a_date() {
    let now = httpdate::parse_http_date("Tue, 15 Nov 1994 12:45:26 GMT").unwrap();
    assert_eq!(retry_after("7", now), Some(Duration::from_secs(7)));
    let later = retry_after("Tue, 15 Nov 1994 12:45:36 GMT", now);
    assert_eq!(later, Some(Duration::from_secs(10)));
    assert_eq!(retry_after("Tue, 15 Nov 1994 12:00:00 GMT", now), Some(Duration::ZERO));
    assert_eq!(retry_after("soon", now), None);
}

#[test]
fn a_range_refused_at_the_very_end_is_an_answer() {
    let refused = |content_range| head(416, &[("content-range", content_range)]);
    let at = |start| request(ByteRange::From(start), None);
    let of = |len| BlobInfo { len_bytes: Some(len), ..BlobInfo::default() };
    assert!(may_be_the_end(&refused("bytes */5"), &at(5)));
    assert!(may_be_the_end(&refused("bytes */0"), &at(0)));
    assert!(!may_be_the_end(&refused("bytes */5"), &at(6)));
    assert!(!may_be_the_end(&refused("bytes */5"), &at(4)));
    assert!(!may_be_the_end(&head(416, &[]), &at(0)), "it tells nothing");
    let with_len = refused("bytes */5");
    assert!(at_the_end(&with_len, &at(0), of(5)).is_none());
    assert_eq!(at_the_end(&with_len, &at(5), of(5)).map(|opened| opened.start), Some(5));
    assert_eq!(at_the_end(&with_len, &at(5), BlobInfo::default()).map(|o| o.start), Some(5));
}

#[test]
fn a_range_refused_without_a_proof_is_asked_for_without_one() {
    let last = OpenRequest { range: ByteRange::Last(9), version: None };
    let first = OpenRequest { range: ByteRange::first(9), version: None };
    for request in [&last, &first, &request(ByteRange::From(0), None)] {
        assert!(proves_nothing(&head(416, &[]), request));
        assert!(proves_nothing(&head(416, &[("content-range", "bytes */0")]), request));
        assert!(proves_nothing(&head(416, &[("content-range", "bytes 0-8/9")]), request));
        assert!(!proves_nothing(&head(416, &[("content-range", "bytes */7")]), request));
        assert!(!proves_nothing(&head(404, &[]), request));
    }
    for later in [ByteRange::From(1), ByteRange::Bounded(5..9), ByteRange::All] {
        assert!(!proves_nothing(&head(416, &[]), &request(later, None)));
    }
}

#[test]
fn statuses_mean_what_a_user_would_say() {
    let kind = |status| refusal(&head(status, &[]), Operation::Read, "blob", true).kind();
    assert_eq!(kind(404), ErrorKind::NotFound);
    assert_eq!(kind(403), ErrorKind::NoAccess);
    assert_eq!(kind(412), ErrorKind::Changed);
    assert_eq!(kind(416), ErrorKind::OutOfRange);
    assert_eq!(kind(429), ErrorKind::Throttled);
    assert_eq!(kind(503), ErrorKind::Remote);
    assert_eq!(kind(400), ErrorKind::Remote);
    let nothing = head(204, &[]);
    let error = placed(&nothing, &request(ByteRange::All, None)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Integrity);
    let throttled = refusal(&head(429, &[("retry-after", "3")]), Operation::Read, "blob", false);
    assert_eq!(*throttled.retry(), RetryClass::After(Duration::from_secs(3)));
}

#[test]
fn an_md5_of_a_part_is_not_taken_for_the_blobs() {
    let md5 = ("content-md5", "kAFQmDzST7DWlj99KOF/cg==");
    assert_eq!(info(&head(200, &[md5]), Dialect::Http, None).checksums.len(), 1);
    let part = head(206, &[md5, ("content-range", "bytes 0-2/10")]);
    assert!(info(&part, Dialect::Http, None).checksums.is_empty());
}
