//! Blobs whose length no response gives. The blob ends where the body ends, unless another response
//! contradicts this.

use std::io::SeekFrom;

use super::*;

/// A response without a length. It sends the first `len` bytes of the blob, whatever the range.
fn endless(len: usize, framing: Framing) -> Reply {
    let reply = Reply::new(200).with("etag", "\"a\"").with("date", origin::DATE);
    reply.body(&blob()[..len]).framed(framing)
}

const FRAMINGS: [Framing; 2] = [Framing::Chunked, Framing::Close];

/// The readers that accept a blob of unknown length.
const TAKERS: [Reader; 5] =
    [Reader::File(1), Reader::File(4), Reader::Ordered(1), Reader::Ordered(4), Reader::Channel];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_end_before_what_was_delivered_is_damage() {
    for flavour in ALL {
        for framing in FRAMINGS {
            let origin = Origin::new(move |asked| match asked.is_later() {
                // A restart: the response ends cleanly before the position of the break.
                true => endless(50_000, framing),
                false if asked.is_head() => endless(0, framing),
                // Only chunked framing distinguishes a break from an end.
                false => endless(LEN, Framing::Chunked).cut_after(100_000),
            });
            let origin = origin.await;
            let location = locate(&origin, flavour);
            for reader in TAKERS {
                let label = format!("{flavour:?} {framing:?}");
                fails(reader, &location, &[ErrorKind::Integrity], &label).await;
            }
        }
    }
}

/// The same after a first response that gave the length.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_end_before_the_reported_length_is_not_the_end() {
    for framing in FRAMINGS {
        for end in [50_000, 150_000, LEN] {
            let origin = Origin::new(move |asked| {
                if asked.is_later() {
                    return endless(end, framing);
                }
                let reply = Reply::of(asked, &blob()).with("etag", "\"a\"");
                if asked.range(LEN).is_none() { reply.cut_after(100_000) } else { reply }
            });
            let origin = origin.await;
            let location = locate(&origin, Flavour::Http);
            let label = format!("{framing:?} {end}");
            for reader in READERS {
                match reader.read(&location).await {
                    Ok(outcome) => {
                        assert_eq!(end, LEN, "{label} {reader:?}");
                        assert!(outcome.bytes == blob(), "{label} {reader:?}");
                    }
                    Err(error) => {
                        assert_ne!(end, LEN, "{label} {reader:?}: {error:?}");
                        let kinds = [ErrorKind::Exhausted, ErrorKind::Integrity];
                        assert!(kinds.contains(&error.kind()), "{label} {reader:?}: {error:?}");
                    }
                }
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_channel_does_not_end_before_what_it_has_delivered() {
    for framing in FRAMINGS {
        for position in [10_000, 60_000, 99_000, 200_000] {
            let origin = Origin::new(move |asked| match asked.nth {
                1 => endless(LEN, framing),
                _ => endless(50_000, framing),
            });
            let origin = origin.await;
            let options = ReadOptions { drain_bytes_max: Some(0), ..ReadOptions::default() };
            let mut channel = crate::call::read(locate(&origin, Flavour::Http), options);
            let mut read = 0;
            while read < 100_000 {
                read += within(channel.next()).await.unwrap().unwrap().len();
            }
            channel.suspend();
            within(channel.seek(SeekFrom::Start(position))).await.unwrap();
            let error = loop {
                match within(channel.next()).await {
                    Ok(Some(_)) => {}
                    Ok(None) => panic!("{framing:?} {position}: an end"),
                    Err(error) => break error,
                }
            };
            assert_eq!(error.kind(), ErrorKind::Integrity, "{framing:?} {position}: {error:?}");
        }
    }
}

/// A channel that continues in another process does not end early either.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restored_channel_does_not_end_before_what_was_delivered() {
    for framing in FRAMINGS {
        for seek_back in [false, true] {
            let origin = Origin::new(move |asked| match asked.nth {
                1 => endless(LEN, framing),
                _ => endless(50_000, framing),
            });
            let origin = origin.await;
            let location = locate(&origin, Flavour::Http);
            let mut channel = crate::call::read(location.clone(), ReadOptions::default());
            let mut read = 0;
            while read < 100_000 {
                read += within(channel.next()).await.unwrap().unwrap().len();
            }
            if seek_back {
                within(channel.seek(SeekFrom::Start(10))).await.unwrap();
            }
            let state = channel.capture().unwrap();
            drop(channel);
            let mut channel =
                crate::call::restore_as_it_was(&location, &state, &tidegate::Budget::default())
                    .unwrap();
            let error = loop {
                match within(channel.next()).await {
                    Ok(Some(_)) => {}
                    Ok(None) => panic!("{framing:?} {seek_back}: an end"),
                    Err(error) => break error,
                }
            };
            assert_eq!(error.kind(), ErrorKind::Integrity, "{framing:?} {seek_back}: {error:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_range_beyond_the_end_is_an_error() {
    for flavour in ALL {
        for framing in FRAMINGS {
            let origin =
                Origin::new(
                    move |asked| {
                        if asked.is_head() { Reply::new(200) } else { endless(LEN, framing) }
                    },
                );
            let origin = origin.await;
            let location = locate(&origin, flavour);
            let len = LEN as u64;
            for range in [ByteRange::From(len + 1), ByteRange::Bounded(len + 1..len + 9)] {
                for reader in TAKERS {
                    let label = format!("{flavour:?} {framing:?} {range} {reader:?}");
                    let error =
                        reader.read_range(&location, range.clone()).await.expect_err(&label);
                    assert_eq!(error.kind(), ErrorKind::OutOfRange, "{label}: {error:?}");
                }
            }
            // At the end there is nothing, and a range that begins before the end is cut.
            for (range, start) in [
                (ByteRange::From(len), LEN),
                (ByteRange::Bounded(len..len + 9), LEN),
                (ByteRange::From(len - 7), LEN - 7),
                (ByteRange::Bounded(len - 7..len + 9), LEN - 7),
            ] {
                for reader in TAKERS {
                    let label = format!("{flavour:?} {framing:?} {range} {reader:?}");
                    let outcome = reader.read_range(&location, range.clone()).await;
                    let outcome = outcome.unwrap_or_else(|error| panic!("{label}: {error:?}"));
                    assert!(outcome.bytes == blob()[start..], "{label}");
                }
            }
        }
    }
}

/// A response with total `*` may be shorter than its request. This does not mark the end of the
/// blob.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_part_of_an_unknown_total_does_not_end_the_blob() {
    const PART: usize = 70_000;
    for flavour in ALL {
        for tagged in [true, false] {
            let origin = Origin::new(move |asked| {
                let reply = match asked.range(LEN) {
                    Some((first, last)) if first < LEN && !asked.is_head() => {
                        let last = last.min(first + PART - 1);
                        Reply::new(206)
                            .with("content-range", format!("bytes {first}-{last}/*"))
                            .body(&blob()[first..=last])
                    }
                    _ => Reply::of(asked, &blob()),
                };
                if tagged { reply.with("etag", "\"a\"") } else { reply }
            });
            let origin = origin.await;
            let location = locate(&origin, flavour);
            for reader in TAKERS {
                let label = format!("{flavour:?} {tagged} {reader:?}");
                let outcome = reader.read_range(&location, ByteRange::From(10)).await;
                match outcome {
                    Ok(outcome) => {
                        assert!(tagged, "{label}: {} bytes", outcome.bytes.len());
                        assert!(outcome.bytes == blob()[10..], "{label}");
                    }
                    Err(error) => assert!(!tagged, "{label}: {error:?}"),
                }
            }
        }
    }
}
