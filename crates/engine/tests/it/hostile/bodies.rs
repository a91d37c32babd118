//! Bodies that are longer or shorter than their heads say, and partial responses in different
//! codings.

use super::*;

fn tagged(asked: &Asked, bytes: &[u8]) -> Reply {
    Reply::of(asked, bytes).with("etag", "\"a\"")
}

/// The bytes of the requested range, and one more.
fn too_long(asked: &Asked, framing: Framing, in_one_piece: bool) -> Reply {
    let (first, last) = asked.range(LEN).unwrap_or((0, LEN - 1));
    let blob = blob();
    let reply = tagged(asked, &blob).framed(framing);
    if in_one_piece {
        return reply.body(&[&blob[first..=last], b"x"].concat());
    }
    reply.body(&blob[first..=last]).and(b"x")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_body_longer_than_its_range_is_an_error() {
    for flavour in ALL {
        for framing in [Framing::Chunked, Framing::Close] {
            for in_one_piece in [false, true] {
                for later in [false, true] {
                    let origin = Origin::new(move |asked| {
                        if asked.is_head() || asked.range(LEN).is_none() {
                            return tagged(asked, &blob());
                        }
                        if asked.is_later() != later {
                            return tagged(asked, &blob());
                        }
                        too_long(asked, framing, in_one_piece)
                    });
                    let origin = origin.await;
                    let location = locate(&origin, flavour);
                    let label = format!("{flavour:?} {framing:?} {in_one_piece} {later}");
                    for reader in [Reader::Memory(4), Reader::File(4), Reader::Ordered(4)] {
                        fails(reader, &location, &[ErrorKind::Integrity], &label).await;
                    }
                }
            }
        }
    }
}

/// A proxy labels the whole blob as the requested range.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_whole_body_under_the_label_of_a_part_is_an_error() {
    for framing in [Framing::Length, Framing::Chunked, Framing::Close] {
        let origin = Origin::new(move |asked| {
            let reply = tagged(asked, &blob());
            if asked.is_later() {
                return reply.body(&blob()).framed(framing);
            }
            // A read as one stream breaks once.
            if asked.range(LEN).is_none() { reply.cut_after(100_000) } else { reply }
        });
        let origin = origin.await;
        let location = locate(&origin, Flavour::Http);
        let kinds = [ErrorKind::Integrity, ErrorKind::Exhausted];
        all_fail(&location, &kinds, &format!("{framing:?}")).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_length_that_contradicts_the_range_is_an_error() {
    for flavour in ALL {
        for wrong in [-1, 1] {
            let origin = Origin::new(move |asked| {
                let reply = tagged(asked, &blob());
                let Some((first, last)) = asked.range(LEN) else { return reply };
                let len = (last + 1 - first).saturating_add_signed(wrong);
                reply.body(&blob()[..len])
            });
            let origin = origin.await;
            let location = locate(&origin, flavour);
            for reader in [Reader::Memory(4), Reader::File(4), Reader::Ordered(4)] {
                let label = format!("{flavour:?} {wrong}");
                fails(reader, &location, &[ErrorKind::Exhausted], &label).await;
            }
        }
    }
}

/// A transient contradiction costs its request, and none of its bytes are used.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_response_that_contradicts_itself_once_is_asked_again() {
    for flavour in ALL {
        for fault in 0..3 {
            let origin = Origin::new(move |asked| {
                let reply = tagged(asked, &blob());
                // The first response that contains the last byte.
                if asked.range(LEN) != Some((262_144, LEN - 1)) || asked.nth > 6 {
                    return reply;
                }
                match fault {
                    0 => reply.body(&other_blob()[..1000]),
                    1 => reply.with("content-range", "bytes 262144-262150/300000"),
                    _ => reply.with("content-encoding", "gzip").body(&other_blob()[262_144..]),
                }
            });
            let origin = origin.await;
            let location = locate(&origin, flavour);
            let outcome = Reader::Memory(4).read(&location).await;
            let outcome = outcome.unwrap_or_else(|e| panic!("{flavour:?} {fault}: {e:?}"));
            assert!(outcome.bytes == blob(), "{flavour:?} {fault}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_short_body_is_asked_again_and_one_that_stays_short_is_an_error() {
    for flavour in ALL {
        for framing in [Framing::Chunked, Framing::Close] {
            for always in [false, true] {
                let origin = Origin::new(move |asked| {
                    let reply = tagged(asked, &blob());
                    let Some((first, last)) = asked.range(LEN) else { return reply };
                    if asked.is_head() || last != LEN - 1 || (first != 262_144 && !always) {
                        return reply;
                    }
                    // Complete by its framing, but 10 bytes short.
                    reply.body(&blob()[first..last.saturating_sub(9).max(first)]).framed(framing)
                });
                let origin = origin.await;
                let location = locate(&origin, flavour);
                let label = format!("{flavour:?} {framing:?} {always}");
                for reader in [Reader::Memory(4), Reader::File(4), Reader::Ordered(4)] {
                    if always {
                        fails(reader, &location, &[ErrorKind::Exhausted], &label).await;
                    } else {
                        let outcome = reader.read(&location).await.unwrap();
                        assert!(outcome.bytes == blob(), "{label} {reader:?}");
                    }
                }
            }
        }
    }
}

/// Status 200 with `Content-Range`: the body may be a part of the blob.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_whole_response_with_a_content_range_is_an_error() {
    for flavour in ALL {
        let origin = Origin::new(|asked| {
            if asked.is_head() {
                return tagged(asked, &blob());
            }
            let range = format!("bytes 0-999/{LEN}");
            let reply = Reply::new(200).with("etag", "\"a\"").with("date", origin::DATE);
            reply.with("content-range", range).body(&blob()[..1000])
        });
        let origin = origin.await;
        let location = locate(&origin, flavour);
        all_fail(&location, &[ErrorKind::Exhausted], &format!("{flavour:?}")).await;
        // The same with a response that is consistent.
        let origin = Origin::new(|asked| {
            let range = format!("bytes 0-{}/{LEN}", LEN - 1);
            let reply = Reply::new(200).with("etag", "\"a\"").with("date", origin::DATE);
            if asked.is_head() {
                return tagged(asked, &blob());
            }
            reply.with("content-range", range).body(&blob())
        });
        let origin = origin.await;
        let location = locate(&origin, flavour);
        all_get(&location, &blob(), &format!("{flavour:?}")).await;
    }
}

/// One version in two codings: a part in one coding does not fit a part in the other.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_later_part_in_another_coding_is_an_error() {
    for flavour in ALL {
        for (first, later) in
            [(None, Some("gzip")), (Some("gzip"), None), (Some("br"), Some("gzip"))]
        {
            let origin = Origin::new(move |asked| {
                let reply = tagged(asked, &blob());
                let coding = if asked.is_later() { later } else { first };
                let reply = match coding {
                    Some(coding) => reply.with("content-encoding", coding),
                    None => reply,
                };
                // A read as one stream breaks once.
                let one_stream = !asked.is_head() && asked.range(LEN).is_none();
                if one_stream { reply.cut_after(100_000) } else { reply }
            });
            let origin = origin.await;
            let location = locate(&origin, flavour);
            let kinds = [ErrorKind::Exhausted, ErrorKind::Integrity];
            all_fail(&location, &kinds, &format!("{flavour:?} {first:?} {later:?}")).await;
        }
    }
    // `identity` is no coding, and coding names are case-insensitive.
    let origin = Origin::new(|asked| {
        let coding = if asked.is_later() { "GZIP" } else { "gzip" };
        tagged(asked, &blob()).with("content-encoding", coding)
    });
    let origin = origin.await;
    all_get(&locate(&origin, Flavour::Http), &blob(), "gzip").await;
    let origin = Origin::new(|asked| {
        let reply = tagged(asked, &blob());
        if asked.is_later() { reply.with("content-encoding", "identity") } else { reply }
    });
    let origin = origin.await;
    all_get(&locate(&origin, Flavour::Http), &blob(), "identity").await;
}
