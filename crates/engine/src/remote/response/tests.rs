//! Heads of responses as real services send them, and what must be made of them.

use http::HeaderMap;

use super::*;

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
    assert!(may_be_the_end(&head(416, &[]), &at(0)), "to be looked at");
    let told = refused("bytes */5");
    assert!(at_the_end(&told, &at(0), of(5)).is_none());
    assert_eq!(at_the_end(&told, &at(5), of(5)).map(|opened| opened.start), Some(5));
    assert_eq!(at_the_end(&told, &at(5), BlobInfo::default()).map(|o| o.start), Some(5));
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
