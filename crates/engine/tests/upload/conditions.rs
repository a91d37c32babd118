//! Conditions on the target.

use futures_util::future::join_all;
use tidegate::remote::{Precondition, Version, WriteOptions};
use tidegate::{ErrorKind, UploadBuilder};
use tidegate_testkit::{Blob, Flavour};

use crate::bed::{Bed, LEN, noise};

fn absent(upload: UploadBuilder) -> UploadBuilder {
    upload.write(WriteOptions::when(Precondition::Absent))
}

#[tokio::test]
async fn what_is_there_is_not_replaced() {
    for len in [1_000, LEN] {
        let bed = Bed::new(Flavour::S3).await;
        bed.server.put(bed.path(), Blob::new("old"));
        let error = absent(bed.upload(bed.file(&noise(len)))).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::AlreadyExists, "{}", error.chain());
        bed.has(b"old");
        assert!(bed.requests("PUT", "").is_empty(), "nothing was sent");
    }
}

#[tokio::test]
async fn of_many_writers_one_wins() {
    for len in [1_000, LEN] {
        let bed = Bed::new(Flavour::S3).await;
        let uploads = (0..8_u8).map(|writer| {
            let mut bytes = noise(len).to_vec();
            bytes[0] = writer;
            let path = bed.folder.path().join(format!("source-{writer}"));
            std::fs::write(&path, bytes).unwrap();
            absent(bed.upload(path)).into_future()
        });
        let outcomes = join_all(uploads).await;
        let won: Vec<_> = (0_u8..).zip(&outcomes).filter(|(_, outcome)| outcome.is_ok()).collect();
        assert_eq!(won.len(), 1, "{len}");
        assert_eq!(bed.stored().unwrap().bytes.unwrap()[0], won[0].0);
        for error in outcomes.iter().filter_map(|outcome| outcome.as_ref().err()) {
            assert_eq!(error.kind(), ErrorKind::AlreadyExists, "{}", error.chain());
        }
        assert_eq!(bed.server.unfinished_uploads(), [], "parts of losers are of no use");
    }
}

#[tokio::test]
async fn a_blob_is_replaced_only_in_the_version_that_was_named() {
    for len in [1_000, LEN] {
        let bed = Bed::new(Flavour::S3).await;
        bed.server.put(bed.path(), Blob::new("old"));
        let info = bed.client.stat(&bed.target()).await.unwrap();
        let is = |version| WriteOptions::when(Precondition::Version(version));
        let other = Version::ETag("\"0123456789\"".to_owned());
        let error = bed.upload(bed.file(&noise(len))).write(is(other)).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Changed, "{}", error.chain());
        bed.has(b"old");
        let bytes = noise(len);
        bed.upload(bed.file(&bytes)).write(is(info.version.unwrap())).await.unwrap();
        bed.has(&bytes);
    }
}

#[tokio::test]
async fn the_description_reaches_the_blob() {
    for len in [1_000, LEN] {
        let bed = Bed::new(Flavour::S3).await;
        let mut options = WriteOptions::default();
        options.content_type = Some("text/x-test".to_owned());
        options.cache_control = Some("max-age=60".to_owned());
        options.metadata = vec![("owner".to_owned(), "me".to_owned())];
        let path = bed.file(&noise(len));
        bed.upload(&path).write(options).await.unwrap();
        let stored = bed.stored().unwrap();
        assert_eq!(stored.content_type, "text/x-test");
        assert_eq!(stored.metadata("owner"), Some("me"));
        let modified = std::fs::metadata(&path).unwrap().modified().unwrap();
        let since = modified.duration_since(std::time::UNIX_EPOCH).unwrap();
        let mtime = format!("{}.{:09}", since.as_secs(), since.subsec_nanos());
        assert_eq!(stored.metadata("mtime"), Some(&*mtime));
    }
}
