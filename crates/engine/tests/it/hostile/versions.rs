//! What a response must say about the version before its bytes are used.

use tidegate::remote::Version;

use super::*;

/// The first response is of the blob. Later responses hold other bytes and do not name its version.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_part_that_does_not_name_the_version_is_not_spliced_in() {
    type Change = fn(Reply) -> Reply;
    let changes: [(&str, Change); 5] = [
        ("nothing", nameless),
        ("a weak tag", |reply| nameless(reply).with("etag", "W/\"b\"")),
        ("a weak tag of the same text", |reply| nameless(reply).with("etag", "W/\"a\"")),
        ("a date", |reply| nameless(reply).with("last-modified", origin::MODIFIED)),
        ("two tags", |reply| nameless(reply).with("etag", "\"a\"").with("etag", "\"b\"")),
    ];
    for flavour in ALL {
        for (name, change) in changes {
            let origin = Origin::new(move |asked| {
                let reply = named(flavour, asked, &blob());
                if asked.is_later() {
                    return change(named(flavour, asked, &other_blob()));
                }
                // A read as one stream breaks, so that it needs a later response.
                if asked.range(LEN).is_none() { reply.cut_after(100_000) } else { reply }
            });
            let origin = origin.await;
            let location = locate(&origin, flavour);
            all_fail(&location, &[ErrorKind::Changed], &format!("{flavour:?} {name}")).await;
        }
    }
}

/// The date alone is the version here. A later response that names only a tag names another
/// version.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_part_that_names_another_kind_of_version_is_not_spliced_in() {
    // S3 always has an entity tag, so the date is never the version.
    for flavour in [Flavour::Http, Flavour::Gcs, Flavour::Azure] {
        let origin = Origin::new(move |asked| {
            let dated = |reply| nameless(reply).with("last-modified", origin::MODIFIED);
            let reply = dated(named(flavour, asked, &blob()));
            if asked.is_later() {
                return nameless(named(flavour, asked, &other_blob())).with("etag", "\"a\"");
            }
            if asked.range(LEN).is_none() { reply.cut_after(100_000) } else { reply }
        });
        let origin = origin.await;
        let location = locate(&origin, flavour);
        all_fail(&location, &[ErrorKind::Changed], &format!("{flavour:?}")).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_first_part_without_a_version_becomes_one_stream() {
    for flavour in ALL {
        for whole_is_named in [false, true] {
            let origin = Origin::new(move |asked| {
                let reply = named(flavour, asked, &blob());
                let is_part = asked.range(LEN).is_some();
                if is_part || !whole_is_named { nameless(reply) } else { reply }
            });
            let origin = origin.await;
            let location = locate(&origin, flavour);
            let label = format!("{flavour:?} {whole_is_named}");
            for reader in READERS {
                let before = origin.log().len();
                let outcome = reader.read(&location).await.unwrap();
                assert!(outcome.bytes == blob(), "{label} {reader:?}");
                let later = origin.log()[before..].iter().any(Asked::is_later);
                assert!(!later, "{label} {reader:?}: a second part");
                let Some(report) = outcome.report else { continue };
                assert_eq!(report.version().is_some(), whole_is_named, "{label} {reader:?}");
            }
        }
    }
}

fn by_hand(flavour: Flavour) -> Vec<Version> {
    let mut versions = vec![
        Version::ETag("\"zzz\"".to_owned()),
        Version::LastModified(origin::MODIFIED.to_owned()),
    ];
    match flavour {
        Flavour::Gcs => versions.push(Version::Generation("17".to_owned())),
        Flavour::S3 | Flavour::Azure => versions.push(Version::VersionId("v17".to_owned())),
        Flavour::Http => {}
    }
    versions
}

/// Servers that ignore preconditions and name no version. With and without ranges, and for a full
/// and an empty blob.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_version_given_by_hand_that_no_response_names_is_changed() {
    for flavour in ALL {
        for version in by_hand(flavour) {
            for ranges in [false, true] {
                for bytes in [blob(), Bytes::new()] {
                    let label = format!("{flavour:?} {version} {ranges} {}", bytes.len());
                    let content = bytes.clone();
                    let origin = Origin::new(move |asked| {
                        if ranges {
                            return nameless(Reply::of(asked, &content));
                        }
                        Reply::new(200).with("date", origin::DATE).body(&content)
                    });
                    let origin = origin.await;
                    let location = locate(&origin, flavour).at(version.clone()).unwrap();
                    all_fail(&location, &[ErrorKind::Changed], &label).await;
                    let facts = location.remote.stat(&location.blob).await;
                    assert_eq!(facts.unwrap_err().kind(), ErrorKind::Changed, "{label}");
                }
            }
        }
    }
}

/// If only a range of one byte gives facts, an empty blob has none.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_refused_range_of_an_empty_blob_names_no_version() {
    let origin = Origin::new(|asked| {
        if asked.is_head() {
            return Reply::new(405);
        }
        Reply::of(asked, b"")
    });
    let version = Version::ETag("\"zzz\"".to_owned());
    let origin = origin.await;
    let location = locate(&origin, Flavour::Http).at(version).unwrap();
    let facts = location.remote.stat(&location.blob).await;
    assert_eq!(facts.unwrap_err().kind(), ErrorKind::Changed);
    all_fail(&location, &[ErrorKind::Changed], "empty").await;
}

/// A remote from outside the library that does not compare versions itself.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_engine_compares_versions_for_a_remote_that_does_not() {
    #[derive(Debug)]
    struct Careless;

    #[async_trait::async_trait]
    impl tidegate::remote::Read for Careless {
        async fn stat(&self, _blob: &str) -> Result<tidegate::remote::BlobInfo> {
            let mut info = tidegate::remote::BlobInfo::default();
            info.len_bytes = Some(LEN as u64);
            Ok(info)
        }

        async fn open(
            &self,
            blob: &str,
            request: &tidegate::remote::OpenRequest,
            _budget: &tidegate::Budget,
        ) -> Result<tidegate::remote::Opened> {
            let mut info = self.stat(blob).await?;
            let range = request.range.resolve(LEN as u64).unwrap();
            let first = range.start == 0;
            info.version = first.then(|| Version::ETag("\"a\"".to_owned()));
            let content = if first { super::blob() } else { other_blob() };
            let bytes = content.slice(to_usize(range.start)..to_usize(range.end));
            let body = Box::pin(futures_util::stream::iter([Ok(bytes)]));
            let mut opened = tidegate::remote::Opened::new(info, range.start, body);
            opened.end = Some(range.end);
            Ok(opened)
        }
    }

    impl tidegate::remote::Remote for Careless {
        fn scheme(&self) -> &'static str {
            "test"
        }
    }

    let location = Location::new(std::sync::Arc::new(Careless), "blob", "test://blob");
    for reader in [Reader::Memory(4), Reader::File(4), Reader::Ordered(4)] {
        fails(reader, &location, &[ErrorKind::Changed], "careless").await;
    }
    let pinned = location.at(Version::ETag("\"zzz\"".to_owned())).unwrap();
    all_fail(&pinned, &[ErrorKind::Changed], "careless, by hand").await;
    let facts = pinned.remote.stat(&pinned.blob).await;
    assert_eq!(facts.unwrap_err().kind(), ErrorKind::Changed);
}

fn to_usize(offset: u64) -> usize {
    usize::try_from(offset).unwrap()
}
